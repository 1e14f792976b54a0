"""Our HTTP/1.1, against bytes that no HTTP library would send."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.backends import connection
from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.backends.connection import Answer, Connection, CutOff, Disconnected, NotHttp, Pool
from antiphon.backends.registry import default_endpoint
from antiphon.errors import BackendBroken
from tests.backends.raw_upstream import RawUpstream, Script, Wire, answering, chunked, raw_upstream, whole

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@asynccontextmanager
async def connected(*scripts: Script) -> AsyncGenerator[tuple[Pool, RawUpstream], None]:
    async with raw_upstream(*scripts) as upstream:
        pool = Pool("127.0.0.1", int(upstream.url.rpartition(":")[2].partition("/")[0]), None)
        yield pool, upstream
        pool.close()


async def ask(pool: Pool) -> Answer:
    line = pool.take() or await pool.connect()
    answer = line.send(REQUEST)
    assert await answer.head()
    return answer


async def read_all(answer: Answer) -> bytes:
    body = b""
    while (data := await answer.read()) is not None:
        body += data
    answer.close()
    return body


async def test_a_continue_is_not_the_answer() -> None:
    early = b"HTTP/1.1 100 Continue\r\nx: early\r\n\r\n"
    async with connected(answering(early, whole(200, b"body"))) as (pool, _):
        answer = await ask(pool)
        assert (answer.status, "x" in answer.headers) == (200, False)
        assert await read_all(answer) == b"body"


async def test_an_upstream_that_says_it_will_close_is_not_asked_again() -> None:
    async with connected(answering(whole(200, b"a", "Connection: close"))) as (pool, upstream):
        for _ in range(2):
            assert await read_all(await ask(pool)) == b"a"
        assert upstream.connections == 2


async def test_an_upstream_that_closes_an_idle_connection_is_forgotten() -> None:
    async def once(wire: Wire) -> None:
        await wire.send(whole(200, b"a"))
        wire.close()

    async with connected(once) as (pool, upstream):
        assert await read_all(await ask(pool)) == b"a"
        await asyncio.wait_for(upstream.cut_off.wait(), 1)
        await asyncio.sleep(0.01)
        assert pool.take() is None


async def test_a_head_without_end_is_not_http() -> None:
    async def endless(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await wire.send(b"x-more: " + b"y" * 8192 + b"\r\n")

    async with connected(endless) as (pool, _):
        answer = (await pool.connect()).send(REQUEST)
        with pytest.raises(NotHttp, match="too large"):
            await asyncio.wait_for(answer.head(), 2)


async def test_words_that_nobody_asked_for_end_the_connection() -> None:
    async def chatty(wire: Wire) -> None:
        await wire.send(whole(200, b"a"))
        await asyncio.sleep(0.01)
        await wire.send(whole(200, b"again"))

    async with connected(chatty) as (pool, upstream):
        assert await read_all(await ask(pool)) == b"a"
        await asyncio.wait_for(upstream.cut_off.wait(), 1)
        assert pool.take() is None


async def test_a_fast_upstream_waits_for_a_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HIGH_WATER", 1000)
    sent = 0

    async def fast(wire: Wire) -> None:
        nonlocal sent
        await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(400):
            await wire.send(chunked(b"x" * 65536))
            sent += 65536
        await wire.send(chunked(b""))

    async with connected(fast) as (pool, _):
        answer = await ask(pool)
        await asyncio.sleep(0.1)
        assert sent < 16 * 2**20, "the upstream ran ahead without bounds"
        assert len(await read_all(answer)) == 400 * 65536


async def test_a_wait_can_be_interrupted_without_harm() -> None:
    async def slow(wire: Wire) -> None:
        await asyncio.sleep(0.05)
        answer = whole(200, b"body")
        await wire.send(answer[:-2])
        await asyncio.sleep(0.05)
        await wire.send(answer[-2:])

    async with connected(slow) as (pool, _):
        loop = asyncio.get_running_loop()
        answer = (await pool.connect()).send(REQUEST)
        answer.interrupt()  # nobody waits yet: nothing happens
        loop.call_later(0.01, answer.interrupt)
        assert not await answer.head()
        assert await answer.head()
        assert await answer.read() == b"bo"
        loop.call_later(0.01, answer.interrupt)
        assert await answer.read() == connection.INTERRUPTED
        assert answer.waiting is False
        assert await read_all(answer) == b"dy"


async def test_a_close_before_a_byte_and_one_in_the_middle_are_told_apart() -> None:
    async def silent(wire: Wire) -> None:
        wire.close()

    async def half(wire: Wire) -> None:
        await wire.send(whole(200, b"body")[:-2])
        wire.close()

    async with connected(silent, half) as (pool, _):
        with pytest.raises(Disconnected):
            await (await pool.connect()).send(REQUEST).head()
        answer = await ask(pool)
        with pytest.raises(CutOff):
            await read_all(answer)


async def test_an_answer_that_is_let_go_twice_does_no_harm() -> None:
    async with connected(answering(whole(200, b"a"))) as (pool, _):
        answer = await ask(pool)
        await read_all(answer)
        answer.close()
        assert isinstance(pool.take(), Connection)
        assert pool.take() is None


async def test_the_end_that_never_comes_is_cut_off() -> None:
    async def open_end(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"all"))
        await wire.until_cut_off()

    async with connected(open_end) as (pool, upstream):
        answer = await ask(pool)
        assert await answer.read() == b"all"
        answer.close(linger=0.02)
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


async def test_tls_is_spoken_and_certificates_are_checked(certificate: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(whole(200, b"secret"))
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cafile=str(certificate))
    pool = Pool("localhost", port, trusting)
    assert await read_all(await ask(pool)) == b"secret"
    pool.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await Pool("localhost", port, ssl.create_default_context()).connect()
    server.close()


async def test_an_upstream_that_cannot_be_trusted_is_not_used(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0, ssl=context)
    address = f"https://localhost:{server.sockets[0].getsockname()[1]}/v1"
    backend = ChatCompletionsBackend(default_endpoint("plain", address))
    with pytest.raises(BackendBroken, match="cannot be trusted"):
        await backend.models()
    server.close()
