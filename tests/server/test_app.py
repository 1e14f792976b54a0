"""Routes, errors, keys and hosts, through the application in memory."""

from typing import Any

import httpx2
import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import BackendRefused
from antiphon.server.app import App
from antiphon.server.auth import Keys
from antiphon.server.guard import HostGuard
from antiphon.server.routes.table import ROUTES
from antiphon.server.types import Message, Scope
from antiphon.turn.chunks import HEARTBEAT, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.server.conftest import OpenClient, never_opened, options, services_of
from tests.service.conftest import MakeCreator
from tests.turn.order import check_order

BODY = {"model": "m", "input": "hi"}


def scripted() -> ScriptedBackend:
    return ScriptedBackend.saying("Hel", "lo")


def events_of(stream: str) -> list[dict[str, Any]]:
    """Parse a stream strictly, and check its framing."""
    *blocks, done, rest = stream.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    events: list[dict[str, Any]] = []
    for block in blocks:
        name, data = block.split("\n")
        event = msgspec.json.decode(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


@pytest.mark.requirement(
    "PROTOCOL/object-essential",
    "PROTOCOL/framing-json-media-type",
    "PROTOCOL/errors-request-id",
)
async def test_a_json_answer(open_client: OpenClient) -> None:
    async with open_client(scripted()) as client:
        answer = await client.post("/v1/responses", json=BODY)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"] == "req_1"
    assert answer.json()["output"][0]["content"][0]["text"] == "Hello"


@pytest.mark.requirement(
    "PROTOCOL/framing-stream-media-type",
    "PROTOCOL/framing-done",
    "PROTOCOL/stream-created",
    "PROTOCOL/divergence-done-line",
)
async def test_a_stream_of_events(open_client: OpenClient) -> None:
    async with open_client(scripted()) as client:
        answer = await client.post("/v1/responses", json={**BODY, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-request-id"] == "req_1"
    events = events_of(answer.text)
    check_order(events)
    assert [event["delta"] for event in events if event["type"] == "response.output_text.delta"] == [
        "Hel",
        "lo",
    ]


@pytest.mark.requirement("PROTOCOL/stream-error", "PROTOCOL/divergence-error-nested")
async def test_an_error_in_mid_stream_is_sent_in_the_stream(open_client: OpenClient) -> None:
    backend = ScriptedBackend([[TextDelta("a")], BackendRefused("overloaded", status=429)])
    async with open_client(backend) as client:
        answer = await client.post("/v1/responses", json={**BODY, "stream": True})
    events = events_of(answer.text)
    check_order(events)
    assert events[-2]["error"]["message"] == "overloaded"
    assert events[-1]["response"]["error"]["code"] == "rate_limit_exceeded"


async def test_a_bug_in_mid_stream_still_ends_the_stream_well(open_client: OpenClient) -> None:
    def broken(_turn: TurnRequest) -> Any:
        yield [TextDelta("a")]
        raise ZeroDivisionError

    async with open_client(ScriptedBackend(broken)) as client:
        answer = await client.post("/v1/responses", json={**BODY, "stream": True})
    events = events_of(answer.text)
    check_order(events)
    assert events[-2]["error"]["code"] == "internal_error"


async def test_a_bug_before_the_answer_is_a_500_without_details(open_client: OpenClient) -> None:
    def broken(_turn: TurnRequest) -> Any:
        raise ZeroDivisionError("secret")

    async with open_client(ScriptedBackend(broken)) as client:
        for stream in (False, True):
            answer = await client.post("/v1/responses", json={**BODY, "stream": stream})
            assert answer.status_code == 500
            assert answer.json()["error"]["code"] == "internal_error"
            assert "secret" not in answer.text


@pytest.mark.requirement("PROTOCOL/errors-before-stream")
async def test_an_upstream_error_before_the_first_event_has_its_status(open_client: OpenClient) -> None:
    error = BackendRefused("slow down", status=429, retry_after=7)
    async with open_client(ScriptedBackend([error])) as client:
        answer = await client.post("/v1/responses", json={**BODY, "stream": True})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert answer.json()["error"]["type"] == "rate_limit_error"


@pytest.mark.requirement("PROTOCOL/endpoints-models", "PROTOCOL/endpoints-model")
async def test_models_are_listed_and_retrieved(open_client: OpenClient) -> None:
    async with open_client(scripted()) as client:
        listed = (await client.get("/v1/models")).json()
        one = (await client.get("/v1/models/m")).json()
    assert listed["object"] == "list"
    assert listed["data"] == [one]
    assert one == {"id": "m", "object": "model", "created": 0, "owned_by": "antiphon"}


async def test_health(open_client: OpenClient) -> None:
    async with open_client(scripted(), app_options=options(keys=Keys(["k"]))) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200


def assert_error(answer: Any, status: int, code: str) -> None:
    assert answer.status_code == status
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code
    assert error["message"]
    assert answer.headers["x-request-id"] == "req_1"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "unknown_url"),
        ("POST", "/responses", 404, "unknown_url"),
        ("POST", "/v1/nowhere", 404, "unknown_url"),
        ("PUT", "/v1/responses", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("DELETE", "/v1/models/m", 405, "method_not_allowed"),
        ("GET", "/v1/models/none/such", 404, "model_not_found"),
        ("GET", "/v1/models/", 404, "unknown_url"),
        ("GET", "/v1/responses/", 404, "unknown_url"),
        ("GET", "/v1/responses/a/b", 404, "unknown_url"),
        ("GET", "/v1/responses/a/cancel", 405, "method_not_allowed"),
        ("PATCH", "/v1/responses/a", 405, "method_not_allowed"),
        ("PUT", "/v1/conversations/a/items/b", 405, "method_not_allowed"),
        ("GET", "/v1/conversations/a/items/b/c", 404, "unknown_url"),
    ],
)
@pytest.mark.requirement("PROTOCOL/errors-object", "PROTOCOL/errors-route")
async def test_an_unknown_path_is_an_error_object(
    open_client: OpenClient, method: str, path: str, status: int, code: str
) -> None:
    async with open_client(scripted()) as client:
        answer = await client.request(method, path)
        assert_error(answer, status, code)
        if status == 426:
            assert answer.headers["upgrade"] == "websocket"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/responses", "POST, GET"),
        ("/v1/responses/a", "GET, DELETE"),
        ("/v1/responses/a/cancel", "POST"),
        ("/v1/conversations/a", "GET, POST, DELETE"),
        ("/v1/models/a/b", "GET"),
    ],
)
@pytest.mark.requirement("PROTOCOL/errors-method")
async def test_a_wrong_method_lists_the_allowed_ones(
    open_client: OpenClient, path: str, allowed: str
) -> None:
    async with open_client(scripted()) as client:
        answer = await client.request("PATCH", path)
    assert_error(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    ("request_options", "status", "code"),
    [
        ({"content": b""}, 400, "invalid_json"),
        ({"content": b"{"}, 400, "invalid_json"),
        ({"content": b"[]"}, 400, "invalid_type"),
        ({"content": b"\xff"}, 400, "invalid_type"),
        ({"json": {"model": "other", "input": "x"}}, 404, "model_not_found"),
        ({"json": {"model": "m", "input": "x" * 3000}}, 413, "request_too_large"),
        ({"content": b"x", "headers": {"content-type": "text/plain"}}, 415, "unsupported_media_type"),
        ({"json": BODY, "headers": {"content-encoding": "gzip"}}, 415, "unsupported_media_type"),
        ({"json": BODY, "headers": {"x-large": "x" * 40_000}}, 431, "headers_too_large"),
    ],
)
@pytest.mark.requirement("PROTOCOL/errors-media-type")
async def test_a_bad_body_or_head_is_an_error_object(
    open_client: OpenClient, request_options: dict[str, Any], status: int, code: str
) -> None:
    async with open_client(scripted(), app_options=options(max_body=2000)) as client:
        answer = await client.post("/v1/responses", **request_options)
        assert answer.status_code == status
        if request_options.get("content") != b"\xff":
            assert_error(answer, status, code)


