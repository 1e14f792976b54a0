"""What the calls of the model cost."""

from antiphon.backends.codex_app_server.wire import Tokens
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage


def added(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    """The cost of two calls, as far as it was told."""
    if one is None or other is None:
        return one or other
    return Tokens(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        total_tokens=one.total_tokens + other.total_tokens,
        cached_input_tokens=one.cached_input_tokens + other.cached_input_tokens,
        reasoning_output_tokens=one.reasoning_output_tokens + other.reasoning_output_tokens,
    )


def usage_of(cost: Tokens) -> Usage:
    """The same in our form."""
    return Usage(
        input_tokens=cost.input_tokens,
        input_tokens_details=InputTokensDetails(cost.cached_input_tokens),
        output_tokens=cost.output_tokens,
        output_tokens_details=OutputTokensDetails(cost.reasoning_output_tokens),
        total_tokens=cost.total_tokens,
    )
