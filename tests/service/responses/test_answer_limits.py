"""Answers without end are cut off, with every kind of request; the turn of the backend is closed."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
import pytest
from openai.types.responses import Response as SdkResponse

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.protocol.parse_create import parse_create
from antiphon.service.responses.create import Creator
from antiphon.service.responses.run import ResponseRun
from antiphon.turn.answer_limit import AnswerBounds
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Finished,
    ReasoningDelta,
    TextDelta,
)
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator
from tests.turn.order import check_order

BOUNDS = AnswerBounds(max_bytes=5000, max_tokens=400, max_items=20, max_calls=10)
SCHEMA: dict[str, Any] = {"type": "json_schema", "name": "s", "schema": {"type": "object"}}
TOOL: dict[str, Any] = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}


class Endless:
    """A backend whose turns do not end by themselves."""

    def __init__(self, chunks: Callable[[int], list[Chunk]]) -> None:
        self._chunks = chunks
        self.closed = 0
        self.backend = ScriptedBackend(self.steps, unenforced=frozenset(("format",)))

    async def steps(self, _turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            number = 0
            while True:
                yield self._chunks(number)
                number += 1
                await asyncio.sleep(0)
        finally:
            self.closed += 1


def calls(number: int) -> list[Chunk]:
    return [CallStarted(number, f"call_{number}", "f"), CallDelta(number, "{}"), CallFinished(number)]


def items(number: int) -> list[Chunk]:
    return [ReasoningDelta("a"), TextDelta("b")]


def arguments(number: int) -> list[Chunk]:
    return [CallDelta(0, "x" * 100)] if number else [CallStarted(0, "call_0", "f"), CallDelta(0, '{"a":"')]


FLOODS: dict[str, tuple[Callable[[int], list[Chunk]], str]] = {
    "bytes": (lambda _: [TextDelta("x" * 100)], "5000 bytes"),
    "reasoning": (lambda _: [ReasoningDelta("x" * 100)], "5000 bytes"),
    "arguments": (arguments, "5000 bytes"),
    "tokens": (lambda _: [TextDelta("x")] * 7, "400 tokens"),
    "items": (items, "20 items"),
    "calls": (calls, "10 calls"),
}


def start(creator: Creator, **params: Any) -> ResponseRun:
    body = msgspec.json.encode({"model": "m", "input": "hi", "tools": [TOOL], **params})
    return creator.start(parse_create(body), Caller.of("t"))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("flood", FLOODS)
async def test_an_answer_without_end_is_incomplete(
    make_creator: MakeCreator, flood: str, stream: bool
) -> None:
    chunks, limit = FLOODS[flood]
    endless = Endless(chunks)
    run = start(make_creator(endless.backend, bounds=BOUNDS), stream=stream)
    events = [event async for batch in run.events() for event in batch]
    response = run.response
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert isinstance(response.downgrades, list)
    assert limit in response.downgrades[-1]
    assert endless.closed == 1
    assert response.output
    assert len(response.output) <= BOUNDS.max_items
    parsed = SdkResponse.model_validate_json(msgspec.json.encode(response), strict=True)
    assert parsed.incomplete_details is not None
    assert parsed.incomplete_details.reason == "max_output_tokens"
    if stream:
        check_order([msgspec.to_builtins(event) for event in events])


async def test_the_response_is_stored_as_it_was_sent(make_creator: MakeCreator) -> None:
    creator = make_creator(Endless(FLOODS["bytes"][0]).backend, bounds=BOUNDS)
    response = await start(creator).result()
    stored = await creator.store.responses.response("t", response.id)
    assert (stored.status, stored.output) == ("incomplete", response.output)


async def test_text_that_is_withheld_for_a_check_is_counted(make_creator: MakeCreator) -> None:
    endless = Endless(FLOODS["bytes"][0])
    response = await start(make_creator(endless.backend, bounds=BOUNDS), text={"format": SCHEMA}).result()
    assert response.status == "incomplete"
    assert endless.closed == 1  # not asked again


async def test_all_rounds_are_counted_together(make_creator: MakeCreator) -> None:
    def not_json(_turn: TurnRequest) -> list[Step]:
        return [[TextDelta("no json " * 300)], [Finished("stop")]]

    backend = ScriptedBackend(not_json, unenforced=frozenset(("format",)))
    run = start(make_creator(backend, bounds=BOUNDS, max_repairs=10), text={"format": SCHEMA})
    assert (await run.result()).status == "incomplete"
    assert len(backend.turns) == 3


async def test_an_answer_within_its_limits_is_not_changed(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend.saying("x" * 4000, "y" * 1000)
    response = await start(make_creator(backend, bounds=BOUNDS)).result()
    assert response.status == "completed"
    assert response.incomplete_details is None


async def test_a_run_can_be_cut_off_from_outside(make_creator: MakeCreator) -> None:
    endless = Endless(lambda _: [TextDelta("x")])
    run = start(make_creator(endless.backend), stream=True)
    count = 0
    async for _ in run.events():
        count += 1
        if count == 3:
            run.cut_off("3 batches")
    assert run.response.status == "incomplete"
    assert endless.closed == 1
    assert count < 10
