"""Real processes: behaviour at their edges."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Served, run_server
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("acceptance")]


@pytest.fixture(scope="module")
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@pytest.fixture(scope="module")
def server(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    with run_server(tmp_path_factory.mktemp("server"), "--upstream", upstream.url) as served:
        yield served


def post(
    served: Served, body: bytes | dict[str, Any], headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    payload = body if isinstance(body, bytes) else json.dumps(body)
    connection.request(
        "POST", "/v1/responses", payload, {"content-type": "application/json", **(headers or {})}
    )
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if answer.getheader(
        "content-type"
    ) == "application/json" else content


def raw(served: Served, data: bytes, seconds: float = 5) -> bytes:
    """Send these bytes, and read until the server closes or has answered."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=seconds) as connection:
        connection.sendall(data)
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
                if b"\r\n\r\n" in received and received.count(b'"code"'):
                    break
        except TimeoutError:
            pass
        return received


def open_stream(served: Served, model: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    body = json.dumps({"model": model, "input": "x", "stream": True})
    connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
    return connection, connection.getresponse()


def test_a_client_disconnect_stops_the_upstream_within_a_second(server: Served, upstream: Upstream) -> None:
    upstream.cut_off.clear()
    connection, answer = open_stream(server, "hangs")
    assert answer.readline() == b"event: response.created\n"
    disconnected_at = time.monotonic()
    answer.close()
    connection.close()
    assert upstream.cut_off.wait(3)
    assert time.monotonic() - disconnected_at < 1


def test_sigterm_lets_open_streams_end_and_exits_with_0(upstream: Upstream, tmp_path: Path) -> None:
    with run_server(tmp_path, "--upstream", upstream.url, "--drain", "0.5") as served:
        connection, answer = open_stream(served, "hangs")
        answer.readline()
        ended: list[int] = []
        stopping = threading.Thread(target=lambda: ended.append(served.stop()))
        stopping.start()
        rest = answer.read()
        stopping.join(10)
        connection.close()
    assert ended == [0]
    assert b"event: error" in rest
    assert b"event: response.failed" in rest
    assert rest.endswith(b"data: [DONE]\n\n")


def test_an_idle_server_stops_at_once(upstream: Upstream, tmp_path: Path) -> None:
    with run_server(tmp_path, "--upstream", upstream.url) as served:
        began = time.monotonic()
        assert served.stop() == 0
        assert time.monotonic() - began < 3


def test_a_heartbeat_is_sent_while_the_upstream_is_silent(upstream: Upstream, tmp_path: Path) -> None:
    environment = {"ANTIPHON_SERVER__HEARTBEAT": "0.1"}
    with run_server(tmp_path, "--upstream", upstream.url, environment=environment) as served:
        connection, answer = open_stream(served, "hangs")
        for _ in range(80):
            if answer.readline() == b"event: keepalive\n":
                break
        else:
            raise AssertionError("no keepalive was received")
        answer.close()
        connection.close()


def test_a_line_of_64_mb_is_a_failure_within_bounded_memory(server: Served) -> None:
    before = server.memory_mb()
    status, body = post(server, {"model": "endless", "input": "x", "stream": True})
    assert (status, body["error"]["code"]) == (502, "upstream_protocol_error")
    assert server.memory_mb() - before < 48
    assert post(server, {"model": "echo", "input": "next"})[0] == 200


def test_an_upstream_that_is_not_there_is_a_502(tmp_path: Path) -> None:
    with run_server(tmp_path, "--upstream", "http://127.0.0.1:9/v1") as served:
        for stream in (False, True):
            status, body = post(served, {"model": "m", "input": "x", "stream": stream})
            assert (status, body["error"]["code"]) == (502, "upstream_unreachable")


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (b"", b"400", b"invalid_host"),
        (b"host: localhost\r\nhost: localhost\r\n", b"400", b"invalid_host"),
        (b"host: evil.example\r\n", b"400", b"invalid_host"),
        (b"host: localhost:evil\r\n", b"400", b"invalid_host"),
        (b"host: localhost\r\nauthorization: a\r\nAuthorization: b\r\n", b"400", b"invalid_value"),
        (b"host: localhost\r\ncontent-type: a\r\ncontent-type: a\r\n", b"400", b"invalid_value"),
        (b"host: localhost\r\norigin: a\r\norigin: b\r\n", b"400", b"invalid_value"),
        (b"host: localhost\r\nx-api-key: a\r\nx-api-key: b\r\n", b"400", b"invalid_value"),
        (b"host: localhost\r\ncontent-length: 99999999999\r\n", b"413", b"request_too_large"),
        (b"host: localhost\r\nx: " + b"y" * 40_000 + b"\r\n", b"431", b"headers_too_large"),
    ],
)
def test_a_hostile_head_is_rejected(server: Served, head: bytes, status: bytes, code: bytes) -> None:
    answer = raw(server, b"POST /v1/responses HTTP/1.1\r\n" + head + b"\r\n")
    assert answer.split(b" ")[1] == status
    assert b'"code":"%b"' % code in answer


def test_a_body_beyond_the_limit_is_rejected_and_the_next_request_served(server: Served) -> None:
    status, body = post(server, b'{"input":"' + b"x" * (33 * 2**20) + b'"}')
    assert (status, body["error"]["code"]) == (413, "request_too_large")
    assert post(server, {"model": "echo", "input": "next"})[0] == 200


def test_keys_are_required_on_the_wire(upstream: Upstream, tmp_path: Path) -> None:
    environment = {"ANTIPHON_SERVER__API_KEYS": '["the-key"]'}
    with run_server(tmp_path, "--upstream", upstream.url, environment=environment) as served:
        body = {"model": "echo", "input": "x"}
        assert post(served, body)[0] == 401
        assert post(served, body, {"authorization": "Bearer the-key"})[0] == 200
        assert "the-key" not in served.log.read_text()


def test_several_workers_share_a_port(upstream: Upstream, tmp_path: Path) -> None:
    with run_server(tmp_path, "--upstream", upstream.url, "--workers", "2", "--store", "none") as served:
        for _ in range(8):
            assert post(served, {"model": "echo", "input": "x"})[0] == 200
        assert served.stop() == 0
