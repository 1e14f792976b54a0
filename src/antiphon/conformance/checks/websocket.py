"""WebSocket: turns one after another on a connection that remembers, or a refusal that clients understand."""

from antiphon.conformance.checking import check
from antiphon.conformance.checks.state import QUESTION, REMEMBER, expect_remembered
from antiphon.conformance.checks.streams import expect_none
from antiphon.conformance.members import list_at, object_at, text_at
from antiphon.conformance.order import kind_of
from antiphon.conformance.probe import Probe
from antiphon.conformance.socket import connected, open_socket
from antiphon.conformance.verdict import expect
from antiphon.protocol.content import JsonObject

WHOLE = ("envelope", "order", "added", "numbering", "index", "id", "fold")


@check("websocket.refusal", "A server without WebSockets says 426", rule="websocket-refusal")
async def refusal(probe: Probe) -> None:
    """Clients then use POST at once; after any other status they try again and again."""
    opened = await open_socket(probe)
    if isinstance(opened, int):
        expect(opened == 426, f"the handshake is refused with status {opened}")
        return
    await opened.close()
    answer = await probe.send("GET", "responses")
    expect(400 <= answer.status < 500, f"a plain GET /responses is answered with status {answer.status}")


@check("websocket.turn", "A turn is the same stream, one event per frame", rule="websocket-turn")
async def turn(probe: Probe) -> None:
    """`response.create`."""
    async with connected(probe) as socket:
        _whole(await socket.turn(input="Say hello."))


@check("websocket.stream_flag", "`stream: true` in a frame does no harm", rule="websocket-stream-flag")
async def stream_flag(probe: Probe) -> None:
    """Clients send it."""
    async with connected(probe) as socket:
        _whole(await socket.turn(input="Say hello.", stream=True))


@check("websocket.sequential", "Turns go one after another on one connection", rule="websocket-sequential")
async def sequential(probe: Probe) -> None:
    """Each has its own numbers and its own id, and the second knows of the first."""
    async with connected(probe) as socket:
        first = _whole(await socket.turn(input=REMEMBER))
        second = _whole(await socket.turn(input=QUESTION, previous_response_id=first.get("id")))
        expect(first.get("id") != second.get("id"), "both turns have the same id")
    await expect_remembered(probe, second, QUESTION)


@check("websocket.not_stored", "store false: the connection remembers", rule="websocket-store-false")
async def not_stored(probe: Probe) -> None:
    """But no other connection does."""
    async with connected(probe) as socket:
        first = _whole(await socket.turn(input="Say hello.", store=False))
        _whole(await socket.turn(input="Go on.", store=False, previous_response_id=first.get("id")))
        async with connected(probe) as other:
            events = await other.turn(input="Go on.", store=False, previous_response_id=first.get("id"))
        expect(kind_of(events[-1]) in ("error", "failed"), "another connection can continue it")


@check("websocket.warm_up", "generate false: a response without a model", rule="websocket-generate-false")
async def warm_up(probe: Probe) -> None:
    """Which the next turn continues, with all that it was told."""
    async with connected(probe) as socket:
        first = _whole(await socket.turn(input=REMEMBER, store=False, generate=False))
        expect(not list_at(first, "output"), "it has output")
        second = await socket.turn(input=QUESTION, store=False, previous_response_id=first.get("id"))
    await expect_remembered(probe, _whole(second), QUESTION)


@check(
    "websocket.unknown_previous", "Unknown: previous_response_not_found", rule="websocket-unknown-previous"
)
async def unknown_previous(probe: Probe) -> None:
    """And the connection goes on."""
    async with connected(probe) as socket:
        code = _error(await socket.turn(input="Hello", previous_response_id="resp_nobody"), "code")
        expect(code == "previous_response_not_found", f"error.code is {code!r}")
        _whole(await socket.turn(input="Say hello."))


@check("websocket.bad_frame", "A bad frame is an error, not the end", rule="websocket-errors")
async def bad_frame(probe: Probe) -> None:
    """The connection goes on."""
    async with connected(probe) as socket:
        expect(_error(await socket.say("{not json"), "message"), "the error has no message")
        expect(_error(await socket.turn(input=17), "message"), "the error has no message")
        _whole(await socket.turn(input="Say hello."))


def _whole(events: list[JsonObject]) -> JsonObject:
    """The response of a turn that went well."""
    last = events[-1]
    if kind_of(last) == "error":
        expect(False, f"the turn ended with an error: {text_at(last, 'error.message')}")
    expect_none(events, *WHOLE)
    expect(kind_of(last) in ("completed", "incomplete"), f"the turn ended with {kind_of(last)}")
    return object_at(last, "response")


def _error(events: list[JsonObject], name: str) -> str:
    expect(kind_of(events[-1]) == "error", f"the turn ended with {kind_of(events[-1])}, not with an error")
    return text_at(events[-1], f"error.{name}")


CHECKS = (refusal, turn, stream_flag, sequential, not_stored, warm_up, unknown_previous, bad_frame)
