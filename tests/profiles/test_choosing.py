"""The profile of a request: the server's default, or the one in its header."""

from collections.abc import Iterator
from typing import Any

import pytest

from antiphon import ScriptedBackend
from antiphon.backends.scripted import Step
from antiphon.errors import BackendTimeout
from antiphon.settings import ProfileName
from antiphon.turn.chunks import Failed, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.profiles.gateway import LISTEN, LOOK, call, gateway, refusal_of, two_calls
from tests.profiles.order import check_message_first
from tests.turn.order import check_order

REQUEST: dict[str, Any] = {"model": "m", "input": "hi"}
CHECKS = {"openai": check_order, "maestro": check_order, "proxy": check_message_first}
END_MARKERS = {"openai": "data: [DONE]\n\n", "maestro": "", "proxy": "event: done\ndata: [DONE]\n\n"}


@pytest.mark.parametrize("served", ["openai", "maestro", "proxy"])
async def test_a_server_uses_the_profile_of_its_settings(served: ProfileName) -> None:
    async with gateway(served) as model:
        reply = await model.send({**REQUEST, "stream": True})
        last, _, mark = reply.text.rpartition("event: response.completed\n")[2].partition("\n\n")
        assert last.startswith('data: {"type":"response.completed"')
        assert mark == END_MARKERS[served]


@pytest.mark.parametrize("served", ["openai", "maestro", "proxy"])
@pytest.mark.parametrize("wanted", ["openai", "maestro", "proxy", " Proxy ", "MAESTRO"])
async def test_a_header_chooses_another_for_one_request(served: ProfileName, wanted: str) -> None:
    async with gateway(served) as model:
        body = (await model.send(REQUEST, wanted)).json()
        assert body["id"].startswith("resp_AM-") == (wanted.strip().lower() == "maestro")
        assert ("created" in body) == (wanted.strip().lower() == "proxy")
        again = (await model.send(REQUEST)).json()
        assert ("created" in again, again["id"].startswith("resp_AM-")) == (
            served == "proxy",
            served == "maestro",
        )


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_profile_is_rejected_before_the_model_is_called(stream: bool) -> None:
    async with gateway("openai") as model:
        status, error = refusal_of(await model.send({**REQUEST, "stream": stream}, "azure"))
        assert (status, error["param"]) == (400, "x-antiphon-profile")
        assert "'openai'" in error["message"]
        assert "'maestro'" in error["message"]
        assert "'proxy'" in error["message"]
        assert model.backend.turns == []


async def test_an_operator_s_choice_holds_for_the_header_as_well() -> None:
    async with gateway("proxy", usage_policy="zeros") as model:
        assert (await model.send(REQUEST, "proxy")).json()["usage"]["total_tokens"] == 0
        assert (await model.send(REQUEST, "openai")).json()["usage"] is None


async def test_without_header_and_setting_the_wire_is_that_of_the_real_api() -> None:
    model_chunks = [TextDelta("a"), *call(0, '{"at":"sea"}'), TextDelta("b"), Finished("stop")]
    async with gateway("openai", *model_chunks) as model:
        streamed = await model.stream(tools=[LOOK])
        check_order(streamed.events)
        assert [item["type"] for item in streamed.final["output"]] == ["message", "function_call", "message"]
        assert streamed.blocks[-1] == (None, "[DONE]")
        assert "created" not in streamed.final
        assert streamed.final["usage"] is None
        stored = await model.client.get(f"/v1/responses/{streamed.final['id']}")
        assert stored.json() == streamed.final


async def test_without_header_and_setting_a_failure_is_an_error_event_first() -> None:
    async with gateway("openai", TextDelta("a"), Failed(BackendTimeout())) as model:
        streamed = await model.stream()
        assert streamed.kinds[-2:] == ["error", "failed"]
        assert streamed.blocks[-2].name == "response.failed"
        assert streamed.blocks[-1] == (None, "[DONE]")


async def test_profiles_of_requests_at_the_same_server_do_not_mix() -> None:
    async with gateway("openai", ScriptedBackend([two_calls()])) as model:
        request_body = {**REQUEST, "stream": True, "tools": [LOOK, LISTEN]}
        for wanted, check in (
            ("proxy", check_message_first),
            ("openai", check_order),
            ("maestro", check_order),
        ):
            check((await model.stream_of(request_body, wanted)).events)


