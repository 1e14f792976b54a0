"""The order checker covers every row of the table, and detects omitted, moved and changed events."""

import copy
from typing import Any

import pytest

from antiphon.conformance.grammar import ROWS
from antiphon.conformance.items import Aspect, Mode
from antiphon.conformance.order import check_stream
from tests.conformance_checker.good_streams import ITEMS, OPTIONAL, Events, item_event, numbered, stream

JsonObject = dict[str, Any]
TYPES = sorted(ITEMS)


def aspects(events: Events, mode: Mode = "strict") -> set[Aspect]:
    return {violation.aspect for violation in check_stream(events, mode)}


def altered(events: Events, position: int, path: str, value: object) -> Events:
    """The same stream with another value at one path of one event."""
    events = copy.deepcopy(events)
    *parents, last = path.split(".")
    target: Any = events[position]
    for name in parents:
        target = target[int(name) if name.isdigit() else name]
    target[last] = value
    return events


def find(events: Events, kind: str) -> int:
    return next(at for at, event in enumerate(events) if event["type"] == f"response.{kind}")


def test_every_row_has_a_stream() -> None:
    assert set(ITEMS) == set(ROWS)


@pytest.mark.requirement(
    "PROTOCOL/order-message", "PROTOCOL/order-refusal", "PROTOCOL/order-annotations", "PROTOCOL/order-function-call",
    "PROTOCOL/order-custom-tool-call", "PROTOCOL/order-reasoning", "PROTOCOL/order-reasoning-summary",
    "PROTOCOL/order-compaction",
)  # fmt: skip
@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_good_stream_of_every_type_is_good(kind: str, mode: Mode) -> None:
    assert check_stream(stream(kind), mode) == []
    assert check_stream(stream("message", kind, kind), mode) == [] or "call_id" in ITEMS[kind][0]


@pytest.mark.parametrize("kind", TYPES)
def test_every_omitted_event_is_detected(kind: str) -> None:
    complete = stream(kind)
    for at, event in enumerate(complete):
        if event["type"] not in OPTIONAL:
            rest = numbered(complete[:at] + complete[at + 1 :])
            assert aspects(rest), event


@pytest.mark.parametrize("kind", TYPES)
def test_every_swap_of_events_is_detected(kind: str) -> None:
    complete = stream(kind)
    for at in range(len(complete) - 1):
        first, second = complete[at], complete[at + 1]
        if {first["type"], second["type"]} != {
            "response.output_text.delta",
            "response.output_text.annotation.added",
        }:
            moved = numbered([*complete[:at], second, first, *complete[at + 2 :]])
            assert aspects(moved), (first, second)


@pytest.mark.parametrize("kind", TYPES)
def test_every_repeated_event_is_detected(kind: str) -> None:
    complete = stream(kind)
    for at, event in enumerate(complete):
        repeated = numbered([*complete[: at + 1], event, *complete[at + 1 :]])
        assert aspects(repeated), event


@pytest.mark.parametrize("kind", TYPES)
def test_an_event_of_another_item_does_not_belong_there(kind: str) -> None:
    complete = stream(kind)
    other_kind = {"function_call": "custom_tool_call"}.get(kind, "function_call")
    foreign_event = {**ITEMS[other_kind][1][0], "output_index": 0, "item_id": "item_0"}
    assert "order" in aspects(numbered([*complete[:3], foreign_event, *complete[3:]]), "lenient")


@pytest.mark.parametrize(
    ("kind", "path"),
    [(kind, path) for kind, row in sorted(ROWS.items()) for path in row.added],
)
def test_added_items_must_be_empty(kind: str, path: str) -> None:
    events = altered(stream(kind), 2, "item.action", {}) if path == "action.commands" else stream(kind)
    assert "added" in aspects(altered(events, 2, f"item.{path}", ["something"]))


@pytest.mark.requirement("PROTOCOL/stream-numbers")
@pytest.mark.parametrize("number", [0, 2, None, "1", True])
def test_numbers_have_no_gap(number: object) -> None:
    assert aspects(altered(stream("message"), 1, "sequence_number", number)) == {"numbering"}


@pytest.mark.requirement("PROTOCOL/stream-indices")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("output_item.added", "output_index"), ("output_text.delta", "output_index"),
        ("output_text.delta", "content_index"), ("content_part.added", "content_index"),
        ("output_text.annotation.added", "annotation_index"), ("output_item.done", "output_index"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [7, None])
def test_output_indices_are_positions(kind: str, name: str, value: object) -> None:
    events = stream("message")
    assert "index" in aspects(altered(events, find(events, kind), name, value), "lenient")


