"""A machine that resumes after an earlier one's events: one well-formed stream without repetition."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import StoreUnavailable
from antiphon.protocol.events import (
    EVENT_TYPES,
    Event,
    ImageGenerationCallGenerating,
    ImageGenerationCallPartialImage,
)
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import new_response
from antiphon.protocol.tool_items import ImageGenerationCall
from antiphon.turn.chunks import (
    CallDelta,
    CallStarted,
    Chunk,
    Finished,
    HostedItemBegun,
    HostedItemStep,
    ReasoningDelta,
    TextDelta,
)
from antiphon.turn.machine import Machine
from tests.turn.folding import fold, response_to_wire, to_wire
from tests.turn.order import check_order
from tests.turn.test_machine import TOOLS, chunks, endings


def machines() -> Any:
    """Builds machines for one response, with unique ids."""
    numbers = count()
    response = new_response(create_from(model="m", input="hi", background=True), id="resp_1", created_at=1)
    return lambda: Machine(response, new_id=lambda prefix: f"{prefix}_{next(numbers)}", tools=TOOLS)


def reread(events: Sequence[Event]) -> list[Event]:
    """The events as read back from a log."""
    return [
        msgspec.json.decode(msgspec.json.encode(event), type=EVENT_TYPES[to_wire(event)["type"]])
        for event in events
    ]


def interrupted(*attempts: Sequence[Sequence[Chunk]]) -> list[Event]:
    """All but the last attempt break off after their last batch."""
    make = machines()
    log: list[Event] = make().queue()
    for number, batches in enumerate(attempts):
        machine = make()
        log += machine.resume(reread(log))
        for batch in batches:
            log += machine.feed(batch)
        if number == len(attempts) - 1:
            log += machine.end(2)
            assert fold(log) == response_to_wire(machine.response)
    check_order([to_wire(event) for event in log])
    return log


def shapes(log: Sequence[Event]) -> list[tuple[str, str, str]]:
    output = to_wire(log[-1])["response"]["output"]
    return [
        (
            item["type"],
            item["status"],
            item.get("arguments", "") + "".join(part["text"] for part in item.get("content", [])),
        )
        for item in output
    ]


@given(
    st.lists(st.lists(chunks, max_size=4), max_size=4),
    st.lists(st.lists(chunks, max_size=4), max_size=4),
    st.lists(chunks, max_size=6),
    endings,
)
def test_two_interrupted_attempts_yield_one_well_formed_stream(
    first: list[list[Chunk]], second: list[list[Chunk]], third: list[Chunk], ending: Chunk | None
) -> None:
    interrupted(first, second, [third if ending is None else [*third, ending]])


@pytest.mark.requirement("PROTOCOL/divergence-incomplete-item")
def test_a_half_message_is_closed_as_incomplete_and_a_new_one_begins() -> None:
    log = interrupted([[TextDelta("Hel")]], [[TextDelta("Hello"), Finished("stop")]])
    assert shapes(log) == [("message", "incomplete", "Hel"), ("message", "completed", "Hello")]


def test_complete_items_are_kept_and_not_emitted_again() -> None:
    log = interrupted([[ReasoningDelta("hm"), TextDelta("an")]], [[TextDelta("answer"), Finished("stop")]])
    assert [shape[:2] for shape in shapes(log)] == [
        ("reasoning", "completed"),
        ("message", "incomplete"),
        ("message", "completed"),
    ]


def test_an_incomplete_call_is_closed_with_its_arguments() -> None:
    log = interrupted(
        [[CallStarted(0, "call_1", "f"), CallDelta(0, '{"a":')]], [[TextDelta("ok"), Finished("stop")]]
    )
    assert shapes(log) == [("function_call", "incomplete", '{"a":'), ("message", "completed", "ok")]


def test_an_incomplete_custom_call_keeps_its_emitted_text() -> None:
    half = [CallStarted(0, "call_1", "patch"), CallDelta(0, '{"input":"*** Beg')]
    log = interrupted([half], [[TextDelta("ok"), Finished("stop")]])
    item = to_wire(log[-1])["response"]["output"][0]
    assert (item["type"], item["status"], item["input"]) == ("custom_tool_call", "incomplete", "*** Beg")


@pytest.mark.parametrize("name", ["shell", "tool_search"])
def test_an_incomplete_call_of_another_kind_is_closed_without_unsent_members(name: str) -> None:
    half = [CallStarted(0, "call_1", name), CallDelta(0, '{"commands":["ls"')]
    log = interrupted([half], [[TextDelta("ok"), Finished("stop")]])
    item = to_wire(log[-1])["response"]["output"][0]
    assert (item["type"], item["status"], item["call_id"]) == (f"{name}_call", "incomplete", "call_1")
    assert item.get("arguments", {}) == {}


@pytest.mark.parametrize("name", ["apply_patch", "local_shell", "computer"])
def test_a_call_that_is_only_emitted_complete_is_not_added(name: str) -> None:
    half = [CallStarted(0, "call_1", name), CallDelta(0, '{"type":"delete_file"')]
    log = interrupted([half], [[TextDelta("ok"), Finished("stop")]])
    assert shapes(log) == [("message", "completed", "ok")]


@pytest.mark.requirement("PROTOCOL/divergence-cancelled")
def test_a_cancelled_response_ends_at_response_incomplete() -> None:
    make = machines()
    log: list[Event] = make().queue()
    machine = make()
    log += machine.resume(log) + machine.feed([TextDelta("Hel")]) + machine.cancel() + machine.end(2)
    check_order([to_wire(event) for event in log])
    assert to_wire(log[-1])["type"] == "response.incomplete"
    assert machine.response.status == "cancelled"
    assert shapes(log) == [("message", "incomplete", "Hel")]


@pytest.mark.parametrize("outcome", ["stop", "length"])
def test_a_response_that_cannot_be_saved_has_failed(outcome: Any) -> None:
    machine = machines()()
    events = machine.start() + machine.feed([TextDelta("Hello"), Finished(outcome)])
    machine.end(2)
    events += machine.end(2, save_error=StoreUnavailable())
    check_order([to_wire(event) for event in events])
    assert to_wire(events[-1])["type"] == "response.failed"
    assert isinstance(machine.failure, StoreUnavailable)
    assert machine.response.completed_at is None
    assert machine.response.incomplete_details is None


def test_a_concluded_response_is_complete_without_output() -> None:
    machine = machines()()
    events = machine.start()
    machine.complete()
    events += machine.end(2)
    check_order([to_wire(event) for event in events])
    assert machine.response.status == "completed"
    assert machine.response.output == []


def test_an_image_that_was_cut_off_after_an_unfinished_form_is_incomplete() -> None:
    begun = [
        HostedItemBegun(0, ImageGenerationCall()),
        HostedItemStep(0, ImageGenerationCallGenerating),
        HostedItemStep(0, ImageGenerationCallPartialImage, (0, "part0")),
    ]
    log = interrupted([begun], [[TextDelta("Sorry."), Finished("stop")]])
    assert [shape[:2] for shape in shapes(log)] == [
        ("image_generation_call", "incomplete"),
        ("message", "completed"),
    ]
