"""Token counts. A count that was not sent is not made up."""

from antiphon.backends.responses.wire import UsageWire
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage


def read_usage(wire: UsageWire | None) -> Usage | None:
    """The usage, or None where no count came."""
    if wire is None or (wire.input_tokens is None and wire.output_tokens is None):
        return None
    spent, got = wire.input_tokens or 0, wire.output_tokens or 0
    before, after = wire.input_tokens_details, wire.output_tokens_details
    return Usage(
        input_tokens=spent,
        input_tokens_details=InputTokensDetails((before and before.cached_tokens) or 0),
        output_tokens=got,
        output_tokens_details=OutputTokensDetails((after and after.reasoning_tokens) or 0),
        total_tokens=spent + got if wire.total_tokens is None else wire.total_tokens,
    )
