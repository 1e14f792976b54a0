"""A body of server-sent events, cut into frames: names, data and ids as they stand there."""

import msgspec
from msgspec import Struct

from antiphon.protocol.content import JsonObject

DONE = b"[DONE]"


class Frame(Struct, frozen=True):
    """One event as it was framed."""

    name: str | None
    data: bytes
    id: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether this is the line behind the last event."""
        return self.data.strip() == DONE

    def event(self) -> JsonObject | None:
        """The JSON object that it holds."""
        try:
            return msgspec.json.decode(self.data, type=JsonObject)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


def read_frames(body: bytes) -> list[Frame]:
    """All frames that have data. Comments and retry times are passed over."""
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return [frame for block in lines.split(b"\n\n") if (frame := _read(block)) is not None]


def count_frames(body: bytes) -> int:
    """How many frames are whole."""
    whole = body.replace(b"\r\n", b"\n").rpartition(b"\n\n")[0]
    return len(read_frames(whole)) if whole else 0


def _read(block: bytes) -> Frame | None:
    fields: dict[str, list[bytes]] = {}
    for line in block.split(b"\n"):
        name, colon, value = line.partition(b":")
        if name and colon:
            fields.setdefault(name.decode("latin-1"), []).append(value.removeprefix(b" "))
    if "data" not in fields:
        return None
    return Frame(_last(fields, "event"), b"\n".join(fields["data"]), _last(fields, "id"))


def _last(fields: dict[str, list[bytes]], name: str) -> str | None:
    return fields[name][-1].decode("utf-8", "replace") if name in fields else None
