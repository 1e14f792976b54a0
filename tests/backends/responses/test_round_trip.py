"""Our own streams, read back: the reader reproduces the machine's response."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from antiphon.backends.registry import default_endpoint
from antiphon.backends.responses.stream import StreamReader
from antiphon.backends.responses.tools import names_of
from antiphon.protocol.content import Logprob, TopLogprob
from antiphon.protocol.events import Event
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response, new_response
from antiphon.protocol.sse import SseReader, SseRenderer
from antiphon.protocol.tool_items import (
    CodeInterpreterCall,
    FileSearchCall,
    ImageGenerationCall,
    McpApprovalRequest,
    McpCall,
    McpListTools,
    WebSearchCall,
)
from antiphon.turn.chunks import (
    CallDelta,
    CallStarted,
    Chunk,
    Finished,
    HostedItemDone,
    ItemBegun,
    TextDelta,
    ToolsFound,
)
from antiphon.turn.context import TurnRequest, build_turn
from antiphon.turn.machine import Machine
from tests.turn.chunk_strategies import endings, model_chunks, texts
from tests.turn.folding import to_wire
from tests.turn.order import check_order

JsonObject = dict[str, Any]
Fault = Callable[[list[JsonObject]], list[JsonObject]]

ENDPOINT = default_endpoint("openai-responses")
TOOLS: list[dict[str, Any]] = [
    {"type": "custom", "name": "patch"},
    {"type": "namespace", "name": "time", "tools": [{"type": "function", "name": "now"}]},
    {"type": "shell"},
    {"type": "apply_patch"},
    {"type": "local_shell"},
    {"type": "computer"},
    {"type": "tool_search", "execution": "client"},
]
ARGUMENTS = [
    '{"commands":["ls"],"timeout_ms":9}',
    '{"command":["ls"]}',
    '{"type":"delete_file","path":"a"}',
    '{"type":"update_file","path":"a","diff":"+x"}',
    '{"actions":[{"type":"click","x":1}]}',
    '{"query":"q"}',
]
WORK = [
    WebSearchCall(status="completed", action={"type": "search", "query": "q"}),
    WebSearchCall(status="failed"),
    FileSearchCall(status="completed", queries=["a"], results=[{"file_id": "f"}]),
    CodeInterpreterCall(status="completed", code="1+1", container_id="c", outputs=[]),
    ImageGenerationCall(status="completed", result="aGk=", size="1x1"),
    McpListTools(server_label="s", tools=[{"name": "t"}]),
    McpCall(server_label="s", name="t", arguments='{"a":1}', output="2"),
    McpCall(server_label="s", name="t", arguments="", error={"type": "http_error"}),
    McpApprovalRequest(server_label="s", name="t", arguments="{}"),
]
more_chunks = st.one_of(
    st.builds(ItemBegun, st.sampled_from([None, "commentary", "final_answer"])),
    st.builds(HostedItemDone, st.sampled_from(WORK)),
    st.just(ToolsFound({"query": "x"}, create_from(model="m", input="hi", tools=TOOLS[:2]).tools)),
    st.builds(TextDelta, texts, st.just((Logprob("a", [97], -0.5, [TopLogprob("b", None, -1.0)]),))),
    st.builds(
        CallStarted,
        st.integers(0, 2),
        st.just(""),
        st.sampled_from(["shell", "apply_patch", "local_shell", "computer", "tool_search"]),
    ),
    st.builds(CallDelta, st.integers(0, 2), st.sampled_from(ARGUMENTS)),
)
chunks = model_chunks | more_chunks


def turn() -> TurnRequest:
    return build_turn(create_from(model="m", input="hi", tools=TOOLS), model="m", native=ENDPOINT.natives)


TURN = turn()


def run(batches: Sequence[Sequence[Chunk]]) -> tuple[list[Event], Response]:
    numbers = count()
    machine = Machine(
        new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1),
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        tools={tool.name: tool for tool in TURN.tools},
    )
    events = machine.start()
    for batch in batches:
        events += machine.feed(batch)
    return events + machine.end(2), machine.response


def reader() -> StreamReader:
    return StreamReader(ENDPOINT, names_of(TURN, ENDPOINT.natives))


def read(data: bytes) -> list[Chunk]:
    sse, under_test = SseReader(), reader()
    return under_test.feed(sse.feed(data)) + under_test.end(sse.finish())


def compared(response: Response) -> dict[str, Any]:
    """The members that must survive: all but ids, which are new, and items after a call that a failure
    truncated.
    """
    wire = msgspec.json.decode(msgspec.json.encode(response))
    output: list[dict[str, Any]] = []
    for item in wire["output"]:
        output.append({name: value for name, value in item.items() if name != "id"})
        if wire["status"] == "failed" and item["status"] == "incomplete":
            break
    return {"output": output, **{name: wire[name] for name in ("status", "usage", "incomplete_details")}}


model_output = st.tuples(st.lists(st.lists(chunks, max_size=5), max_size=6), endings)


@given(model_output)
def test_the_machines_streams_are_read_back(answer: tuple[list[list[Chunk]], Chunk | None]) -> None:
    batches, ending = answer
    events, response = run([*batches, [ending] if ending else []])
    check_order([to_wire(event) for event in events])
    again, reread = run([read(SseRenderer().render(events))])
    assert compared(reread) == compared(response)
    check_order([to_wire(event) for event in again])


@given(model_output)
def test_a_complete_response_equals_its_stream(
    answer: tuple[list[list[Chunk]], Chunk | None],
) -> None:
    batches, ending = answer
    _, response = run([*batches, [ending] if ending else []])
    _, reread = run([reader().read_body(msgspec.json.encode(response))])
    assert list(map(_joined, compared(reread)["output"])) == list(map(_joined, compared(response)["output"]))


def _joined(item: dict[str, Any]) -> dict[str, Any]:
    """Join raw reasoning that a summary has split in two."""
    if item["type"] != "reasoning" or "content" not in item:
        return item
    return {**item, "content": "".join(part["text"] for part in item["content"])}


# Faults of servers: missing and wrong events


def _without(*kinds: str) -> Fault:
    def leave_out(events: list[JsonObject]) -> list[JsonObject]:
        return [event for event in events if not event["type"].endswith(kinds)]

    return leave_out


def _each(change: Callable[[int, JsonObject], JsonObject]) -> Fault:
    return lambda events: [change(index, event) for index, event in enumerate(events)]


def _without_member(name: str) -> Fault:
    return _each(lambda _, event: {key: value for key, value in event.items() if key != name})


def _new_ids(index: int, event: JsonObject) -> JsonObject:
    """A different id in every event, as one well-known proxy sends them."""
    changed = {**event, "item_id": f"x{index}"} if "item_id" in event else event
    return {**changed, "item": {**event["item"], "id": f"x{index}"}} if "item" in event else changed


def _same_place(_: int, event: JsonObject) -> JsonObject:
    return {**event, "output_index": 0} if "output_index" in event else event


def _sent_twice(events: list[JsonObject]) -> list[JsonObject]:
    doubled = ("output_item.added", ".done")
    return [event for one in events for event in [one] * (1 + one["type"].endswith(doubled))]


def _empty_output(_: int, event: JsonObject) -> JsonObject:
    return {**event, "response": {**event["response"], "output": []}} if "response" in event else event


def _open_responses(_: int, event: JsonObject) -> JsonObject:
    return {**event, "type": event["type"].replace("reasoning_text", "reasoning")}


FAULTS: dict[str, Fault] = {
    "nothing": lambda events: events,
    "no beginning": _without("response.created", "response.in_progress"),
    "parts are not begun": _without("part.added"),
    "parts do not end": _without("part.done", "text.done", "refusal.done", "arguments.done", "input.done"),
    "items are not begun": _without("output_item.added"),
    "items do not end": _without("output_item.done"),
    "no deltas": _without("delta"),
    "neither deltas nor parts": _without(
        "delta", "part.done", "text.done", "refusal.done", "input.done", "annotation.added"
    ),
    "nothing but the end": lambda events: events[-1:],
    "no output at the end": _each(_empty_output),
    "sent twice": _sent_twice,
    "all numbers are zero": _each(lambda _, event: {**event, "sequence_number": 0}),
    "new ids": _each(_new_ids),
    "no ids": _without_member("item_id"),
    "no places": _without_member("output_index"),
    "one place for all": _each(_same_place),
    "other names": _each(_open_responses),
}
DISORDERED = ("items do not end", "nothing but the end", "no deltas", "neither deltas nor parts")
"""Faults after which missing text is emitted only at the end."""


@pytest.mark.parametrize("name", FAULTS)
@settings(max_examples=40)
@given(model_output=st.lists(chunks, max_size=12))
def test_a_faulty_stream_yields_the_same_response(name: str, model_output: list[Chunk]) -> None:
    events, response = run([[*model_output, Finished("stop")]])
    assume(response.status == "completed")
    faulty = FAULTS[name]([to_wire(event) for event in events])
    under_test = reader()
    received = under_test.feed(map(msgspec.json.encode, faulty)) + under_test.end()
    expected, found = compared(response), compared(run([received])[1])
    if name in DISORDERED:
        expected["output"], found["output"] = _sorted(expected["output"]), _sorted(found["output"])
    if name == "items are not begun":  # then the phase is unknown at the first delta
        for item in expected["output"] + found["output"]:
            item.pop("phase", None)
    assert found == expected


def _sorted(output: list[JsonObject]) -> list[JsonObject]:
    return sorted((_joined(item) for item in output), key=str)
