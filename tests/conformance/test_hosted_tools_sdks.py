"""Hosted tools with the official OpenAI SDK, the Agents SDK and LangChain: items, events and answers."""

from typing import Any

import pytest
from agents import (
    Agent,
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    MCPToolApprovalRequest,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    WebSearchTool,
)
from agents.items import MCPApprovalRequestItem, MCPApprovalResponseItem, MCPListToolsItem, ToolCallItem
from langchain_openai import ChatOpenAI
from openai.types.responses import (
    ResponseCodeInterpreterCallCodeDoneEvent,
    ResponseCodeInterpreterToolCall,
    ResponseContainerReference,
    ResponseFileSearchToolCall,
    ResponseFunctionShellToolCall,
    ResponseFunctionShellToolCallOutput,
    ResponseFunctionWebSearch,
    ResponseMcpCallArgumentsDoneEvent,
    ResponseOutputTextAnnotationAddedEvent,
    ResponseShellCallOutputContentDeltaEvent,
)
from openai.types.responses.response_output_item import McpApprovalRequest, McpCall, McpListTools

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.items import FunctionCallOutput
from antiphon.turn.chunks import Chunk
from tests.conformance.hosted_world import called, said, serving, warranty_store
from tests.mcp import conftest as mcp_conftest
from tests.sandbox.sandboxes import bubblewrap
from tests.web.engine_server import PAGES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]
sdk_url = mcp_conftest.sdk_url

ADD = '{"a":2,"b":3}'
CODE = '{"code": "print(6 * 7)"}'
SEARCH: list[Chunk] = called("web_search", '{"queries": ["why blue"]}')
LINK = "([sky.example](https://www.sky.example/blue))"
PYTHON: Any = {"type": "code_interpreter", "container": {"type": "auto"}}


@pytest.fixture
def sandbox() -> None:
    """Skips the test where there is none."""
    bubblewrap()


def server(sdk_url: str, **members: Any) -> Any:
    return {"type": "mcp", "server_label": "sdk", "server_url": f"{sdk_url}/modern/mcp", **members}


def outputs(backend: ScriptedBackend) -> list[str]:
    """The outputs that the model saw last."""
    return [str(item.output) for item in backend.turns[-1].items if isinstance(item, FunctionCallOutput)]


async def streamed(client: Any, **params: Any) -> tuple[list[Any], Any]:
    """The events of a stream, and its response."""
    async with client.responses.stream(model="m", input="hi", **params) as stream:
        events = [event async for event in stream]
        return events, await stream.get_final_response()


@pytest.mark.requirement("HOSTED/compat-sdk-openai")
async def test_the_openai_sdk_streams_a_call_of_an_mcp_tool(sdk_url: str) -> None:
    async with serving(called("add", ADD), said("5")) as (client, _):
        tool = server(sdk_url, require_approval="never")
        events, response = await streamed(client, tools=[tool])
    listed, call, _ = response.output
    assert isinstance(listed, McpListTools)
    assert isinstance(call, McpCall)
    assert (call.name, call.arguments, call.output, call.status) == ("add", ADD, "5", "completed")
    [done] = [event for event in events if isinstance(event, ResponseMcpCallArgumentsDoneEvent)]
    assert (done.item_id, done.arguments) == (call.id, ADD)
    assert [event.type for event in events if event.type.startswith("response.mcp_call.")] == [
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
    ]
    assert response.output_text == "5"


@pytest.mark.requirement("HOSTED/compat-sdk-openai")
async def test_the_openai_sdk_approves_a_call(sdk_url: str) -> None:
    async with serving(called("add", ADD), said("5")) as (client, _):
        tool = server(sdk_url)
        first = await client.responses.create(model="m", input="hi", tools=[tool])
        request = first.output[-1]
        assert isinstance(request, McpApprovalRequest)
        answer: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        second = await client.responses.create(
            model="m", input=[answer], previous_response_id=first.id, tools=[tool]
        )
    call = second.output[0]
    assert isinstance(call, McpCall)
    assert (call.output, call.approval_request_id, second.output_text) == ("5", request.id, "5")


@pytest.mark.requirement("HOSTED/compat-sdk-openai")
@pytest.mark.usefixtures("sandbox")
async def test_the_openai_sdk_streams_a_run_of_code() -> None:
    async with serving(called("python", CODE), said("42")) as (client, backend):
        events, response = await streamed(client, tools=[PYTHON], include=["code_interpreter_call.outputs"])
    call = response.output[0]
    assert isinstance(call, ResponseCodeInterpreterToolCall)
    assert call.outputs
    assert call.outputs[0].to_dict() == {"type": "logs", "logs": "42\n"}
    [done] = [event for event in events if isinstance(event, ResponseCodeInterpreterCallCodeDoneEvent)]
    assert (done.item_id, done.code) == (call.id, "print(6 * 7)")
    assert outputs(backend) == ["42"]
    assert response.output_text == "42"


@pytest.mark.requirement("HOSTED/compat-sdk-openai", "HOSTED/containers-shell")
@pytest.mark.usefixtures("sandbox")
async def test_the_openai_sdk_streams_commands_in_a_container() -> None:
    tool: Any = {"type": "shell", "environment": {"type": "container_auto"}}
    async with serving(called("shell", '{"commands": ["echo 42", "false"]}'), said("42")) as (client, _):
        events, response = await streamed(client, tools=[tool])
    call, output, _ = response.output
    assert isinstance(call, ResponseFunctionShellToolCall)
    assert isinstance(call.environment, ResponseContainerReference)
    assert isinstance(output, ResponseFunctionShellToolCallOutput)
    assert (output.call_id, [one.stdout for one in output.output]) == (call.call_id, ["42\n", ""])
    assert [one.outcome.to_dict() for one in output.output] == [
        {"type": "exit", "exit_code": 0},
        {"type": "exit", "exit_code": 1},
    ]
    [printed] = [one for one in events if isinstance(one, ResponseShellCallOutputContentDeltaEvent)]
    assert (printed.item_id, printed.delta.stdout) == (output.id, "42\n")


