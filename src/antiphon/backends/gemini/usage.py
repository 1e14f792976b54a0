"""Token counts: from Google's names to ours. A count that was not sent is not made up."""

from antiphon.backends.gemini.wire import UsageWire
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage


def read_usage(wire: UsageWire | None) -> Usage | None:
    """The usage, or None where no count came. Thoughts are part of the output here."""
    if wire is None or (wire.prompt_token_count is None and wire.candidates_token_count is None):
        return None
    thoughts = wire.thoughts_token_count or 0
    spent = (wire.prompt_token_count or 0) + (wire.tool_use_prompt_token_count or 0)
    got = (wire.candidates_token_count or 0) + thoughts
    return Usage(
        input_tokens=spent,
        input_tokens_details=InputTokensDetails(wire.cached_content_token_count or 0),
        output_tokens=got,
        output_tokens_details=OutputTokensDetails(thoughts),
        total_tokens=spent + got,
    )
