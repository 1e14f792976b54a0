"""What servers do wrong in streams. Everything else stays right: numbers are counted anew, items stay equal."""

from collections.abc import Callable
from itertools import count
from typing import Any

from tests.conformance_checker.faulty import Asked, Events, Fault, Got, JsonObject

END = ("response.completed", "response.incomplete", "response.failed")


def fault(name: str, *found_by: str, **how: Any) -> Fault:
    return Fault(name, frozenset(found_by), **how)


def in_streams(alter: Callable[[Events], Events | None]) -> Callable[[Asked, Got], None]:
    """Alter the events of every new stream; they are numbered again afterwards."""

    def got(_asked: Asked, got: Got) -> None:
        if got.streamed:
            events = got.events
            told = alter(events)
            got.tell(numbered(events if told is None else told))

    return got


def raw(alter: Callable[[Events], Events]) -> Callable[[Asked, Got], None]:
    """Alter the events, numbers and all."""

    def got(_asked: Asked, got: Got) -> None:
        if got.streamed:
            got.tell(alter(got.events))

    return got


def numbered(events: Events) -> Events:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def without(*kinds: str) -> Callable[[Asked, Got], None]:
    return in_streams(lambda events: [event for event in events if event["type"] not in kinds])


def each(kind: str, alter: Callable[[JsonObject], None]) -> Callable[[Asked, Got], None]:
    """Alter every event of a kind."""

    def all_of(events: Events) -> None:
        for event in events:
            if event["type"] == kind:
                alter(event)

    return in_streams(all_of)


def items(alter: Callable[[JsonObject], None]) -> Callable[[Asked, Got], None]:
    """Alter every item at its end: in `done` and in the output."""

    def all_of(events: Events) -> None:
        for event in events:
            if event["type"] == "response.output_item.done":
                alter(event["item"])
            elif event["type"] in END:
                for item in event["response"]["output"]:
                    alter(item)

    return in_streams(all_of)


def without_done(_asked: Asked, got: Got) -> None:
    if got.streamed:
        got.done = False
        got.tell(got.events)


def done_twice(_asked: Asked, got: Got) -> None:
    if got.streamed:
        got.body += b"data: [DONE]\n\n"


def broken_tools(asked: Asked, got: Got) -> None:
    """Every stream with tools breaks in the middle, and says so."""
    if got.streamed and asked.has("tools"):
        begun = got.events[:2]
        response = {**begun[1]["response"], "status": "failed", "error": {"code": "x", "message": "oh"}}
        got.tell(numbered([*begun, {"type": "response.failed", "response": response}]))


def calls_lost(asked: Asked, got: Got) -> None:
    """The events of calls are told, but the end knows nothing of them."""
    if got.streamed and asked.has("tools"):
        events = got.events
        empty_output(events[-1])
        got.tell([event for event in events if event["type"] != "response.function_call_arguments.done"])


def padded() -> Callable[[Asked, Got], None]:
    """Every delta is padded, never twice alike; that is no fault."""
    numbers = count()
    return raw(lambda events: [{**event, "obfuscation": str(next(numbers))} for event in events])


def as_open_responses(events: Events) -> None:
    for event in events:
        event["type"] = event["type"].replace("response.reasoning_text.", "response.reasoning.")


def unbounded(asked: Asked) -> None:
    if isinstance(asked.body, dict) and asked.body.get("max_output_tokens") == 16:
        asked.drop("max_output_tokens")


def without_names(_asked: Asked, got: Got) -> None:
    if got.streamed:
        got.names = False
        got.tell(got.events)


def other_names(_asked: Asked, got: Got) -> None:
    got.body = got.body.replace(b"event: response.output_text.delta", b"event: message")


def plain_text(_asked: Asked, got: Got) -> None:
    got.headers["content-type"] = "text/plain"


def broken_data(_asked: Asked, got: Got) -> None:
    if got.streamed:
        got.body = got.body.replace(b"event: response.output_text.done\ndata: {", b"data: oops {", 1)


def interleaved(events: Events) -> Events:
    """The second item begins before the first has ended."""
    done = next((event for event in events if event["type"] == "response.output_item.done"), None)
    second = next((event for event in events if event.get("output_index") == 1), None)
    if done is None or second is None:
        return events
    rest = [event for event in events if event is not second]
    rest.insert(rest.index(done), second)
    return rest


def other_index(event: JsonObject) -> None:
    event["output_index"] = 0


def other_id(item: JsonObject) -> None:
    item["id"] = "other_" + item["id"]


def set_arguments(event: JsonObject) -> None:
    if event["item"]["type"] == "function_call":
        event["item"]["arguments"] = "{}"


def as_completed(events: Events) -> None:
    if events[-1]["type"] == "response.incomplete":
        events[-1]["type"] = "response.completed"


def no_reason(event: JsonObject) -> None:
    event["response"]["incomplete_details"] = None


