"""A model that floods, against a real process: memory, other clients, and how soon it is cancelled."""

import http.client
import json
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from tests.flooding_upstream import FloodingUpstream, run_flooding_upstream
from tests.serving import Served, run_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("acceptance")]

MAX_MEMORY_MB = 400
MAX_CANCEL_SECONDS = 4.0
"""A second on an idle machine; the end of an answer of 8 MB is mostly a matter of the disk."""


@pytest.fixture(scope="module")
def upstream() -> Generator[FloodingUpstream, None, None]:
    with run_flooding_upstream() as running:
        yield running


@pytest.fixture(scope="module")
def server(
    upstream: FloodingUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Served, None, None]:
    with run_server(tmp_path_factory.mktemp("server"), "--upstream", upstream.url) as served:
        yield served


def call(server: Served, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    payload = None if body is None else json.dumps(body)
    connection.request(method, f"/v1/responses{path}", payload, {"content-type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def wait_until_closed(upstream: FloodingUpstream) -> None:
    deadline = time.monotonic() + 20
    while upstream.open_answers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert upstream.open_answers() == 0


@pytest.mark.parametrize("model", ["text", "large", "reasoning", "arguments"])
def test_a_flood_in_the_background_is_cancelled_soon(
    server: Served, upstream: FloodingUpstream, model: str
) -> None:
    seconds: list[float] = []
    for pause in (0.1, 0.5, 1.0):
        response = call(server, "POST", "", {"model": model, "input": "hi", "background": True})
        time.sleep(pause)
        begun = time.monotonic()
        ended = call(server, "POST", f"/{response['id']}/cancel")
        while ended["status"] == "in_progress":  # the answer does not wait for a slow disk
            time.sleep(0.05)
            ended = call(server, "GET", f"/{response['id']}")
        seconds.append(time.monotonic() - begun)
        assert ended["status"] in ("cancelled", "incomplete")
    assert max(seconds) < MAX_CANCEL_SECONDS, seconds
    wait_until_closed(upstream)
    assert server.memory_mb() < MAX_MEMORY_MB


def test_floods_are_bounded_while_others_are_served(server: Served, upstream: FloodingUpstream) -> None:
    endings: list[str] = []

    def ask(model: str) -> None:
        body = {"model": model, "input": "hi", "background": True}
        response = call(server, "POST", "", body)
        while response["status"] in ("queued", "in_progress"):
            time.sleep(0.2)
            response = call(server, "GET", f"/{response['id']}")
        endings.append(response["status"])

    threads = [threading.Thread(target=ask, args=(model,)) for model in ("text", "reasoning")]
    for thread in threads:
        thread.start()
    highest, slowest = 0.0, 0.0
    while any(thread.is_alive() for thread in threads):
        begun = time.monotonic()
        answer = call(server, "POST", "", {"model": "text-1", "input": "hi", "store": False})
        slowest = max(slowest, time.monotonic() - begun)
        assert answer["status"] == "completed"
        highest = max(highest, server.memory_mb())
        time.sleep(0.02)
    assert endings == ["incomplete"] * 2
    assert highest < MAX_MEMORY_MB
    assert slowest < 3
    wait_until_closed(upstream)
