"""The order of every kind of stream, its numbers, and how it is framed."""

from collections.abc import Sequence

from antiphon.conformance.checking import check
from antiphon.conformance.grammar import TERMINAL
from antiphon.conformance.members import list_at, member, number_at, object_at, text_at
from antiphon.conformance.order import check_stream, kind_of
from antiphon.conformance.probe import Probe, items_of, output_text
from antiphon.conformance.scenarios import SCENARIOS
from antiphon.conformance.target import Answer
from antiphon.conformance.verdict import Failed, Skipped, expect, provoked
from antiphon.conformance.violation import Aspect
from antiphon.protocol.content import JsonObject

ORDER: tuple[Aspect, ...] = ("envelope", "order", "added")
EVENT_STREAM = "text/event-stream"


def expect_none(events: Sequence[JsonObject], *aspects: Aspect) -> None:
    """Fail with the violations of these kinds."""
    found = [violation for violation in check_stream(events, "lenient") if violation.aspect in aspects]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        shown = [f"{violation.at}: {events[violation.at]}" for violation in found[:3] if violation.at >= 0]
        raise Failed(f"{found[0]}{more}", [*map(str, found[:5]), *shown])


def last_response(answer: Answer) -> JsonObject:
    """The response of the event that ends the stream."""
    ends = [event for event in answer.events if kind_of(event) in TERMINAL]
    expect(ends, "the stream has no completed, incomplete or failed")
    return object_at(ends[-1], "response")


def in_order(answer: Answer) -> JsonObject:
    """The response of a stream that keeps the order and did not fail: only then one can ask what is in it."""
    expect_none(answer.events, *ORDER)
    response = last_response(answer)
    why = text_at(response, "error.message")
    expect(response.get("status") != "failed", f"the response failed: {why or 'nobody says why'}")
    return response


async def heard(probe: Probe) -> list[Answer]:
    """Every stream that was told so far, at least a plain answer and a call."""
    await probe.stream("text")
    await probe.stream("call")
    return [answer for name in SCENARIOS if (answer := probe.told(name)) is not None]


@check("order.text", "A plain answer comes in order", rule="order-message")
async def order_text(probe: Probe) -> None:
    """A message: its part, its deltas, and all their ends."""
    answer = await probe.stream("text")
    in_order(answer)
    kinds = {kind_of(event) for event in answer.events}
    expect("output_text.delta" in kinds or "refusal.delta" in kinds, "no text came in the stream")


@check("order.function_call", "A call comes in order", rule="order-function-call")
async def order_call(probe: Probe) -> None:
    """A call: its arguments, and their end."""
    response = in_order(await probe.stream("call"))
    provoked(items_of(response, "function_call"), "the model did not call the tool")


@check("order.parallel_calls", "Parallel calls come one after another", rule="order-one-after-another")
async def order_calls(probe: Probe) -> None:
    """Two calls in one answer."""
    calls = items_of(in_order(await probe.stream("calls")), "function_call")
    provoked(len(calls) > 1, f"the model made {len(calls)} calls")


@check("order.custom_call", "A custom call comes in order", rule="order-custom-tool-call")
async def order_custom(probe: Probe) -> None:
    """Free text as input."""
    response = in_order(await probe.stream("custom"))
    expect(
        not items_of(response, "function_call"),
        "a custom tool was called by a function_call, not a custom_tool_call",
    )
    provoked(items_of(response, "custom_tool_call"), "the model did not call the tool")


@check("order.reasoning", "Reasoning comes in order", rule="order-reasoning")
async def order_reasoning(probe: Probe) -> None:
    """Summaries and raw reasoning, where the model shows any."""
    response = in_order(await probe.stream("reasoning"))
    provoked(items_of(response, "reasoning"), "no reasoning item came")


@check("order.structured", "Structured output comes in order", rule="order-message")
async def order_structured(probe: Probe) -> None:
    """JSON is a message like any other."""
    in_order(await probe.stream("structured"))


@check("order.incomplete", "An answer that is cut off ends as incomplete", rule="order-incomplete")
async def order_incomplete(probe: Probe) -> None:
    """`max_output_tokens` ends it, and the stream says so."""
    answer = await probe.stream("cut")
    response = in_order(answer)
    limit = SCENARIOS["cut"].body["max_output_tokens"]
    if response.get("status") == "completed":
        # A word is a token at least, so many words are too many tokens, whoever counts them.
        made = max(number_at(response, "usage.output_tokens") or 0, len(output_text(response).split()))
        expect(made <= limit, f"{made} tokens were made, {limit} were allowed, and the response is completed")
    provoked(response.get("status") != "completed", f"the model ended within {limit} tokens")
    expect_none(answer.events, "incomplete")
    expect(kind_of(answer.events[-1]) == "incomplete", f"the last event is {kind_of(answer.events[-1])}")
    reason = member(response, "incomplete_details.reason")
    expect(reason == "max_output_tokens", f"incomplete_details.reason is {reason!r}, not 'max_output_tokens'")


