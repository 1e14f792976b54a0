"""Calls that a model wrote as text, between the backend and the client."""

from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.parse_create import create_from
from antiphon.service.responses.stages.text_calls import text_call_stage
from antiphon.service.routing.router import Route
from antiphon.settings import TextCalls
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.context import build_turn

LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}
TAGGED = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
CALL = [CallStarted(-1, "", "look"), CallDelta(-1, "{}"), CallFinished(-1)]


def passed(*script: Sequence[Chunk], text_calls: TextCalls = "auto", **params: object) -> list[list[Chunk]]:
    """The chunks passed on for each batch."""
    request = create_from(**{"model": "m", "input": "hi", "tools": [LOOK], **params})
    route = Route("m", ScriptedBackend.saying("a"), text_calls=text_calls)
    stage = text_call_stage(build_turn(request, model="m"), route)
    return [list(batch if stage is None else stage.feed(batch)) for batch in script]


def test_a_call_in_the_text_becomes_a_call() -> None:
    assert passed([TextDelta(TAGGED)], [Finished("stop")]) == [CALL, [Finished("tool_calls")]]


@pytest.mark.parametrize("params", [{"text_calls": "off"}, {"tool_choice": "none"}, {"tools": []}])
def test_text_is_text_where_no_call_is_looked_for(params: dict[str, Any]) -> None:
    assert passed([TextDelta(TAGGED)], [Finished("stop")], **params) == [
        [TextDelta(TAGGED)],
        [Finished("stop")],
    ]


@pytest.mark.requirement("PROTOCOL/items-custom-call")
def test_the_input_of_a_custom_tool_is_text() -> None:
    shell = {"type": "custom", "name": "shell"}
    text = "<function=shell><parameter=input>123</parameter></function>"
    found = passed([TextDelta(text)], [Finished("stop")], tools=[shell])[0]
    assert CallDelta(-1, '{"input":"123"}') in found
