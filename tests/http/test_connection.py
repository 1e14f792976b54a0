"""Connections, against bytes that HTTP libraries do not send."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.errors import BackendBroken
from antiphon.http import connection
from antiphon.http.client import HttpClient
from antiphon.http.connection import Connection, CutOff, Disconnected, IncomingResponse, NotHttp, Pool
from antiphon.http.exchange import fetch
from antiphon.http.target import Target
from tests.http.raw_upstream import (
    SSE_HEAD,
    RawUpstream,
    Script,
    Wire,
    answering,
    chunked,
    complete_response,
    raw_upstream,
)

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@asynccontextmanager
async def connected(*scripts: Script) -> AsyncGenerator[tuple[Pool, RawUpstream], None]:
    async with raw_upstream(*scripts) as upstream:
        pool = Pool("127.0.0.1", int(upstream.url.rpartition(":")[2].partition("/")[0]), None)
        yield pool, upstream
        pool.close()


async def send_request(pool: Pool) -> IncomingResponse:
    line = pool.take() or await pool.connect()
    response = line.send(REQUEST)
    assert await response.head()
    return response


async def read_all(response: IncomingResponse) -> bytes:
    pieces: list[bytes] = []
    while (data := await response.read()) is not None:
        pieces.append(data)
    response.close()
    return b"".join(pieces)


async def arrived(response: IncomingResponse) -> None:
    """Wait until the complete body waits to be read."""
    async with asyncio.timeout(10):
        while not response.complete:  # noqa: ASYNC110 -- only a reader is woken, and nobody reads
            await asyncio.sleep(0.01)


async def test_a_continue_is_not_the_answer() -> None:
    early = b"HTTP/1.1 100 Continue\r\nx: early\r\n\r\n"
    async with connected(answering(early, complete_response(200, b"body"))) as (pool, _):
        response = await send_request(pool)
        assert (response.status, "x" in response.headers) == (200, False)
        assert await read_all(response) == b"body"


async def test_a_connection_that_will_close_is_not_reused() -> None:
    async with connected(answering(complete_response(200, b"a", "Connection: close"))) as (pool, upstream):
        for _ in range(2):
            assert await read_all(await send_request(pool)) == b"a"
        assert upstream.connections == 2


async def test_a_closed_idle_connection_leaves_the_pool() -> None:
    async def once(wire: Wire) -> None:
        await wire.send(complete_response(200, b"a"))
        wire.close()

    async with connected(once) as (pool, upstream):
        assert await read_all(await send_request(pool)) == b"a"
        await asyncio.wait_for(upstream.cut_off.wait(), 1)
        await asyncio.sleep(0.01)
        assert pool.take() is None


async def test_a_head_without_end_is_not_http() -> None:
    async def endless(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await wire.send(b"x-more: " + b"y" * 8192 + b"\r\n")

    async with connected(endless) as (pool, _):
        response = (await pool.connect()).send(REQUEST)
        with pytest.raises(NotHttp, match="too large"):
            await asyncio.wait_for(response.head(), 2)


async def test_bytes_without_a_request_end_the_connection() -> None:
    async def unasked(wire: Wire) -> None:
        await wire.send(complete_response(200, b"a"))
        await asyncio.sleep(0.01)
        await wire.send(complete_response(200, b"again"))

    async with connected(unasked) as (pool, upstream):
        assert await read_all(await send_request(pool)) == b"a"
        await asyncio.wait_for(upstream.cut_off.wait(), 1)
        assert pool.take() is None


async def test_a_fast_upstream_waits_for_a_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_UNREAD_BYTES", 1000)
    sent = 0

    async def fast(wire: Wire) -> None:
        nonlocal sent
        await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(400):
            await wire.send(chunked(b"x" * 65536))
            sent += 65536
        await wire.send(chunked(b""))

    async with connected(fast) as (pool, _):
        response = await send_request(pool)
        await asyncio.sleep(0.1)
        assert sent < 16 * 2**20, "the upstream ran ahead without bounds"
        assert len(await read_all(response)) == 400 * 65536


@pytest.mark.parametrize("pieces", [[b"x" * 200_000], [b"x" * 1000] * 200, [b"x" * 7] * 20_000])
async def test_other_tasks_run_between_the_slices_of_a_flood(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    async with connected(answering(SSE_HEAD + b"".join(map(chunked, [*pieces, b""])))) as (pool, _):
        response = await send_request(pool)
        await arrived(response)
        turns, seen = 0, [0]

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        read = b""
        while (data := await response.read()) is not None:
            assert len(data) <= connection.MAX_READ_BYTES
            seen.append(turns)
            read += data
        task.cancel()
        response.close()
        assert read == body
        assert len(seen) - 1 < 2 * len(body) / connection.MAX_READ_BYTES + 1, "slices are not too small"
        assert sorted(set(seen[1:])) == seen[1:], "the other task ran between any two reads"


async def test_bytes_that_fit_one_read_are_read_at_once() -> None:
    async with connected(answering(SSE_HEAD + 16 * chunked(b"x" * 1000) + chunked(b""))) as (pool, _):
        response = await send_request(pool)
        await arrived(response)
        reading = response.read()
        with pytest.raises(StopIteration) as end:
            reading.send(None)  # it ends without a turn of the event loop
        assert end.value.value == b"x" * 16_000
        response.close()


async def test_a_wait_can_be_interrupted_without_loss() -> None:
    async def slow(wire: Wire) -> None:
        await asyncio.sleep(0.05)
        response = complete_response(200, b"body")
        await wire.send(response[:-2])
        await asyncio.sleep(0.05)
        await wire.send(response[-2:])

    async with connected(slow) as (pool, _):
        loop = asyncio.get_running_loop()
        response = (await pool.connect()).send(REQUEST)
        response.interrupt()  # no wait yet: no effect
        loop.call_later(0.01, response.interrupt)
        assert not await response.head()
        assert await response.head()
        assert await response.read() == b"bo"
        loop.call_later(0.01, response.interrupt)
        assert await response.read() == connection.INTERRUPTED
        assert response.waiting is False
        assert await read_all(response) == b"dy"


async def test_a_close_before_the_first_byte_and_one_in_the_middle_differ() -> None:
    async def silent(wire: Wire) -> None:
        wire.close()

    async def half(wire: Wire) -> None:
        await wire.send(complete_response(200, b"body")[:-2])
        wire.close()

    async with connected(silent, half) as (pool, _):
        with pytest.raises(Disconnected):
            await (await pool.connect()).send(REQUEST).head()
        response = await send_request(pool)
        with pytest.raises(CutOff):
            await read_all(response)


async def test_a_response_can_be_closed_twice() -> None:
    async with connected(answering(complete_response(200, b"a"))) as (pool, _):
        response = await send_request(pool)
        await read_all(response)
        response.close()
        assert isinstance(pool.take(), Connection)
        assert pool.take() is None


async def test_a_body_end_that_never_arrives_times_out() -> None:
    async def open_end(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"all"))
        await wire.until_cut_off()

    async with connected(open_end) as (pool, upstream):
        response = await send_request(pool)
        assert await response.read() == b"all"
        response.close(linger=0.02)
        await asyncio.wait_for(upstream.cut_off.wait(), 1)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that only this test trusts."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", str(path), "-out", str(path) + ".crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + Path(str(path) + ".crt").read_text())
    return path


async def test_tls_verifies_certificates(certificate: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(complete_response(200, b"secret"))
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cafile=str(certificate))
    pool = Pool("localhost", port, trusting)
    assert await read_all(await send_request(pool)) == b"secret"
    pool.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await Pool("localhost", port, ssl.create_default_context()).connect()
    server.close()


async def test_an_upstream_that_cannot_be_trusted_is_not_used(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0, ssl=context)
    address = f"https://localhost:{server.sockets[0].getsockname()[1]}/v1"
    client = HttpClient(Target(name="x", base_url=address))
    with pytest.raises(BackendBroken, match="cannot be trusted"):
        await fetch(client, client.request("GET", "models"), 5.0)
    server.close()


async def test_idle_connections_are_bounded_and_the_oldest_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "MAX_IDLE_CONNECTIONS", 2)
    async with connected(answering(complete_response(200, b"a"))) as (pool, upstream):
        lines = [await pool.connect() for _ in range(4)]
        for line in lines:
            response = line.send(REQUEST)
            assert await response.head()
            assert await read_all(response) == b"a"
        await asyncio.sleep(0.01)
        assert [pool.take(), pool.take(), pool.take()] == [lines[3], lines[2], None]
        assert not lines[0].usable
        assert upstream.connections == 4


async def test_on_a_busy_server_the_last_idle_connection_is_replaced_before_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "SPARE_FROM_CONNECTIONS", 3)
    async with connected(answering(complete_response(200, b"a"))) as (pool, upstream):
        responses = [await send_request(pool) for _ in range(3)]
        assert await read_all(responses.pop()) == b"a"
        responses.append(await send_request(pool))  # on the last idle one
        async with asyncio.timeout(10):
            while (spare := pool.take()) is None:  # noqa: ASYNC110 -- nothing tells when it is open
                await asyncio.sleep(0.01)
        assert upstream.connections == 4
        assert spare.usable


async def test_a_quiet_server_has_no_spare_connections() -> None:
    async with connected(answering(complete_response(200, b"a"))) as (pool, upstream):
        responses = [await send_request(pool) for _ in range(3)]
        for _ in range(3):
            assert await read_all(responses.pop()) == b"a"
            responses.append(await send_request(pool))
        await asyncio.sleep(0.05)
        assert upstream.connections == 3


async def test_a_spare_connection_that_cannot_be_opened_fails_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "SPARE_FROM_CONNECTIONS", 1)
    attempts = 0

    async def refused() -> Connection:
        nonlocal attempts
        attempts += 1
        raise ConnectionRefusedError

    async with connected(answering(complete_response(200, b"a"))) as (pool, _):
        assert await read_all(await send_request(pool)) == b"a"
        monkeypatch.setattr(pool, "connect", refused)
        for _ in range(2):
            assert await read_all(await send_request(pool)) == b"a"
            await asyncio.sleep(0)
        assert attempts == 2


async def test_a_connection_that_is_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_TIMEOUT_SECONDS", 0.05)
    async with connected(answering(complete_response(200, b"a"))) as (pool, upstream):
        assert await read_all(await send_request(pool)) == b"a"
        await asyncio.wait_for(upstream.cut_off.wait(), 5)
        assert pool.take() is None
        assert await read_all(await send_request(pool)) == b"a"


class RecordingTransport(asyncio.Transport):
    """Takes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


PIECES = [bytes([number]) * connection.MAX_WRITTEN_BYTES for number in range(4)]


async def test_a_large_request_is_written_in_several_iterations_and_as_fast_as_the_server_reads() -> None:
    transport, loop = RecordingTransport(), asyncio.get_running_loop()
    line = Connection(loop, Pool("127.0.0.1", 1, None))
    line.connection_made(transport)
    line.send(REQUEST, PIECES)
    assert transport.written == [REQUEST, *PIECES[:1]]
    await asyncio.sleep(0)
    assert transport.written == [REQUEST, *PIECES[:2]]
    line.pause_writing()
    for _ in range(3):
        await asyncio.sleep(0)
    assert transport.written == [REQUEST, *PIECES[:2]]
    line.resume_writing()
    await asyncio.sleep(0)
    assert transport.written == [REQUEST, *PIECES]


async def test_a_connection_whose_request_was_answered_before_its_end_is_not_used_again() -> None:
    transport, pool = RecordingTransport(), Pool("127.0.0.1", 1, None)
    line = Connection(asyncio.get_running_loop(), pool)
    line.connection_made(transport)
    response = line.send(REQUEST, PIECES)
    line.data_received(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
    response.close()
    assert transport.aborted
    assert pool.take() is None
