"""Calls that a model wrote as text, on their way from a backend to the client."""

from collections.abc import AsyncGenerator, Sequence
from itertools import count

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.protocol.ids import Clock
from antiphon.protocol.parse_create import create_from
from antiphon.service.recovering import QUIET, chunks_of
from antiphon.service.router import Route
from antiphon.settings import TextCalls
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.context import build_turn

LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}
TAGGED = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
CALL = [CallStarted(-1, "", "look"), CallDelta(-1, "{}"), CallFinished(-1)]


def told(
    *script: Step, text_calls: TextCalls = "auto", clock: Clock = lambda: 0.0, **params: object
) -> AsyncGenerator[Sequence[Chunk], None]:
    turn = build_turn(create_from(**{"model": "m", "input": "hi", "tools": [LOOK], **params}), model="m")
    backend = ScriptedBackend(script)
    route = Route("m", backend, text_calls=text_calls)
    return chunks_of(backend.prepare(turn), turn, route, clock)


async def all_of(batches: AsyncGenerator[Sequence[Chunk], None]) -> list[Chunk]:
    return [chunk async for batch in batches for chunk in batch]


async def test_a_call_in_the_text_becomes_a_call() -> None:
    assert await all_of(told([TextDelta(TAGGED)], [Finished("stop")])) == [*CALL, Finished("tool_calls")]


async def test_text_is_text_where_the_route_says_so() -> None:
    script = ([TextDelta(TAGGED)], [Finished("stop")])
    assert await all_of(told(*script, text_calls="off")) == [TextDelta(TAGGED), Finished("stop")]


async def test_text_is_text_where_no_tool_may_be_called() -> None:
    script = ([TextDelta(TAGGED)], [Finished("stop")])
    assert await all_of(told(*script, tool_choice="none")) == [TextDelta(TAGGED), Finished("stop")]
    assert await all_of(told(*script, tools=[])) == [TextDelta(TAGGED), Finished("stop")]


async def test_a_heartbeat_of_the_backend_passes() -> None:
    script: list[Step] = [[TextDelta("<tool")], [], [TextDelta(" box")], [Finished("stop")]]
    batches = [list(batch) async for batch in told(*script)]
    assert batches == [[], [TextDelta("<tool box")], [Finished("stop")]]


async def test_while_text_is_held_for_long_the_line_stays_alive() -> None:
    ticking = count(0, 2 * QUIET)
    script = ([TextDelta("<tool_call>")], [TextDelta("{")], [Finished("stop")])
    batches = [list(batch) async for batch in told(*script, clock=lambda: next(ticking))]
    assert batches[:2] == [[], []]
    assert batches[2] == [TextDelta("<tool_call>{"), Finished("stop")]


async def test_short_holding_is_not_told() -> None:
    batches = told(
        [TextDelta("<tool_call>")], [TextDelta('{"name": "look"}</tool_call>')], [Finished("stop")]
    )
    assert all([bool(batch) async for batch in batches])
