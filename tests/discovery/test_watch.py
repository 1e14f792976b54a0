"""Discovery over time: servers that come, go, hang and change, and what a running service makes of it."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from antiphon.caller import Caller
from antiphon.discovery.found import Found
from antiphon.discovery.probe import ModelServer
from antiphon.discovery.watch import MAX_SILENT_LOOKS, Discovery
from antiphon.errors import ModelNotFound
from antiphon.server.embedded_server import serve_embedded
from antiphon.server.process import bind
from antiphon.service.tenant_service import TenantService
from antiphon.settings import (
    DiscoverySettings,
    LocalSettings,
    Settings,
    StoreSettings,
    UpstreamSettings,
)
from antiphon.wiring import build_app, open_agents
from antiphon.wiring.live import LiveRoutes
from tests.discovery.servers import ScriptedServer, closed_address, hanging_server, model_server, serving

KEY = "a-key-of-some-provider"


def settings_for(*addresses: str, interval: float = 0.05, keys: bool = True) -> Settings:
    return Settings(
        store=StoreSettings(url="memory:"),
        local=LocalSettings(enabled=False),
        discovery=DiscoverySettings(enabled=True, addresses=addresses, interval=interval, keys=keys),
    )


def finder(own_port: int | None = None, **environment: str) -> Discovery:
    return Discovery(own_port=own_port, environment=environment, chance=lambda: 0.5)


async def test_all_addresses_are_probed_at_once() -> None:
    async with AsyncExitStack() as stack:
        hanging = [await stack.enter_async_context(hanging_server()) for _ in range(12)]
        _, address = await stack.enter_async_context(model_server("vllm", "m"))
        began = time.monotonic()
        found = await finder().look(settings_for(*hanging, closed_address(), address))
        assert time.monotonic() - began < 10  # one after the other, it would be 12 s at least
    server = ModelServer(address, "vllm", ("m",))
    assert found == Found((server,), seen=(server,))


async def test_the_servers_own_port_is_never_probed() -> None:
    async with model_server("vllm", "m") as (server, address):
        port = int(address.rpartition(":")[2])
        assert await finder(port).look(settings_for(address, f"localhost:{port}")) == Found()
        assert server.paths == []


async def test_without_discovery_nothing_is_probed() -> None:
    async with model_server("vllm", "m") as (server, address):
        off = DiscoverySettings(enabled=False, addresses=(address,))
        assert await finder(OPENAI_API_KEY=KEY).look(Settings(discovery=off)) == Found()
        assert server.paths == []


async def test_keys_are_used_unless_that_is_turned_off() -> None:
    discovery = finder(OPENAI_API_KEY=KEY)
    assert [row.name for row in (await discovery.look(settings_for())).providers] == ["openai"]
    assert (await discovery.look(settings_for(keys=False))).providers == ()


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 7.5), (0.5, 10.0), (1.0, 12.5)])
def test_the_intervals_differ_by_a_quarter(chance: float, seconds: float) -> None:
    discovery = Discovery(environment={}, chance=lambda: chance)
    assert discovery.pause_seconds(settings_for(interval=10)) == seconds


async def test_a_server_comes_changes_and_goes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    address = closed_address()
    discovery, settings = finder(), settings_for(address)
    assert (await discovery.look(settings)).servers == ()
    assert caplog.records == []
    async with model_server("ollama", "a", port=int(address.rpartition(":")[2])) as (server, _):
        assert (await discovery.look(settings)).servers[0].models == ("a",)
        server.models = ["b"]
        found = await discovery.look(settings)
        assert (found.servers[0].models, found.seen[0].models) == (("b",), ("b", "a"))
        assert await discovery.look(settings) == found
    found = await discovery.look(settings)
    assert (found.servers, found.seen[0].models) == ((), ("b", "a"))
    assert [record.message for record in caplog.records] == [
        f"found ollama at http://{address}/v1: a",
        f"found ollama at http://{address}/v1: b",
        f"ollama at http://{address}/v1 is gone",
    ]


async def test_a_busy_server_is_not_gone_at_once() -> None:
    async with model_server("llama.cpp", "m") as (server, address):
        discovery, settings = finder(), settings_for(address)
        await discovery.look(settings)
        server.status = 503
        looks = [await discovery.look(settings) for _ in range(MAX_SILENT_LOOKS)]
        assert [len(found.servers) for found in looks] == [1] * (MAX_SILENT_LOOKS - 1) + [0]
        server.status = 200
        await discovery.look(settings)
        server.status = 503
        assert (await discovery.look(settings)).servers


async def test_a_server_that_is_not_used_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = ScriptedServer("vllm", ["m"], key="secret")
    async with serving(server.answer) as address:
        discovery = finder()
        for _ in range(3):
            assert (await discovery.look(settings_for(address))).servers == ()
    assert [record.message for record in caplog.records] == [
        f"the server at {address} requires a key: configure it as an upstream to use it"
    ]


async def test_the_log_names_the_server_of_a_contested_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with model_server("vllm", "m") as (_, one), model_server("ollama", "m") as (_, two):
        discovery = finder()
        for _ in range(2):
            await discovery.look(settings_for(one, two))
    assert [record.message for record in caplog.records][2:] == [
        "the model 'ollama/m' needs its prefix: without it, vllm answers"
    ]


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 -- what is observed has no event
            await asyncio.sleep(0.02)


@pytest.mark.usefixtures("empty_folder")
async def test_a_running_server_serves_what_comes_and_forgets_what_goes() -> None:
    first, late = closed_address(), closed_address()
    settings = settings_for(first, late)
    live = LiveRoutes(settings, discovery=finder(OPENAI_API_KEY=KEY), grace=0)
    async with model_server("vllm", "m", port=int(first.rpartition(":")[2])) as (server, _):
        listener = bind("127.0.0.1", 0)
        listener.listen()
        with listener:
            async with serve_embedded(
                lambda started: build_app(settings, live=live, on_started=started),
                listener,
                max_message=1024,
            ):
                assert [one.address for one in live.found.servers] == [first]  # before the first request
                async with model_server("ollama", "late", port=int(late.rpartition(":")[2])):
                    await until(lambda: len(live.found.servers) == 2)
                await until(lambda: len(live.found.servers) == 1)
                assert server.questions == []


@pytest.mark.usefixtures("empty_folder")
async def test_a_request_goes_to_the_found_server_by_name_and_as_auto(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "must-not-be-sent-anywhere")
    async with model_server("vllm", "m") as (server, address):
        settings = settings_for(address)
        live = LiveRoutes(settings, discovery=finder())
        await live.discover()
        async with open_agents(settings, live=live) as served:
            tenant = TenantService(served.services, Caller.of("t"))
            for name in ("m", "vllm/m", "auto"):
                response = await tenant.create(model=name, input="Who?")
                assert (response.model, response.status) == (name, "completed")
            assert await tenant.models() == ["m", "auto"]
    assert [question["model"] for question in server.questions] == ["m", "m", "m"]
    assert all("authorization" not in headers for headers in server.headers)


@pytest.mark.usefixtures("empty_folder")
async def test_a_reload_turns_discovery_off_and_on() -> None:
    async with model_server("vllm", "m") as (_, address):
        on = settings_for(address)
        off = replace(on, discovery=replace(on.discovery, enabled=False))
        live = LiveRoutes(on, discovery=finder())
        await live.discover()
        async with open_agents(on, live=live) as served:
            router = served.services.router
            assert router.routes("m")
            live.reload(lambda: off)
            with pytest.raises(ModelNotFound):
                router.routes("m")
            live.reload(lambda: on)
            assert router.routes("m")
            # Without `enabled`, a configured upstream turns it off.
            upstream = UpstreamSettings(base_url=f"http://{address}/v1", models=("mine",))
            live.reload(lambda: replace(on, upstreams=(upstream,), discovery=DiscoverySettings()))
            assert router.routes("mine")
            with pytest.raises(ModelNotFound):
                router.routes("m")


@pytest.mark.usefixtures("empty_folder")
async def test_routes_of_a_found_server_that_stays_are_kept() -> None:
    async with model_server("vllm", "m") as (_, address):
        late = closed_address()
        settings, discovery = settings_for(address, late, interval=60), finder()
        live = LiveRoutes(settings, discovery=discovery)
        await live.discover()
        async with open_agents(settings, live=live) as served:
            router = served.services.router
            before = router.routes("m")[0]
            await live.discover()
            assert router.routes("m")[0] is before  # nothing changed: not even the table of routes
            async with model_server("ollama", "late", port=int(late.rpartition(":")[2])):
                await live.discover()
            assert router.routes("late")
            assert router.routes("m")[0].backend is before.backend


async def test_a_failed_look_does_not_stop_the_server(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Discovery):
        async def look(self, settings: Settings) -> Found:
            raise RuntimeError("broken on purpose")

    live = LiveRoutes(Settings(), discovery=Broken())
    await live.discover()
    assert "the look for models failed" in caplog.text
