"""The large bodies of all requests that are answered at the same time are bounded."""

import asyncio

import pytest

from antiphon.errors import Overloaded
from antiphon.server.admission import SMALL_BODY_BYTES, BodyBudget, HeldBody
from tests.server.agent_server import Hanging, open_agent_server
from tests.server.conftest import OpenClient, options
from tests.server.mcp.messages import request

LARGE = 100_000
BODIES = {
    "/v1/responses": {"input": "x" * LARGE, "store": False},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x" * LARGE}]},
    "/v1/messages": {"max_tokens": 5, "messages": [{"role": "user", "content": "x" * LARGE}]},
    "/v1/agent/execute": {"instruction": "x" * LARGE},
    "/mcp": request("tools/call", {"name": "ask_model", "arguments": {"model": "m", "input": "x" * LARGE}}),
}
SMALL = {"model": "m", "input": "x", "store": False}


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_is_held_until_its_request_is_answered(path: str) -> None:
    model = Hanging()

    async def send(path: str, body: object) -> int:
        return (await client.post(path, json=body)).status_code

    large = {"model": "m", **BODIES[path]}
    async with open_agent_server(model.backend, max_held=int(2.5 * LARGE)) as server:
        client = server.client
        first = asyncio.create_task(send(path, large))
        await asyncio.wait_for(model.requested.wait(), 5)
        refused = await asyncio.wait_for(client.post(path, json=large), 5)
        assert (refused.status_code, "being answered" in refused.text) == (503, True)
        assert await asyncio.wait_for(send(path, large), 5) == 503
        second = asyncio.create_task(send("/v1/responses", SMALL))  # small bodies are not counted
        model.go_on.set()
        assert await asyncio.wait_for(asyncio.gather(first, second), 5) == [200, 200]
        assert await asyncio.wait_for(send(path, large), 5) == 200  # its bytes were given back


async def test_a_body_that_is_refused_holds_nothing(open_client: OpenClient) -> None:
    limits = options(max_held=int(1.5 * LARGE))
    async with open_client(app_options=limits) as client:
        for _ in range(5):
            answer = await client.post("/v1/responses", json={"model": 5, "input": "x" * LARGE})
            assert answer.status_code == 400


def test_a_tenant_holds_half_of_the_budget() -> None:
    budget = BodyBudget(10 * SMALL_BODY_BYTES, doing="answered")
    mine, other = HeldBody(budget, "a"), HeldBody(budget, "b")
    mine.grow(5 * SMALL_BODY_BYTES)
    with pytest.raises(Overloaded):
        HeldBody(budget, "a").grow(1)
    other.grow(5 * SMALL_BODY_BYTES)
    mine.release()
    HeldBody(budget, "a").grow(1)
