"""An independent reader of an event stream: the response that a client builds from deltas alone."""

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.protocol.events import Event
from antiphon.protocol.response import Response

JsonObject = dict[str, Any]


def to_wire(event: Event) -> JsonObject:
    return msgspec.json.decode(msgspec.json.encode(event))


def fold(events: Sequence[Event]) -> JsonObject:
    """Rebuild the terminal response object: its output from added items, parts and deltas alone."""
    output: dict[int, JsonObject] = {}
    final: JsonObject = {}
    for event in map(to_wire, events):
        kind = event["type"]
        if "response" in event:
            final = event["response"]
        elif kind == "response.output_item.added":
            output[event["output_index"]] = event["item"]
        elif kind == "response.output_item.done":
            item = output[event["output_index"]]
            item["status"] = event["item"]["status"]
            _take_members_of_the_done_event(item, event["item"])
            if "encrypted_content" in event["item"]:
                item["encrypted_content"] = event["item"]["encrypted_content"]
        elif "output_index" in event:
            _apply(output[event["output_index"]], event)
    return {**final, "output": [output[index] for index in sorted(output)]}


def _apply(item: JsonObject, event: JsonObject) -> None:
    match event["type"]:
        case "response.content_part.added":
            item.setdefault("content", []).insert(event["content_index"], event["part"])
        case "response.reasoning_summary_part.added":
            item["summary"].insert(event["summary_index"], event["part"])
        case "response.output_text.delta":
            part = item["content"][event["content_index"]]
            part["text"] += event["delta"]
            part["logprobs"] += event["logprobs"]
        case "response.reasoning_text.delta":
            item["content"][event["content_index"]]["text"] += event["delta"]
        case "response.refusal.delta":
            item["content"][event["content_index"]]["refusal"] += event["delta"]
        case "response.reasoning_summary_text.delta":
            item["summary"][event["summary_index"]]["text"] += event["delta"]
        case "response.output_text.annotation.added":
            item["content"][event["content_index"]]["annotations"].append(event["annotation"])
        case "response.function_call_arguments.delta":
            item["arguments"] += event["delta"]
        case "response.custom_tool_call_input.delta":
            item["input"] += event["delta"]
        case _:
            _apply_to_client_call(item, event)


def _apply_to_client_call(item: JsonObject, event: JsonObject) -> None:
    match event["type"]:
        case "response.shell_call_command.added":
            item["action"]["commands"].insert(event["command_index"], event["command"])
        case "response.shell_call_command.delta":
            item["action"]["commands"][event["command_index"]] += event["delta"]
        case "response.apply_patch_call_operation_diff.delta":
            item["operation"]["diff"] += event["delta"]
        case _:
            pass


def _take_members_of_the_done_event(item: JsonObject, done: JsonObject) -> None:
    """Members without their own deltas."""
    if item["type"] == "tool_search_call":
        item["arguments"] = done["arguments"]
    elif item["type"] == "shell_call":
        item["action"] = {**done["action"], "commands": item["action"]["commands"]}


def response_to_wire(response: Response) -> JsonObject:
    return msgspec.json.decode(msgspec.json.encode(response))
