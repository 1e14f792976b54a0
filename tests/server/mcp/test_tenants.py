"""Keys see and call only the tools of their scopes, with the objects of their tenant."""

import asyncio
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import DELETE, READ, SCOPES, WRITE
from tests.server.agent_server import AgentServer, open_agent_server, text_turn
from tests.server.mcp.messages import call, send, text_of

ASK = {"model": "m", "input": "more"}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("ask_model", {**ASK, "previous_response_id": "{response}"}),
    ("get_response", {"response_id": "{response}"}),
    ("search_vector_store", {"vector_store_id": "{store}", "query": "x"}),
    ("run_agent", {"instruction": "more", "response_continuation_id": "{response}"}),
]
"""Every tool that names a stored object."""
UNKNOWN = {"response": "resp_none", "store": "vs_none"}
SCOPE_OF = {"ask_model": WRITE, "run_agent": WRITE, "get_response": READ, "search_vector_store": READ}


def hello() -> ScriptedBackend:
    return ScriptedBackend(lambda _turn: text_turn("Hel", "lo"))


def fill(arguments: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    return {name: value.format(**ids) for name, value in arguments.items()}


async def store_objects(server: AgentServer, headers: Any) -> dict[str, str]:
    response = await server.client.post("/v1/responses", json=ASK, headers=headers)
    store = await server.client.post("/v1/vector_stores", headers=headers)
    return {"response": response.json()["id"], "store": store.json()["id"]}


@pytest.mark.requirement("HOSTED/server-scopes")
@pytest.mark.parametrize(("tool", "arguments"), CASES)
async def test_the_foreign_is_answered_like_the_unknown(tool: str, arguments: dict[str, Any]) -> None:
    async with open_agent_server(hello()) as server:
        owner, other = await server.new_key("owner"), await server.new_key("stranger")
        theirs = await store_objects(server, owner)
        texts: list[str] = []
        for ids in (theirs, UNKNOWN):
            result = await call(server.client, tool, fill(arguments, ids), headers=other)
            assert result["isError"]
            text = text_of(result)
            for value in ids.values():
                text = text.replace(value, "ID")
            texts.append(text)
        assert texts[0] == texts[1]
        owned = await call(server.client, tool, fill(arguments, theirs), headers=owner)
        assert not owned["isError"], owned


async def test_every_tool_with_an_id_is_tried() -> None:
    async with open_agent_server(hello()) as server:
        listed = (await send(server.client, "tools/list")).json()["result"]["tools"]
    with_ids = {
        tool["name"]
        for tool in listed
        if any(name.endswith("_id") for name in tool["inputSchema"]["properties"])
    }
    assert with_ids == {tool for tool, _ in CASES}


@pytest.mark.requirement("HOSTED/server-scopes")
@pytest.mark.parametrize("scope", SCOPES)
async def test_a_key_sees_and_calls_the_tools_of_its_scope(scope: str) -> None:
    async with open_agent_server(hello()) as server:
        theirs = await store_objects(server, await server.new_key("owner"))
        key = await server.new_key("owner", scope)
        listed = (await send(server.client, "tools/list", headers=key)).json()["result"]["tools"]
        expected = {tool for tool, needed in SCOPE_OF.items() if needed == scope} | {"list_models"}
        assert {tool["name"] for tool in listed} == expected
        for tool, arguments in CASES:
            params = {"name": tool, "arguments": fill(arguments, theirs)}
            answer = await send(server.client, "tools/call", params, headers=key)
            if tool in expected:
                assert not answer.json()["result"]["isError"], answer.text
            else:
                assert answer.status_code == 403
                assert SCOPE_OF[tool] in answer.json()["error"]["message"]
                assert answer.json()["id"] == 1


async def test_a_key_is_needed() -> None:
    async with open_agent_server(hello()) as server:
        key = await server.new_key("owner", DELETE)
        keyless = await send(server.client, "tools/list")
        assert (keyless.status_code, keyless.json()["error"]["code"]) == (401, -32600)
        assert keyless.headers["www-authenticate"] == "Bearer"
        assert (await send(server.client, "server/discover", headers=key)).status_code == 200


async def test_tools_that_need_state_do_not_exist_in_a_profile_without_it() -> None:
    async with open_agent_server(hello()) as server:
        sent: Any = {"x-antiphon-profile": "maestro"}
        listed = (await send(server.client, "tools/list", headers=sent)).json()["result"]["tools"]
        arguments = {"vector_store_id": "vs_1", "query": "x"}
        result = await call(server.client, "search_vector_store", arguments, headers=sent)
    assert "search_vector_store" not in {tool["name"] for tool in listed}
    assert result["isError"]


async def test_calls_of_two_tenants_at_once_stay_apart() -> None:
    backend = ScriptedBackend(lambda turn: text_turn(repr(turn)))
    async with open_agent_server(backend) as server:
        keys = [await server.new_key(name) for name in ("one", "two")]
        results = await asyncio.gather(
            *(
                call(server.client, "ask_model", {"model": "m", "input": f"word-{number}"}, headers=key)
                for number, key in enumerate(keys)
            )
        )
    for number, result in enumerate(results):
        assert f"word-{number}" in text_of(result)
        assert f"word-{1 - number}" not in text_of(result)
