"""The usage of several turns together."""

from msgspec import UNSET, UnsetType

from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage


def together(first: Usage | None, second: Usage | None) -> Usage | None:
    """The sum; a turn without usage adds nothing."""
    if first is None or second is None:
        return first or second
    cached = first.input_tokens_details.cached_tokens + second.input_tokens_details.cached_tokens
    reasoning = first.output_tokens_details.reasoning_tokens + second.output_tokens_details.reasoning_tokens
    return Usage(
        input_tokens=first.input_tokens + second.input_tokens,
        input_tokens_details=InputTokensDetails(cached, _written(first, second)),
        output_tokens=first.output_tokens + second.output_tokens,
        output_tokens_details=OutputTokensDetails(reasoning),
        total_tokens=first.total_tokens + second.total_tokens,
    )


def _written(*usages: Usage) -> int | UnsetType:
    reported = [
        written
        for usage in usages
        if not isinstance(written := usage.input_tokens_details.cache_write_tokens, UnsetType)
    ]
    return sum(reported) if reported else UNSET
