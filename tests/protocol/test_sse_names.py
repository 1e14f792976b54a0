"""The fast path for events with names yields the same as the general reader."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.protocol.sse import SseReader

LINES = st.sampled_from(
    ["event: a", "event: ", "event:b", "data: x", "data: y", "data: ", "data:", "data", "id: 1", ": c", ""]
)


def parse_by_line(stream: str) -> list[bytes]:
    """Parse event by event, line by line."""
    found: list[bytes] = []
    for block in stream.split("\n\n"):
        data = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if data:
            found.append("\n".join(data).encode())
    return found


@given(st.lists(LINES, max_size=14))
def test_event_names_do_not_change_the_payloads(lines: list[str]) -> None:
    stream = "\n".join(["event: first", *lines]).rstrip("\n")
    assert SseReader().feed(f"{stream}\n\n".encode()) == parse_by_line(stream)


def test_events_with_names() -> None:
    stream = b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\nevent: c\ndata: 3"
    reader = SseReader()
    assert reader.feed(stream) == [b"1", b"2"]
    assert reader.feed(b"\n\n") == [b"3"]
    assert reader.feed(b"event: a\ndata: 1\n\nevent: b\n\nevent: c\ndata: 2\ndata: 3\n\n") == [b"1", b"2\n3"]
