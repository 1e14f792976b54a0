"""Token counts: from Anthropic's names to ours. A count that was not sent is not made up."""

from msgspec import UNSET

from antiphon.backends.anthropic_messages.wire import UsageWire
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage


def merge_usage(earlier: UsageWire | None, later: UsageWire | None) -> UsageWire | None:
    """A stream tells the prompt's cost at its beginning and the answer's at its end; the later one counts."""
    if earlier is None or later is None:
        return later or earlier
    return UsageWire(
        *(
            getattr(earlier, name) if getattr(later, name) is None else getattr(later, name)
            for name in UsageWire.__struct_fields__
        )
    )


def read_usage(wire: UsageWire | None) -> Usage | None:
    """The usage, or None where no count came. The prompt's tokens are those read from a cache, too."""
    if wire is None or (wire.input_tokens is None and wire.output_tokens is None):
        return None
    cached, written = wire.cache_read_input_tokens or 0, wire.cache_creation_input_tokens
    spent, got = (wire.input_tokens or 0) + cached + (written or 0), wire.output_tokens or 0
    details = wire.output_tokens_details
    return Usage(
        input_tokens=spent,
        input_tokens_details=InputTokensDetails(cached, UNSET if written is None else written),
        output_tokens=got,
        output_tokens_details=OutputTokensDetails((details and details.thinking_tokens) or 0),
        total_tokens=spent + got,
    )
