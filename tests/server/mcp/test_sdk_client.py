"""The client of the official SDK, in both eras, with every tool."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from antiphon.backends.scripted import ScriptedBackend
from tests.server.agent_server import AgentServer, calling, open_agent_server, text_turn

VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
pytestmark = pytest.mark.parametrize("mode", VERSIONS)


@asynccontextmanager
async def open_sdk(
    mode: str, backend: ScriptedBackend | None = None
) -> AsyncGenerator[tuple[Client, AgentServer], None]:
    backend = backend or ScriptedBackend(lambda _turn: text_turn("Hel", "lo"))
    async with (
        open_agent_server(backend) as server,
        Client(
            streamable_http_client("http://localhost/mcp", http_client=server.client), mode=mode
        ) as client,
    ):
        yield client, server


def structured(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content


def text_of(result: CallToolResult) -> str:
    first = result.content[0]
    assert isinstance(first, TextContent)
    return first.text


@pytest.mark.requirement("HOSTED/server-eras")
async def test_the_tools_are_listed_in_a_version_that_both_speak(mode: str) -> None:
    async with open_sdk(mode) as (client, _):
        assert client.session.protocol_version == VERSIONS[mode]
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"ask_model", "get_response", "list_models", "search_vector_store", "run_agent"}
    hints = {name: tool.annotations and tool.annotations.read_only_hint for name, tool in tools.items()}
    assert {name for name, hint in hints.items() if hint} == {
        "get_response",
        "list_models",
        "search_vector_store",
    }
    assert all(tool.output_schema and tool.description for tool in tools.values())


@pytest.mark.requirement("HOSTED/server-tools")
async def test_a_model_is_asked_and_its_answer_is_stored(mode: str) -> None:
    seen: list[str] = []

    def answer(turn: Any) -> Any:
        seen.append(repr(turn))
        return text_turn("Hel", "lo")

    async with open_sdk(mode, ScriptedBackend(answer)) as (client, _):
        models = structured(await client.call_tool("list_models", {}))
        asked = {"model": models["models"][0]["id"], "input": "My name is Ada.", "instructions": "Be brief."}
        first = await client.call_tool("ask_model", asked)
        assert text_of(first) == "Hello"
        response_id = structured(first)["response_id"]
        again = {"model": "m", "input": "And?", "previous_response_id": response_id}
        second = structured(await client.call_tool("ask_model", again))
        assert second["previous_response_id"] == response_id
        stored = await client.call_tool("get_response", {"response_id": response_id})
        assert structured(stored) == structured(first)
    assert "Be brief." in seen[0]
    assert "My name is Ada." in seen[1]


async def test_the_agent_runs_with_its_tools_and_reports_progress(mode: str) -> None:
    backend = ScriptedBackend(calling("add", '{"a":1,"b":2}'), text_turn("It", " is 3."))
    lines: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert progress > 0
        assert total is None
        lines.append(message)

    async with open_sdk(mode, backend) as (client, server):
        result = await client.call_tool("run_agent", {"instruction": "1 + 2?"}, progress_callback=on_progress)
        found = structured(result)
        assert text_of(result) == found["text"] == "It is 3."
        assert (found["mode"], found["model_id"]) == ("general", "m")
        assert lines[0] == "Turn 1 has begun."
        assert (await server.client.get(f"/v1/responses/{found['response_continuation_id']}")).is_success


async def test_a_vector_store_is_searched(mode: str) -> None:
    async with open_sdk(mode) as (client, server):
        file = await server.client.post(
            "/v1/files", data={"purpose": "assistants"}, files={"file": ("tea.txt", b"Tea grows in Assam.")}
        )
        store = await server.client.post("/v1/vector_stores", json={"file_ids": [file.json()["id"]]})
        arguments = {"vector_store_id": store.json()["id"], "query": "Where does tea grow?"}
        result = await client.call_tool("search_vector_store", arguments)
        while not structured(result)["passages"]:
            result = await client.call_tool("search_vector_store", arguments)
        nothing = await client.call_tool("search_vector_store", {**arguments, "query": "zebra"})
    assert structured(result)["passages"][0]["filename"] == "tea.txt"
    assert text_of(result) == "[tea.txt]\nTea grows in Assam."
    assert text_of(nothing) == "No passage was found."


@pytest.mark.requirement("HOSTED/server-failures")
async def test_a_failed_call_is_a_result_and_an_unknown_tool_a_fault(mode: str) -> None:
    async with open_sdk(mode) as (client, _):
        failed = await client.call_tool("ask_model", {"model": "zebra", "input": "hi"})
        assert failed.is_error
        assert "model_not_found" in text_of(failed)
        with pytest.raises(MCPError, match="Unknown tool: 'zebra'") as unknown:
            await client.call_tool("zebra", {})
    assert unknown.value.code == -32602
