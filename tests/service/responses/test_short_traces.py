"""Which traces are sealed on the event loop: those that take less time than a thread."""

import pytest

from antiphon.protocol.events import Event, OutputItemDone, OutputTextDelta
from antiphon.protocol.items import FileSearchCall, Message, OutputItem
from antiphon.service.responses.trace import is_short
from antiphon.turn.trace import TraceRecorder


def short(*events: Event, request: bytes = b"{}") -> bool:
    recorder = TraceRecorder(lambda: 0.0, 512 * 1024, request)
    recorder.add_events(events)
    return is_short(recorder)


def delta(number: int) -> Event:
    return OutputTextDelta(number, "msg_1", 0, 0, "x")


def test_a_trace_is_short_by_its_bytes_and_the_number_of_its_events() -> None:
    assert short(delta(1))
    assert short(request=b"x" * 60_000)
    assert not short(request=b"x" * 70_000)
    assert short(*map(delta, range(500)))
    assert not short(*map(delta, range(700)))


@pytest.mark.parametrize(
    ("item", "expected"), [(Message(role="assistant", content=[]), True), (FileSearchCall(), False)]
)
def test_results_of_hosted_tools_may_be_long(item: OutputItem, expected: bool) -> None:
    assert short(OutputItemDone(1, 0, item)) is expected