@check("numbering.sequence", "Events are numbered from 0 without a gap", rule="stream-numbers")
async def numbering_sequence(probe: Probe) -> None:
    """`sequence_number`, in every stream that was told."""
    for answer in await heard(probe):
        expect_none(answer.events, "numbering")


@check("numbering.indices", "Items and parts are numbered by their places", rule="stream-indices")
async def numbering_indices(probe: Probe) -> None:
    """`output_index`, `content_index` and the others."""
    for answer in await heard(probe):
        expect_none(answer.events, "index")


@check("framing.media_type", "A stream is text/event-stream", rule="framing-stream-media-type")
async def framing_media_type(probe: Probe) -> None:
    """Its header."""
    answer = await probe.stream("text")
    expect(answer.media_type == EVENT_STREAM, f"content-type is {answer.headers.get('content-type')!r}")


@check(
    "framing.json_media_type",
    "An answer without a stream is application/json",
    rule="framing-json-media-type",
)
async def framing_json(probe: Probe) -> None:
    """Its header."""
    answer = await probe.ask(input="Say hello.")
    expect(answer.status == 200, f"the status is {answer.status}")
    expect(answer.media_type == "application/json", f"content-type is {answer.headers.get('content-type')!r}")


@check("framing.names", "`event:` equals the type inside", rule="framing-event-name")
async def framing_names(probe: Probe) -> None:
    """Readers of either see the same."""
    for frame in (await probe.stream("text")).frames:
        if frame.is_done:
            continue
        kind = text_at(frame.event() or {}, "type")
        expect(frame.name is not None, f"{kind} has no `event:` line")
        expect(frame.name == kind, f"`event:` is {frame.name!r}, the type inside is {kind!r}")


@check("framing.data", "Every event is one JSON object with a type", rule="framing-data")
async def framing_data(probe: Probe) -> None:
    """Nothing else is in the stream but `[DONE]`."""
    for frame in (await probe.stream("text")).frames:
        shown = [frame.data.decode("utf-8", "replace")[:200]]
        expect(frame.is_done or frame.event() is not None, "an event is not a JSON object", shown)
        expect(frame.is_done or text_at(frame.event(), "type"), "an event has no type", shown)


@check("framing.end", "[DONE] is the last line, once", rule="framing-done")
async def framing_end(probe: Probe) -> None:
    """Open Responses wants it, OpenAI does not send it, and no client needs it."""
    frames = (await probe.stream("text")).frames
    if not any(frame.is_done for frame in frames):
        raise Skipped("not offered: the stream ends without `[DONE]`")
    expect(frames[-1].is_done, "something comes after `data: [DONE]`")
    expect(sum(frame.is_done for frame in frames) == 1, "`[DONE]` comes more than once")


@check("framing.terminal", "Exactly one terminal event, nothing after it", rule="stream-one-terminal")
async def framing_terminal(probe: Probe) -> None:
    """Completed, incomplete or failed."""
    for answer in await heard(probe):
        kinds = [kind_of(event) for event in answer.events]
        ends = [kind for kind in kinds if kind in TERMINAL]
        expect(len(ends) == 1, f"there are {len(ends)} terminal events: {', '.join(ends) or 'none'}")
        after = kinds[kinds.index(ends[0]) + 1 :]
        expect(not after, f"after {ends[0]} comes {', '.join(after)}")


@check("framing.created", "The first events hold the response, still empty", rule="stream-created")
async def framing_created(probe: Probe) -> None:
    """`response.created`, then `response.in_progress`."""
    events = (await probe.stream("text")).events
    kinds = [kind_of(event) for event in events[:2]]
    expect(kinds == ["created", "in_progress"], f"the stream begins with {', '.join(kinds)}")
    for event in events[:2]:
        expect(text_at(event, "response.id"), f"{event.get('type')} has no response with an id")
        expect(not list_at(event, "response.output"), f"{event.get('type')} has output already")


CHECKS = (
    order_text, order_call, order_calls, order_custom, order_reasoning, order_structured, order_incomplete,
    numbering_sequence, numbering_indices,
    framing_media_type, framing_json, framing_names, framing_data, framing_created, framing_terminal,
    framing_end,
)  # fmt: skip
