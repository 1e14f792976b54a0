"""The usage of several turns together."""

from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage


def together(first: Usage | None, second: Usage | None) -> Usage | None:
    """The sum; a turn without usage adds nothing."""
    if first is None or second is None:
        return first or second
    cached = first.input_tokens_details.cached_tokens + second.input_tokens_details.cached_tokens
    written = first.input_tokens_details.cache_write_tokens + second.input_tokens_details.cache_write_tokens
    reasoning = first.output_tokens_details.reasoning_tokens + second.output_tokens_details.reasoning_tokens
    return Usage(
        input_tokens=first.input_tokens + second.input_tokens,
        input_tokens_details=InputTokensDetails(cached, written),
        output_tokens=first.output_tokens + second.output_tokens,
        output_tokens_details=OutputTokensDetails(reasoning),
        total_tokens=first.total_tokens + second.total_tokens,
    )
