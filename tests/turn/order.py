"""The order rules of the protocol, checked event by event on any stream, whatever made it."""

from collections.abc import Sequence
from typing import Any

JsonObject = dict[str, Any]

TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
PARTS = {"output_text": "output_text", "refusal": "refusal", "reasoning_text": "reasoning_text"}


def check_order(events: Sequence[JsonObject]) -> None:
    """Fail on the first event that breaks a rule."""
    numbers = [event["sequence_number"] for event in events]
    assert numbers == list(range(len(events))), "numbers start at 0 without a gap"
    kinds = [event["type"] for event in events]
    assert kinds[0] == "response.created"
    opening = 3 if "response.queued" in kinds else 2
    assert kinds[1:opening] == ["response.queued", "response.in_progress"][2 - opening + 1 :]
    assert kinds[-1] in TERMINAL
    assert sum(kind in TERMINAL for kind in kinds) == 1, "exactly one terminal event"
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    if "error" in kinds:
        assert kinds[-2:] == ["error", "response.failed"]
    items = [event for event in events if event["type"] not in ("keepalive", "error")][opening:-1]
    _check_items(items, events[-1])


def _check_items(events: Sequence[JsonObject], terminal: JsonObject) -> None:
    done: list[JsonObject] = []
    open_item: JsonObject | None = None
    inside: list[JsonObject] = []
    for event in events:
        assert event["output_index"] == len(done), "one item after another"
        if event["type"] == "response.output_item.added":
            assert open_item is None
            open_item, inside = event["item"], []
            assert event["item"]["status"] == "in_progress"
        elif event["type"] == "response.output_item.done":
            assert open_item is not None
            _check_identity(open_item, event["item"])
            _check_inside(event["item"], inside)
            done.append(event["item"])
            open_item = None
        else:
            assert open_item is not None
            assert event["item_id"] == open_item["id"]
            inside.append(event)
    assert open_item is None, "every item that was added is done"
    assert terminal["response"]["output"] == done
    assert len({item["id"] for item in done}) == len(done), "ids are unique"
    calls = [item["call_id"] for item in done if "call_id" in item]
    assert len(set(calls)) == len(calls), "call ids are unique"


def _check_identity(added: JsonObject, done: JsonObject) -> None:
    for key in ("id", "type", "call_id", "name", "namespace", "role"):
        assert added.get(key) == done.get(key)
    assert done["status"] in ("completed", "incomplete")


def _check_inside(item: JsonObject, inside: Sequence[JsonObject]) -> None:
    kinds = [event["type"].removeprefix("response.") for event in inside]
    if item["type"] == "function_call":
        assert kinds == ["function_call_arguments.delta"] * (len(kinds) - 1) + [
            "function_call_arguments.done"
        ]
        assert inside[-1]["arguments"] == item["arguments"]
        assert "".join(event["delta"] for event in inside[:-1]) == item["arguments"]
    elif item["type"] == "custom_tool_call":
        assert kinds == ["custom_tool_call_input.delta"] * (len(kinds) - 1) + ["custom_tool_call_input.done"]
        assert inside[-1]["input"] == item["input"]
    elif item["type"] == "compaction":
        assert kinds in ([], ["compaction.compacting"])
    else:
        parts = _split_parts(inside)
        shown = [part for part in parts if "content_index" in part[0]]
        assert [part[0]["content_index"] for part in shown] == list(range(len(item.get("content", []))))
        for part in parts:
            _check_part(part)


def _split_parts(inside: Sequence[JsonObject]) -> list[list[JsonObject]]:
    parts: list[list[JsonObject]] = []
    for event in inside:
        if event["type"].endswith("part.added"):
            parts.append([])
        parts[-1].append(event)
    return parts


def _check_part(part: Sequence[JsonObject]) -> None:
    first, *middle, done, last = part
    kind = first["part"]["type"]
    name = "reasoning_summary_text" if kind == "summary_text" else PARTS[kind]
    field = "refusal" if kind == "refusal" else "text"
    assert first["part"][field] == ""
    assert last["type"] == first["type"].replace(".added", ".done")
    assert done["type"] == f"response.{name}.done"
    deltas = [event for event in middle if event["type"] == f"response.{name}.delta"]
    others = [event for event in middle if event["type"] != f"response.{name}.delta"]
    assert all(event["type"] == "response.output_text.annotation.added" for event in others)
    assert "".join(event["delta"] for event in deltas) == done[field] == last["part"][field]
