"""The agent routes: background runs."""

import json
import logging
from typing import Any

import pytest

from antiphon.server.routes.table import ROUTES
from tests.server.agent_server import (
    AgentServer,
    Hanging,
    adding,
    events_of,
    hello_backend,
    open_agent_server,
    types_of,
)


async def test_a_run_is_submitted_followed_shown_listed_and_deleted() -> None:
    async with open_agent_server(adding()) as server:
        run = await server.submit(instruction="Add one and two", title="A sum")
        assert (run["object"], run["status"], run["title"]) == ("agent.run", "queued", "A sum")
        events = await server.followed(run["id"])
        assert types_of(events)[-1] == "agent.completed"
        later = await server.followed(run["id"], f"&starting_after={events[-2]['sequenceNumber']}")
        assert later == events[-1:]

        path = f"/v1/agent/runs/{run['id']}"
        shown = (await server.client.get(path)).json()
        assert (shown["status"], shown["response"]["text"]) == ("completed", "It is 3.")
        assert [turn["number"] for turn in shown["tree"]["turns"]] == [1, 2]
        assert shown["tree"]["turns"][0]["calls"][0]["outcome"] == "ok"
        in_pascal = (await server.client.get(f"{path}?case=pascal")).json()
        assert in_pascal["response"]["Text"] == "It is 3."

        listed = (await server.client.get("/v1/agent/runs")).json()
        assert [found["id"] for found in listed["data"]] == [run["id"]]
        deleted = await server.client.delete(path)
        assert deleted.json() == {"id": run["id"], "object": "agent.run", "deleted": True}
        assert (await server.client.get(path)).status_code == 404


async def test_a_run_without_a_title_is_called_by_its_instruction() -> None:
    async with open_agent_server(hello_backend()) as server:
        assert (await server.submit(instruction="Say  hello"))["title"] == "Say hello"


@pytest.mark.parametrize(("title", "name"), [(5, "title"), ("x" * 201, "title")])
async def test_an_invalid_title_is_rejected(title: Any, name: str) -> None:
    async with open_agent_server(hello_backend()) as server:
        answer = await server.client.post("/v1/agent/runs", json={"instruction": "Hi", "title": title})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


async def test_a_run_that_is_submitted_with_streaming_is_followed_at_once() -> None:
    async with open_agent_server(adding()) as server:
        answer = await server.client.post("/v1/agent/runs", json={"instruction": "Add", "streaming": True})
        run_id = answer.headers["x-agent-run-id"]
        assert (await server.client.get(f"/v1/agent/runs/{run_id}")).json()["status"] == "completed"
        assert types_of(events_of(answer.text))[-1] == "agent.completed"


async def test_a_run_continues_when_its_follower_disconnects_and_ends_when_cancelled() -> None:
    model = Hanging()
    async with open_agent_server(model.backend) as server:
        run = await server.submit(instruction="Hi")
        path = f"/v1/agent/runs/{run['id']}"
        await model.requested.wait()
        async with server.client.stream("GET", f"{path}?stream=true") as answer:
            await anext(answer.aiter_text())
        assert not model.stopped.is_set()
        shown = (await server.client.get(path)).json()
        assert (shown["status"], shown["response"]) == ("in_progress", None)

        assert (await server.client.post(f"{path}/cancel")).json()["status"] == "cancelled"
        await model.stopped.wait()
        assert types_of(await server.followed(run["id"]))[-1] == "agent.cancelled"
        assert (await server.client.post(f"{path}/cancel")).json()["status"] == "cancelled"


async def test_runs_are_listed_newest_first_in_pages() -> None:
    async with open_agent_server(hello_backend()) as server:
        # Ids sort by time; within one millisecond their order is random.
        created = sorted([(await server.submit(instruction=f"Say {number}"))["id"] for number in range(3)])
        for run_id in created:
            await server.followed(run_id)
        page = (await server.client.get("/v1/agent/runs?limit=2")).json()
        assert ([run["id"] for run in page["data"]], page["has_more"]) == (created[:0:-1], True)
        assert (page["first_id"], page["last_id"]) == (created[2], created[1])
        rest = (await server.client.get(f"/v1/agent/runs?limit=2&after={page['last_id']}")).json()
        assert ([run["id"] for run in rest["data"]], rest["has_more"]) == (created[:1], False)


