"""The public fake backend plays its scripts."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing

import pytest

from antiphon.backends.base import Backend
from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendTimeout
from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import HEARTBEAT, Chunk, Finished, TextDelta
from antiphon.turn.context import TurnRequest, build_turn


def turn(text: str = "hi") -> TurnRequest:
    return build_turn(create_from(model="m", input=text), model="m")


async def run_turn(backend: Backend, text: str = "hi") -> list[Sequence[Chunk]]:
    return [batch async for batch in backend.prepare(turn(text)).chunks()]


async def test_it_plays_its_script_and_records_its_turns() -> None:
    backend = ScriptedBackend.saying("Hello", " you")
    assert await run_turn(backend, "first") == [[TextDelta("Hello")], [TextDelta(" you")], [Finished("stop")]]
    assert backend.turns == [turn("first")]
    assert [model.id for model in await backend.models()] == ["scripted"]


async def test_scripts_are_played_in_order_and_the_last_one_again() -> None:
    backend = ScriptedBackend([[TextDelta("a")]], [[TextDelta("b")]])
    assert [await run_turn(backend) for _ in range(3)] == [
        [[TextDelta("a")]],
        [[TextDelta("b")]],
        [[TextDelta("b")]],
    ]


async def test_a_script_may_be_a_function_of_the_turn() -> None:
    def echo(turn_request: TurnRequest) -> Iterable[Step]:
        yield [TextDelta(turn_request.model)]
        yield [Finished("stop")]

    assert await run_turn(ScriptedBackend(echo)) == [[TextDelta("m")], [Finished("stop")]]


async def test_a_script_may_raise_an_error() -> None:
    with pytest.raises(BackendTimeout):
        await run_turn(ScriptedBackend([HEARTBEAT, BackendTimeout()]))


async def test_a_waiting_script_ends_when_its_turn_is_closed() -> None:
    ended = asyncio.Event()

    async def wait(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("one")]
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with aclosing(ScriptedBackend(wait).prepare(turn()).chunks()) as batches:
        assert await anext(batches) == [TextDelta("one")]
    assert ended.is_set()


async def test_it_records_that_it_was_closed() -> None:
    backend = ScriptedBackend.saying("x")
    await backend.aclose()
    assert backend.closed


def test_it_needs_a_script() -> None:
    with pytest.raises(ValueError, match="needs a script"):
        ScriptedBackend()
