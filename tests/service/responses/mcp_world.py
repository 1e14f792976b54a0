"""Responses with `mcp` on a scripted model, with servers of the official SDK."""

from typing import Any

import msgspec

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.protocol.items import FunctionCallOutput
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from tests.turn.folding import to_wire
from tests.turn.order import check_order

CALLER = Caller.of("t")
ANSWER: list[Chunk] = [TextDelta("It is 5."), Finished("stop")]


def call(name: str, index: int = 0, /, **arguments: object) -> list[Chunk]:
    text = msgspec.json.encode(arguments).decode()
    return [CallStarted(index, f"call_{index}", name), CallDelta(index, text), CallFinished(index)]


def calls(*made: list[Chunk]) -> list[Chunk]:
    return [*(chunk for each in made for chunk in each), Finished("tool_calls")]


ADD: list[Chunk] = calls(call("add", a=2, b=3))


async def create(creator: Creator, tool: dict[str, Any] | list[dict[str, Any]], **params: object) -> Response:
    tools = tool if isinstance(tool, list) else [tool]
    given: dict[str, Any] = {"model": "m", "input": "What is 2 + 3?", "tools": tools}
    return await creator.start(create_from(**{**given, **params}), CALLER).result()


async def stream(creator: Creator, tool: Any, **params: object) -> list[dict[str, Any]]:
    given = {"model": "m", "input": "What is 2 + 3?", "stream": True, "tools": [tool]}
    run = creator.start(create_from(**{**given, **params}), CALLER)
    events = [to_wire(event) async for batch in run.events() for event in batch]
    check_order(events)
    return events


def outputs(backend: ScriptedBackend, turn: int = -1) -> list[str]:
    """What the model has been shown of its calls."""
    return [str(item.output) for item in backend.turns[turn].items if isinstance(item, FunctionCallOutput)]


def approval(response: Response, number: int = -1, *, approve: bool = True, **fields: str) -> dict[str, Any]:
    requests = [item.id for item in response.output if item.__struct_config__.tag == "mcp_approval_request"]
    return {
        "type": "mcp_approval_response",
        "approval_request_id": requests[number],
        "approve": approve,
        **fields,
    }
