"""Faults of servers in streams. Everything else stays correct: events are renumbered, items stay equal."""

from collections.abc import Callable
from itertools import count
from typing import Any

from tests.conformance_checker.faulty import Events, Fault, JsonObject, ProxiedAnswer, ProxiedRequest

END = ("response.completed", "response.incomplete", "response.failed")


def fault(name: str, *found_by: str, **how: Any) -> Fault:
    return Fault(name, frozenset(found_by), **how)


def in_streams(alter: Callable[[Events], Events | None]) -> Callable[[ProxiedRequest, ProxiedAnswer], None]:
    """Alter the events of every new stream; they are renumbered afterwards."""

    def reply(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
        if reply.streamed:
            events = reply.events
            altered_events = alter(events)
            reply.set_events(numbered(events if altered_events is None else altered_events))

    return reply


def raw(alter: Callable[[Events], Events]) -> Callable[[ProxiedRequest, ProxiedAnswer], None]:
    """Alter the events including their numbers."""

    def reply(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
        if reply.streamed:
            reply.set_events(alter(reply.events))

    return reply


def numbered(events: Events) -> Events:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def without(*kinds: str) -> Callable[[ProxiedRequest, ProxiedAnswer], None]:
    return in_streams(lambda events: [event for event in events if event["type"] not in kinds])


def each(kind: str, alter: Callable[[JsonObject], None]) -> Callable[[ProxiedRequest, ProxiedAnswer], None]:
    """Alter every event of a kind."""

    def all_of(events: Events) -> None:
        for event in events:
            if event["type"] == kind:
                alter(event)

    return in_streams(all_of)


def items(alter: Callable[[JsonObject], None]) -> Callable[[ProxiedRequest, ProxiedAnswer], None]:
    """Alter every item at its end: in `done` and in the output."""

    def all_of(events: Events) -> None:
        for event in events:
            if event["type"] == "response.output_item.done":
                alter(event["item"])
            elif event["type"] in END:
                for item in event["response"]["output"]:
                    alter(item)

    return in_streams(all_of)


def without_done(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if reply.streamed:
        reply.done = False
        reply.set_events(reply.events)


def done_twice(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if reply.streamed:
        reply.body += b"data: [DONE]\n\n"


def broken_tools(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    """Every stream with tools fails in the middle."""
    if reply.streamed and sent.has("tools"):
        begun = reply.events[:2]
        response = {**begun[1]["response"], "status": "failed", "error": {"code": "x", "message": "oh"}}
        reply.set_events(numbered([*begun, {"type": "response.failed", "response": response}]))


def calls_lost(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    """The events of calls are sent, but the final response lacks the calls."""
    if reply.streamed and sent.has("tools"):
        events = reply.events
        empty_output(events[-1])
        reply.set_events(
            [event for event in events if event["type"] != "response.function_call_arguments.done"]
        )


def padded() -> Callable[[ProxiedRequest, ProxiedAnswer], None]:
    """Every delta has different padding, which is no fault."""
    numbers = count()
    return raw(lambda events: [{**event, "obfuscation": str(next(numbers))} for event in events])


def as_open_responses(events: Events) -> None:
    for event in events:
        event["type"] = event["type"].replace("response.reasoning_text.", "response.reasoning.")


def unbounded(sent: ProxiedRequest) -> None:
    if isinstance(sent.body, dict) and sent.body.get("max_output_tokens") == 16:
        sent.drop("max_output_tokens")


def without_names(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if reply.streamed:
        reply.names = False
        reply.set_events(reply.events)


def other_names(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    reply.body = reply.body.replace(b"event: response.output_text.delta", b"event: message")


def plain_text(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    reply.headers["content-type"] = "text/plain"


def broken_data(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if reply.streamed:
        reply.body = reply.body.replace(b"event: response.output_text.done\ndata: {", b"data: oops {", 1)


def interleaved(events: Events) -> Events:
    """The second item is added before the first is done."""
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
    fault("no content_part.added", "order.text", "order.structured", "order.incomplete", "order.reasoning", "fold.stream", reply=without("response.content_part.added")),
    fault("no content_part.done", "order.text", "order.structured", "order.incomplete", "order.reasoning", reply=without("response.content_part.done")),
    fault("no output_text.done", "order.text", "order.structured", "order.incomplete", "order.reasoning", reply=without("response.output_text.done")),
    fault("no reasoning_text.done", "order.reasoning", reply=without("response.reasoning_text.done")),
    fault("no arguments.done", "order.function_call", "order.parallel_calls", reply=without("response.function_call_arguments.done")),
    fault("arguments are there when the call is added", "order.function_call", "order.parallel_calls", reply=each("response.output_item.added", set_arguments)),
    fault("a custom call is told as a function call", "order.custom_call", reply=in_streams(as_function)),
    fault("no in_progress", "order.text", "order.function_call", "order.parallel_calls", "order.custom_call", "order.reasoning", "order.structured", "order.incomplete", "framing.created", reply=without("response.in_progress")),
    fault("calls interleave", "order.parallel_calls", "order.reasoning", reply=in_streams(interleaved)),
    fault("cut off, but completed", "order.incomplete", reply=in_streams(as_completed)),
    fault("cut off, and nobody says why", "order.incomplete", reply=each("response.incomplete", no_reason)),
    fault("numbers repeat", "numbering.sequence", reply=raw(lambda events: [{**event, "sequence_number": 0} for event in events])),
    fault("numbers begin at 1", "numbering.sequence", reply=raw(lambda events: [{**event, "sequence_number": event["sequence_number"] + 1} for event in events])),
    fault("output_index of added is always 0", "numbering.indices", reply=each("response.output_item.added", other_index)),
    fault("a stream as text/plain", "framing.media_type", "framing.json_media_type", reply=plain_text),
    fault("no event names", "framing.names", reply=without_names),
    fault("event names are others", "framing.names", reply=other_names),
    fault("an event that is no JSON", "framing.data", "order.text", "order.structured", "framing.names", "numbering.sequence", "order.incomplete", "order.reasoning", reply=broken_data),
    fault("[DONE] comes twice", "framing.end", reply=done_twice),
    fault("streams with tools fail", "order.function_call", "order.parallel_calls", "order.custom_call", reply=broken_tools),
    fault("calls do not come to their end", "order.function_call", "order.parallel_calls", "fold.stream", "numbering.sequence", reply=calls_lost),
    fault("max_output_tokens is ignored", "order.incomplete", sent=unbounded),
    fault("two ends", "framing.terminal", "order.text", "order.function_call", "order.parallel_calls", "order.custom_call", "order.reasoning", "order.structured", "order.incomplete", reply=in_streams(lambda events: [*events, events[-1]])),
    fault("no end", "framing.terminal", "ids.present", "ids.calls", "ids.unique", "order.text", "order.function_call", "order.parallel_calls", "order.custom_call", "order.reasoning", "order.structured", "order.incomplete", reply=in_streams(lambda events: events[:-1])),
    fault("an item changes its id", "ids.stable", reply=items(other_id)),
    fault("deltas name another item", "ids.stable", reply=each("response.output_text.delta", other_delta_item)),
    fault("the response changes its id", "ids.stable", reply=each("response.completed", other_response)),
    fault("items without ids", "ids.present", "fold.stream", reply=in_streams(no_item_ids)),
    fault("calls without call ids", "ids.calls", reply=in_streams(call_without_id)),
    fault("deltas are lost", "fold.stream", reply=each("response.output_text.delta", half_delta)),
    fault("the last event has no output", "fold.stream", reply=each("response.completed", empty_output)),
    fault("no fault: no [DONE]", reply=without_done),
    fault("no fault: reasoning as Open Responses tells it", reply=in_streams(as_open_responses)),
)  # fmt: skip
