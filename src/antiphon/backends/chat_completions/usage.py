"""Token counts: from the chat-completions names to ours. A count that was not sent is not made up."""

from antiphon.backends.chat_completions.wire import UsageWire
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage


def read_usage(wire: UsageWire) -> Usage | None:
    """The usage, or None where the upstream sent the object but no counts."""
    if wire.prompt_tokens is None and wire.completion_tokens is None:
        return None
    spent, got = wire.prompt_tokens or 0, wire.completion_tokens or 0
    prompt, completion = wire.prompt_tokens_details, wire.completion_tokens_details
    cached = prompt.cached_tokens if prompt else wire.prompt_cache_hit_tokens
    reasoning = completion.reasoning_tokens if completion else None
    return Usage(
        input_tokens=spent,
        input_tokens_details=InputTokensDetails(cached or 0),
        output_tokens=got,
        output_tokens_details=OutputTokensDetails(reasoning or 0),
        total_tokens=spent + got if wire.total_tokens is None else wire.total_tokens,
    )
