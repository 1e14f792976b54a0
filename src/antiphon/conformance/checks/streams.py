"""Checks of streams: order, numbers, framing."""

from collections.abc import Sequence

from antiphon.conformance.grammar import TERMINAL
from antiphon.conformance.items import Aspect
from antiphon.conformance.order import check_stream, kind_of
from antiphon.conformance.probe import Probe, check, items_of, output_text
from antiphon.conformance.reading import list_at, member, number_at, object_at, text_at
from antiphon.conformance.results import Failed, Skipped, expect, provoked
from antiphon.conformance.scenarios import SCENARIOS
from antiphon.conformance.target import Answer
from antiphon.protocol.content import JsonObject

ORDER: tuple[Aspect, ...] = ("envelope", "order", "added")
EVENT_STREAM = "text/event-stream"


def expect_none(events: Sequence[JsonObject], *aspects: Aspect) -> None:
    """Fail with the violations of these aspects, if there are any."""
    found = [violation for violation in check_stream(events, "lenient") if violation.aspect in aspects]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        shown = [f"{violation.at}: {events[violation.at]}" for violation in found[:3] if violation.at >= 0]
        raise Failed(f"{found[0]}{more}", [*map(str, found[:5]), *shown])


def last_response(answer: Answer) -> JsonObject:
    """The response of the terminal event."""
    ends = [event for event in answer.events if kind_of(event) in TERMINAL]
    expect(ends, "the stream has no completed, incomplete or failed")
    return object_at(ends[-1], "response")


def in_order(answer: Answer) -> JsonObject:
    """The response of a stream; fails unless the events are in order and the response did not fail."""
    expect_none(answer.events, *ORDER)
    response = last_response(answer)
    why = text_at(response, "error.message")
    expect(response.get("status") != "failed", f"the response failed: {why or 'no reason given'}")
    return response


async def all_streams(probe: Probe) -> list[Answer]:
    """Every stream that was requested so far, at least a plain answer and a call."""
    await probe.stream("text")
    await probe.stream("call")
    return [answer for name in SCENARIOS if (answer := probe.requested(name)) is not None]


@check("order.text", "The events of a message are in order", rule="order-message")
async def order_text(probe: Probe) -> None:
    answer = await probe.stream("text")
    in_order(answer)
    kinds = {kind_of(event) for event in answer.events}
    expect("output_text.delta" in kinds or "refusal.delta" in kinds, "the stream has no text")


@check("order.function_call", "The events of a call are in order", rule="order-function-call")
async def order_call(probe: Probe) -> None:
    response = in_order(await probe.stream("call"))
    provoked(items_of(response, "function_call"), "the model did not call the tool")


@check("order.parallel_calls", "Parallel calls are sent sequentially", rule="order-one-after-another")
async def order_calls(probe: Probe) -> None:
    calls = items_of(in_order(await probe.stream("calls")), "function_call")
    provoked(len(calls) > 1, f"the model made {len(calls)} calls")


@check("order.custom_call", "The events of a custom call are in order", rule="order-custom-tool-call")
async def order_custom(probe: Probe) -> None:
    response = in_order(await probe.stream("custom"))
    expect(
        not items_of(response, "function_call"),
        "a custom tool was called by a function_call, not a custom_tool_call",
    )
    provoked(items_of(response, "custom_tool_call"), "the model did not call the tool")


@check("order.reasoning", "The events of reasoning are in order", rule="order-reasoning")
async def order_reasoning(probe: Probe) -> None:
    response = in_order(await probe.stream("reasoning"))
    provoked(items_of(response, "reasoning"), "there is no reasoning item")


@check("order.structured", "The events of structured output are in order", rule="order-message")
async def order_structured(probe: Probe) -> None:
    in_order(await probe.stream("structured"))


@check("order.incomplete", "An answer that is cut off ends as incomplete", rule="order-incomplete")
async def order_incomplete(probe: Probe) -> None:
    answer = await probe.stream("cut")
    response = in_order(answer)
    limit = SCENARIOS["cut"].body["max_output_tokens"]
    if response.get("status") == "completed":
        # A word has at least one token, so the number of words is a lower bound of the number of tokens.
        made = max(number_at(response, "usage.output_tokens") or 0, len(output_text(response).split()))
        expect(made <= limit, f"the response is completed with {made} tokens, but only {limit} were allowed")
    provoked(response.get("status") != "completed", f"the model ended within {limit} tokens")
    expect_none(answer.events, "incomplete")
    expect(kind_of(answer.events[-1]) == "incomplete", f"the last event is {kind_of(answer.events[-1])}")
    reason = member(response, "incomplete_details.reason")
    expect(reason == "max_output_tokens", f"incomplete_details.reason is {reason!r}, not 'max_output_tokens'")


