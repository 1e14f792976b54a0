"""Hosted tools of an agent: declared by a mode or a request, shown while they work, and part of the result."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
import pytest

from antiphon.orchestrator.events import AgentEvent, HostedCompleted, HostedStarted, TextDelta
from antiphon.orchestrator.models import AgentExecuteRequest, ConversationContext, SourceRef
from antiphon.orchestrator.modes import Mode, Modes
from antiphon.orchestrator.reasoner import execute
from antiphon.orchestrator.response_mapper import map_response
from antiphon.orchestrator.run_tree import tree_of
from antiphon.protocol.content import JsonObject
from tests.orchestrator.scripted_client import ScriptedClient, answers, calls

WEB: JsonObject = {"type": "web_search"}
SHOP: JsonObject = {"type": "mcp", "server_label": "shop"}
MODES = Modes(
    [
        Mode(key="general", when_to_use="Anything.", hosted_tools=(WEB, SHOP)),
        Mode(key="other", when_to_use="Else.", hosted_tools=({"type": "code_interpreter"},)),
    ]
)
ASK = AgentExecuteRequest(instruction="Do it.")
MCP_CALL: JsonObject = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "shop",
    "name": "look",
    "arguments": '{"item": "tea"}',
    "output": "in stock",
    "status": "completed",
    "error": None,
}
CITING: JsonObject = {
    "type": "message",
    "content": [
        {
            "type": "output_text",
            "text": "Tea is hot.",
            "annotations": [
                {"type": "url_citation", "url": "https://tea.example", "title": "Tea", "start_index": 0},
                {"type": "file_citation", "file_id": "file_1", "filename": "tea.md", "index": 3},
                {"type": "url_citation", "url": "https://tea.example", "title": "Tea", "start_index": 5},
            ],
        }
    ],
}


def mapped(*output: JsonObject) -> Any:
    return map_response({"id": "resp_1", "output": list(output)}, ASK, ConversationContext())


@pytest.mark.parametrize(
    ("item", "arguments", "output", "error"),
    [
        (MCP_CALL, '{"item": "tea"}', "in stock", None),
        (
            {"type": "shell_call", "id": "sh_1", "action": {"commands": ["ls"]}, "status": "completed"},
            '{"commands":["ls"]}',
            None,
            None,
        ),
        (
            {**MCP_CALL, "output": None, "error": {"type": "mcp_protocol_error", "message": "gone"}},
            '{"item": "tea"}',
            None,
            "gone",
        ),
        (
            {
                **MCP_CALL,
                "output": None,
                "error": {
                    "type": "mcp_tool_execution_error",
                    "content": [{"type": "text", "text": "sold out"}],
                },
            },
            '{"item": "tea"}',
            None,
            "sold out",
        ),
        (
            {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "tea"}},
            '{"type":"search","query":"tea"}',
            None,
            None,
        ),
        ({"type": "file_search_call", "id": "fs_1", "queries": ["tea"]}, '{"queries":["tea"]}', None, None),
        (
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "code": "print(1)",
                "outputs": [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": "data:…"}],
            },
            '{"code":"print(1)"}',
            "1\n",
            None,
        ),
        ({"type": "image_generation_call", "id": "ig_1", "result": "aGk="}, None, None, None),
        ({"type": "mcp_call", "id": 5, "output": {"a": 1}, "error": ["x"]}, None, None, None),
    ],
)
def test_a_call_of_a_hosted_tool_becomes_a_record(
    item: JsonObject, arguments: str | None, output: str | None, error: str | None
) -> None:
    [record] = mapped(item).hosted_calls
    assert record.type == item["type"]
    assert (record.arguments_json, record.output, record.error_message) == (arguments, output, error)


def test_citations_become_sources_once_each() -> None:
    assert mapped(CITING).sources == (
        SourceRef(tag="https://tea.example", path="https://tea.example", file_name="Tea"),
        SourceRef(tag="file_1", path="tea.md", file_name="tea.md"),
    )


@pytest.mark.requirement("HOSTED/mcp-agent-tools")
async def test_the_hosted_tools_of_a_mode_are_declared_beside_the_clients() -> None:
    client = ScriptedClient(answers("Hi."))
    request = AgentExecuteRequest(
        instruction="Do it.",
        tools_json='[{"type": "file_search", "vector_store_ids": ["vs_1"]}, {"type": "web_search"}]',
    )
    response = await execute(request, client=client, modes=MODES)
    assert client.bodies[0]["tools"] == [WEB, SHOP, {"type": "file_search", "vector_store_ids": ["vs_1"]}]
    assert response.warnings == (
        "The mode has the hosted tool 'web_search' itself: the client's is left out.",
    )


async def test_another_mode_takes_its_hosted_tools_away_and_keeps_those_of_the_client() -> None:
    client = ScriptedClient(answers("Hi."), answers("Ho."))
    files: JsonObject = {"type": "file_search", "vector_store_ids": ["vs_1"]}
    request = AgentExecuteRequest(instruction="Do it.", tools_json=msgspec.json.encode([files]).decode())
    first = await execute(request, client=client, modes=MODES)
    again = AgentExecuteRequest(
        instruction="More.", mode="other", response_continuation_id=first.response_continuation_id
    )
    await execute(again, client=client, modes=MODES)
    assert client.bodies[1]["tools"] == [{"type": "code_interpreter"}, files]


async def test_the_result_has_the_calls_and_sources_of_all_turns() -> None:
    turn = calls(("unknown", {}))
    client = ScriptedClient({"output": [MCP_CALL, *turn["output"]]}, {"output": [CITING]})
    response = await execute(ASK, client=client, modes=MODES)
    assert [call.call_id for call in response.hosted_calls] == ["mcp_1"]
    assert [source.file_name for source in response.sources] == ["Tea", "tea.md"]


class Streaming(ScriptedClient):
    """Sends the item events of hosted tools as well."""

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        yield {"type": "response.output_item.added", "item": {**MCP_CALL, "status": "in_progress"}}
        yield {"type": "response.output_item.done", "item": MCP_CALL}
        async for event in super().stream(body):
            yield event


async def watched(request: AgentExecuteRequest, *, durable: bool = False) -> Sequence[AgentEvent]:
    seen: list[AgentEvent] = []

    async def emit(event: AgentEvent) -> None:
        seen.append(event)

    client = Streaming({"output": [MCP_CALL, CITING]})
    await execute(request, client=client, modes=MODES, tell=emit, durable=durable)
    return seen


async def test_events_show_hosted_tools_while_they_work() -> None:
    seen = await watched(AgentExecuteRequest(instruction="Do it.", streaming=True))
    kinds = [type(event) for event in seen[2:5]]
    assert kinds == [HostedStarted, HostedCompleted, TextDelta]


async def test_a_run_in_the_background_shows_them_too_and_stores_no_text_deltas() -> None:
    seen = await watched(ASK, durable=True)
    assert not any(isinstance(event, TextDelta) for event in seen)
    [started] = [event for event in seen if isinstance(event, HostedStarted)]
    assert (started.call.name, started.call.server_label, started.call.status) == (
        "look",
        "shop",
        "in_progress",
    )
    [turn] = tree_of(seen).turns
    assert [(call.call_id, call.status) for call in turn.hosted_calls] == [("mcp_1", "completed")]
