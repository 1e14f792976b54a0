"""The section ``[trace]``."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

RecordTraces = Literal["on_request", "all", "off"]


class TraceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Traces: what was sent upstream for a response, and what came back."""

    record: RecordTraces = "on_request"
    """`on_request`: of requests with the header `antiphon-trace: record`; `all`: of every stored response."""
    max_kb: Annotated[int, Meta(ge=16, le=16_384)] = 512
    """Of requests and answers that a trace records; the rest is left out and marked."""
    days: Annotated[float, Meta(gt=0, le=3650)] = 7
    """Traces of older responses are deleted; those of a deleted response are deleted with it."""
