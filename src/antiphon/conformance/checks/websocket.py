"""Checks of WebSockets: sequential turns on a connection with state, or a refusal that clients understand."""

from antiphon.conformance.checks.state import QUESTION, REMEMBER, expect_remembered
from antiphon.conformance.checks.streams import expect_none
from antiphon.conformance.order import kind_of
from antiphon.conformance.probe import Probe, check
from antiphon.conformance.reading import list_at, member, object_at, text_at
from antiphon.conformance.results import expect
from antiphon.conformance.socket import connected, open_socket
from antiphon.protocol.content import JsonObject

ASPECTS = ("envelope", "order", "added", "numbering", "index", "id", "fold")


@check("websocket.refusal", "A server without WebSockets answers 426", rule="websocket-refusal")
async def refusal(probe: Probe) -> None:
    opened = await open_socket(probe)
    if isinstance(opened, int):
        expect(opened == 426, f"the handshake is refused with status {opened}")
        return
    await opened.close()
    answer = await probe.send("GET", "responses")
    listed = answer.status == 200 and member(answer.json, "object") == "list"
    expect(
        listed or 400 <= answer.status < 500,
        f"a plain GET /responses is answered with status {answer.status}, and not with a list",
    )


@check("websocket.turn", "A turn is a stream with one event per frame", rule="websocket-turn")
async def turn(probe: Probe) -> None:
    async with connected(probe) as socket:
        _succeeded(await socket.turn(input="Say hello."))


@check("websocket.stream_flag", "`stream: true` in a frame is accepted", rule="websocket-stream-flag")
async def stream_flag(probe: Probe) -> None:
    async with connected(probe) as socket:
        _succeeded(await socket.turn(input="Say hello.", stream=True))


@check("websocket.sequential", "Turns are sequential on one connection", rule="websocket-sequential")
async def sequential(probe: Probe) -> None:
    async with connected(probe) as socket:
        first = _succeeded(await socket.turn(input=REMEMBER))
        second = _succeeded(await socket.turn(input=QUESTION, previous_response_id=first.get("id")))
        expect(first.get("id") != second.get("id"), "both turns have the same id")
    await expect_remembered(probe, second, QUESTION)


@check("websocket.not_stored", "store false: the connection keeps the response", rule="websocket-store-false")
async def not_stored(probe: Probe) -> None:
    async with connected(probe) as socket:
        first = _succeeded(await socket.turn(input="Say hello.", store=False))
        _succeeded(await socket.turn(input="Go on.", store=False, previous_response_id=first.get("id")))
        async with connected(probe) as other:
            events = await other.turn(input="Go on.", store=False, previous_response_id=first.get("id"))
        expect(kind_of(events[-1]) in ("error", "failed"), "another connection can continue it")


@check("websocket.warm_up", "generate false: a response without a model", rule="websocket-generate-false")
async def warm_up(probe: Probe) -> None:
    async with connected(probe) as socket:
        first = _succeeded(await socket.turn(input=REMEMBER, store=False, generate=False))
        expect(not list_at(first, "output"), "it has output")
        second = await socket.turn(input=QUESTION, store=False, previous_response_id=first.get("id"))
    await expect_remembered(probe, _succeeded(second), QUESTION)


@check(
    "websocket.unknown_previous",
    "Unknown previous response: previous_response_not_found",
    rule="websocket-unknown-previous",
)
async def unknown_previous(probe: Probe) -> None:
    async with connected(probe) as socket:
        code = _error(await socket.turn(input="Hello", previous_response_id="resp_nobody"), "code")
        expect(code == "previous_response_not_found", f"error.code is {code!r}")
        _succeeded(await socket.turn(input="Say hello."))


@check("websocket.bad_frame", "A bad frame does not close the connection", rule="websocket-errors")
async def bad_frame(probe: Probe) -> None:
    async with connected(probe) as socket:
        expect(_error(await socket.exchange("{not json"), "message"), "the error has no message")
        expect(_error(await socket.turn(input=17), "message"), "the error has no message")
        _succeeded(await socket.turn(input="Say hello."))


def _succeeded(events: list[JsonObject]) -> JsonObject:
    """The response of a turn; fails unless the turn succeeded."""
    last = events[-1]
    if kind_of(last) == "error":
        expect(False, f"the turn ended with an error: {text_at(last, 'error.message')}")
    expect_none(events, *ASPECTS)
    expect(kind_of(last) in ("completed", "incomplete"), f"the turn ended with {kind_of(last)}")
    return object_at(last, "response")


def _error(events: list[JsonObject], name: str) -> str:
    expect(kind_of(events[-1]) == "error", f"the turn ended with {kind_of(events[-1])}, not with an error")
    return text_at(events[-1], f"error.{name}")


CHECKS = (refusal, turn, stream_flag, sequential, not_stored, warm_up, unknown_previous, bad_frame)
