"""Probes of real sockets: every kind of model server, and everything else that may listen on a port."""

import asyncio
import time

import pytest
from aiohttp import web

from antiphon.backends.scripted import ScriptedBackend
from antiphon.discovery.probe import MAX_LIST_BYTES, MAX_MODELS, ModelServer, Probe, probe
from antiphon.server.embedded_server import serve_embedded
from antiphon.server.process import bind
from antiphon.service.routing.router import Route
from antiphon.settings import ServerSettings, Settings, StoreSettings
from antiphon.wiring import build_app
from tests.discovery.servers import (
    Handler,
    ScriptedServer,
    closed_address,
    hanging_server,
    model_server,
    serving,
)

LIMIT_SECONDS = 10
"""Far more than a probe may take, on a busy machine."""


@pytest.mark.parametrize("kind", ["ollama", "lm-studio", "llama.cpp", "vllm", "plain"])
async def test_a_server_is_recognised_by_its_answers_not_by_its_port(kind: str) -> None:
    async with model_server(kind, "a", "b") as (server, address):
        assert await probe(address) == Probe("found", ModelServer(address, kind, ("a", "b")))
    assert all("authorization" not in headers for headers in server.headers)


async def test_ollama_without_models_is_found() -> None:
    server = ScriptedServer("ollama", None)
    async with serving(server.answer) as address:
        assert await probe(address) == Probe("found", ModelServer(address, "ollama", ()))


async def test_a_known_server_with_the_same_models_is_asked_once() -> None:
    async with model_server("ollama", "a") as (server, address):
        known = (await probe(address)).server
        server.paths.clear()
        assert (await probe(address, known)).server is known
        assert server.paths == ["/v1/models"]
        server.models = ["a", "b"]
        assert (await probe(address, known)).server == ModelServer(address, "ollama", ("a", "b"))


async def test_names_that_cannot_be_requested_are_left_out() -> None:
    names = ["ok", "", "x*", "*", "a*b", "line\nbreak", " space", "n" * 201, "ok", "second"]
    async with model_server("plain", *names) as (_, address):
        assert (await probe(address)).server == ModelServer(address, "plain", ("ok", "second"))


async def test_the_number_of_models_is_bounded() -> None:
    async with model_server("plain", *(f"m{number}" for number in range(MAX_MODELS + 5))) as (_, address):
        found = (await probe(address)).server
    assert found is not None
    assert len(found.models) == MAX_MODELS


async def test_nothing_listens() -> None:
    assert await probe(closed_address()) == Probe("absent")


async def test_a_server_that_hangs_costs_a_bounded_time() -> None:
    began = time.monotonic()
    async with hanging_server() as address:
        assert await probe(address) == Probe("silent")
    assert time.monotonic() - began < LIMIT_SECONDS


async def html(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>It works!</html>", content_type="text/html")


async def not_found(_: web.Request) -> web.StreamResponse:
    return web.Response(status=404, text="no")


async def other_json(_: web.Request) -> web.StreamResponse:
    return web.json_response({"data": [{"name": "a row of another API"}]})


async def empty_list(_: web.Request) -> web.StreamResponse:
    return web.json_response({"data": []})


async def odd_ids(_: web.Request) -> web.StreamResponse:
    return web.json_response({"data": [{"id": 7}]})


async def endless_json(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "application/json"})
    await response.prepare(request)
    for _ in range(2 * MAX_LIST_BYTES // 65536):
        await response.write(b" " * 65536)
    await response.write(b'{"object": "list", "data": [{"id": "m"}]}')
    return response


@pytest.mark.parametrize("handler", [html, not_found, other_json, empty_list, odd_ids])
async def test_a_program_that_lists_no_models_is_not_a_model_server(handler: Handler) -> None:
    async with serving(handler) as address:
        assert await probe(address) == Probe("other")


async def test_an_endless_list_is_not_read_to_its_end() -> None:
    async with serving(endless_json) as address:
        assert (await probe(address)).state in ("other", "silent")


async def test_a_body_that_never_ends_costs_a_bounded_time() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.05)

    began = time.monotonic()
    async with serving(drip) as address:
        assert await probe(address) == Probe("silent")
    assert time.monotonic() - began < LIMIT_SECONDS


async def test_a_redirect_is_not_followed() -> None:
    async with model_server("vllm", "m") as (server, address):

        async def redirect(_: web.Request) -> web.StreamResponse:
            raise web.HTTPFound(f"http://{address}/v1/models")

        async with serving(redirect) as redirecting:
            assert await probe(redirecting) == Probe("other")
        assert server.paths == []


async def test_a_program_that_does_not_speak_http_is_not_a_model_server() -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await probe(f"127.0.0.1:{port}") == Probe("other")


async def test_a_server_that_requires_a_key_is_not_sent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "the-key-of-this-server")
    server = ScriptedServer("vllm", ["m"], key="the-key-of-this-server")
    async with serving(server.answer) as address:
        assert await probe(address) == Probe("locked")
    assert all("authorization" not in headers for headers in server.headers)


async def test_a_server_that_loads_its_model_may_be_there_later() -> None:
    server = ScriptedServer("llama.cpp", ["m"], status=503)
    async with serving(server.answer) as address:
        assert await probe(address) == Probe("silent")


@pytest.mark.parametrize("keys", [(), ("a-key-for-the-clients",)])
@pytest.mark.parametrize("model", ["m", "*"])
async def test_another_antiphon_is_recognised(keys: tuple[str, ...], model: str) -> None:
    settings = Settings(server=ServerSettings(api_keys=keys), store=StoreSettings(url="memory:"))
    backend = ScriptedBackend.saying("Hello")
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        async with serve_embedded(
            lambda started: build_app(settings, routes=[Route(model, backend)], on_started=started),
            listener,
            max_message=1024,
        ):
            assert await probe(f"127.0.0.1:{port}") == Probe("antiphon")
