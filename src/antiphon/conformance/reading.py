"""Reads what servers send: members of JSON of any shape, and frames of server-sent events."""

from typing import Any, cast

import msgspec
from msgspec import Struct

from antiphon.protocol.content import JsonObject


def member(value: object, path: str) -> Any:
    """The value at the path `a.b.0.c`; None if there is none."""
    for name in path.split("."):
        if isinstance(value, dict):
            value = cast("JsonObject", value).get(name)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(name)]
        else:
            return None
    return value


def text_at(value: object, path: str) -> str:
    """The string at the path, or an empty one."""
    found = member(value, path)
    return found if isinstance(found, str) else ""


def number_at(value: object, path: str) -> int | None:
    """The integer at the path, if there is one."""
    found = member(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def list_at(value: object, path: str) -> list[JsonObject]:
    """The objects in the list at the path."""
    found = member(value, path)
    if not isinstance(found, list):
        return []
    return [cast("JsonObject", entry) for entry in cast("list[Any]", found) if isinstance(entry, dict)]


def object_at(value: object, path: str) -> JsonObject:
    """The object at the path, or an empty one."""
    found = member(value, path)
    return cast("JsonObject", found) if isinstance(found, dict) else {}


DONE = b"[DONE]"


class Frame(Struct, frozen=True):
    """One frame: its `event:`, `data:` and `id:` fields."""

    name: str | None
    data: bytes
    id: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether this is the `[DONE]` after the last event."""
        return self.data.strip() == DONE

    def event(self) -> JsonObject | None:
        """The JSON object in the data; None if it is something else."""
        try:
            return msgspec.json.decode(self.data, type=JsonObject)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


def read_frames(body: bytes) -> list[Frame]:
    """All frames with data. Comments and retry times are ignored."""
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return [frame for block in lines.split(b"\n\n") if (frame := _read(block)) is not None]


def count_frames(body: bytes) -> int:
    """The number of complete frames."""
    complete = body.replace(b"\r\n", b"\n").rpartition(b"\n\n")[0]
    return len(read_frames(complete)) if complete else 0


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
