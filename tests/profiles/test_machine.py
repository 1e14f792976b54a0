"""The invariants of the layout of the `proxy` profile for any input (hypothesis)."""

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
from tests.turn.chunk_strategies import TOOLS, endings, model_chunks, searches
from tests.turn.folding import fold, response_to_wire, to_wire

JsonObject = dict[str, Any]


NAMED = {name: TOOLS[name] for name in ("patch", "time__now")}
"""Functions and custom tools, which clients of this profile have; other names are functions too."""


def run(batches: Iterable[Sequence[Chunk]]) -> list[Event]:
    events = run_machine(batches, NAMED)
    check_message_first(on_the_wire(events))
    return events


def run_machine(batches: Iterable[Sequence[Chunk]], tools: Mapping[str, TurnTool]) -> list[Event]:
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


def output(*model_output: Chunk) -> list[JsonObject]:
    return to_wire(run([model_output])[-1])["response"]["output"]


@pytest.mark.requirement("SEED-003/D1-output-position", "SEED-003/D1-no-collision", "SEED-003/B-sequence")
@given(st.lists(st.lists(model_chunks, max_size=5), max_size=6), endings)
def test_any_chunks_yield_a_well_formed_stream(batches: list[list[Chunk]], ending: Chunk | None) -> None:
    run([*batches, [ending] if ending else []])


@given(st.lists(st.lists(model_chunks | searches, max_size=5), max_size=6), endings)
def test_calls_of_every_kind_are_added_and_done_once(
    batches: list[list[Chunk]], ending: Chunk | None
) -> None:
    events = on_the_wire(run_machine([*batches, [ending] if ending else []], TOOLS))
    item_events = [event for event in events if event["type"].startswith("response.output_item.")]
    places: dict[int, list[str]] = {}
    for event in item_events:
        places.setdefault(event["output_index"], []).append(event["type"].rpartition(".")[2])
    output = events[-1]["response"]["output"]
    assert places == {index: ["added", "done"] for index in range(len(output))}


@pytest.mark.requirement("SEED-003/task3-deterministic", "SEED-003/tests-growing-arguments")
@given(st.text(min_size=1, max_size=30), st.data())
def test_any_split_of_deltas_yields_the_same_response(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    arguments = '{"text": "aabb"}'
    complete_calls: list[Chunk] = [
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
    assert output(*complete_calls) == to_wire(run([[chunk] for chunk in cut])[-1])["response"]["output"]


@pytest.mark.requirement("SEED-003/D1-call-index", "SEED-003/tests-growing-arguments")
@given(st.permutations([0, 0, 0, 1, 1, 1, 2, 2, 2]))
def test_interleaved_calls_are_separated_without_loss(order: list[int]) -> None:
    pieces = {call: iter(['{"n":', f'"{call}', '"}']) for call in (0, 1, 2)}
    started: list[int] = []
    model_output: list[Chunk] = []
    for call in order:
        if call not in started:
            started.append(call)
            model_output.append(CallStarted(call, f"call_{call}", "f"))
        model_output.append(CallDelta(call, next(pieces[call])))
    _, *calls = output(*model_output, Finished("tool_calls"))
    assert [item["arguments"] for item in calls] == [f'{{"n":"{call}"}}' for call in started]
    assert [item["call_id"] for item in calls] == [f"call_{call}" for call in started]


@given(st.lists(model_chunks, max_size=12), st.lists(model_chunks, max_size=3))
def test_no_events_follow_the_end_of_the_turn(model_output: list[Chunk], late: list[Chunk]) -> None:
    late = [chunk for chunk in late if not isinstance(chunk, UsageReported)]
    ended: list[Chunk] = [*model_output, Finished("stop")]
    assert [to_wire(event) for event in run([ended])] == [to_wire(event) for event in run([ended, late])]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ([1, 0], "numbers start at 0"),
        ([2, 3], "before the first delta"),
    ],
)
def test_the_checker_detects_swapped_events(broken: list[int], why: str) -> None:
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
