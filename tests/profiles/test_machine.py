"""The layout of the `proxy` profile holds its promises for any input (hypothesis)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.protocol.events import Event
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.profile import PROXY
from antiphon.protocol.response import new_response
from antiphon.protocol.shape import Shape
from antiphon.turn.chunks import (
    CallDelta,
    CallStarted,
    Chunk,
    Finished,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnTool
from antiphon.turn.machine import Machine
from tests.profiles.order import check_message_first
from tests.turn.folding import fold, response_to_wire, to_wire
from tests.turn.saying import TOOLS, endings, model_chunks, searches

JsonObject = dict[str, Any]


NAMED = {name: TOOLS[name] for name in ("patch", "time__now")}
"""Functions and free text, which clients of this profile have; other names are functions too."""


def run(batches: Iterable[Sequence[Chunk]]) -> list[Event]:
    events = played(batches, NAMED)
    check_message_first(on_the_wire(events))
    return events


def played(batches: Iterable[Sequence[Chunk]], tools: Mapping[str, TurnTool]) -> list[Event]:
    numbers = count()
    response = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1)
    machine = Machine(response, new_id=lambda prefix: f"{prefix}_{next(numbers)}", tools=tools, profile=PROXY)
    events = machine.start()
    for batch in batches:
        events += machine.feed(batch)
    events += machine.end(2)
    assert fold(events) == response_to_wire(machine.response)
    return events


def on_the_wire(events: Iterable[Event]) -> list[JsonObject]:
    shape = Shape(PROXY)
    return [msgspec.json.decode(shape.encode_event(event)[1]) for event in events]


def output(*said: Chunk) -> list[JsonObject]:
    return to_wire(run([said])[-1])["response"]["output"]


@pytest.mark.requirement("SEED-003/D1-output-position", "SEED-003/D1-no-collision", "SEED-003/B-sequence")
@given(st.lists(st.lists(model_chunks, max_size=5), max_size=6), endings)
def test_whatever_a_backend_says_the_stream_is_well_formed(
    batches: list[list[Chunk]], ending: Chunk | None
) -> None:
    run([*batches, [ending] if ending else []])


@given(st.lists(st.lists(model_chunks | searches, max_size=5), max_size=6), endings)
def test_calls_of_every_kind_have_one_beginning_and_one_end(
    batches: list[list[Chunk]], ending: Chunk | None
) -> None:
    events = on_the_wire(played([*batches, [ending] if ending else []], TOOLS))
    told = [event for event in events if event["type"].startswith("response.output_item.")]
    places: dict[int, list[str]] = {}
    for event in told:
        places.setdefault(event["output_index"], []).append(event["type"].rpartition(".")[2])
    output = events[-1]["response"]["output"]
    assert places == {index: ["added", "done"] for index in range(len(output))}


@pytest.mark.requirement("SEED-003/task3-deterministic", "SEED-003/tests-growing-arguments")
@given(st.text(min_size=1, max_size=30), st.data())
def test_how_deltas_are_cut_does_not_change_the_response(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    arguments = '{"text": "aabb"}'
    whole: list[Chunk] = [
        TextDelta(text),
        CallStarted(0, "c", "f"),
        CallDelta(0, arguments),
        TextDelta(text),
        Finished("stop"),
    ]
    cut: list[Chunk] = [
        *map(TextDelta, pieces), CallStarted(0, "c", "f"), *(CallDelta(0, one) for one in arguments),
        *map(TextDelta, pieces), Finished("stop"),
    ]  # fmt: skip
    assert output(*whole) == to_wire(run([[chunk] for chunk in cut])[-1])["response"]["output"]


@pytest.mark.requirement("SEED-003/D1-call-index", "SEED-003/tests-growing-arguments")
@given(st.permutations([0, 0, 0, 1, 1, 1, 2, 2, 2]))
def test_interleaved_calls_stay_apart_and_lose_nothing(order: list[int]) -> None:
    pieces = {call: iter(['{"n":', f'"{call}', '"}']) for call in (0, 1, 2)}
    started: list[int] = []
    said: list[Chunk] = []
    for call in order:
        if call not in started:
            started.append(call)
            said.append(CallStarted(call, f"call_{call}", "f"))
        said.append(CallDelta(call, next(pieces[call])))
    _, *calls = output(*said, Finished("tool_calls"))
    assert [item["arguments"] for item in calls] == [f'{{"n":"{call}"}}' for call in started]
    assert [item["call_id"] for item in calls] == [f"call_{call}" for call in started]


@given(st.lists(model_chunks, max_size=12), st.lists(model_chunks, max_size=3))
def test_nothing_leaves_after_the_end_of_the_turn(said: list[Chunk], late: list[Chunk]) -> None:
    late = [chunk for chunk in late if not isinstance(chunk, UsageReported)]
    ended: list[Chunk] = [*said, Finished("stop")]
    assert [to_wire(event) for event in run([ended])] == [to_wire(event) for event in run([ended, late])]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ([1, 0], "numbers start at 0"),
        ([2, 3], "before the first word"),
    ],
)
def test_the_checker_notices_events_that_changed_places(broken: list[int], why: str) -> None:
    events = [to_wire(event) for event in run([[TextDelta("a"), CallStarted(0, "c", "f"), Finished("stop")]])]
    first, second = broken
    events[first], events[second] = events[second], events[first]
    if first == 2:
        for number, event in enumerate(events):
            event["sequence_number"] = number
    with pytest.raises(AssertionError, match=why):
        check_message_first(events)


@pytest.mark.parametrize("wrong", [0, 2])
def test_the_checker_notices_a_call_at_a_wrong_index(wrong: int) -> None:
    events = [to_wire(event) for event in run([[CallStarted(0, "c", "f"), Finished("stop")]])]
    for event in events:
        if event.get("output_index") == 1:
            event["output_index"] = wrong
    with pytest.raises(AssertionError):
        check_message_first(events)


def test_the_checker_notices_a_call_that_ends_before_the_text() -> None:
    events = [to_wire(event) for event in run([[CallStarted(0, "c", "f"), Finished("stop")]])]
    ends = [event for event in events if event.get("output_index") == 1 and "done" in event["type"]]
    rest = [event for event in events if event not in ends]
    moved = [*rest[:5], *ends, *rest[5:]]
    for number, event in enumerate(moved):
        event["sequence_number"] = number
    with pytest.raises(AssertionError):
        check_message_first(moved)