async def test_a_json_media_type_with_parameters_is_json(open_client: OpenClient) -> None:
    async with open_client(scripted()) as client:
        for media in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/problem+json"):
            answer = await client.post("/v1/responses", json=BODY, headers={"content-type": media})
            assert answer.status_code == 200


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        (None, "missing_api_key"),
        ("Basic right", "missing_api_key"),
        ("right", "missing_api_key"),
        ("Bearer", "missing_api_key"),
        ("Bearer wrong", "invalid_api_key"),
    ],
)
@pytest.mark.requirement("PROTOCOL/errors-key")
async def test_without_a_known_key_requests_are_rejected(
    open_client: OpenClient, authorization: str | None, code: str
) -> None:
    headers = {"authorization": authorization} if authorization else {}
    async with open_client(scripted(), app_options=options(keys=Keys(["other", "right"]))) as client:
        for path in ("/v1/models", "/v1/responses", "/nowhere"):
            answer = await client.get(path, headers=headers)
            assert_error(answer, 401, code)
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_any_configured_key_opens(open_client: OpenClient) -> None:
    async with open_client(scripted(), app_options=options(keys=Keys(["other", "right"]))) as client:
        answer = await client.get("/v1/models", headers={"authorization": "bearer right"})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("host", "welcome"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("[::1]", True),
        ("gateway.test", True),
        ("evil.example", False),
        ("localhost.evil.example:80", False),
        ("localhost:evil", False),
        ("localhost:80:80", False),
        ("[::1", False),
        ("[::1]evil", False),
        ("", False),
    ],
)
async def test_a_loopback_server_answers_to_loopback_names(
    open_client: OpenClient, host: str, welcome: bool
) -> None:
    names = ["localhost", "127.0.0.1", "::1", "gateway.test"]
    async with open_client(scripted(), app_options=options(hosts=HostGuard(names))) as client:
        answer = await client.get("/healthz", headers={"host": host})
        assert (answer.status_code == 200) is welcome


