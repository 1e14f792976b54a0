"""Reading a body within limits."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import httpx2
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import ANONYMOUS
from antiphon.errors import BodyTimeout, BodyTooLarge, InvalidRequest, Overloaded
from antiphon.protocol.bounds import MAX_VALUES, UNCOUNTED_BYTES
from antiphon.protocol.items import Message
from antiphon.protocol.large_body import MAX_RESTORED_VALUES, LargeBody
from antiphon.server import admission
from antiphon.server import exchange as exchange_module
from antiphon.server.admission import CHEAP_BODY_BYTES, SMALL_BODY_BYTES, Admission, BodyBudget
from antiphon.server.app import App, Served
from antiphon.server.exchange import Exchange
from antiphon.server.guard import Head
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.routes.table import ROUTES
from antiphon.server.routing import Route
from antiphon.server.types import Message as AsgiMessage
from tests.server.conftest import OpenClient, options
from tests.service.conftest import MakeCreator, services_of
from tests.uvicorn_here import serve_here


def exchange(messages: Sequence[AsgiMessage], content_length: bytes = b"") -> Exchange:
    queue = iter(messages)

    async def receive() -> AsgiMessage:
        for message in queue:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: AsgiMessage) -> None:
        raise AssertionError(message)

    head = Head(content_length=content_length)
    return Exchange({"method": "POST", "path": "/"}, receive, send, head=head, request_id="r")


def piece(body: bytes, more: bool = True) -> AsgiMessage:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_is_put_together() -> None:
    assert (
        await exchange([piece(b"a"), piece(b"b"), piece(b"c", more=False)]).body(10, Admission(100)) == b"abc"
    )


@pytest.mark.parametrize(
    "messages",
    [
        [piece(b"x" * 11, more=False)],
        [piece(b"x" * 6), piece(b"x" * 6)],
        [piece(b"x"), piece(b"x" * 11, more=False)],
    ],
)
@pytest.mark.requirement("PROTOCOL/errors-large")
async def test_a_body_beyond_the_limit_is_rejected(messages: list[AsgiMessage]) -> None:
    with pytest.raises(BodyTooLarge):
        await exchange(messages).body(10, Admission(100))


async def test_a_body_that_is_declared_too_large_is_not_read() -> None:
    with pytest.raises(BodyTooLarge):
        await exchange([], content_length=b"11").body(10, Admission(100))


@pytest.mark.parametrize("messages", [[], [piece(b"a")]])
async def test_a_body_that_does_not_come_times_out(messages: list[AsgiMessage]) -> None:
    request = exchange(messages)
    with pytest.raises(BodyTimeout), Lifetimes().lease(request.receive) as lease:
        lease.expect_body(0.01)
        await request.body(10, Admission(100))


async def test_a_client_disconnect_in_mid_body() -> None:
    with pytest.raises(ClientGone):
        await exchange([piece(b"a"), {"type": "http.disconnect"}]).body(10, Admission(100))


LARGE = SMALL_BODY_BYTES * 2


def reserved(budget: BodyBudget, size: int) -> bool:
    """Whether there is room for a body of another tenant."""
    try:
        budget.reserve("third", size)
    except Overloaded:
        return False
    budget.release("third", size)
    return True


@pytest.mark.parametrize("declared", [b"", b"%d" % LARGE])
async def test_a_large_body_takes_its_part_of_the_budget_while_it_is_received(declared: bytes) -> None:
    limits = Admission(LARGE * 2)
    budget = limits.bodies
    room: list[bool] = []
    arriving = [piece(b"x" * LARGE), piece(b"", more=False)]

    async def receive() -> AsgiMessage:
        room.append(reserved(budget, LARGE + 1))
        return arriving.pop(0)

    async def send(message: AsgiMessage) -> None:
        raise AssertionError(message)

    head = Head(content_length=declared)
    request = Exchange({"method": "POST", "path": "/"}, receive, send, head=head, request_id="r")
    assert len(await request.body(LARGE, limits)) == LARGE
    assert room == [not declared, False]
    assert reserved(budget, LARGE * 2)


@pytest.mark.parametrize("declared", [b"", b"%d" % LARGE])
async def test_a_body_without_room_is_refused_and_takes_none(declared: bytes) -> None:
    limits = Admission(LARGE * 2)
    budget = limits.bodies
    budget.reserve("other", LARGE + 1)
    with pytest.raises(Overloaded):
        await exchange([piece(b"x" * LARGE, more=False)], declared).body(LARGE, limits)
    assert len(await exchange([piece(b"x" * 1000, more=False)]).body(LARGE, limits)) == 1000
    assert reserved(budget, LARGE - 1)


async def test_a_broken_off_body_gives_its_part_back() -> None:
    limits = Admission(LARGE)
    budget = limits.bodies
    with pytest.raises(ClientGone):
        await exchange([piece(b"x" * LARGE), {"type": "http.disconnect"}]).body(LARGE, limits)
    assert reserved(budget, LARGE)


async def test_a_large_body_that_is_refused_is_discarded_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def send(_message: AsgiMessage) -> None:
        pass

    pieces = [piece(b"x" * LARGE, more=number < 9) for number in range(10)]
    refused = exchange(pieces)
    monkeypatch.setattr(refused, "_send", send)
    monkeypatch.setattr(exchange_module, "YIELDING_BYTES", 3 * LARGE)
    monkeypatch.setattr(asyncio, "sleep", pause)
    await refused.send_error(Overloaded("Try again."))
    assert pauses == [exchange_module.DISCARD_PAUSE_SECONDS] * 6


def test_a_body_needs_room_below_the_ceiling_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "resident_bytes", lambda: 1000)
    monkeypatch.setattr(admission, "BODIES_MEMORY_SHARE", 0.5)
    budget = BodyBudget(10_000, max_memory_bytes=2 * (1000 + 100 * admission.COPIES))
    with pytest.raises(Overloaded):
        budget.reserve("a", 101)
    budget.reserve("a", 100)
    BodyBudget(10_000).reserve("a", 10_000)


def test_bodies_that_arrive_together_need_room_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "resident_bytes", lambda: 1000)  # nothing of them has arrived yet
    monkeypatch.setattr(admission, "BODIES_MEMORY_SHARE", 1.0)
    budget = BodyBudget(10_000, max_memory_bytes=1000 + 100 * admission.COPIES)
    budget.reserve("a", 60)
    with pytest.raises(Overloaded, match="memory"):
        budget.reserve("b", 60)
    budget.release("a", 60)
    budget.reserve("b", 60)


@pytest.mark.parametrize("size", [CHEAP_BODY_BYTES + 1, LARGE])
async def test_a_body_that_was_received_waits_for_its_start(size: int) -> None:
    limits = Admission(LARGE)

    async def read() -> bytes:
        while limits.starts.start_now(ANONYMOUS.tenant):
            pass
        return await exchange([piece(b"x" * size, more=False)]).body(LARGE, limits)

    body = asyncio.create_task(read())
    await asyncio.sleep(0)
    assert not body.done()
    assert reserved(limits.bodies, LARGE) == (size < LARGE)  # it still takes its part of the budget
    assert len(await asyncio.wait_for(body, 5)) == size
    assert reserved(limits.bodies, LARGE)


async def test_a_cheap_request_does_not_wait_for_its_start() -> None:
    limits = Admission(LARGE)
    while limits.starts.start_now(ANONYMOUS.tenant):
        pass
    incoming = exchange([piece(b"x" * CHEAP_BODY_BYTES, more=False)])
    assert len(await asyncio.wait_for(incoming.body(LARGE, limits), 0.05)) == CHEAP_BODY_BYTES


def test_a_tenant_may_use_half_of_the_budget_with_several_bodies() -> None:
    budget = BodyBudget(100)
    budget.reserve("a", 80)  # one body may be larger
    with pytest.raises(Overloaded):
        budget.reserve("a", 10)
    budget.reserve("b", 15)
    budget.release("a", 80)
    budget.reserve("a", 30)
    budget.reserve("a", 20)
    with pytest.raises(Overloaded):
        budget.reserve("a", 1)


MANY_VALUES = b'{"a":[' + b"{}," * MAX_VALUES + b"{}]}"


async def test_a_body_with_too_many_values_is_refused_before_its_end() -> None:
    half = len(MANY_VALUES) // 2 + 100_000
    with pytest.raises(InvalidRequest) as caught:
        await exchange([piece(MANY_VALUES[:half])]).body(10**7, Admission(10**7))
    assert caught.value.code == "too_many_values"


@pytest.mark.parametrize("cut", [UNCOUNTED_BYTES - 1, UNCOUNTED_BYTES, UNCOUNTED_BYTES + 1])
async def test_values_before_the_count_begins_are_counted(cut: int) -> None:
    body = b"[" + b"[]," * (MAX_VALUES // 2) + b"[]]"
    pieces = [piece(body[:cut]), piece(body[cut:], more=False)]
    with pytest.raises(InvalidRequest):
        await exchange(pieces).body(10**7, Admission(10**7))
    text = b'"' + b"," * (MAX_VALUES + 1) + b'"'
    whole = await exchange([piece(text[:cut]), piece(text[cut:], more=False)]).body(10**7, Admission(10**7))
    assert whole == text


READING = [
    route
    for route in ROUTES
    if route.method == "POST" and "cancel" not in route.path and "/agent/" not in route.path
    if route.path not in ("/v1/files", "/v1/uploads/{id}/parts", "/v1/containers/{id}/files")
    if route.path not in ("/v1/conformance", "/v1/admin/keys/{id}/revoke")
]
"""Without those of the agent and of the checker, which the application of this test does not have; they use the
same reader. Those of files read forms, and to revoke a key takes no body."""


@pytest.mark.parametrize("route", READING, ids=lambda route: route.path)
async def test_every_route_that_reads_a_body_counts_its_values(open_client: OpenClient, route: Route) -> None:
    ids = {"uploads": "upload_1", "vector_stores": "vs_1"}
    own = next((id for name, id in ids.items() if name in route.path), "conv_1")
    async with open_client() as client:
        answer = await client.post(
            route.path.replace("{id}", own).replace("{file_id}", "file-1"),
            content=MANY_VALUES,
            headers={"content-type": "application/json"},
        )
    assert (answer.status_code, "250000 values" in answer.text) == (400, True)


async def test_a_client_that_sends_on_gets_the_error(make_creator: MakeCreator) -> None:
    """Over a socket, with a client that reads only when it has sent everything."""
    services = services_of(make_creator())

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Served, None]:
        yield Served(services)

    rest = b" " * 20_000_000
    head = (
        b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % (len(MANY_VALUES) + len(rest))
    )
    async with serve_here(lambda: App(opened, lambda: "req_1", options())) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(head + MANY_VALUES + rest)
        await writer.drain()
        assert b"400 Bad Request" in await reader.readuntil(b"\r\n")
        assert b"too_many_values" in await reader.readuntil(b"}}")
        writer.close()


LARGE_TEXT = b'{"model": "m", "input": "' + b"x" * 2_000_000 + b'"'


def in_pieces(body: bytes, size: int = 100_000) -> list[AsgiMessage]:
    starts = range(0, len(body), size)
    return [piece(body[start : start + size], more=start + size < len(body)) for start in starts]


async def test_the_texts_of_a_large_body_are_decoded_as_they_arrive() -> None:
    body = LARGE_TEXT + b"}"
    received = await exchange(in_pieces(body)).decodable_body(10**7, Admission(10**7))
    assert isinstance(received, LargeBody)
    assert len(received.skeleton()) < 1_300_000 - 100_000 * 9
    assert received.decode("x") == json.loads(body)


async def test_a_large_body_is_given_as_bytes_to_routes_that_need_them() -> None:
    body = LARGE_TEXT + b"}"
    assert await exchange(in_pieces(body)).body(10**7, Admission(10**7)) == body


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "m", "input": "' + b"x" * 500_000 + b'"}',
        b'{"model": "m", "input": [' + b'"%b",' % (b"x" * 1000) * 2000 + b'""]}',
    ],
    ids=["not large", "no long text"],
)
async def test_a_body_without_much_long_text_stays_as_it_is(body: bytes) -> None:
    assert await exchange(in_pieces(body)).decodable_body(10**7, Admission(10**7)) == body


async def test_a_large_body_of_many_values_is_decoded_at_once() -> None:
    body = LARGE_TEXT + b', "image": [' + b"1," * MAX_RESTORED_VALUES + b"1]}"
    received = await exchange(in_pieces(body)).decodable_body(10**7, Admission(10**7))
    assert received == body


@pytest.mark.parametrize(("path", "member"), [("responses", "input"), ("chat/completions", "messages")])
async def test_a_large_request_over_a_socket_reaches_the_model(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch, path: str, member: str
) -> None:
    """With its size, so that it is encoded in slices; the texts of a response's input were decoded so."""
    text, backend = 'A "quoted" \\ line\nand é. ' * 150_000, ScriptedBackend.saying("Hi")
    decoded: list[LargeBody] = []
    decode = LargeBody.decode

    def counted(body: LargeBody, what: str) -> object:
        decoded.append(body)
        return decode(body, what)

    monkeypatch.setattr(LargeBody, "decode", counted)
    services = services_of(make_creator(backend))

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Served, None]:
        yield Served(services)

    body = json.dumps({"model": "m", member: [{"role": "user", "content": text}]}).encode()
    async with (
        serve_here(lambda: App(opened, lambda: "req_1", options())) as here,
        httpx2.AsyncClient(timeout=30) as client,
    ):
        headers = {"content-type": "application/json"}
        answer = await client.post(f"http://127.0.0.1:{here.port}/v1/{path}", content=body, headers=headers)
    assert answer.status_code == 200
    assert [message.content for message in backend.turns[0].items if isinstance(message, Message)] == [text]
    assert backend.turns[0].input_bytes == len(body)
    assert len(decoded) == (1 if path == "responses" else 0)