@pytest.mark.parametrize(
    ("item", "kind", "name"),
    [
        ("reasoning", "reasoning_summary_part.added", "summary_index"),
        ("reasoning", "reasoning_summary_text.delta", "summary_index"),
        ("shell_call", "shell_call_command.added", "command_index"),
        ("shell_call", "shell_call_command.delta", "command_index"),
    ],
)
def test_other_indices_are_positions_too(item: str, kind: str, name: str) -> None:
    events = stream(item)
    assert "index" in aspects(altered(events, find(events, kind), name, 1), "lenient")


@pytest.mark.requirement("PROTOCOL/stream-stable-ids")
@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("output_item.done", "item.id"), ("output_text.delta", "item_id"), ("completed", "response.id"),
        ("in_progress", "response.id"), ("output_item.added", "item.id"), ("content_part.done", "item_id"),
    ],
)  # fmt: skip
def test_ids_must_not_change(kind: str, path: str) -> None:
    events = stream("message")
    assert "id" in aspects(altered(events, find(events, kind), path, "another"), "lenient")


def test_two_items_have_two_ids_and_two_calls_two_call_ids() -> None:
    events = stream("message", "reasoning")
    for at, event in enumerate(events):
        if event.get("item_id") == "item_1":
            events = altered(events, at, "item_id", "item_0")
        if event.get("output_index") == 1 and "item" in event:
            events = altered(events, at, "item.id", "item_0")
    events = altered(events, len(events) - 1, "response.output.1.id", "item_0")
    assert aspects(events) == {"id"}
    assert aspects(stream("function_call", "function_call")) == {"id"}
    assert aspects(stream("shell_call", "shell_call_output")) == set(), "a call and its output share one"


@pytest.mark.requirement("PROTOCOL/stream-fold")
@pytest.mark.parametrize(
    ("item", "kind", "path"),
    [
        ("message", "output_text.delta", "delta"), ("message", "output_text.done", "text"),
        ("message", "content_part.done", "part.text"), ("message", "refusal.done", "refusal"),
        ("message", "output_item.done", "item.content.0.text"), ("message", "completed", "response.output.0.role"),
        ("reasoning", "reasoning_summary_text.done", "text"), ("reasoning", "reasoning_text.delta", "delta"),
        ("reasoning", "reasoning_summary_part.done", "part.text"),
        ("function_call", "function_call_arguments.done", "arguments"),
        ("custom_tool_call", "custom_tool_call_input.delta", "delta"),
        ("mcp_call", "mcp_call_arguments.done", "arguments"),
        ("code_interpreter_call", "code_interpreter_call_code.done", "code"),
        ("shell_call", "shell_call_command.done", "command"),
        ("apply_patch_call", "apply_patch_call_operation_diff.done", "diff"),
    ],
)  # fmt: skip
def test_table_and_json_agree(item: str, kind: str, path: str) -> None:
    events = stream(item)
    assert "fold" in aspects(altered(events, find(events, kind), path, "other"), "lenient")


def test_a_part_without_events_is_found() -> None:
    events = stream("message")
    for kind, path in (("output_item.done", "item.content"), ("completed", "response.output.0.content")):
        events = altered(
            events, find(events, kind), path, [*ITEMS["message"][2]["content"], {"type": "refusal"}]
        )
    assert aspects(events) == {"fold"}


def test_an_item_without_done_is_found_even_if_the_output_omits_it() -> None:
    events = stream("message", "reasoning")
    events = [event for at, event in enumerate(events) if at != len(events) - 2]
    (first, _) = events[-1]["response"]["output"]
    with_one_item = numbered(altered(events, len(events) - 1, "response.output", [first]))
    assert [str(found) for found in check_stream(with_one_item)] == [
        f"event {len(with_one_item) - 1}: item 1 (reasoning) is never done"
    ]


@pytest.mark.requirement("PROTOCOL/order-added")
@pytest.mark.parametrize("status", ["completed", "incomplete", "queued"])
def test_an_item_is_in_progress_when_it_is_added(status: str) -> None:
    assert aspects(altered(stream("message"), 2, "item.status", status)) == {"added"}
    assert aspects(altered(stream("web_search_call"), 2, "item.status", status), "lenient") == {"added"}


@pytest.mark.parametrize("name", ["type", "call_id", "name", "namespace"])
def test_the_identity_of_a_call_must_not_change(name: str) -> None:
    events = stream("function_call")
    for at, path in ((len(events) - 2, "item"), (len(events) - 1, "response.output.0")):
        events = altered(events, at, f"{path}.{name}", "other")
    assert aspects(events, "lenient") == {"id" if name == "call_id" else "added"}


@pytest.mark.requirement("PROTOCOL/order-one-after-another")
def test_items_do_not_interleave() -> None:
    events = stream("message", "reasoning")
    done = find(events, "output_item.done")
    moved = numbered([*events[:done], events[done + 1], events[done], *events[done + 2 :]])
    assert [str(found) for found in check_stream(moved)] == [
        f"event {done}: an item is added while item 0 (message) is open"
    ]


