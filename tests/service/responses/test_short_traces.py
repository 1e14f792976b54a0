"""Which traces are rendered on the event loop: those that take less time than a thread."""

import pytest

from antiphon.protocol.events import Event, OutputItemDone, OutputTextDelta
from antiphon.protocol.items import FileSearchCall, Message, OutputItem
from antiphon.service.responses.trace import is_short
from antiphon.turn.trace import TraceRecorder


def trace_of(*events: Event, request: bytes = b"{}") -> TraceRecorder:
    recorder = TraceRecorder(lambda: 0.0, 512 * 1024, request)
    recorder.add_events(events)
    return recorder


def delta(number: int) -> Event:
    return OutputTextDelta(number, "msg_1", 0, 0, "x")


def test_a_trace_is_short_by_its_bytes_and_the_number_of_its_events() -> None:
    assert is_short(trace_of(delta(1)))
    assert is_short(trace_of(request=b"x" * 60_000))
    assert not is_short(trace_of(request=b"x" * 70_000))
    assert is_short(trace_of(*map(delta, range(500))))
    assert not is_short(trace_of(*map(delta, range(700))))


@pytest.mark.parametrize(
    ("item", "short"), [(Message(role="assistant", content=[]), True), (FileSearchCall(), False)]
)
def test_results_of_hosted_tools_may_be_long(item: OutputItem, short: bool) -> None:
    assert is_short(trace_of(OutputItemDone(1, 0, item))) is short
