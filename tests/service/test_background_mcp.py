"""Calls of MCP tools in the background: none runs twice."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.isolated.pool import IsolatedPool
from antiphon.jobs.worker import Worker
from antiphon.mcp.port import CallOutcome, McpServer, McpTool
from antiphon.protocol.items import FunctionCall
from antiphon.protocol.parse_create import parse_create
from antiphon.service.background import Background
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools.mcp.tool import McpServed
from tests.service.conftest import MakeCreator
from tests.service.responses.mcp_world import ANSWER, CALLER, call, calls, outputs
from tests.service.test_background import followed
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

    def one(*turns: Any) -> Background:
        backend = ScriptedBackend(*([list(turn)] for turn in turns))
        creator = make_creator(backend, served_tools=(McpServed(shop, Checks(pool)),))
        jobs = Worker(creator.store.jobs, creator.store.signals, owner=f"process {len(services)}")
        services.append(Background(creator, jobs))
        return services[-1]

    yield one
    for background in services:
        await background.jobs.aclose()
    await pool.aclose()


async def submit(background: Background, **params: Any) -> str:
    body = msgspec.json.encode(
        {"model": "m", "input": "Buy tea and milk.", "background": True, "tools": [TOOL], **params}
    )
    return (await background.submit(parse_create(body), body, CALLER)).id


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