@pytest.mark.parametrize(
    ("host", "welcome"),
    [
        ("gateway.example", True),
        ("10.0.0.1:8080", True),
        ("[::1]:80", True),
        ("a:evil", False),
        ("[::1", False),
    ],
)
async def test_a_server_on_any_address_answers_to_every_valid_host(
    open_client: OpenClient, host: str, welcome: bool
) -> None:
    async with open_client(scripted(), app_options=options(hosts=HostGuard(None))) as client:
        answer = await client.get("/healthz", headers={"host": host})
        if welcome:
            assert answer.status_code == 200
        else:
            assert_error(answer, 400, "invalid_host")


async def test_a_heartbeat_reaches_the_client_before_the_first_delta(open_client: OpenClient) -> None:
    backend = ScriptedBackend([HEARTBEAT, HEARTBEAT, [TextDelta("a"), Finished("stop")]])
    async with open_client(backend) as client:
        events = events_of((await client.post("/v1/responses", json={**BODY, "stream": True})).text)
    check_order(events)
    assert [event["type"] for event in events].count("keepalive") == 2


ORIGINS = [
    (b"", False),
    (b"null", False),
    (b"https://evil.example", False),
    (b"http://localhost:3000", False),
    (b"http://localhost.evil.example", False),
    (b"http://LOCALHOST", True),
    (b"https://localhost", True),
    (b"http://localhost:80", True),
    (b"https://localhost:80", False),
]
"""Headers that a browser sends for a page, and whether pages of that origin may call the host `localhost`."""


@pytest.mark.parametrize(("origin", "welcome"), ORIGINS)
@pytest.mark.parametrize("names", [["localhost"], None], ids=["loopback", "anywhere"])
async def test_requests_of_web_pages_of_other_sites_are_rejected(
    open_client: OpenClient, origin: bytes, welcome: bool, names: list[str] | None
) -> None:
    backend = scripted()
    async with open_client(backend, app_options=options(hosts=HostGuard(names))) as client:
        headers = httpx2.Headers([(b"host", b"localhost"), (b"origin", origin)])
        answer = await client.post("/v1/responses", content=msgspec.json.encode(BODY), headers=headers)
        if welcome:
            assert answer.status_code == 200, answer.text
        else:
            assert_error(answer, 403, "forbidden_origin")
        assert len(backend.turns) == int(welcome)


async def test_requests_with_a_key_are_accepted_from_any_site(open_client: OpenClient) -> None:
    async with open_client(scripted(), app_options=options(keys=Keys(["right"]))) as client:
        headers = {"origin": "https://app.example", "authorization": "Bearer right"}
        assert (await client.post("/v1/responses", json=BODY, headers=headers)).status_code == 200


@pytest.mark.parametrize(("origin", "welcome"), ORIGINS)
async def test_web_pages_of_other_sites_open_no_socket(
    make_creator: MakeCreator, origin: bytes, welcome: bool
) -> None:
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator(scripted())))
    answer = await handshake(app, "/v1/responses", headers=((b"origin", origin),))
    assert answer.get("status") == (None if welcome else 403)


async def handshake(
    app: App, path: str, authorization: str = "", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Message:
    """The first message that answers a WebSocket handshake."""
    sent: list[Message] = []
    messages = iter(["websocket.connect", "websocket.disconnect"])

    async def receive() -> Message:
        return {"type": next(messages), "code": 1000}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "websocket",
        "path": path,
        "headers": [(b"host", b"localhost"), (b"authorization", authorization.encode()), *headers],
        "extensions": {"websocket.http.response": {}},
    }
    await app(scope, receive, send)
    return sent[0]


@pytest.mark.parametrize(
    ("path", "authorization", "websocket", "status"),
    [
        ("/v1/responses", "Bearer right", True, None),
        ("/v1/responses", "Bearer wrong", True, 401),
        ("/v1/responses", "Bearer right", False, 426),
        ("/v1/models", "Bearer right", True, 404),
        ("/v1/models", "Bearer wrong", True, 401),
    ],
)
@pytest.mark.requirement("PROTOCOL/websocket-refusal")
async def test_a_socket_is_accepted_or_rejected_with_a_status(
    make_creator: MakeCreator, path: str, authorization: str, websocket: bool, status: int | None
) -> None:
    app = App(never_opened, lambda: "req_1", options(keys=Keys(["right"]), websocket=websocket))
    app.mount(services_of(make_creator(scripted())))
    answer = await handshake(app, path, authorization)
    assert answer["type"] == ("websocket.accept" if status is None else "websocket.http.response.start")
    assert answer.get("status") == status


async def test_the_list_of_routes_is_complete(make_creator: MakeCreator) -> None:
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator(scripted())))
    absent = ("/v1/agent/", "/v1/conformance")
    assert app.routes.names == tuple(route.name for route in ROUTES if not route.path.startswith(absent))