@check("numbering.sequence", "Events are numbered from 0 without a gap", rule="stream-numbers")
async def numbering_sequence(probe: Probe) -> None:
    for answer in await all_streams(probe):
        expect_none(answer.events, "numbering")


@check("numbering.indices", "Items and parts have the index of their position", rule="stream-indices")
async def numbering_indices(probe: Probe) -> None:
    for answer in await all_streams(probe):
        expect_none(answer.events, "index")


@check("framing.media_type", "A stream is text/event-stream", rule="framing-stream-media-type")
async def framing_media_type(probe: Probe) -> None:
    answer = await probe.stream("text")
    expect(answer.media_type == EVENT_STREAM, f"content-type is {answer.headers.get('content-type')!r}")


@check(
    "framing.json_media_type",
    "An answer without a stream is application/json",
    rule="framing-json-media-type",
)
async def framing_json(probe: Probe) -> None:
    answer = await probe.ask(input="Say hello.")
    expect(answer.status == 200, f"the status is {answer.status}")
    expect(answer.media_type == "application/json", f"content-type is {answer.headers.get('content-type')!r}")


@check("framing.names", "`event:` equals the type of the event", rule="framing-event-name")
async def framing_names(probe: Probe) -> None:
    for frame in (await probe.stream("text")).frames:
        if frame.is_done:
            continue
        kind = text_at(frame.event() or {}, "type")
        expect(frame.name is not None, f"{kind} has no `event:` line")
        expect(frame.name == kind, f"`event:` is {frame.name!r}, the type is {kind!r}")


@check("framing.data", "Every event is one JSON object with a type", rule="framing-data")
async def framing_data(probe: Probe) -> None:
    for frame in (await probe.stream("text")).frames:
        shown = [frame.data.decode("utf-8", "replace")[:200]]
        expect(frame.is_done or frame.event() is not None, "an event is not a JSON object", shown)
        expect(frame.is_done or text_at(frame.event(), "type"), "an event has no type", shown)


@check("framing.end", "[DONE] is the last line, once", rule="framing-done")
async def framing_end(probe: Probe) -> None:
    frames = (await probe.stream("text")).frames
    if not any(frame.is_done for frame in frames):
        raise Skipped("not offered: the stream ends without `[DONE]`")
    expect(frames[-1].is_done, "there are frames after `data: [DONE]`")
    expect(sum(frame.is_done for frame in frames) == 1, "`[DONE]` is sent more than once")


@check("framing.terminal", "Exactly one terminal event, nothing after it", rule="stream-one-terminal")
async def framing_terminal(probe: Probe) -> None:
    for answer in await all_streams(probe):
        kinds = [kind_of(event) for event in answer.events]
        ends = [kind for kind in kinds if kind in TERMINAL]
        expect(len(ends) == 1, f"there are {len(ends)} terminal events: {', '.join(ends) or 'none'}")
        after = kinds[kinds.index(ends[0]) + 1 :]
        expect(not after, f"there are events after {ends[0]}: {', '.join(after)}")


@check("framing.created", "The first events have the response without output", rule="stream-created")
async def framing_created(probe: Probe) -> None:
    events = (await probe.stream("text")).events
    kinds = [kind_of(event) for event in events[:2]]
    expect(kinds == ["created", "in_progress"], f"the stream begins with {', '.join(kinds)}")
    for event in events[:2]:
        expect(text_at(event, "response.id"), f"{event.get('type')} has no response with an id")
        expect(not list_at(event, "response.output"), f"{event.get('type')} already has output")


CHECKS = (
    order_text, order_call, order_calls, order_custom, order_reasoning, order_structured, order_incomplete,
    numbering_sequence, numbering_indices,
    framing_media_type, framing_json, framing_names, framing_data, framing_created, framing_terminal,
    framing_end,
)  # fmt: skip