def empty_output(event: JsonObject) -> None:
    event["response"]["output"] = []


def half_delta(event: JsonObject) -> None:
    event["delta"] = event["delta"][:1]


def other_delta_item(event: JsonObject) -> None:
    event["item_id"] = "msg_other"


def other_response(event: JsonObject) -> None:
    event["response"] = {**event["response"], "id": "resp_other"}


def no_call_id(item: JsonObject) -> None:
    item.pop("call_id", None)


def call_without_id(events: Events) -> None:
    for event in events:
        no_call_id(event.get("item", {}))
        for item in event.get("response", {}).get("output", []):
            no_call_id(item)


def as_function(events: Events) -> None:
    for event in events:
        for item in [event.get("item", {}), *event.get("response", {}).get("output", [])]:
            if item.get("type") == "custom_tool_call":
                item["type"] = "function_call"


def no_item_ids(events: Events) -> None:
    for item in events[-1]["response"]["output"]:
        item["id"] = None


STREAM_FAULTS = (
    fault("no content_part.added", "order.text", "order.structured", "order.incomplete", "order.reasoning", "fold.stream", got=without("response.content_part.added")),
    fault("no content_part.done", "order.text", "order.structured", "order.incomplete", "order.reasoning", got=without("response.content_part.done")),
    fault("no output_text.done", "order.text", "order.structured", "order.incomplete", "order.reasoning", got=without("response.output_text.done")),
    fault("no reasoning_text.done", "order.reasoning", got=without("response.reasoning_text.done")),
    fault("no arguments.done", "order.function_call", "order.parallel_calls", got=without("response.function_call_arguments.done")),
    fault("arguments are there when the call is added", "order.function_call", "order.parallel_calls", got=each("response.output_item.added", set_arguments)),
    fault("a custom call is told as a function call", "order.custom_call", got=in_streams(as_function)),
    fault("no in_progress", "order.text", "order.function_call", "order.parallel_calls", "order.custom_call", "order.reasoning", "order.structured", "order.incomplete", "framing.created", got=without("response.in_progress")),
    fault("calls interleave", "order.parallel_calls", "order.reasoning", got=in_streams(interleaved)),
    fault("cut off, but completed", "order.incomplete", got=in_streams(as_completed)),
    fault("cut off, and nobody says why", "order.incomplete", got=each("response.incomplete", no_reason)),
    fault("numbers repeat", "numbering.sequence", got=raw(lambda events: [{**event, "sequence_number": 0} for event in events])),
    fault("numbers begin at 1", "numbering.sequence", got=raw(lambda events: [{**event, "sequence_number": event["sequence_number"] + 1} for event in events])),
    fault("output_index of added is always 0", "numbering.indices", got=each("response.output_item.added", other_index)),
    fault("a stream as text/plain", "framing.media_type", "framing.json_media_type", got=plain_text),
    fault("no event names", "framing.names", got=without_names),
    fault("event names are others", "framing.names", got=other_names),
    fault("an event that is no JSON", "framing.data", "order.text", "order.structured", "framing.names", "numbering.sequence", "order.incomplete", "order.reasoning", got=broken_data),
    fault("[DONE] comes twice", "framing.end", got=done_twice),
    fault("streams with tools fail", "order.function_call", "order.parallel_calls", "order.custom_call", got=broken_tools),
    fault("calls do not come to their end", "order.function_call", "order.parallel_calls", "fold.stream", "numbering.sequence", got=calls_lost),
    fault("max_output_tokens is ignored", "order.incomplete", asked=unbounded),
    fault("two ends", "framing.terminal", "order.text", "order.function_call", "order.parallel_calls", "order.custom_call", "order.reasoning", "order.structured", "order.incomplete", got=in_streams(lambda events: [*events, events[-1]])),
    fault("no end", "framing.terminal", "ids.present", "ids.calls", "ids.unique", "order.text", "order.function_call", "order.parallel_calls", "order.custom_call", "order.reasoning", "order.structured", "order.incomplete", got=in_streams(lambda events: events[:-1])),
    fault("an item changes its id", "ids.stable", got=items(other_id)),
    fault("deltas name another item", "ids.stable", got=each("response.output_text.delta", other_delta_item)),
    fault("the response changes its id", "ids.stable", got=each("response.completed", other_response)),
    fault("items without ids", "ids.present", "fold.stream", got=in_streams(no_item_ids)),
    fault("calls without call ids", "ids.calls", got=in_streams(call_without_id)),
    fault("deltas are lost", "fold.stream", got=each("response.output_text.delta", half_delta)),
    fault("the last event has no output", "fold.stream", got=each("response.completed", empty_output)),
    fault("no fault: no [DONE]", got=without_done),
    fault("no fault: reasoning as Open Responses tells it", got=in_streams(as_open_responses)),
)  # fmt: skip
