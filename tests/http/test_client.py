"""The HTTP client: its requests, accepted responses, and allowed destinations."""

import errno
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon.errors import BackendBroken, BackendError, BackendRefused, BackendUnreachable, SettingsError
from antiphon.http.client import (
    EVENT_STREAM,
    JSON,
    JSON_OR_EVENTS,
    LARGE_BODY_BYTES,
    Accept,
    HttpClient,
    HttpRequest,
)
from antiphon.http.connection import Disconnected
from antiphon.http.egress import ALLOW_CONFIGURED, Destination, EgressPolicy
from antiphon.http.exchange import Exchange, fetch
from antiphon.http.target import Target
from tests.http.raw_upstream import RawUpstream, Script, Wire, answering, complete_response, raw_upstream

PDF = Accept((200,), ("application/pdf",))
ANYTHING = Accept()


@asynccontextmanager
async def client_for(
    script: Script, *, egress: EgressPolicy = ALLOW_CONFIGURED, **options: Any
) -> AsyncGenerator[tuple[HttpClient, RawUpstream], None]:
    async with raw_upstream(script) as upstream:
        client = HttpClient(Target(name="x", base_url=upstream.url, **options), egress=egress)
        yield client, upstream
        client.close()


async def test_a_request_carries_the_headers_of_its_target_and_its_own() -> None:
    async with client_for(answering(complete_response(200, b"{}")), headers={"X-Own": "a"}) as (
        client,
        upstream,
    ):
        request = client.request("PUT", "things/1", b"body", headers={"x-more": "b"})
        assert await fetch(client, request, 1.0) == b"{}"
        wire = upstream.wires[0]
    line, *headers = wire.head.strip().split("\r\n")
    assert line == "PUT /v1/things/1 HTTP/1.1"
    assert {"x-own: a", "x-more: b", "content-length: 4"} <= set(headers)
    assert f"accept: {JSON}, {EVENT_STREAM}" in headers
    assert wire.body == b"body"


