"""The hosted tools that a key may use, and the audit log of their calls."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from antiphon.caller import SCOPES, Caller
from antiphon.errors import BackendUnreachable, Forbidden
from antiphon.protocol.parse_create import create_from
from antiphon.service.hosted_tools.calls import HostedLimits
from tests.service.passages import ScriptedPassages
from tests.service.responses.searches import ANSWER, LOOK, SEARCH, TOOL, MakeSearching

MCP = {"type": "mcp", "server_label": "notes", "server_url": "https://mcp.example.com/mcp"}
LABELLED = {"type": "mcp", "server_label": "notes"}
WEB = {"type": "web_search_preview"}


def limited(*tools: str) -> Caller:
    return Caller("t", frozenset(SCOPES), "key_1", frozenset(tools))


@pytest.mark.requirement("HOSTED/policy-keys")
@pytest.mark.parametrize(
    ("allowed", "tool", "named"),
    [
        ([], TOOL, "the tool 'file_search'"),
        (["mcp"], TOOL, "the tool 'file_search'"),
        (["file_search"], MCP, "the MCP server 'mcp.example.com'"),
        (["mcp:notes"], MCP, "the MCP server 'mcp.example.com'"),
        (["mcp:mcp.example.com"], LABELLED, "the MCP server 'notes'"),
        (["mcp:example.com"], MCP, "the MCP server 'mcp.example.com'"),
        (["mcp:"], {**MCP, "server_url": "https://["}, "the tool 'mcp'"),
        (["file_search"], WEB, "the tool 'web_search'"),
        (["file_search"], {"type": "code_interpreter", "container": "cntr_1"}, "the tool 'code_interpreter'"),
    ],
)
async def test_a_tool_that_the_key_may_not_use_is_refused_before_any_event(
    searching: MakeSearching, allowed: list[str], tool: dict[str, Any], named: str
) -> None:
    creator, backend = searching(ANSWER)
    request = create_from(model="m", input="Why?", tools=[LOOK, tool])
    with pytest.raises(Forbidden, match=f"may not use {named}") as refused:
        await creator.start(request, limited(*allowed)).result()
    assert (refused.value.status, refused.value.code, refused.value.param) == (
        403,
        "tool_not_allowed",
        "tools[1]",
    )
    assert backend.turns == []


@pytest.mark.parametrize(
    ("allowed", "tools"),
    [
        (["file_search"], [TOOL, LOOK]),
        (["web_search", "file_search"], [TOOL, WEB]),
        ([], [LOOK]),
        ([], []),
    ],
)
async def test_other_tools_are_not_affected(
    searching: MakeSearching, allowed: list[str], tools: list[dict[str, Any]]
) -> None:
    creator, _ = searching(ANSWER, ignored_tools=frozenset({"web_search_preview"}))
    request = create_from(model="m", input="Why?", tools=tools)
    response = await creator.start(request, limited(*allowed)).result()
    assert response.status == "completed"


async def test_inherited_tools_are_checked(searching: MakeSearching) -> None:
    creator, _ = searching(ANSWER, ANSWER)
    request = create_from(model="m", input="Why?", tools=[TOOL])
    first = await creator.start(request, Caller.of("t")).result()
    request = create_from(model="m", input="And?", previous_response_id=first.id)
    with pytest.raises(Forbidden, match="'file_search'"):
        await creator.start(request, limited("mcp")).result()


async def test_a_background_response_is_checked_when_it_is_submitted(searching: MakeSearching) -> None:
    creator, _ = searching(ANSWER)
    request = create_from(model="m", input="Why?", tools=[TOOL], background=True)
    with pytest.raises(Forbidden, match="'file_search'"):
        await creator.draft(request, limited()).check()


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    records = (record.getMessage() for record in caplog.records if record.name == "antiphon.audit")
    return [dict(word.split("=", 1) for word in record.split()) for record in records]


@pytest.mark.requirement("HOSTED/policy-audit")
async def test_every_call_is_in_the_audit_log_without_its_content(
    searching: MakeSearching, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    creator, _ = searching(SEARCH, ANSWER)
    request = create_from(model="m", input="Why?", tools=[TOOL])
    response = await creator.start(request, limited("file_search")).result()
    (record,) = audited(caplog)
    assert float(record.pop("seconds")) >= 0
    assert record == {
        "tool": "file_search",
        "name": "file_search",
        "tenant": "t",
        "key": "key_1",
        "response": response.id,
        "outcome": "completed",
    }
    assert "blue" not in caplog.text


async def test_the_audit_log_has_calls_that_fail_time_out_or_are_cancelled(
    searching: MakeSearching,
    passages: ScriptedPassages,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    request = create_from(model="m", input="Why?", tools=[TOOL])
    passages.found = BackendUnreachable("The embedding model cannot be reached.")
    creator, _ = searching(SEARCH, ANSWER)
    await creator.start(request, Caller.of("t")).result()
    passages.gate = asyncio.Event()
    creator, _ = searching(SEARCH, ANSWER, hosted=HostedLimits(call_seconds=0.01))
    await creator.start(request, Caller.of("t")).result()
    passages.searched = asyncio.Event()
    creator, _ = searching(SEARCH, ANSWER)
    leaving = asyncio.create_task(creator.start(request, Caller.of("t")).result())
    async with asyncio.timeout(5):
        await passages.searched.wait()
    leaving.cancel()
    with suppress(asyncio.CancelledError):
        await leaving
    assert [record["outcome"] for record in audited(caplog)] == ["failed", "timeout", "cancelled"]
