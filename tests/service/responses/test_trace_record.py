"""What a trace stores, and what is shown of it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from antiphon.known_secrets import HIDDEN, KnownSecrets
from antiphon.protocol.events import Event, OutputItemAdded, OutputItemDone, OutputTextDelta
from antiphon.protocol.tool_items import McpCall, WebSearchCall
from antiphon.service.responses.trace import open_trace, seal_trace
from antiphon.service.responses.trace_view import render_trace
from antiphon.turn import trace as recording
from antiphon.turn.sealing import SealKey
from antiphon.turn.trace import RecordedTrace, TraceRecorder

SEALER = SealKey(b"key", lambda size: b"n" * size).sealer("acme")
SECRET = "sk-upstream-0123456789abcdef"


class Clock:
    """A clock that is read as what it was set to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> KnownSecrets:
    """The secrets of the process that records. The one that reads knows none."""
    secrets = KnownSecrets()
    secrets.add(SECRET)
    monkeypatch.setattr("antiphon.service.responses.trace.KNOWN_SECRETS", secrets)
    monkeypatch.setattr("antiphon.service.responses.trace_view.KNOWN_SECRETS", KnownSecrets())
    return secrets


def delta(number: int, text: str = "x") -> Event:
    return OutputTextDelta(number, "msg_1", 0, 0, text)


def stored(recorder: TraceRecorder) -> RecordedTrace:
    opened = open_trace(seal_trace(recorder, "req_1", SEALER), SEALER)
    assert opened is not None
    return opened


def shown(recorder: TraceRecorder) -> dict[str, Any]:
    return msgspec.json.decode(render_trace(stored(recorder), "resp_1", None))


def recorder_of(max_bytes: int = 512 * 1024, request: bytes = b"{}", now: Any = None) -> TraceRecorder:
    return TraceRecorder(now or Clock(), max_bytes, request)


def in_head(recorder: TraceRecorder) -> None:
    turn = recorder.begin_turn("up", "chat_completions", "m")
    assert turn is not None
    head = f"POST /v1?key={SECRET} HTTP/1.1\r\nx-own: {SECRET}\r\n\r\n"
    turn.sent(f"http://up/v1?key={SECRET}", head.encode() + b"{}")


def in_answer(recorder: TraceRecorder) -> None:
    turn = recorder.begin_turn("up", "chat_completions", "m")
    assert turn is not None
    turn.opened(200, {"x-own": SECRET})
    turn.received(f"data: ü {SECRET}\n\n".encode() + b"\xff")
    turn.set_downgrades([SECRET])
    turn.failed(f"key {SECRET} is invalid")


def in_events(recorder: TraceRecorder) -> None:
    recorder.add_events([delta(1), delta(2, f"say {SECRET}")])


@pytest.mark.requirement("PAGE/traces-recorded")
@pytest.mark.parametrize("write", [in_head, in_answer, in_events])
@pytest.mark.parametrize("padding", [0, 100_000], ids=["short", "long"])
@pytest.mark.usefixtures("known")
def test_known_secrets_are_not_stored(write: Callable[[TraceRecorder], None], padding: int) -> None:
    recorder = recorder_of(request=f"{SECRET} {padding * 'x'}".encode())
    write(recorder)
    record = stored(recorder)
    assert SECRET not in str(record)
    assert record.client.data.startswith(HIDDEN.encode())
    assert HIDDEN in str(record).removeprefix(HIDDEN)


@pytest.mark.usefixtures("known")
def test_what_surrounds_a_secret_is_stored_as_it_came() -> None:
    recorder = recorder_of()
    in_answer(recorder)
    assert stored(recorder).turns[0].answer.data == f"data: ü {HIDDEN}\n\n".encode() + b"\xff"


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("place", ["client", "request", "answer"])
def test_the_beginning_of_a_secret_that_was_cut_off_is_not_stored(place: str) -> None:
    text = f"the key: {SECRET}".encode()
    recorder = TraceRecorder(Clock(), len(text) - 4, text if place == "client" else None)
    turn = recorder.begin_turn("up", "chat_completions", "m")
    assert turn is not None
    if place == "request":
        turn.sent("http://up", b"POST / HTTP/1.1\r\n\r\n" + text[:5], [text[5:]])
    else:
        turn.received(text)
    record = stored(recorder)
    bodies = {"client": record.client, "request": record.turns[0].request, "answer": record.turns[0].answer}
    assert (bodies[place].data, bodies[place].truncated) == (b"the key: ", True)


