"""The official client and its client tools: streams, items and rounds of every kind."""

from typing import Any

import pytest

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.settings import SealSettings
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished
from tests.service.responses.test_client_tools import KINDS, ROUNDS, output_of, script

SETTINGS = Settings(seal=SealSettings(key="test"))


@pytest.mark.requirement("PROTOCOL/tools-client-run")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_round_through_the_clients_stream_helper(kind: str) -> None:
    async with Antiphon(SETTINGS, routes=[Route("m", script(kind))]) as service:
        client = service.openai_client()
        tools: Any = [ROUNDS[kind][0]]
        async with client.responses.stream(model="m", input="hi", tools=tools) as stream:
            received = [event.type async for event in stream]
            first = await stream.get_final_response()
        assert received[-1] == "response.completed"
        (item,) = first.output
        assert (item.type, getattr(item, "status", "")) == (kind, "completed")
        answer: Any = [output_of(kind)]
        second = await client.responses.create(model="m", input=answer, previous_response_id=first.id)
        assert second.output_text == "done"
        listed = await client.responses.input_items.list(second.id, order="asc")
        assert [entry.type for entry in listed.data] == ["message", kind, output_of(kind)["type"]]


async def test_events_that_the_client_has_no_type_for_do_not_disturb_it() -> None:
    arguments = '{"type":"update_file","path":"a.py","diff":"@@\\n-a\\n+b"}'
    call: list[Chunk] = [CallStarted(0, "c", "apply_patch"), CallDelta(0, arguments), Finished("tool_calls")]
    async with Antiphon(SETTINGS, routes=[Route("m", ScriptedBackend([call]))]) as service:
        client = service.openai_client()
        tools: Any = [{"type": "apply_patch"}]
        async with client.responses.stream(model="m", input="hi", tools=tools) as stream:
            received = [event.type async for event in stream]
            final = await stream.get_final_response()
    assert "response.apply_patch_call_operation_diff.done" in received
    assert final.output[0].to_dict()["operation"] == {
        "type": "update_file",
        "path": "a.py",
        "diff": "@@\n-a\n+b",
    }
