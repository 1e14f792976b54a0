"""The agent routes: approvals of runs in the background."""

import asyncio
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.settings import AgentSettings
from antiphon.tools.declaration import ServerTool
from tests.server.agent_server import AgentServer, calling, open_agent_server, text_turn, types_of

PAID: list[int] = []


def pay(amount: int) -> str:
    """Pay."""
    PAID.append(amount)
    return "paid"


PAY = ServerTool.from_function(pay, needs_approval=True)
PAYING = AgentSettings(model="m", tools=("tests.server.test_agent_approvals:PAY",))


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


def paying() -> ScriptedBackend:
    return ScriptedBackend(calling("pay", '{"amount":5}'), text_turn("Done."))


async def waiting(server: AgentServer) -> str:
    run = await server.submit(instruction="Pay five.")
    path = f"/v1/agent/runs/{run['id']}"
    async with asyncio.timeout(10):
        while (await server.client.get(path)).json()["status"] != "waiting":  # noqa: ASYNC110 -- seen from outside
            await asyncio.sleep(0.01)
    return path


async def answer(server: AgentServer, path: str, **body: Any) -> Any:
    return await server.client.post(f"{path}/approvals", json={"approval_request_id": "call_1", **body})


@pytest.mark.requirement("HOSTED/mcp-agent-approvals")
async def test_a_run_waits_and_continues_after_the_approval() -> None:
    async with open_agent_server(paying(), agent=PAYING) as server:
        path = await waiting(server)
        shown = (await server.client.get(path)).json()
        assert (shown["tree"]["state"], shown["ended_at"]) == ("waiting", None)
        assert shown["tree"]["approvals"] == [
            {
                "id": "call_1",
                "kind": "agent",
                "name": "pay",
                "arguments": '{"amount":5}',
                "server_label": None,
            }
        ]
        assert PAID == []
        assert (await answer(server, path, approve=True)).status_code == 200
        events = await server.followed(path.rpartition("/")[2])
        assert types_of(events)[-1] == "agent.completed"
        assert "agent.waiting" in types_of(events)
        assert "agent.approval.answered" in types_of(events)
    assert PAID == [5]


async def test_a_rejected_call_does_not_run() -> None:
    async with open_agent_server(paying(), agent=PAYING) as server:
        path = await waiting(server)
        await answer(server, path, approve=False, reason="too much")
        events = await server.followed(path.rpartition("/")[2])
        [ended] = [event for event in events if event["type"] == "agent.tool.completed"]
        assert ended["outcome"] == "rejected"
        assert "too much" in ended["output"]
    assert PAID == []


async def test_an_answer_counts_once_even_if_two_are_sent_at_the_same_time() -> None:
    async with open_agent_server(paying(), agent=PAYING) as server:
        path = await waiting(server)
        both = await asyncio.gather(answer(server, path, approve=True), answer(server, path, approve=False))
        assert sorted(each.status_code for each in both) == [200, 400]
        [refused] = [each.json()["error"] for each in both if each.status_code == 400]
        assert (refused["code"], refused["param"]) == ("already_answered", "approval_request_id")
        await server.followed(path.rpartition("/")[2])
        late = (await answer(server, path, approve=True)).json()["error"]
        assert late["code"] == "already_answered"


async def test_an_answer_to_nothing_is_refused() -> None:
    async with open_agent_server(paying(), agent=PAYING) as server:
        path = await waiting(server)
        unknown = await answer(server, path, approve=True, approval_request_id="call_9")
        assert unknown.status_code == 404
        assert (await answer(server, "/v1/agent/runs/run_none", approve=True)).status_code == 404
        invalid = await answer(server, path, approve="yes")
        assert (invalid.status_code, invalid.json()["error"]["param"]) == (400, "approve")
        long = await answer(server, path, approve=False, reason="x" * 10_001)
        assert (long.status_code, long.json()["error"]["param"]) == (400, "reason")


async def test_a_waiting_run_can_be_cancelled_and_takes_no_answer_then() -> None:
    async with open_agent_server(paying(), agent=PAYING) as server:
        path = await waiting(server)
        assert (await server.client.post(f"{path}/cancel")).json()["status"] == "cancelled"
        refused = await answer(server, path, approve=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "run_ended")
    assert PAID == []


async def test_a_setting_makes_a_tool_need_an_approval() -> None:
    agent = AgentSettings(model="m", tools=("tests.server.agent_server:add",), approve_tools=("add",))
    backend = ScriptedBackend(calling("add", '{"a":1,"b":2}'), text_turn("It is 3."))
    async with open_agent_server(backend, agent=agent) as server:
        answer = await server.client.post("/v1/agent/execute", json={"instruction": "Add."})
        assert answer.json()["finishReason"] == "approval_required"
        [request] = answer.json()["approvals"]
        continued = await server.client.post(
            "/v1/agent/execute",
            json={
                "responseContinuationId": answer.json()["responseContinuationId"],
                "approvals": [{"id": request["id"], "approve": True}],
            },
        )
        assert continued.json()["text"] == "It is 3."


async def listed(server: AgentServer, query: str = "", **headers: Any) -> Any:
    return (await server.client.get(f"/v1/approvals{query}", **headers)).json()


async def test_waiting_runs_are_listed_until_they_are_answered() -> None:
    async with open_agent_server(paying(), agent=PAYING) as server:
        path = await waiting(server)
        run_id = path.rpartition("/")[2]
        [entry] = (await listed(server))["data"]
        assert entry.pop("created_at") > 0
        assert entry == {
            "object": "approval",
            "id": "call_1",
            "kind": "agent",
            "run_id": run_id,
            "server_label": None,
            "name": "pay",
            "arguments": '{"amount":5}',
        }
        await answer(server, path, approve=False)
        assert (await listed(server))["data"] == []
        invalid = await server.client.get("/v1/approvals?limit=101")
        assert (invalid.status_code, invalid.json()["error"]["param"]) == (400, "limit")


async def test_another_tenant_sees_no_approvals_and_answers_none() -> None:
    async with open_agent_server(paying(), agent=PAYING) as server:
        owner, other = await server.new_key("owner"), await server.new_key("stranger")
        run = await server.client.post("/v1/agent/runs", json={"instruction": "Pay."}, headers=owner)
        path = f"/v1/agent/runs/{run.json()['id']}"
        async with asyncio.timeout(10):
            while not (await listed(server, headers=owner))["data"]:  # noqa: ASYNC110 -- seen from outside
                await asyncio.sleep(0.01)
        assert (await listed(server, headers=other))["data"] == []
        body = {"approval_request_id": "call_1", "approve": True}
        foreign = await server.client.post(f"{path}/approvals", json=body, headers=other)
        unknown = await server.client.post("/v1/agent/runs/run_none/approvals", json=body, headers=other)
        assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert PAID == []