@pytest.mark.requirement("PROTOCOL/stream-one-terminal")
@pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
def test_there_is_one_terminal_event_and_none_after_it(end: str) -> None:
    complete = stream("message", status=end)
    assert check_stream(complete) == []
    assert "envelope" in aspects(complete[:-1])
    assert "envelope" in aspects(numbered([*complete, complete[-1]]))
    assert "envelope" in aspects(numbered([*complete, {"type": "response.whatever"}]), "lenient")
    assert aspects(altered(complete, len(complete) - 1, "response.status", "queued")) == {"envelope"}


@pytest.mark.requirement("PROTOCOL/stream-error")
def test_an_error_is_nested_and_failed_follows() -> None:
    error = item_event("x", error={"code": "c", "message": "m", "param": None, "type": "t"})
    error["type"] = "error"
    complete = stream("message", status="failed")
    assert check_stream(numbered([*complete[:-1], error, complete[-1]])) == []
    assert aspects(numbered([*complete[:-1], {"type": "error", "message": "m"}, complete[-1]])) == {
        "envelope"
    }
    completed = stream("message")
    assert aspects(numbered([*completed[:-1], error, completed[-1]])) == {"envelope"}


@pytest.mark.requirement("PROTOCOL/stream-queued")
def test_a_stream_may_begin_in_a_queue() -> None:
    complete = stream("message")
    queued = item_event("queued", response={"id": "resp_1", "status": "queued", "output": []})
    assert check_stream(numbered([complete[0], queued, *complete[1:]])) == []
    assert check_stream(numbered([queued, *complete])) == []
    assert aspects(numbered([*complete[:2], queued, *complete[2:]])) == {"envelope"}


def test_the_first_events_have_no_output_yet() -> None:
    assert aspects(altered(stream("message"), 0, "response.output", ["something"])) == {"envelope"}


@pytest.mark.requirement("PROTOCOL/order-incomplete")
def test_an_incomplete_item_is_the_last_of_an_incomplete_response() -> None:
    events = stream("message", "reasoning")
    events = altered(events, find(events, "output_item.done"), "item.status", "incomplete")
    events = altered(events, len(events) - 1, "response.output.0.status", "incomplete")
    assert [found.aspect for found in check_stream(events)] == ["incomplete", "incomplete"]


def test_a_program_call_may_stay_in_progress() -> None:
    events = stream("function_call")
    done = find(events, "output_item.done")
    for at, path in ((2, "item"), (done, "item"), (len(events) - 1, "response.output.0")):
        events = altered(events, at, f"{path}.caller", {"type": "program", "caller_id": "call_0"})
        events = altered(events, at, f"{path}.status", "in_progress")
    assert check_stream(events) == []
    for at, path in ((2, "item"), (done, "item"), (len(events) - 1, "response.output.0")):
        events = altered(events, at, f"{path}.caller", None)
    assert aspects(events) == {"order"}


def test_extensions_and_optional_events_are_ignored_in_foreign_streams() -> None:
    complete = stream("message")
    extended = numbered([*complete[:3], {"type": "slug:progress"}, *complete[3:]])
    assert check_stream(extended, "lenient") == []
    assert aspects(extended) == {"order"}
    custom = stream("custom_tool_call")
    shorter = [event for event in custom if event["type"] != "response.custom_tool_call_input.done"]
    assert check_stream(numbered(shorter), "lenient") == []
    assert aspects(numbered(shorter)) == {"order"}
    unknown = [
        *complete[:-1],
        item_event(
            "output_item.added",
            output_index=1,
            item={"type": "slug:thing", "id": "t", "status": "in_progress"},
        ),
        item_event(
            "output_item.done", output_index=1, item={"type": "slug:thing", "id": "t", "status": "completed"}
        ),
        altered(
            complete,
            len(complete) - 1,
            "response.output",
            [*complete[-1]["response"]["output"], {"type": "slug:thing", "id": "t", "status": "completed"}],
        )[-1],
    ]
    assert check_stream(numbered(unknown), "lenient") == []


def test_a_keepalive_has_a_number_and_no_fixed_position() -> None:
    complete = stream("message")
    assert check_stream(numbered([*complete[:4], {"type": "keepalive"}, *complete[4:]])) == []
    assert aspects([*complete[:4], {"type": "keepalive"}, *complete[4:]]) == {"numbering"}


@pytest.mark.parametrize(
    "event",
    [{}, {"type": 7}, {"type": "response.completed"}, {"type": "response.output_item.added", "item": []}],
)
def test_invalid_events_are_violations_and_do_not_stop_the_checker(event: JsonObject) -> None:
    assert check_stream([event], "lenient")
    assert check_stream([*stream("message")[:3], event], "lenient")


def test_an_empty_stream_is_a_violation() -> None:
    assert aspects([], "lenient") == {"envelope"}