@pytest.mark.parametrize("size", [10, 200_000], ids=["short", "long"])
def test_a_trace_that_cannot_be_read_opens_as_none(size: int) -> None:
    sealed = seal_trace(recorder_of(request=b"x" * size), None, SEALER)
    assert open_trace(sealed[:-1], SEALER) is None
    assert open_trace(b"", SEALER) is None
    content = SEALER.open_bytes(sealed)
    assert content is not None
    for damaged in (b"", content[:-3], content[:1] + b"\x93" + content[2:], b'{"object": "response.trace"}'):
        assert open_trace(SEALER.seal_bytes(damaged), SEALER) is None


def test_events_have_the_times_of_their_batches() -> None:
    clock = Clock()
    recorder = recorder_of(now=clock)
    for seconds, batch in ((0.1, [delta(0), delta(1)]), (0.1, []), (0.25, [delta(2)])):
        clock.seconds = 100 + seconds
        recorder.add_events(batch)
    events = shown(recorder)["events"]
    assert [(each["sequence_number"], each["at_ms"]) for each in events] == [(0, 100), (1, 100), (2, 250)]
    assert events[2]["event"] == msgspec.to_builtins(delta(2))


def test_no_more_events_are_held_than_fit_into_the_budget() -> None:
    recorder = recorder_of(max_bytes=300)
    recorder.add_events([delta(0), delta(1)])
    recorder.add_events([delta(2), delta(3)])
    recorder.add_events([delta(4)])
    assert [event.sequence_number for event in recorder.events] == [0, 1, 2]


def test_an_event_that_is_too_long_is_left_out() -> None:
    recorder = recorder_of(max_bytes=500)
    recorder.add_events([delta(0), delta(1, "x" * 2000), delta(2)])
    assert [each["sequence_number"] for each in shown(recorder)["events"]] == [0, 2]


def test_credentials_in_events_are_hidden_and_other_events_stay() -> None:
    recorder = recorder_of()
    recorder.add_events([delta(0), delta(1, "http://a:b@c/"), delta(2)])
    first, second, third = (each["event"] for each in shown(recorder)["events"])
    assert (first["delta"], third["delta"]) == ("x", "x")
    assert second["delta"] == f"http://{HIDDEN}@c/"


def test_calls_of_hosted_tools_are_on_the_clock() -> None:
    clock = Clock()
    recorder = recorder_of(now=clock)
    search = WebSearchCall(id="ws_1", status="completed", action={"type": "search", "query": "q"})
    called = McpCall(id="mcp_1", name="look", arguments="{}", server_label="s")
    for seconds, event in (
        (0.1, OutputItemAdded(0, 0, search)),
        (0.2, OutputItemAdded(1, 1, called)),
        (0.3, OutputItemDone(2, 0, search)),
        (0.4, OutputItemDone(3, 1, called)),
    ):
        clock.seconds = 100 + seconds
        recorder.add_events([event])
    assert shown(recorder)["clock"] == [
        {"name": "tool", "label": "web_search", "start_ms": 100, "end_ms": 300, "item_id": "ws_1"},
        {"name": "tool", "label": "look", "start_ms": 200, "end_ms": 400, "item_id": "mcp_1"},
    ]


def test_a_turn_that_has_not_ended_lasts_until_its_trace_is_stored() -> None:
    clock = Clock()
    recorder = recorder_of(now=clock)
    turn = recorder.begin_turn("up", "chat_completions", "m")
    assert turn is not None
    clock.seconds += 0.5
    turn.sent("http://up", b"POST / HTTP/1.1\r\n\r\n")
    clock.seconds += 1
    [queue, generation] = shown(recorder)["clock"]
    assert (queue["name"], queue["start_ms"], queue["end_ms"]) == ("queue", 0, 500)
    assert (generation["name"], generation["start_ms"], generation["end_ms"]) == ("generation", 500, 1500)


def test_later_reads_are_counted_to_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_CHUNKS", 2)
    clock = Clock()
    recorder = recorder_of(now=clock)
    turn = recorder.begin_turn("up", "chat_completions", "m")
    assert turn is not None
    turn.opened(200, {})
    for _ in range(3):
        clock.seconds += 0.1
        turn.received(b"12345")
    answer = shown(recorder)["rounds"][0]["answer"]
    assert answer["chunks"] == [{"at_ms": 100, "bytes": 5}, {"at_ms": 300, "bytes": 10}]
    assert answer["body"] == "12345" * 3


def test_only_so_many_rounds_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_ROUNDS", 1)
    recorder = recorder_of()
    assert recorder.begin_turn("up", "chat_completions", "m") is not None
    assert recorder.begin_turn("up", "chat_completions", "m") is None
