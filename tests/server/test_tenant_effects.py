"""The requests of one tenant have no effect on another: envelopes, circuits, scopes."""

from typing import Any

import httpx2
import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import READ, WRITE
from antiphon.errors import BackendRefused
from antiphon.turn.chunks import Finished, ReasoningDelta, TextDelta
from antiphon.turn.context import TurnRequest
from tests.server.stateful import ServerUnderTest, open_server
from tests.service.conftest import MakeCreator

JsonObject = dict[str, Any]
THINKING: list[Step] = [[ReasoningDelta("a private thought")], [TextDelta("hi")], [Finished("stop")]]


async def post(server: ServerUnderTest, headers: httpx2.Headers, path: str = "", **body: Any) -> JsonObject:
    answer = await server.client.post(
        f"/v1/responses{path}", json={"model": "m", "input": "hi", **body}, headers=headers
    )
    found = answer.json()
    found.pop("id", None)
    return found


def damaged(envelope: str) -> str:
    return envelope[:-6] + ("A" if envelope[-6] != "A" else "B") + envelope[-5:]


async def test_sealed_reasoning_of_another_tenant_is_like_damaged_reasoning(
    make_creator: MakeCreator,
) -> None:
    backend = ScriptedBackend(THINKING)
    async with open_server(make_creator, backend) as server:
        owner, stranger = await server.new_key("owner"), await server.new_key("stranger")
        first = await post(server, owner, store=False, include=["reasoning.encrypted_content"])
        [reasoning, _] = first["output"]

        async def seen(headers: httpx2.Headers, envelope: str) -> tuple[list[str], bool]:
            item: JsonObject = {"type": "reasoning", "summary": [], "encrypted_content": envelope}
            answer = await post(server, headers, input=[item, {"role": "user", "content": "go on"}])
            return answer.get("downgrades", []), "private thought" in repr(backend.turns[-1].items)

        envelope = reasoning["encrypted_content"]
        assert await seen(owner, envelope) == ([], True)
        foreign = await seen(stranger, envelope)
        assert foreign == await seen(stranger, damaged(envelope))
        assert foreign == await seen(owner, damaged(envelope))
        assert not foreign[1]
        assert foreign[0]


async def test_a_compaction_of_another_tenant_is_like_a_damaged_one(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        owner, stranger = await server.new_key("owner"), await server.new_key("stranger")
        compacted = await post(server, owner, "/compact")
        envelope = compacted["output"][-1]["encrypted_content"]

        async def continued(headers: httpx2.Headers, envelope: str) -> JsonObject:
            item = {"type": "compaction", "encrypted_content": envelope}
            return await post(server, headers, input=[item, {"role": "user", "content": "go on"}])

        assert (await continued(owner, envelope))["status"] == "completed"
        foreign = await continued(stranger, envelope)
        assert foreign["error"]["code"] == "invalid_encrypted_content"
        assert foreign == await continued(stranger, damaged(envelope))


def fails_at_pictures(turn: TurnRequest) -> list[Step]:
    if "picture" in repr(turn.items):
        return [BackendRefused("The upstream failed with status 500.", status=502)]
    return [[TextDelta("hi")], [Finished("stop")]]


async def test_requests_that_make_a_model_fail_pause_it_for_their_own_tenant_only(
    make_creator: MakeCreator,
) -> None:
    async with open_server(make_creator, ScriptedBackend(fails_at_pictures)) as server:
        hostile, other = await server.new_key("hostile"), await server.new_key("other")
        for _ in range(20):
            assert (await post(server, hostile, input="picture"))["error"]["message"]
        assert (await post(server, hostile))["error"]["code"] == "upstream_paused"
        for _ in range(3):
            assert (await post(server, other))["status"] == "completed"


NAMES = {"prompt_cache_key": "k", "safety_identifier": "s", "user": "u"}


async def test_an_upstream_does_not_take_equal_names_of_two_tenants_for_the_same(
    make_creator: MakeCreator,
) -> None:
    backend = ScriptedBackend.saying("hello")
    async with open_server(make_creator, backend) as server:

        async def sent(tenant: str, **names: str) -> list[str | None]:
            answer = await post(server, await server.new_key(tenant), **names)
            assert {name: answer[name] for name in names} == names  # the client's own, in the answer
            params = backend.turns[-1].params
            assert backend.turns[-1].tenant == tenant
            return [params.prompt_cache_key, params.safety_identifier, params.user]

        acme = await sent("acme", **NAMES)
        assert acme == await sent("acme", **NAMES)
        assert set(acme).isdisjoint(await sent("umbra", **NAMES))
        assert set(acme).isdisjoint(NAMES.values())
        assert set(acme).isdisjoint(await sent("acme", prompt_cache_key="other", user="v"))
        assert await sent("acme") == [None, None, None]
        assert await sent("default", **NAMES) == ["k", "s", "u"]


@pytest.mark.parametrize("by", ["previous_response_id", "conversation"])
async def test_a_key_without_the_scope_to_read_can_continue_a_history(
    make_creator: MakeCreator, by: str
) -> None:
    """The documented limit of `responses:write`: the model sees the history, and can be asked for it."""
    backend = ScriptedBackend.saying("hello")
    async with open_server(make_creator, backend) as server:
        owner, writer = await server.new_key("owner"), await server.new_key("owner", WRITE)
        reader = await server.new_key("owner", READ)
        items = [{"role": "user", "content": "the history"}]
        conversation = await server.client.post("/v1/conversations", json={"items": items}, headers=owner)
        response = await server.client.post(
            "/v1/responses", json={"model": "m", "input": "the history"}, headers=owner
        )
        found = {"conversation": conversation.json()["id"], "previous_response_id": response.json()["id"]}
        path = f"/v1/responses/{found['previous_response_id']}"
        assert (await server.client.get(path, headers=writer)).status_code == 403
        assert (await server.client.get(path, headers=reader)).status_code == 200
        assert (await post(server, writer, **{by: found[by]}))["status"] == "completed"
        assert "the history" in repr(backend.turns[-1].items)
