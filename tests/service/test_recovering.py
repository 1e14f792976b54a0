"""Calls that a model wrote as text, on their way from a backend to the client."""

from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.ids import Clock
from antiphon.protocol.parse_create import create_from
from antiphon.service.recovering import QUIET, listener
from antiphon.service.router import Route
from antiphon.settings import TextCalls
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.context import build_turn

LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}
TAGGED = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
CALL = [CallStarted(-1, "", "look"), CallDelta(-1, "{}"), CallFinished(-1)]


def told(
    *script: Sequence[Chunk], text_calls: TextCalls = "auto", clock: Clock = lambda: 0.0, **params: object
) -> list[list[Chunk] | None]:
    """What is told after each batch."""
    request = create_from(**{"model": "m", "input": "hi", "tools": [LOOK], **params})
    route = Route("m", ScriptedBackend.saying("a"), text_calls=text_calls)
    hear = listener(build_turn(request, model="m"), route, clock)
    batches = [hear(batch) for batch in script]
    return [None if batch is None else list(batch) for batch in batches]


def test_a_call_in_the_text_becomes_a_call() -> None:
    assert told([TextDelta(TAGGED)], [Finished("stop")]) == [CALL, [Finished("tool_calls")]]


@pytest.mark.parametrize("params", [{"text_calls": "off"}, {"tool_choice": "none"}, {"tools": []}])
def test_text_is_text_where_no_call_is_looked_for(params: dict[str, Any]) -> None:
    assert told([TextDelta(TAGGED)], [Finished("stop")], **params) == [
        [TextDelta(TAGGED)],
        [Finished("stop")],
    ]


def test_a_heartbeat_of_the_backend_passes() -> None:
    script = [[TextDelta("<tool")], [], [TextDelta(" box")], [Finished("stop")]]
    assert told(*script) == [None, [], [TextDelta("<tool box")], [Finished("stop")]]


def test_while_text_is_held_for_long_the_line_stays_alive() -> None:
    times = iter([0.0, QUIET - 1, QUIET, QUIET + 1, 2 * QUIET])
    held = [[TextDelta("<tool_call>")], *([TextDelta(" ")] for _ in range(4))]
    assert told(*held, clock=lambda: next(times)) == [None, None, [], None, []]


def test_holding_is_timed_anew_after_every_word() -> None:
    times = iter([0.0, 100.0])
    script = [[TextDelta("<tool")], [TextDelta(" box")], [TextDelta(" <tool")]]
    assert told(*script, clock=lambda: next(times)) == [None, [TextDelta("<tool box")], [TextDelta(" ")]]


def test_the_input_of_a_custom_tool_is_text() -> None:
    shell = {"type": "custom", "name": "shell"}
    text = "<function=shell><parameter=input>123</parameter></function>"
    found = told([TextDelta(text)], [Finished("stop")], tools=[shell])[0]
    assert found is not None
    assert CallDelta(-1, '{"input":"123"}') in found