@pytest.mark.parametrize(
    ("query", "param"),
    [("?limit=0", "limit"), ("?limit=101", "limit"), ("?limit=x", "limit")],
)
async def test_an_invalid_page_is_rejected(query: str, param: str) -> None:
    async with open_agent_server(hello_backend()) as server:
        answer = await server.client.get(f"/v1/agent/runs{query}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("?starting_after=1", "starting_after"),
        ("?stream=true&starting_after=99", "starting_after"),
        ("?stream=perhaps", "stream"),
        ("?case=x", "case"),
    ],
)
async def test_an_invalid_starting_after_is_rejected(query: str, param: str) -> None:
    async with open_agent_server(hello_backend()) as server:
        run = await server.submit(instruction="Hi")
        await server.followed(run["id"])
        answer = await server.client.get(f"/v1/agent/runs/{run['id']}{query}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


CASES = [
    ("GET", "/v1/agent/runs/{id}"),
    ("GET", "/v1/agent/runs/{id}?stream=true"),
    ("POST", "/v1/agent/runs/{id}/cancel"),
    ("POST", "/v1/agent/runs/{id}/approvals"),
    ("DELETE", "/v1/agent/runs/{id}"),
]
ANSWER = {"approval_request_id": "call_1", "approve": True}


def test_every_route_of_a_run_is_tried() -> None:
    tried = {f"{method} {path.partition('?')[0]}" for method, path in CASES}
    assert tried == {route.name for route in ROUTES if "/v1/agent/" in route.path and "{id}" in route.path}


async def answer_to(
    server: AgentServer, case: tuple[str, str], run_id: str, **headers: Any
) -> tuple[int, str]:
    body = ANSWER if case[1].endswith("/approvals") else None
    answer = await server.client.request(case[0], case[1].replace("{id}", run_id), json=body, **headers)
    return answer.status_code, answer.text.replace(run_id, "ID")


@pytest.mark.parametrize("case", CASES)
async def test_a_foreign_run_is_answered_like_an_unknown_one(case: tuple[str, str]) -> None:
    async with open_agent_server(hello_backend()) as server:
        owner, other = await server.new_key("owner"), await server.new_key("stranger")
        answer = await server.client.post("/v1/agent/runs", json={"instruction": "Hi"}, headers=owner)
        run_id = answer.json()["id"]
        foreign = await answer_to(server, case, run_id, headers=other)
        assert foreign[0] == 404
        assert foreign == await answer_to(server, case, "run_none", headers=other)
        assert (await server.client.get("/v1/agent/runs", headers=other)).json()["data"] == []
        assert await answer_to(server, case, run_id, headers=owner) != foreign


INTERPRETER = {"type": "code_interpreter", "container": {"type": "auto"}}
NEVER_ASKS = {"type": "mcp", "server_label": "shop", "require_approval": "never"}
HERE = {**NEVER_ASKS, "server_url": "http://127.0.0.1:9/mcp"}
ELSEWHERE = {**NEVER_ASKS, "server_url": "http://127.0.0.2:9/mcp"}


@pytest.mark.requirement("HOSTED/policy-keys")
@pytest.mark.parametrize(
    ("allowed", "tool", "refused"),
    [
        ((), INTERPRETER, True),
        ((), HERE, True),
        (("mcp:127.0.0.1",), ELSEWHERE, True),
        (("mcp:127.0.0.1",), INTERPRETER, True),
        (("mcp:127.0.0.1",), HERE, False),
    ],
)
async def test_a_run_uses_the_hosted_tools_of_its_key_only(
    allowed: tuple[str, ...], tool: dict[str, Any], refused: bool
) -> None:
    backend = hello_backend()
    async with open_agent_server(backend) as server:
        server.client.headers = await server.new_key("acme", tools=allowed)
        run = await server.submit(instruction="Buy tea.", toolsJson=json.dumps([tool]))
        end = (await server.followed(run["id"]))[-1]
    assert end["type"] == "agent.failed"
    # The allowed server is not there: the run fails later, when it is connected to.
    assert (end["code"] == "tool_not_allowed") == refused, end
    assert backend.turns == []


@pytest.mark.requirement("HOSTED/policy-audit")
@pytest.mark.parametrize("path", ["/v1/agent/execute", "/v1/agent/runs"])
async def test_the_audit_log_has_the_key_of_a_call_of_a_server_tool(
    caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.INFO, "antiphon.audit")
    async with open_agent_server(adding()) as server:
        server.client.headers = headers = await server.new_key("acme")
        answer = await server.client.post(path, json={"instruction": "Add one and two", "streaming": True})
        assert types_of(events_of(answer.text))[-1] == "agent.completed"
    [record] = [record.getMessage() for record in caplog.records if record.name == "antiphon.audit"]
    key_id = headers["authorization"].split("_")[1]
    assert f" name=add tenant=acme key={key_id} response=- outcome=completed " in record
