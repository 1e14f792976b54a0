"""Errors of the compatible endpoints have the shape of their API."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendRefused, BackendUnreachable
from antiphon.server.app import App
from antiphon.server.auth import Keys
from antiphon.server.guard import HostGuard
from antiphon.server.memory import memory_client
from antiphon.service.routing.router import Route, Router
from antiphon.turn.chunks import HEARTBEAT, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.server.compat.reading import message_events
from tests.server.conftest import OpenClient, never_opened, options, services_of
from tests.service.conftest import MakeCreator

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES: dict[str, Any] = {**CHAT, "max_tokens": 9}
ORPHAN = {"type": "tool_result", "tool_use_id": "t1", "content": "a"}


async def post_json(client: Any, path: str, body: Any = None, **request: Any) -> tuple[int, dict[str, Any]]:
    base_body = MESSAGES if path == "/v1/messages" else CHAT
    answer = await client.post(path, json={**base_body, **(body or {})}, **request)
    assert answer.headers["x-request-id"] == "req_1"
    return answer.status_code, answer.json()


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        (BackendRefused("Slow down.", status=429, retry_after=7), 429, "rate_limit_error"),
        (
            BackendRefused("Too long.", status=400, code="context_length_exceeded"),
            400,
            "invalid_request_error",
        ),
        (BackendRefused("Busy.", status=529), 529, "overloaded_error"),
        (BackendUnreachable("Down."), 502, "api_error"),
    ],
)
async def test_errors_before_the_first_delta(
    open_client: OpenClient, fault: Any, status: int, kind: str
) -> None:
    async with open_client(ScriptedBackend([fault])) as client:
        chat = await client.post("/v1/chat/completions", json={**CHAT, "stream": True})
    async with open_client(ScriptedBackend([fault])) as client:  # the first one may pause its backend
        message = await client.post("/v1/messages", json={**MESSAGES, "stream": True})
    assert (chat.status_code, message.status_code) == (status, status)
    assert chat.json()["error"] == fault.to_wire()
    assert message.json() == anthropic(kind, fault.message)
    assert message.headers["request-id"] == "req_1"
    assert message.headers.get("retry-after") == ("7" if status == 429 else None)


async def test_unknown_models(open_client: OpenClient) -> None:
    async with open_client(ScriptedBackend.saying("hi")) as client:
        chat = await post_json(client, "/v1/chat/completions", {"model": "none"})
        message = await post_json(client, "/v1/messages", {"model": "none"})
    assert (chat[0], chat[1]["error"]["code"]) == (404, "model_not_found")
    assert (message[0], message[1]["error"]["type"]) == (404, "not_found_error")


async def test_keys(open_client: OpenClient) -> None:
    guarded = options(keys=Keys(["secret"]))
    async with open_client(ScriptedBackend.saying("hi"), app_options=guarded) as client:
        for path in ("/v1/chat/completions", "/v1/messages"):
            assert (await post_json(client, path, headers={"x-api-key": "secret"}))[0] == 200
            assert (await post_json(client, path, headers={"authorization": "Bearer secret"}))[0] == 200
            both = {"authorization": "Bearer wrong", "x-api-key": "secret"}
            assert (await post_json(client, path, headers=both))[0] == 401
        chat = await post_json(client, "/v1/chat/completions", headers={"x-api-key": "wrong"})
        message = await post_json(client, "/v1/messages")
        models = await client.get("/v1/models", headers={"anthropic-version": "2023-06-01"})
        refused_chat = await client.post("/v1/chat/completions", json={})
        refused_message = await client.post("/v1/messages", json={})
    assert (chat[0], chat[1]["error"]["code"]) == (401, "invalid_api_key")
    assert (message[0], message[1]["error"]["type"]) == (401, "authentication_error")
    for answer in (models, refused_chat, refused_message):
        assert answer.headers["www-authenticate"] == "Bearer"
    assert "x-api-key" in message[1]["error"]["message"]
    assert models.json()["error"]["type"] == "authentication_error"


async def test_errors_of_the_guard_have_the_same_shape(open_client: OpenClient) -> None:
    guarded = options(hosts=HostGuard(["localhost"]), max_body=1024)
    async with open_client(ScriptedBackend.saying("hi"), app_options=guarded) as client:
        foreign = await post_json(client, "/v1/messages", headers={"host": "evil.example"})
        page = await post_json(client, "/v1/messages", headers={"origin": "https://evil.example"})
        profile = await post_json(client, "/v1/messages", headers={"x-antiphon-profile": "none"})
        large = await post_json(client, "/v1/messages", {"system": "x" * 2000})
        text = await client.post("/v1/messages", content="hi", headers={"content-type": "text/plain"})
        method = await client.get("/v1/messages")
        lost = await client.post("/v1/messages/batches", json={})
        twice = await client.post("/v1/v1/messages", json={}, headers={"anthropic-version": "2023-06-01"})
        chat = await post_json(client, "/v1/chat/completions", {"user": "x" * 2000})
    assert (foreign[0], foreign[1]["error"]["type"]) == (400, "invalid_request_error")
    assert (page[0], page[1]["error"]["type"]) == (403, "permission_error")
    assert (profile[0], profile[1]["error"]["type"]) == (400, "invalid_request_error")
    assert (large[0], large[1]["error"]["type"]) == (413, "request_too_large")
    assert (text.status_code, text.json()["error"]["type"]) == (415, "invalid_request_error")
    assert (method.status_code, method.headers["allow"]) == (405, "POST")
    assert method.json()["error"]["type"] == "invalid_request_error"
    assert (lost.status_code, lost.json()["error"]["type"]) == (404, "not_found_error")
    assert "a /v1 too many" in twice.json()["error"]["message"]
    assert (chat[0], chat[1]["error"]["code"]) == (413, "request_too_large")


async def test_errors_of_the_engine_name_the_callers_param(open_client: OpenClient) -> None:
    orphan = {"role": "tool", "tool_call_id": "t1", "content": "a"}
    async with open_client(ScriptedBackend.saying("hi")) as client:
        chat = await post_json(client, "/v1/chat/completions", {"messages": [*CHAT["messages"], orphan]})
        messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}, ORPHAN]}]
        message = await post_json(client, "/v1/messages", {"messages": messages})
        tool = {"type": "code_execution_20250825", "name": "code_execution"}
        hosted = await post_json(client, "/v1/messages", {"tools": [tool]})
        choice = await post_json(client, "/v1/messages", {"tool_choice": {"type": "tool", "name": "none"}})
        counted = await client.post("/v1/messages/count_tokens", json={"model": "m"})
    assert (chat[0], chat[1]["error"]["param"]) == (400, "messages[1].tool_call_id")
    assert message[0] == 400
    assert message[1]["error"]["message"].startswith("messages[0].content[1].tool_use_id: ")
    assert (hosted[0], choice[0]) == (400, 400)
    assert "tools" in hosted[1]["error"]["message"]
    assert "tool_choice" in choice[1]["error"]["message"]
    assert counted.json()["error"]["message"] == "Missing required parameter: 'messages'."


async def test_the_wrong_endpoint(open_client: OpenClient) -> None:
    async with open_client(ScriptedBackend.saying("hi")) as client:
        chat = await post_json(client, "/v1/chat/completions", {"input": "hi"})
        message = await post_json(client, "/v1/messages", {"input": "hi"})
        responses = await client.post("/v1/responses", json=CHAT)
    assert (chat[0], chat[1]["error"]["code"]) == (400, "wrong_endpoint")
    assert message == (
        400,
        anthropic(
            "invalid_request_error",
            "'input' is a parameter of POST /v1/responses, and this is POST /v1/messages. "
            "Send the request there.",
        ),
    )
    assert (responses.status_code, responses.json()["error"]["param"]) == (400, "messages")
    assert "POST /v1/chat/completions" in responses.json()["error"]["message"]


STRANGE = {
    "max_tokens": 5,
    "n": 2,
    "response_format": {"type": "text"},
    "stop": "a",
    "stop_sequences": ["a"],
    "system": "s",
    "thinking": {"type": "adaptive"},
}


async def test_members_of_other_apis_are_reported_where_they_are_not_rejected(
    open_client: OpenClient,
) -> None:
    request_body = {"model": "m", "input": "hi"}
    async with open_client(ScriptedBackend.saying("hi")) as client:
        strange = await client.post("/v1/responses", json={**request_body, **STRANGE})
        plain = await client.post("/v1/responses", json={**request_body, "n": 1, "stop": None})
    assert strange.json()["downgrades"] == [
        "not used, because it belongs to another API: "
        "max_tokens, n, response_format, stop, stop_sequences, system, thinking"
    ]
    assert "downgrades" not in plain.json()


async def test_the_header_of_one_api_is_ignored_on_other_endpoints(
    open_client: OpenClient,
) -> None:
    version = {"anthropic-version": "2023-06-01"}
    async with open_client(ScriptedBackend.saying("hi")) as client:
        for path in ("/v1/responses", "/v1/chat/completions", "/v1/conversations"):
            answer = await client.post(path, json={"metadata": 1}, headers=version)
            assert (answer.status_code, "request-id" in answer.headers) == (400, False)
            assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
        own = await client.get("/v1/models/none/capabilities", headers=version)
        assert own.json()["error"]["code"] == "model_not_found"
        for path in ("/v1/models/none", "/v1/batches", "/v1/v1/models"):
            answer = await client.get(path, headers=version)
            assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


async def test_a_profile_changes_no_error_of_a_compatible_endpoint(open_client: OpenClient) -> None:
    maestro = {"x-antiphon-profile": "maestro"}
    for path in ("/v1/chat/completions", "/v1/messages"):
        async with open_client(ScriptedBackend([BackendRefused("Busy.", status=503)])) as client:
            status, body = await post_json(client, path, headers=maestro)
        assert (status, body["error"]["message"]) == (503, "Busy.")
        assert body["error"]["type"] != "internal_error"


@pytest.mark.parametrize("status", [408, 413, 503])
async def test_an_upstream_error_does_not_close_the_connection(open_client: OpenClient, status: int) -> None:
    async with open_client(ScriptedBackend([BackendRefused("No.", status=status)])) as client:
        answer = await client.post("/v1/messages", json=MESSAGES)
    assert (answer.status_code, answer.headers.get("connection")) == (status, None)
    async with open_client(ScriptedBackend.saying("hi"), app_options=options(max_body=10)) as client:
        large = await client.post("/v1/messages", json=MESSAGES)
        long = await client.post("/v1/messages", json=MESSAGES, headers={"x-long": "x" * 100_000})
    assert (large.status_code, large.headers.get("connection")) == (413, "close")
    assert (long.status_code, long.headers.get("connection")) == (431, "close")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_the_time_for_the_body_is_over_with_the_body(
    open_client: OpenClient, path: str, streamed: bool
) -> None:
    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        await asyncio.sleep(0.7)
        yield [TextDelta("slow"), Finished("stop")]

    hasty = options(body_timeout=0.3)
    async with open_client(ScriptedBackend(steps), app_options=hasty) as client:
        answer = await client.post(path, json={**MESSAGES, "stream": streamed})
    assert (answer.status_code, "slow" in answer.text) == (200, True)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_a_client_disconnect_before_the_first_delta(
    make_creator: MakeCreator, path: str, streamed: bool
) -> None:
    requested, ended = asyncio.Event(), asyncio.Event()

    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        requested.set()
        try:
            await asyncio.sleep(60)
            yield HEARTBEAT
        finally:
            ended.set()

    async def receive() -> dict[str, Any]:
        if requested.is_set():
            return {"type": "http.disconnect"}
        body = msgspec.json.encode({**MESSAGES, "stream": streamed})
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(_message: object) -> None:
        raise AssertionError("unexpected call after the disconnect")

    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator(ScriptedBackend(steps))))
    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"host", b"a")]}
    async with asyncio.timeout(5):
        await app(scope, receive, send)
    assert ended.is_set()


async def test_a_count(open_client: OpenClient) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 400}], "system": "y" * 40}
    async with open_client(ScriptedBackend.saying("hi")) as client:
        answer = await client.post("/v1/messages/count_tokens", json=body)
        missing = await client.post("/v1/messages/count_tokens", json={**body, "model": "none"})
    assert answer.json() == {"input_tokens": 100 + 10 + 8}
    assert answer.headers["x-antiphon-count"] == "estimate"
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "not_found_error")


async def test_models_as_anthropic_lists_them(open_client: OpenClient) -> None:
    version = {"anthropic-version": "2023-06-01"}
    async with open_client(ScriptedBackend.saying("hi")) as client:
        listed = await client.get("/v1/models?limit=5", headers=version)
        one = await client.get("/v1/models/m", headers=version)
        lost = await client.get("/v1/models/none", headers=version)
        plain = await client.get("/v1/models")
        wrong = await client.get("/v1/models?limit=0", headers=version)
    model = listed.json()["data"][0]
    assert {**listed.json(), "data": []} == {"data": [], "has_more": False, "first_id": "m", "last_id": "m"}
    assert (model["type"], model["id"], model["display_name"], model["lifecycle"]) == (
        "model",
        "m",
        "m",
        "active",
    )
    assert model["created_at"].endswith("Z")
    assert one.json() == model
    assert lost.json()["error"]["type"] == "not_found_error"
    assert plain.json()["object"] == "list"
    assert wrong.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("query", "ids", "more"),
    [
        ("", ["a", "b", "c"], False),
        ("?limit=2", ["a", "b"], True),
        ("?limit=2&after_id=b", ["c"], False),
        ("?limit=1&before_id=c", ["b"], True),
        ("?before_id=a", [], False),
    ],
)
async def test_pages_of_models(make_creator: MakeCreator, query: str, ids: list[str], more: bool) -> None:
    backend = ScriptedBackend.saying("hi")
    router = Router([Route(name, backend) for name in "abc"], chance=lambda: 0.5)
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator(router=router)))
    async with memory_client(app) as client:
        page = await client.get(f"/v1/models{query}", headers={"anthropic-version": "2023-06-01"})
    assert [model["id"] for model in page.json()["data"]] == ids
    assert page.json()["has_more"] is more
    assert page.json()["first_id"] == (ids[0] if ids else None)


@pytest.mark.parametrize(
    ("query", "param"),
    [("after_id=none", "after_id"), ("before_id=none", "before_id"), ("after_id=m&before_id=m", "after_id")],
)
async def test_pages_that_do_not_exist(open_client: OpenClient, query: str, param: str) -> None:
    async with open_client(ScriptedBackend.saying("hi")) as client:
        page = await client.get(f"/v1/models?{query}", headers={"anthropic-version": "2023-06-01"})
    assert (page.status_code, page.json()["error"]["type"]) == (400, "invalid_request_error")
    assert param in page.json()["error"]["message"]


async def test_a_server_that_shuts_down(make_creator: MakeCreator) -> None:
    app = App(never_opened, lambda: "req_1", options())

    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("half")]
        app.lifetimes.drain(0)
        await asyncio.sleep(60)

    app.mount(services_of(make_creator(ScriptedBackend(steps))))
    async with memory_client(app) as client, asyncio.timeout(5):
        cut_off = await client.post("/v1/messages", json={**MESSAGES, "stream": True})
        late = await client.post("/v1/messages", json=MESSAGES)
    last = message_events(cut_off.text)[-1]
    assert (last["type"], last["error"]["type"]) == ("error", "overloaded_error")
    assert (late.status_code, late.json()["error"]["type"]) == (503, "overloaded_error")
    assert late.headers["connection"] == "close"