@pytest.mark.requirement("HOSTED/compat-sdk-openai")
async def test_the_openai_sdk_streams_a_search_of_the_web() -> None:
    async with serving(SEARCH, said("Blue [1].")) as (client, _):
        events, response = await streamed(client, tools=[{"type": "web_search"}])
    call = response.output[0]
    assert isinstance(call, ResponseFunctionWebSearch)
    assert call.action is not None
    assert call.action.to_dict()["query"] == "why blue"
    [added] = [event for event in events if isinstance(event, ResponseOutputTextAnnotationAddedEvent)]
    cited: Any = added.annotation
    assert cited.to_dict()["url"] == PAGES[0][0]
    assert response.output_text == f"Blue {LINK}."


def agent(client: Any, *tools: Any) -> Agent[None]:
    return Agent(name="a", model=OpenAIResponsesModel("m", client), tools=list(tools))


QUIET = RunConfig(tracing_disabled=True)


@pytest.mark.requirement("HOSTED/compat-sdk-agents")
@pytest.mark.parametrize("approve", [True, False])
async def test_the_agents_sdk_asks_its_callback_for_an_approval(sdk_url: str, approve: bool) -> None:
    asked: list[str] = []

    def decide(request: MCPToolApprovalRequest) -> Any:
        asked.append(f"{request.data.name} {request.data.arguments}")
        return {"approve": approve, "reason": "not today"}

    async with serving(called("add", ADD), said("Done.")) as (client, backend):
        tool = HostedMCPTool(
            tool_config=server(sdk_url, require_approval="always"), on_approval_request=decide
        )
        result = await Runner.run(agent(client, tool), "hi", run_config=QUIET)
    assert (asked, result.final_output) == ([f"add {ADD}"], "Done.")
    kinds = [type(item) for item in result.new_items]
    assert {MCPListToolsItem, MCPApprovalRequestItem, MCPApprovalResponseItem} <= set(kinds)
    assert outputs(backend) == (
        ["5"] if approve else ["The user refused this call, so it was not run. The reason: not today"]
    )


@pytest.mark.requirement("HOSTED/compat-sdk-agents")
@pytest.mark.usefixtures("sandbox")
async def test_the_agents_sdk_runs_code() -> None:
    async with serving(called("python", CODE), said("42")) as (client, backend):
        tool = CodeInterpreterTool(tool_config=PYTHON)
        result = await Runner.run(agent(client, tool), "hi", run_config=QUIET)
    [call] = [item.raw_item for item in result.new_items if isinstance(item, ToolCallItem)]
    assert isinstance(call, ResponseCodeInterpreterToolCall)
    assert (call.code, outputs(backend), result.final_output) == ("print(6 * 7)", ["42"], "42")


@pytest.mark.requirement("HOSTED/compat-sdk-agents")
async def test_the_agents_sdk_searches_files_and_the_web() -> None:
    looked = called("file_search", '{"queries": ["warranty of a kettle"]}')
    async with serving(looked, SEARCH, said("Two years [1]. Blue [2].")) as (client, _):
        store_id = await warranty_store(client)
        tools = [
            FileSearchTool(vector_store_ids=[store_id], include_search_results=True),
            WebSearchTool(search_context_size="low"),
        ]
        stream = Runner.run_streamed(agent(client, *tools), "hi", run_config=QUIET)
        events = [event async for event in stream.stream_events()]
    files, web = [item.raw_item for item in stream.new_items if isinstance(item, ToolCallItem)]
    assert isinstance(files, ResponseFileSearchToolCall)
    assert files.results
    assert "lasts two years" in (files.results[0].text or "")
    assert isinstance(web, ResponseFunctionWebSearch)
    assert events
    assert stream.final_output == f"Two years . Blue {LINK}."


@pytest.mark.requirement("HOSTED/compat-sdk-langchain")
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("streaming", [False, True])
async def test_langchain_binds_built_in_tools(sdk_url: str, streaming: bool) -> None:
    turns = [SEARCH, called("python", CODE), called("add", ADD), said("Blue [1], 42, 5."), said("Yes.")]
    async with serving(*turns) as (client, backend):
        chat: Any = ChatOpenAI(
            model="m",
            use_responses_api=True,
            streaming=streaming,
            async_client=client.responses,
            root_async_client=client,
            api_key="none",  # pyright: ignore[reportArgumentType]
        )
        tools = [{"type": "web_search"}, PYTHON, server(sdk_url, require_approval="never")]
        bound = chat.bind_tools(tools)
        first: Any = await bound.ainvoke("hi")
        assert first.text == f"Blue {LINK}, 42, 5."
        kinds = [block["type"] for block in first.content]
        assert kinds == [
            "mcp_list_tools",
            "web_search_call",
            "code_interpreter_call",
            "mcp_call",
            "text",
        ]
        assert first.content[3]["output"] == "5"
        assert first.content[-1]["annotations"][0]["url"] == PAGES[0][0]
        second: Any = await bound.ainvoke("And?", previous_response_id=first.response_metadata["id"])
    assert second.text == "Yes."
    assert len(outputs(backend)) == 3, "the results are still in the context"
