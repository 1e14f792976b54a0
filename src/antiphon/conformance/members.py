"""Reads what may be anything: JSON of servers that do as they like."""

from typing import Any, cast

from antiphon.protocol.content import JsonObject


def member(value: object, path: str) -> Any:
    """What stands at `a.b.0.c`; None where nothing does."""
    for name in path.split("."):
        if isinstance(value, dict):
            value = cast("JsonObject", value).get(name)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(name)]
        else:
            return None
    return value


def text_at(value: object, path: str) -> str:
    """The text that stands there, else an empty one."""
    found = member(value, path)
    return found if isinstance(found, str) else ""


def number_at(value: object, path: str) -> int | None:
    """The integer that stands there."""
    found = member(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def list_at(value: object, path: str) -> list[JsonObject]:
    """The objects of the list that stands there."""
    found = member(value, path)
    if not isinstance(found, list):
        return []
    return [cast("JsonObject", entry) for entry in cast("list[Any]", found) if isinstance(entry, dict)]


def object_at(value: object, path: str) -> JsonObject:
    """The object that stands there, else an empty one."""
    found = member(value, path)
    return cast("JsonObject", found) if isinstance(found, dict) else {}
