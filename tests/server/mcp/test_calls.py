"""Calls under way: progress, silence, clients that leave, and errors in the middle."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendError
from antiphon.server.mcp.response_tools import ResponseTools
from antiphon.server.mcp.tool import MAX_TEXT_CHARACTERS, ToolCall
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.server.agent_server import Hanging, open_agent_server, text_turn
from tests.server.mcp.messages import ERAS, call, headers_of, meta, request, send, text_of

ASK: dict[str, Any] = {"name": "ask_model", "arguments": {"model": "m", "input": "hi"}}
WATCHED: dict[str, Any] = {**ASK, "_meta": {"progressToken": "t1"}}


def events_of(stream: str) -> list[dict[str, Any]]:
    return [
        json.loads(line.removeprefix("data: ")) for line in stream.split("\n") if line.startswith("data: ")
    ]


@pytest.mark.requirement("HOSTED/server-progress")
@pytest.mark.parametrize("version", ERAS)
async def test_progress_comes_before_the_result(version: str) -> None:
    async with open_agent_server(ScriptedBackend(text_turn("Hel", "lo"))) as server:
        answer = await send(server.client, "tools/call", WATCHED, version=version)
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, *_, last = events_of(answer.text)
    assert (first["method"], first["params"]["progressToken"]) == ("notifications/progress", "t1")
    assert (last["id"], last["result"]["structuredContent"]["text"]) == (1, "Hello")


async def test_progress_increases_and_is_not_sent_too_often() -> None:
    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        for _ in range(30):
            await asyncio.sleep(0.05)
            yield [TextDelta("a")]
        yield [Finished("stop")]

    async with open_agent_server(ScriptedBackend(steps)) as server:
        *progress, _ = events_of((await send(server.client, "tools/call", WATCHED)).text)
    numbers = [event["params"]["progress"] for event in progress]
    assert numbers == sorted(set(numbers))
    assert 2 <= len(numbers) <= 10


async def test_a_client_that_accepts_no_events_gets_json() -> None:
    params = {**WATCHED, "_meta": {**WATCHED["_meta"], **meta()}}
    message = request("tools/call", params)
    headers = {**headers_of(message), "accept": "application/json"}
    async with open_agent_server(ScriptedBackend(text_turn("Hello"))) as server:
        answer = await server.client.post("/mcp", json=message, headers=headers)
    assert answer.json()["result"]["isError"] is False


async def test_a_long_silence_becomes_a_stream_of_comments() -> None:
    hanging = Hanging()
    async with open_agent_server(hanging.backend, heartbeat=0.05) as server:
        sending = asyncio.create_task(send(server.client, "tools/call", ASK))
        await hanging.requested.wait()
        await asyncio.sleep(0.3)
        hanging.go_on.set()
        answer = await sending
    assert answer.text.startswith(": ")
    assert [event["id"] for event in events_of(answer.text)] == [1]


@pytest.mark.requirement("HOSTED/server-progress")
async def test_a_client_that_leaves_cancels_the_model() -> None:
    hanging = Hanging()
    params = {**WATCHED, "_meta": {**WATCHED["_meta"], **meta()}}
    message = request("tools/call", params)
    async with open_agent_server(hanging.backend) as server:
        headers = headers_of(message)
        async with server.client.stream("POST", "/mcp", json=message, headers=headers):
            await hanging.requested.wait()
        async with asyncio.timeout(10):
            await hanging.stopped.wait()


async def test_a_model_that_fails_is_a_failed_call() -> None:
    async with open_agent_server(ScriptedBackend([[TextDelta("Hel")], BackendError("no more")])) as server:
        asked = await call(server.client, "ask_model", ASK["arguments"])
    assert asked["isError"]
    assert "no more" in text_of(asked)


async def test_an_agent_that_fails_is_a_failed_call() -> None:
    async with open_agent_server(ScriptedBackend([BackendError("no more")])) as server:
        result = await call(server.client, "run_agent", {"instruction": "hi"})
    assert result["isError"]
    assert "no more" in text_of(result)


async def test_a_bug_is_an_internal_error_without_details(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_self: ResponseTools, _call: ToolCall) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(ResponseTools, "list_models", broken)
    async with open_agent_server(ScriptedBackend(text_turn("Hello"))) as server:
        answer = await send(server.client, "tools/call", {"name": "list_models"})
        older = await send(server.client, "tools/call", {"name": "list_models"}, version="2025-06-18")
    assert (answer.status_code, older.status_code) == (500, 200)
    for found in (answer, older):
        assert found.json()["error"]["code"] == -32603
        assert "secret" not in found.text


async def test_a_long_text_is_cut_and_the_result_says_so() -> None:
    long = "x" * (MAX_TEXT_CHARACTERS + 1)
    async with open_agent_server(ScriptedBackend(text_turn(long))) as server:
        result = await call(server.client, "ask_model", ASK["arguments"])
    assert result["structuredContent"]["truncated"]
    assert len(result["structuredContent"]["text"]) == MAX_TEXT_CHARACTERS
    assert "GET /v1/responses/resp_" in text_of(result)


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("ask_model", {}, "model"),
        ("ask_model", {"model": "m"}, "input"),
        ("ask_model", {"model": 1, "input": "x"}, "model"),
        ("ask_model", {"model": "m", "input": "x", "tools": []}, "tools"),
        ("ask_model", {"model": "m", "input": "x", "previous_response_id": "x"}, "previous_response_id"),
        ("get_response", {"response_id": "x"}, "response_id"),
        ("get_response", {"response_id": "resp_" + "x" * 300}, "response_id"),
        ("search_vector_store", {"vector_store_id": "x", "query": "x"}, "vector_store_id"),
        ("search_vector_store", {"vector_store_id": "vs_x", "query": " "}, "query"),
        (
            "search_vector_store",
            {"vector_store_id": "vs_x", "query": "x", "max_num_results": 51},
            "max_num_results",
        ),
        ("run_agent", {}, "instruction"),
        ("run_agent", {"instruction": " "}, "instruction"),
        ("list_models", {"x": 1}, "x"),
    ],
)
@pytest.mark.requirement("HOSTED/server-failures")
async def test_wrong_arguments_are_a_failed_call_that_names_them(
    tool: str, arguments: dict[str, Any], named: str
) -> None:
    async with open_agent_server(ScriptedBackend(text_turn("Hello"))) as server:
        result = await call(server.client, tool, arguments)
    assert result["isError"]
    assert named in text_of(result)