@pytest.mark.requirement("SEED-002/comparison-multi-turn")
async def test_where_state_is_on_turns_are_chained_by_response_and_by_conversation() -> None:
    async with gateway("openai") as model:
        first = await model.answer(input="one")
        await model.answer(input="two", previous_response_id=first["id"])
        assert [message["content"] for message in model.messages] == ["one", "Hello", "two"]
        conversation = (await model.client.post("/v1/conversations", json={})).json()["id"]
        await model.answer(input="three", conversation=conversation)
        await model.answer(input="four", conversation=conversation)
        assert [message["content"] for message in model.messages] == ["three", "Hello", "four"]


@pytest.mark.parametrize("profile", ["openai", "maestro", "proxy"])
@pytest.mark.parametrize("state", [True, False])
async def test_an_operator_chooses_state_in_every_profile(profile: ProfileName, state: bool) -> None:
    async with gateway(profile, state=state) as model:
        first = await model.answer(input="one")
        stored = await model.client.get(f"/v1/responses/{first['id']}")
        assert stored.status_code == (200 if state else 404)
        reply = await model.post(input="two", previous_response_id=first["id"])
        assert reply.status_code == (200 if state else 400), reply.text
        if state:
            assert [message["content"] for message in model.messages] == ["one", "Hello", "two"]
        else:
            assert refusal_of(reply)[1]["param"] == "previous_response_id"


@pytest.mark.parametrize("profile", ["openai", "maestro", "proxy"])
async def test_an_unstored_response_has_store_false(profile: ProfileName) -> None:
    async with gateway(profile, state=False) as model:
        assert (await model.answer())["store"] is False


@pytest.mark.parametrize("profile", ["openai", "maestro", "proxy"])
@pytest.mark.parametrize("body", [b"{", b"", b"[1]", b"null", b'"hi"', b"\xff\xfe{}"])
async def test_a_body_that_is_no_object_is_a_400(profile: ProfileName, body: bytes) -> None:
    async with gateway(profile) as model:
        headers = {"content-type": "application/json"}
        reply = await model.client.post("/v1/responses", content=body, headers=headers)
        status, error = refusal_of(reply)
        assert (status, error["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("profile", ["openai", "maestro", "proxy"])
@pytest.mark.parametrize("fault", [BackendTimeout("too late"), RuntimeError("a bug")], ids=["backend", "bug"])
async def test_a_backend_failure_in_mid_stream_yields_a_well_formed_stream(
    profile: ProfileName, fault: Exception
) -> None:
    def steps(_turn: TurnRequest) -> Iterator[Step]:
        yield [TextDelta("half")]
        yield call(0, '{"at":')
        raise fault

    async with gateway(profile, ScriptedBackend(steps)) as model:
        streamed = await model.stream(tools=[LOOK])
        CHECKS[profile](streamed.events)
        assert streamed.kinds[-1] == "failed"
        assert streamed.final["status"] == "failed"
        assert ("error" in streamed.kinds) == (profile != "maestro")


@pytest.mark.parametrize("profile", ["openai", "maestro", "proxy"])
async def test_a_call_excluded_by_the_choice_is_omitted_and_reported(profile: ProfileName) -> None:
    async with gateway(profile, TextDelta("a"), *two_calls()) as model:
        allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]}
        streamed = await model.stream(tools=[LOOK, LISTEN], tool_choice=allowed)
        CHECKS[profile](streamed.events)
        assert streamed.kinds[-1] == "completed"
        assert [item["name"] for item in streamed.final["output"] if item["type"] == "function_call"] == [
            "look"
        ]
        assert any("'listen' was left out" in note for note in streamed.final["downgrades"])


@pytest.mark.parametrize(("profile", "status"), [("openai", 504), ("proxy", 504), ("maestro", 500)])
async def test_an_error_before_the_first_delta_is_a_status(profile: ProfileName, status: int) -> None:
    async with gateway(profile, ScriptedBackend([BackendTimeout("too late")])) as model:
        for stream in (False, True):
            assert (await model.refusal(stream=stream))[0] == status
