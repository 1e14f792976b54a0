"""Clients of WebSockets that send more than they should, against a real process and its memory."""

import http.client
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack

import pytest

from tests.server.raw_websocket import CONTINUATION, PING, TEXT, frame, raw_websocket
from tests.serving import Served, run_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("acceptance")]

CONNECTIONS = 20
MAX_MEMORY_MB = 500
LARGE = frame(TEXT, b'{"type":"response.create","model":"m","input":"' + b"x" * (31 * 2**20) + b'"}')
BEGUN, EMPTY = frame(TEXT, b"{", final=False), frame(CONTINUATION, b"", final=False)
ATTACKS = {
    "large messages": LARGE * 2,
    "halves of large messages": LARGE[:-1],
    "empty fragments": BEGUN + EMPTY * 200_000,
    "pings that are not read": frame(PING, b"x" * 125) * 100_000,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    with run_server(tmp_path_factory.mktemp("server"), "--upstream", "http://127.0.0.1:9/v1") as served:
        yield served


def healthy(server: Served) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
    connection.close()
    return status == 200


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_memory_of_a_server_is_bounded_and_given_back(server: Served, attack: str) -> None:
    before, highest = server.memory_mb(), 0.0
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(raw_websocket(server.port, compressed=True)) for _ in range(CONNECTIONS)
        ]
        for socket in sockets:
            socket.socket.settimeout(5)
        senders = [threading.Thread(target=socket.send, args=(ATTACKS[attack],)) for socket in sockets]
        for sender in senders:
            sender.start()
        while any(sender.is_alive() for sender in senders):
            highest = max(highest, server.memory_mb())
            time.sleep(0.02)
        assert healthy(server)
        highest = max(highest, server.memory_mb())
    assert highest < MAX_MEMORY_MB
    deadline = time.monotonic() + 20
    while server.memory_mb() > before + 120 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert server.memory_mb() <= before + 120
