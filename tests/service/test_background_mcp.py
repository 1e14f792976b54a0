"""Calls of MCP tools in the background: none runs twice."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import SCOPES, Caller
from antiphon.isolated.pool import IsolatedPool
from antiphon.jobs.worker import Worker
from antiphon.mcp.port import CallOutcome, McpServer, McpTool
from antiphon.protocol.items import FunctionCall
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.tool_items import AdditionalTools
from antiphon.service.background import Background
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools.mcp.tool import McpServed
from antiphon.store.base import ApiKey, Conversation
from antiphon.turn.chunks import TextDelta
from tests.service.conftest import MakeCreator
from tests.service.responses.mcp_world import ANSWER, CALLER, call, calls, outputs
from tests.service.responses.test_tool_policy import audited
from tests.service.test_background import Stalling, followed
from tests.turn.order import check_order

TOOL: dict[str, Any] = {
    "type": "mcp",
    "server_label": "shop",
    "server_url": "https://shop.example/mcp",
    "authorization": "a-secret-of-the-client",
    "require_approval": "never",
}
BUY = calls(call("buy", item="tea"), call("buy", 1, item="milk"))
Make = Callable[..., Background]


class Shop:
    """A server whose tool has effects."""

    def __init__(self) -> None:
        self.bought: list[Any] = []
        self.gate = asyncio.Event()
        self.sells_milk = asyncio.Event()

    async def list_tools(self, tenant: str, server: McpServer) -> tuple[McpTool, ...]:
        return (McpTool("buy", {"type": "object"}),)

    async def call_tool(
        self, tenant: str, server: McpServer, name: str, arguments: Mapping[str, Any], **_: Any
    ) -> CallOutcome:
        self.bought.append(arguments["item"])
        if arguments["item"] == "milk":
            self.sells_milk.set()
            await self.gate.wait()
        return CallOutcome(f"{arguments['item']} is bought")

    async def aclose(self) -> None: ...


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def make(make_creator: MakeCreator, shop: Shop) -> AsyncGenerator[Make, None]:
    """Builds background services that share one store."""
    services: list[Background] = []
    pool = IsolatedPool()

    def one(*turns: Any, **options: Any) -> Background:
        backend = ScriptedBackend(*(turn if isinstance(turn, Stalling) else [list(turn)] for turn in turns))
        creator = make_creator(backend, served_tools=(McpServed(shop, Checks(pool)),), **options)
        jobs = Worker(creator.store.jobs, creator.store.signals, owner=f"process {len(services)}")
        services.append(Background(creator, jobs))
        return services[-1]

    yield one
    for background in services:
        await background.jobs.aclose()
    await pool.aclose()


async def submit(background: Background, caller: Caller = CALLER, **params: Any) -> str:
    body = msgspec.json.encode(
        {"model": "m", "input": "Buy tea and milk.", "background": True, "tools": [TOOL], **params}
    )
    return (await background.submit(parse_create(body), body, caller)).id


def backend_of(background: Background) -> ScriptedBackend:
    backend = background.creator.router.routes("m")[0].backend
    assert isinstance(backend, ScriptedBackend)
    return backend


async def resumed(background: Background, response_id: str) -> list[dict[str, Any]]:
    background.jobs.adopt()
    async with asyncio.timeout(10):
        events = await followed(background, response_id)
    check_order(events)
    return events


async def milk_is_sold(shop: Shop) -> None:
    async with asyncio.timeout(10):
        await shop.sells_milk.wait()


@pytest.mark.requirement("HOSTED/mcp-resume")
async def test_no_call_runs_twice_after_a_crash(make: Make, shop: Shop, monkeypatch: Any) -> None:
    first = make(BUY, BUY)  # the first turn is prepared twice: it is checked when it is submitted
    response_id = await submit(first)
    await milk_is_sold(shop)
    # The process ends without storing anything more: the start of the second call must be stored by now.
    monkeypatch.setattr("antiphon.service.event_log.EventLog.flush", _nothing)
    with suppress(Exception):
        await first.jobs.aclose()
    monkeypatch.undo()

    second = make(ANSWER)
    events = await resumed(second, response_id)
    response = events[-1]["response"]
    items = response["output"]
    assert [(item["type"], item["status"]) for item in items] == [
        ("mcp_list_tools", "completed"),
        ("mcp_call", "completed"),
        ("mcp_call", "incomplete"),
        ("message", "completed"),
    ]
    assert items[2]["arguments"] == '{"item":"milk"}'
    assert shop.bought == ["tea", "milk"]
    tea, milk = outputs(backend_of(second))
    assert tea == "tea is bought"
    assert "its outcome is unknown" in milk
    shown = [item for item in backend_of(second).turns[0].items if isinstance(item, FunctionCall)]
    assert [item.arguments for item in shown] == ['{"item":"tea"}', '{"item":"milk"}']
    assert b"a-secret-of-the-client" not in msgspec.json.encode(events)


async def _nothing(_self: object) -> None: ...


@pytest.mark.requirement("HOSTED/mcp-resume", "HOSTED/mcp-approvals")
async def test_an_approved_call_that_was_cut_off_is_not_run_again(make: Make, shop: Shop) -> None:
    asking = {**TOOL, "require_approval": "always"}
    ask = calls(call("buy", item="milk"))
    first = make(ask, ask, ANSWER, ANSWER)
    asked = await resumed(first, await submit(first, tools=[asking]))
    before = asked[-1]["response"]
    request = before["output"][-1]
    assert (before["status"], request["type"], shop.bought) == ("completed", "mcp_approval_request", [])
    answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
    response_id = await submit(first, tools=[asking], previous_response_id=before["id"], input=[answer])
    await milk_is_sold(shop)
    with suppress(Exception):
        await first.jobs.aclose()

    second = make(ANSWER)
    events = await resumed(second, response_id)
    called, _message = events[-1]["response"]["output"]
    assert (called["status"], called["approval_request_id"]) == ("incomplete", request["id"])
    assert shop.bought == ["milk"]
    assert "its outcome is unknown" in outputs(backend_of(second))[0]


async def stored_key(background: Background, *tools: str) -> Caller:
    """The caller with a key that may use these hosted tools."""
    key = ApiKey(
        id="key_1", tenant="t", name="n", digest="d", scopes=SCOPES, created_at=1, tools=tuple(tools)
    )
    await background.creator.store.keys.add_key(key)
    return Caller("t", frozenset(SCOPES), key.id, frozenset(tools))


@pytest.mark.requirement("HOSTED/policy-audit")
async def test_the_audit_log_names_the_key_in_every_attempt(
    make: Make, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "antiphon.audit")
    first = make(BUY, BUY)  # the first turn is prepared twice: it is checked when it is submitted
    response_id = await submit(first, await stored_key(first, "mcp:shop.example"))
    await milk_is_sold(shop)
    with suppress(Exception):
        await first.jobs.aclose()
    shop.gate.set()
    await resumed(make(calls(call("buy", item="bread")), ANSWER), response_id)
    assert [(each["key"], each["response"]) for each in audited(caplog)] == [("key_1", response_id)] * 3


@pytest.mark.requirement("HOSTED/policy-keys")
@pytest.mark.parametrize("deleted", [False, True])
async def test_tools_that_a_conversation_gets_meanwhile_are_checked_too(
    make: Make, shop: Shop, deleted: bool
) -> None:
    """The lock of a conversation lapses while a response waits for its turn."""
    stalling = Stalling([TextDelta("Let me")])
    first = make(stalling)
    store = first.creator.store
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [])
    caller = await stored_key(first, "web_search")
    response_id = await submit(first, caller, tools=[], conversation="conv_1")
    async with asyncio.timeout(10):
        await stalling.steps_sent.wait()
        await first.jobs.aclose()
    await store.conversations.leave("t", "conv_1", response_id)
    added = AdditionalTools(id="at_1", tools=[TOOL])
    await store.conversations.add_items("t", "conv_1", [added])
    if deleted:
        await store.keys.delete_keys([caller.key_id or ""])

    events = await resumed(make(BUY, ANSWER), response_id)
    response = events[-1]["response"]
    assert response["status"] == "failed"
    assert "may not use the MCP server 'shop.example'" in response["error"]["message"]
    assert shop.bought == []


async def sealed_tools(background: Background, response_id: str) -> str | None:
    """The credentials that a continuation would inherit."""
    return (await background.creator.store.responses.continuation("t", response_id)).sealed_tools


@pytest.mark.parametrize("inherited", [False, True])
async def test_credentials_are_kept_after_the_end_only_if_a_continuation_may_inherit_them(
    make: Make, shop: Shop, inherited: bool
) -> None:
    first = make(BUY, BUY, inherit_tools=inherited)
    interrupted, cancelled = await submit(first), await submit(first)
    await milk_is_sold(shop)
    with suppress(Exception):
        await first.jobs.aclose()

    second = make(calls(call("buy", item="bread")), ANSWER, inherit_tools=inherited)
    response = await second.cancel(CALLER, cancelled)
    assert response.status == "cancelled"
    events = await resumed(second, interrupted)
    assert events[-1]["response"]["status"] == "completed"
    assert shop.bought[-1] == "bread"
    for response_id in (interrupted, cancelled):
        assert (await sealed_tools(second, response_id) is not None) is inherited
