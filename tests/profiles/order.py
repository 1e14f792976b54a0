"""The order rules of the `proxy` profile, checked event by event on any stream.

    created, in_progress, message added, its text part added,
    { text deltas | refusals | annotations | call added | call deltas }  in any order,
    text done, part done, message done,
    for each call in order: arguments done, call done,
    [error,] completed or failed

A refusal is a separate part: it ends the text before it.
"""

from collections.abc import Sequence
from typing import Any

JsonObject = dict[str, Any]

CALLS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}
TEXT_FIELDS = {"output_text": "text", "refusal": "refusal"}
FIRST_EVENTS = ["created", "in_progress", "output_item.added", "content_part.added"]


def check_message_first(events: Sequence[JsonObject]) -> None:
    """Fail on the first event that breaks a rule."""
    numbers = [event["sequence_number"] for event in events]
    assert numbers == list(range(len(events))), "numbers start at 0 without a gap"
    events = [event for event in events if event["type"] != "keepalive"]
    kinds = [kind_of(event) for event in events]
    assert kinds[:4] == FIRST_EVENTS, "the message is added before the first delta"
    tail = 2 if kinds[-2] == "error" else 1
    assert kinds[-1] == ("failed" if tail == 2 else "completed")
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    assert all(event["response"]["output"] == [] for event in events[:2])
    done = _check_items(events[2:-tail])
    assert events[-1]["response"]["output"] == done
    assert len({item["id"] for item in done}) == len(done), "ids are unique"
    assert len({item["call_id"] for item in done[1:]}) == len(done) - 1, "call ids are unique"


def kind_of(event: JsonObject) -> str:
    return str(event["type"]).removeprefix("response.")


def _check_items(body: Sequence[JsonObject]) -> list[JsonObject]:
    """All items in their final form."""
    kinds = [kind_of(event) for event in body]
    closed = kinds.index("output_item.done")
    assert body[closed]["output_index"] == 0, "the message is the first to be done"
    live, endings = body[: closed + 1], body[closed + 1 :]
    added = _check_live(live)
    _check_message(added[0], [event for event in live if event["output_index"] == 0])
    order = [event["output_index"] for event in endings]
    assert order == sorted(order), "calls end one after another, in their order"
    for index, item in enumerate(added[1:], 1):
        _check_call(item, [event for event in body if event["output_index"] == index], endings)
    assert {event["output_index"] for event in endings} == set(range(1, len(added)))
    return [event["item"] for event in body if kind_of(event) == "output_item.done"]


def _check_live(live: Sequence[JsonObject]) -> list[JsonObject]:
    """The items by index; every other event belongs to one that was added."""
    items: list[JsonObject] = []
    for event in live[:-1]:
        if kind_of(event) == "output_item.added":
            assert event["output_index"] == len(items), "the index is 0, or 1 + the ordinal of the call"
            assert event["item"]["status"] == "in_progress"
            assert (event["item"]["type"] == "message") == (not items), "one message, and it is the first"
            items.append(event["item"])
        else:
            assert event["item_id"] == items[event["output_index"]]["id"]
    tail = [kind_of(event) for event in live[-3:]]
    assert tail[0] in ("output_text.done", "refusal.done"), "the message is open until the end"
    assert tail[1:] == ["content_part.done", "output_item.done"]
    return items


def _check_message(added: JsonObject, events_between: Sequence[JsonObject]) -> None:
    done = events_between[-1]["item"]
    _check_identity(added, done)
    parts: list[list[JsonObject]] = []
    for event in events_between[1:-1]:
        if kind_of(event) == "content_part.added":
            parts.append([])
        parts[-1].append(event)
    assert [part[0]["content_index"] for part in parts] == list(range(len(done["content"])))
    assert done["content"][0]["type"] == "output_text"
    for part, done_part in zip(parts, done["content"], strict=True):
        _check_part(part, done_part)


def _check_part(part: Sequence[JsonObject], done_part: JsonObject) -> None:
    first, *middle, end, last = part
    name, field = done_part["type"], TEXT_FIELDS[done_part["type"]]
    assert first["part"]["type"] == name
    assert first["part"][field] == ""
    assert kind_of(end) == f"{name}.done"
    assert kind_of(last) == "content_part.done"
    assert {kind_of(event) for event in middle} <= {f"{name}.delta", "output_text.annotation.added"}
    joined = "".join(event["delta"] for event in middle if kind_of(event) == f"{name}.delta")
    assert joined == end[field] == last["part"][field] == done_part[field]


def _check_call(
    added: JsonObject, events_between: Sequence[JsonObject], endings: Sequence[JsonObject]
) -> None:
    """The input of a custom call is sent when the call is complete."""
    stream, field = CALLS[added["type"]]
    first, *deltas, end, done = events_between
    assert first["item"] is added
    assert added[field] == ""
    assert [kind_of(end), kind_of(done)] == [f"{stream}.done", "output_item.done"]
    assert any(event is end for event in endings), "no call ends before the message"
    assert end["item_id"] == added["id"]
    _check_identity(added, done["item"])
    assert {kind_of(event) for event in deltas} <= {f"{stream}.delta"}
    assert "".join(event["delta"] for event in deltas) == end[field] == done["item"][field]


def _check_identity(added: JsonObject, done: JsonObject) -> None:
    for key in ("id", "type", "call_id", "name", "namespace", "role"):
        assert added.get(key) == done.get(key)
    assert done["status"] in ("completed", "incomplete")
