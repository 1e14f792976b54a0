"""Blocks of server tools in the history of a Messages request, and declarations of such tools."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item
from antiphon.protocol.tool_items import CodeInterpreterCall, McpCall, WebSearchCall
from antiphon.protocol.tools import FunctionTool, HostedTool, ToolRef
from antiphon.server.compat.api import CompatRequest
from antiphon.server.compat.messages.request import read_messages
from antiphon.server.compat.messages.server_blocks import (
    CitedPages,
    result_block,
    use_block,
    use_input,
)
from antiphon.turn.sealing import SealKey

KEY = SealKey(b"secret", bytes)
SEALER = KEY.sealer("acme")
USER = {"role": "user", "content": "hi"}
PAGE = {"url": "https://a.example/", "title": "A", "text": "Text.", "antiphon": {"function": "web_search"}}
CONTAINER = "cntr_" + "0" * 44
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
CODE = {"type": "code_execution_20250522", "name": "code_execution"}
SERVER = {"type": "url", "name": "s", "url": "https://mcp.example/"}

CALLS = [
    WebSearchCall(
        id="ws_1",
        status="completed",
        action={"type": "search", "query": "a", "queries": ["a", "b"]},
        results=[PAGE],
    ),
    WebSearchCall(
        id="ws_2",
        status="completed",
        action={"type": "find_in_page", "url": "https://a.example/", "pattern": "x"},
        results=[PAGE],
    ),
    CodeInterpreterCall(
        id="ci_1",
        status="completed",
        code="print(1)",
        container_id=CONTAINER,
        outputs=[{"type": "logs", "logs": "1"}],
    ),
    McpCall(
        id="mcp_1",
        status="completed",
        server_label="s",
        name="add",
        arguments='{"a":1}',
        output="2",
        error=None,
    ),
    McpCall(
        id="mcp_2",
        status="failed",
        server_label="s",
        name="add",
        arguments="{}",
        output=None,
        error="it broke",
    ),
]


def parse(*content: Any, **params: Any) -> CompatRequest:
    messages: list[Any] = [{"role": "assistant", "content": list(content)}] if content else []
    body = {"model": "m", "max_tokens": 9, "messages": [*messages, USER], **params}
    return read_messages(msgspec.json.encode(body), SEALER)[0]


def read(*content: Any) -> tuple[list[Item], list[str]]:
    question = parse(*content)
    return list(question.request.items[:-1]), rendered(question.downgrades)


@pytest.mark.requirement("HOSTED/compat-messages-history")
@pytest.mark.parametrize("call", CALLS)
def test_a_call_survives_its_blocks(call: WebSearchCall | CodeInterpreterCall | McpCall) -> None:
    blocks = [{**use_block(call), "input": use_input(call)}, result_block(call, SEALER)]
    assert read(*blocks) == ([msgspec.structs.replace(call, id=msgspec.UNSET)], [])


def test_results_of_other_servers_and_tenants_are_left_out() -> None:
    call = CALLS[0]
    use = {**use_block(call), "input": use_input(call)}
    foreign = result_block(call, KEY.sealer("other"))
    reported = "results of searches that were not made here are left out: their text is encrypted"
    assert read(use, foreign) == ([], [reported])


def test_the_model_is_told_of_a_search_without_pages() -> None:
    use = {"type": "server_tool_use", "id": "u", "name": "web_search", "input": {"query": "q"}}
    result: Any = {"type": "web_search_tool_result", "tool_use_id": "u", "content": []}
    [item], downgrades = read(use, result)
    assert isinstance(item, WebSearchCall)
    assert isinstance(item.results, list)
    assert item.results[0]["note"] == "No pages of this search are known. Search again if you need them."
    assert downgrades == []


@pytest.mark.parametrize(
    ("name", "given", "result", "code", "output"),
    [
        ("code_execution", {"code": "1/0"}, {"type": "code_execution_result", "stdout": "a", "stderr": "b", "return_code": 1, "content": []}, "1/0", "a\nb"),
        ("bash_code_execution", {"command": "ls"}, {"type": "bash_code_execution_result", "stdout": "a", "stderr": "", "return_code": 0, "content": []}, "!ls", "a"),
        ("code_execution", {"code": "1"}, {"type": "code_execution_tool_result_error", "error_code": "unavailable"}, "1", "The code could not be run: unavailable"),
    ],
)  # fmt: skip
def test_a_run_on_another_server_is_a_call_of_a_function(
    name: str, given: Any, result: Any, code: str, output: str
) -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": given}
    block = {"type": f"{name}_tool_result", "tool_use_id": "srvtoolu_1", "content": result}
    arguments = msgspec.json.encode({"code": code}).decode()
    assert read(use, block)[0] == [
        FunctionCall(call_id="srvtoolu_1", name="python", arguments=arguments),
        FunctionCallOutput(call_id="srvtoolu_1", output=output),
    ]


UNREADABLE: list[Any] = [
        ([{"type": "server_tool_use", "id": "u", "name": "web_search", "input": {}}], "calls of server tools without a result are left out"),
        ([{"type": "mcp_tool_result", "tool_use_id": "u", "content": "x"}], "content blocks of type 'mcp_tool_result' without their call are left out"),
        ([{"type": "web_fetch_tool_result", "tool_use_id": "u", "content": {}}], "content blocks of type 'web_fetch_tool_result' are left out: this model cannot read them"),
]  # fmt: skip


@pytest.mark.parametrize(("blocks", "reported"), UNREADABLE)
def test_blocks_that_cannot_be_shown_are_reported(blocks: list[Any], reported: str) -> None:
    assert read(*blocks) == ([], [reported])


def test_a_list_of_tools_is_not_needed() -> None:
    assert read({"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": []}) == ([], [])


def test_pages_without_a_known_text_are_not_cited() -> None:
    call = CALLS[0]
    assert isinstance(call, WebSearchCall)
    pages = CitedPages([call])
    assert pages.has({"type": "url_citation", "url": PAGE["url"]})
    assert pages.citation({"type": "url_citation", "url": "https://other.example/"}, SEALER) is None


@pytest.mark.parametrize(
    ("tools", "limit", "reported"),
    [
        ([{**SEARCH, "max_uses": 2}], 2, False),
        ([{**SEARCH, "max_uses": 2}, CODE], None, True),
        ([SEARCH], None, False),
    ],
)
def test_max_uses_limits_the_calls_if_every_tool_has_it(
    tools: list[Any], limit: int | None, reported: bool
) -> None:
    question = parse(tools=tools)
    assert question.request.params.max_tool_calls == limit
    assert bool(question.downgrades) == reported


CHOICES: list[Any] = [
    ([SEARCH], "web_search", ToolRef("web_search")),
    ([CODE], "code_execution", ToolRef("code_interpreter")),
    ([{"name": "web_search", "input_schema": {}}], "web_search", ToolRef("function", "web_search")),
    ([CODE], "web_search", ToolRef("function", "web_search")),
]


@pytest.mark.parametrize(("tools", "name", "choice"), CHOICES)
def test_a_server_tool_is_chosen_by_its_name(tools: list[Any], name: str, choice: ToolRef) -> None:
    chosen = parse(tools=tools, tool_choice={"type": "tool", "name": name}).request.tool_choice
    assert chosen == choice


def toolset(**members: Any) -> dict[str, Any]:
    return {"type": "mcp_toolset", "mcp_server_name": "s", **members}


@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        ({"tools": [toolset()]}, None),
        ({"tools": [toolset(default_config={"enabled": False}, configs={"a": {"enabled": True}, "b": {}})]}, ["a"]),
        ({"tools": [toolset(tools=[{"name": "a"}, {"name": "b"}], configs={"b": {"enabled": False}})]}, ["a"]),
        ({}, None),
    ],
)  # fmt: skip
def test_a_server_and_its_tools(params: Any, allowed: list[str] | None) -> None:
    question = parse(mcp_servers=[{**SERVER, "authorization_token": "t"}], **params)
    [tool] = question.request.tools
    assert isinstance(tool, HostedTool)
    assert tool.complete.get("allowed_tools") == allowed
    assert (tool.complete["authorization"], tool.complete["require_approval"]) == ("t", "never")
    assert "authorization" not in tool.body
    assert question.names.params["tools[0].server_url"] == "mcp_servers[0].url"


def test_a_server_that_is_not_enabled_has_no_tools() -> None:
    own: Any = {"name": "f", "input_schema": {}}
    question = parse(mcp_servers=[{**SERVER, "tool_configuration": {"enabled": False}}], tools=[own])
    assert [type(tool) for tool in question.request.tools] == [FunctionTool]


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"mcp_servers": [{**SERVER, "name": "not valid"}]}, "mcp_servers[0].name"),
        ({"mcp_servers": [SERVER] * 21}, "mcp_servers"),
        ({"mcp_servers": [SERVER, {**SERVER, "name": "t"}], "tools": [toolset()]}, "mcp_servers[1]"),
        ({"mcp_servers": [SERVER], "tools": [toolset(), toolset()]}, "tools[1].mcp_server_name"),
        (
            {"mcp_servers": [SERVER], "tools": [toolset(configs={"a": {"enabled": False}})]},
            "tools[0].configs",
        ),
    ],
)
def test_servers_that_cannot_be_used_as_declared_are_refused(params: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(**params)
    assert refused.value.param == param


def test_a_container_without_code_execution_is_reported() -> None:
    assert rendered(parse(container=CONTAINER).downgrades) == ["not used here: container"]