@pytest.mark.parametrize("size", [LARGE_BODY_BYTES, LARGE_BODY_BYTES + 1])
async def test_a_large_body_arrives_completely(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with client_for(answering(complete_response(200, b"{}"))) as (client, upstream):
        request = client.request("POST", "things", body)
        assert request.pieces == ((body,) if size > LARGE_BODY_BYTES else ())
        assert await fetch(client, request, 20.0) == b"{}"
        assert upstream.wires[0].body == body


async def test_a_path_with_a_slash_is_below_the_root_of_the_server() -> None:
    async with client_for(answering(complete_response(200, b"{}"))) as (client, upstream):
        await fetch(client, client.request("GET", "/api/ps"), 1.0)
        assert upstream.wires[0].head.startswith("GET /api/ps HTTP/1.1")


@pytest.mark.parametrize(
    ("accept", "status", "media", "taken"),
    [
        (JSON_OR_EVENTS, 200, JSON, True),
        (JSON_OR_EVENTS, 200, "text/html", False),
        (JSON_OR_EVENTS, 201, JSON, False),
        (PDF, 200, "application/pdf", True),
        (PDF, 200, JSON, False),
        (ANYTHING, 200, "image/png", True),
        (Accept((200, 201, 204)), 201, "text/plain", True),
        (Accept((404,)), 404, JSON, True),
        (Accept((302,)), 302, "text/plain", True),
    ],
)
async def test_statuses_and_media_types_are_parameters(
    accept: Accept, status: int, media: str, taken: bool
) -> None:
    async with client_for(answering(complete_response(status, b"body", media=media))) as (client, upstream):
        request = client.request("GET", "thing", accept=accept)
        if taken:
            assert await fetch(client, request, 1.0) == b"body"
        else:
            with pytest.raises(BackendBroken):
                await fetch(client, request, 1.0)
        assert accept.header.decode().strip() in upstream.wires[0].head


async def test_a_compressed_body_is_never_taken() -> None:
    compressed = complete_response(200, b"body", "Content-Encoding: gzip", media="image/png")
    async with client_for(answering(compressed)) as (client, _):
        with pytest.raises(BackendBroken, match="compressed"):
            await fetch(client, client.request("GET", "thing", accept=ANYTHING), 1.0)


async def test_an_error_status_is_an_error_with_its_status_and_pause() -> None:
    refused = complete_response(
        429, b"<p>slow down sk-canary-0123456789</p>", "Retry-After: 7", media="text/html"
    )
    async with client_for(answering(refused), secrets=("sk-canary-0123456789",)) as (client, _):
        with pytest.raises(BackendRefused, match="status 429: slow down") as caught:
            await fetch(client, client.request("GET", "thing"), 1.0)
    assert (caught.value.status, caught.value.retry_after) == (429, 7.0)
    assert "canary" not in caught.value.message


async def test_the_response_to_head_has_no_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Length: 1000\r\n\r\n"
    async with client_for(answering(head)) as (client, _):
        exchange = Exchange(client, client.request("HEAD", "thing", accept=PDF), first_byte=1.0)
        assert await exchange.opened()
        assert exchange.status == 200
        assert exchange.headers["content-length"] == "1000"
        assert await exchange.body() == b""
        exchange.close(complete=True)


async def test_an_empty_response_is_complete() -> None:
    async with client_for(answering(b"HTTP/1.1 204 No Content\r\n\r\n")) as (client, _):
        request = client.request("DELETE", "thing", accept=Accept((204,)))
        assert await fetch(client, request, 1.0) == b""


class Policy:
    """Records every destination, and rejects or redirects it."""

    def __init__(self, address: str | None) -> None:
        self.address = address
        self.destinations: list[Destination] = []

    async def permit(self, destination: Destination) -> str:
        self.destinations.append(destination)
        if self.address is None:
            raise BackendRefused("Connections to this address are not permitted.", status=403)
        return self.address


async def test_every_connection_passes_the_egress_policy() -> None:
    policy = Policy("127.0.0.1")
    async with client_for(answering(complete_response(200, b"{}")), egress=policy) as (client, upstream):
        for _ in range(2):
            await fetch(client, client.request("GET", "thing"), 1.0)
        assert upstream.connections == 1
        port = int(upstream.url.split(":")[2].partition("/")[0])
    assert policy.destinations == [Destination("127.0.0.1", port, tls=False)], (
        "once per connection, not per request"
    )


async def test_a_policy_decides_which_address_is_connected_to() -> None:
    async with raw_upstream(answering(complete_response(200, b"{}"))) as upstream:
        url = upstream.url.replace("127.0.0.1", "unknown.invalid")
        client = HttpClient(Target(name="x", base_url=url), egress=Policy("127.0.0.1"))
        assert await fetch(client, client.request("GET", "thing"), 1.0) == b"{}"
        assert "host: unknown.invalid:" in upstream.wires[0].head
        client.close()


async def test_a_destination_that_is_not_permitted_is_not_connected_to() -> None:
    async with client_for(answering(complete_response(200, b"{}")), egress=Policy(None)) as (
        client,
        upstream,
    ):
        with pytest.raises(BackendError, match="not permitted"):
            await fetch(client, client.request("GET", "thing"), 1.0)
        assert upstream.connections == 0


@pytest.mark.parametrize("url", ["ftp://x", "http://user@x", "http://x?q", "x", "http://x y"])
def test_a_target_needs_a_plain_address(url: str) -> None:
    with pytest.raises(SettingsError, match="base_url"):
        Target(name="x", base_url=url)


@pytest.mark.parametrize("headers", [{"a": "b\r\nc: d"}, {"a\n": "b"}])
def test_a_header_cannot_smuggle_another(headers: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="line break"):
        Target(name="x", base_url="http://x", headers=headers)


def test_a_request_is_json_by_default() -> None:
    assert HttpRequest(b"").accept is JSON_OR_EVENTS


def test_an_error_of_connecting_is_marked_unless_this_machine_caused_it() -> None:
    client = HttpClient(Target(name="gpu", base_url="http://127.0.0.1:9"))
    for error in (
        ConnectionRefusedError(errno.ECONNREFUSED, ""),
        socket.gaierror(),
        ssl.SSLError(),
        TimeoutError(),
    ):
        assert client.connect_error(error).unsent
    for number in (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL):
        assert not client.connect_error(OSError(number, "")).unsent
    assert not client.connection_error(Disconnected()).unsent


async def close_without_an_answer(wire: Wire) -> None:
    wire.close()


@pytest.mark.parametrize("resend", [True, False])
async def test_a_request_with_side_effects_is_not_sent_again_on_another_connection(resend: bool) -> None:
    answer = answering(complete_response(200, b"{}"))
    async with raw_upstream(answer, close_without_an_answer, answer) as upstream:
        client = HttpClient(Target(name="x", base_url=upstream.url))
        await fetch(client, client.request("POST", "things", b"1"), 1.0)
        request = client.request("POST", "things", b"2", resend=resend)
        if resend:
            assert await fetch(client, request, 1.0) == b"{}"
        else:
            with pytest.raises(BackendUnreachable):
                await fetch(client, request, 1.0)
        client.close()
    assert [wire.body for wire in upstream.wires] == ([b"1", b"2", b"2"] if resend else [b"1", b"2"])


async def test_an_error_names_the_kind_of_server() -> None:
    async with client_for(answering(complete_response(500, b"no")), noun="MCP server") as (client, _):
        with pytest.raises(BackendRefused, match=r"^The MCP server 'x' answered with status 500: no$"):
            await fetch(client, client.request("GET", "things"), 1.0)
