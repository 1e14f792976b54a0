"""A port that is taken: who has it, and which command to run."""

import json
import re
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.server.embedded_server import serve_embedded
from antiphon.server.process import bind
from antiphon.service.routing.router import Route
from antiphon.settings import Settings, StoreSettings
from antiphon.wiring import build_app
from tests.cli.conftest import Run
from tests.discovery.servers import in_thread, model_server


@asynccontextmanager
async def llama_cpp() -> AsyncGenerator[str, None]:
    async with model_server("llama.cpp", "m") as (_, address):
        yield address


@asynccontextmanager
async def unknown_server() -> AsyncGenerator[str, None]:
    async with model_server("plain", "m") as (_, address):
        yield address


@asynccontextmanager
async def antiphon() -> AsyncGenerator[str, None]:
    settings = Settings(store=StoreSettings(url="memory:"))
    routes = [Route("m", ScriptedBackend.saying("Hello"))]
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        async with serve_embedded(
            lambda started: build_app(settings, routes=routes, on_started=started), listener
        ):
            yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (
            llama_cpp,
            "Cannot listen on ADDRESS: llama.cpp uses it. Start Antiphon on another port, where it finds those "
            "models: antiphon serve --port NEXT",
        ),
        (
            unknown_server,
            "Cannot listen on ADDRESS: another model server uses it. Start Antiphon on another port, where it "
            "finds those models: antiphon serve --port NEXT",
        ),
        (
            antiphon,
            "Cannot listen on ADDRESS: another Antiphon uses it. Use that one at http://ADDRESS/v1, or start a "
            "second one: antiphon serve --port NEXT",
        ),
    ],
)
def test_serve_and_doctor_name_who_has_the_port(
    run: Run,
    server: Callable[[], AbstractAsyncContextManager[str]],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with in_thread(server) as address:
        port = address.rpartition(":")[2]
        monkeypatch.setenv("ANTIPHON_SERVER__PORT", port)
        monkeypatch.setenv("ANTIPHON_LOCAL__ENABLED", "false")
        monkeypatch.setenv("ANTIPHON_DISCOVERY__ADDRESSES", json.dumps([address]))
        refused, doctor = run("serve"), run("doctor")
    assert refused.exit_code == 2
    found = re.search(r"antiphon serve --port (\d+)$", refused.stderr.strip())
    assert found, refused.stderr
    assert int(found[1]) > int(port)
    expected = message.replace("ADDRESS", address).replace("NEXT", found[1])
    assert expected in refused.stderr
    assert expected.partition(". ")[0] in doctor.stdout


def test_the_recommended_port_is_free(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as next_one:
        port = taken.getsockname()[1]
        try:
            next_one.bind(("127.0.0.1", port + 1))
            next_one.listen()
        except OSError:
            pytest.skip("another program has the next port")
        result = run("serve", "--port", str(port), "--no-discovery")
    assert f"--port {port + 1}" not in result.stderr
    assert "another program uses it. Start Antiphon on another port: antiphon serve --port" in result.stderr
