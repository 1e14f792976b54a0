"""Server-sent events, both ways, on bytes.

`SseRenderer` writes our events; text deltas, the hot path, are a cached prefix, the number and the escaped
text. `SseReader` cuts an upstream's byte stream into data payloads: it never decodes text (U+2028 is no line
end here) and its memory is bounded.
"""

from collections.abc import Iterable

import msgspec

from antiphon.protocol.events import Event, OutputTextDelta
from antiphon.protocol.long_texts import RepeatedTexts
from antiphon.protocol.shape import Shape

COMMENT = b": still here\n\n"
"""Sent after some time without events, so that clients and proxies do not close the connection."""

_encode = msgspec.json.encode
_DELTA_HEAD = (
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":'
)


class SseRenderer:
    """Renders the events of one stream."""

    __slots__ = ("_content_index", "_item_id", "_middle", "_shape")

    def __init__(self, shape: Shape | None = None) -> None:
        self._shape = shape or Shape()
        self._item_id = ""
        self._content_index = 0
        self._middle = b""

    def render(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events, ready for one write."""
        pieces: list[bytes] = []
        for event in events:
            if type(event) is OutputTextDelta and not event.logprobs:
                if event.item_id is not self._item_id or event.content_index != self._content_index:
                    self._open(event)
                pieces.append(
                    b'%b%d%b%b,"logprobs":[]}\n\n'
                    % (_DELTA_HEAD, event.sequence_number, self._middle, _encode(event.delta))
                )
            else:
                kind, body = self._shape.encode_event(event)
                pieces.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), body))
        return b"".join(pieces)

    def _open(self, event: OutputTextDelta) -> None:
        """Remember what stays the same for all deltas of one content part."""
        self._item_id = event.item_id
        self._content_index = event.content_index
        self._middle = b',"item_id":%b,"output_index":%d,"content_index":%d,"delta":' % (
            _encode(event.item_id),
            event.output_index,
            event.content_index,
        )


class RepeatingRenderer(SseRenderer):
    """Renders the last events of a large answer, which repeat its texts: each text is encoded once. For the
    `mark` see `encoded_parts`."""

    __slots__ = ("_texts",)

    def __init__(self, mark: str) -> None:
        super().__init__()
        self._texts = RepeatedTexts(mark)

    def render(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events."""
        pieces: list[bytes] = []
        for event in events:
            if type(event) is OutputTextDelta:
                pieces.append(super().render((event,)))
            else:
                head = b"event: %b\ndata: " % str(event.__struct_config__.tag).encode()
                pieces += (head, *self._texts.encode(event), b"\n\n")
        return b"".join(pieces)


class LineTooLong(Exception):
    """The stream holds an event beyond the size limit."""


class SseReader:
    """Cuts bytes into the data of events. Comments, ids, retries and event names are not data."""

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int = 8 * 1024 * 1024) -> None:
        self._buffer = b""
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that are now complete."""
        if self._buffer:
            data = self._buffer + data
        if b"\r" in data:
            # A CR at the very end may be half of a CRLF: leave it for the next read.
            held = b"\r" if data.endswith(b"\r") else b""
            data = data[: len(data) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        end = data.rfind(b"\n\n")
        self._buffer = data[end + 2 :] if end >= 0 else data
        if len(self._buffer) > self._limit:
            raise LineTooLong
        if end < 0:
            return []
        if data.startswith(b"data: "):
            # The hot path: one event of one data line.
            payload = data[6:end]
            if b"\n" not in payload:
                return [payload]
        return self._split(data, end)

    def _split(self, data: bytes, end: int) -> list[bytes]:
        if data.startswith(b"data: "):
            # As hot: several such events.
            single = data[6:end].split(b"\n\ndata: ")
            if data.count(b"\n", 0, end) == 2 * len(single) - 2:
                return single
        elif data.startswith(b"event: "):
            # As hot: the same, with names.
            named = data[7:end].split(b"\n\nevent: ")
            single = [block.partition(b"\ndata: ")[2] for block in named]
            if data.count(b"\n", 0, end) == 3 * len(single) - 2 and all(single):
                return single
        payloads: list[bytes] = []
        for block in data[:end].split(b"\n\n"):
            self._read_lines(block, payloads)
        return payloads

    def finish(self) -> list[bytes]:
        """The last event of a stream that ended without a blank line."""
        block, self._buffer = self._buffer.rstrip(b"\r\n"), b""
        payloads: list[bytes] = []
        self._read_lines(block, payloads)
        return payloads

    @staticmethod
    def _read_lines(block: bytes, payloads: list[bytes]) -> None:
        lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
        if lines:
            payloads.append(b"\n".join(lines))
