"""The official SDK, Antiphon, and the real codex with a scripted model: Antiphon's state meets codex's
threads.
"""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.protocol.items import FunctionCallOutput
from antiphon.settings import SealSettings, StoreSettings
from antiphon.turn.chunks import Finished, TextDelta
from tests.clients.conftest import TEST_TIMEOUT_SECONDS, Driving
from tests.clients.test_codex_app_server import DONE_ANSWER, LOOK, calls

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.xdist_group("codex")]

SETTINGS = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="memory:"))


class Sum(BaseModel):
    total: int


async def test_a_tool_loop_over_stored_responses_stays_in_one_thread_of_codex(codex: Driving) -> None:
    model = ScriptedBackend(calls("c1", "c2"), DONE_ANSWER)
    async with (
        asyncio.timeout(TEST_TIMEOUT_SECONDS),
        codex(model) as backend,
        Antiphon(SETTINGS, routes=[Route("codex", backend)]) as antiphon,
        antiphon.openai_client() as client,
    ):
        tools: Any = [{**LOOK, "strict": False}]
        first = await client.responses.create(model="codex", input="hi", tools=tools)
        found = [item for item in first.output if item.type == "function_call"]
        outputs: Any = [
            {"type": "function_call_output", "call_id": item.call_id, "output": f"saw {item.call_id}"}
            for item in found
        ]
        second = await client.responses.create(
            model="codex", input=outputs, tools=tools, previous_response_id=first.id
        )
    assert [item.arguments for item in found] == ['{ "at": "c1" }', '{ "at": "c2" }']
    assert second.output_text == "done"
    outputs_received = [item.output for item in model.turns[1].items if isinstance(item, FunctionCallOutput)]
    assert sorted(map(str, outputs_received)) == ["saw c1", "saw c2"]
    assert len({turn.params.prompt_cache_key for turn in model.turns}) == 1


async def test_the_strict_stream_helper_of_the_sdk_is_content(codex: Driving) -> None:
    model = ScriptedBackend([[TextDelta('{"total"')], [TextDelta(": 3}")], [Finished("stop")]])
    async with (
        asyncio.timeout(TEST_TIMEOUT_SECONDS),
        codex(model) as backend,
        Antiphon(SETTINGS, routes=[Route("codex", backend)]) as antiphon,
        antiphon.openai_client() as client,
        client.responses.stream(model="codex", input="1+2", text_format=Sum) as stream,
    ):
        response = await stream.get_final_response()
    assert response.output_parsed == Sum(total=3)
