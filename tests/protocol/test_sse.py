"""Server-sent events on bytes: rendering and reading."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.protocol.content import Logprob
from antiphon.protocol.events import EVENT_TYPES, Keepalive, OutputTextDelta
from antiphon.protocol.sse import LineTooLong, SseReader, SseRenderer


def read(*pieces: bytes) -> list[bytes]:
    reader = SseReader()
    return [payload for piece in pieces for payload in reader.feed(piece)] + reader.finish()


@given(st.text(), st.integers(0, 10**6), st.text(min_size=1), st.integers(0, 3))
@pytest.mark.requirement("PROTOCOL/framing-data")
def test_the_fast_rendering_of_a_delta_equals_the_plain_one(
    delta: str, number: int, item_id: str, content_index: int
) -> None:
    event = OutputTextDelta(number, item_id, 2, content_index, delta)
    head = b"event: response.output_text.delta\ndata: "
    assert SseRenderer().render([event]) == head + msgspec.json.encode(event) + b"\n\n"


def test_the_renderer_notices_another_item_and_another_part() -> None:
    renderer = SseRenderer()
    events = [
        OutputTextDelta(0, "msg_1", 0, 0, "a"),
        OutputTextDelta(1, "msg_1", 0, 1, "b"),
        OutputTextDelta(2, "msg_2", 1, 0, "c"),
        OutputTextDelta(3, "msg_2", 1, 0, "d", [Logprob("d", [100], -1.0)]),
    ]
    payloads = read(renderer.render(events[:1]), renderer.render(events[1:]))
    assert [msgspec.json.decode(payload, type=OutputTextDelta) for payload in payloads] == events


@pytest.mark.requirement("PROTOCOL/framing-event-name")
def test_the_event_line_is_the_type() -> None:
    assert (
        SseRenderer().render([Keepalive(7)])
        == b'event: keepalive\ndata: {"type":"keepalive","sequence_number":7}\n\n'
    )
    assert EVENT_TYPES["keepalive"] is Keepalive


STREAM = 'data: {"a":"\u2028\u0085\x0b"}\n\n: comment\n\nevent: x\ndata: {"b":1}\nid: 3\n\ndata: two\ndata: lines\n\ndata:none\n\n'


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@given(data=st.data())
def test_any_split_of_bytes_yields_the_same_payloads(line_end: str, data: st.DataObject) -> None:
    stream = STREAM.replace("\n", line_end).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*pieces) == ['{"a":"\u2028\u0085\x0b"}'.encode(), b'{"b":1}', b"two\nlines", b"none"]


def test_a_last_event_without_a_blank_line_is_read_at_the_end() -> None:
    assert read(b"data: a\n\ndata: b") == [b"a", b"b"]


def test_an_endless_line_is_rejected_with_bounded_memory() -> None:
    reader = SseReader(limit=1000)
    with pytest.raises(LineTooLong):
        for _ in range(100):
            reader.feed(b"data: " + b"x" * 100)


@given(st.binary(max_size=300))
def test_no_bytes_can_break_the_reader(data: bytes) -> None:
    read(data)
