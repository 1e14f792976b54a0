"""The log of a response, read back for the next attempt."""

import msgspec
import pytest

from antiphon.protocol.content import Logprob
from antiphon.protocol.events import Event, OutputTextDelta
from antiphon.protocol.response import Response, TextOptions
from antiphon.service import event_log
from antiphon.service.event_log import UnstoredEvents, read_log, render
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished, ReasoningDelta, TextDelta
from antiphon.turn.machine import Machine

CHUNKS: list[Chunk] = [
    *(ReasoningDelta(letter) for letter in "thought"),
    *(TextDelta(letter) for letter in "some text"),
    TextDelta("!", (Logprob("!", [33], -0.5),)),
    *(TextDelta(letter) for letter in "more"),
    CallStarted(0, "call_1", "f"),
    *(CallDelta(0, letter) for letter in '{"a":"b"}'),
    CallStarted(1, "call_2", "f"),
    *(CallDelta(1, letter) for letter in '{"a"'),
]


def machine() -> Machine:
    return Machine(
        Response(id="resp_1", created_at=1, model="m", text=TextOptions()), new_id=lambda kind: kind
    )


@pytest.mark.parametrize("row_events", [1, 7, 1000])
@pytest.mark.parametrize("at_once", [0, 10**6])
@pytest.mark.parametrize("chunks", range(0, len(CHUNKS) + 1, 3))
async def test_an_attempt_continues_from_the_merged_log_as_from_the_events(
    chunks: int, row_events: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MAX_READ_AT_ONCE_BYTES", at_once)
    first = machine()
    events = first.start() + first.feed(CHUNKS[:chunks])
    rows = [render(events[at : at + row_events]) for at in range(0, len(events), row_events)]
    merged = await read_log(rows)
    assert len(merged) <= 40
    endings = list[list[Event]]()
    for log in (events, merged):
        following = machine()
        endings.append([*following.resume(log), *following.cancel(), *following.end(2)])
    assert endings[0] == endings[1]
    assert endings[0][0].sequence_number == len(events)


def test_the_last_events_of_a_large_answer_are_rendered_alike_and_each_text_is_encoded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = 'A "quoted" \\ line\nand é, 日, 😀. ' * 5000
    chunks = [ReasoningDelta(long), TextDelta(long), CallStarted(0, "call_1", "f"), CallDelta(0, '{"a":"b"}')]
    made = machine()
    events = [*made.start(), *made.feed(chunks), *made.feed([Finished("stop")]), *made.end(2)]
    encoded: list[object] = []
    encode = msgspec.json.encode

    def counted(value: object) -> bytes:
        encoded.append(value)
        return encode(value)

    expected = b"".join(row.data for row in UnstoredEvents(events).rows())
    monkeypatch.setattr(msgspec.json, "encode", counted)
    rows = list(UnstoredEvents(events, large=True).rows())
    assert b"".join(row.data for row in rows) == expected
    assert expected.count("😀".encode()) > 2 * 5000
    assert encoded.count(long) == 1
    assert max(len(value) for value in encoded if isinstance(value, bytes | str)) == len(long)


async def test_deltas_of_one_text_are_merged() -> None:
    first = machine()
    events = first.start() + first.feed([TextDelta("a"), TextDelta("b"), TextDelta("c")])
    merged = await read_log([render(events)])
    assert [event.delta for event in merged if isinstance(event, OutputTextDelta)] == ["abc"]
    assert merged[-1].sequence_number == events[-1].sequence_number
