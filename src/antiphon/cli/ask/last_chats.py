"""Remembers the last chat with each server, because a server does not list its responses."""

from contextlib import suppress
from pathlib import Path

import msgspec

from antiphon.wiring import data_folder

FILE = "last_chats.json"
MAX_SERVERS = 50


def last_chat(base_url: str) -> str | None:
    """The id of the last response of the last chat with this server."""
    return _load().get(base_url)


def save_last_chat(base_url: str, response_id: str) -> None:
    """Remember it. A file that cannot be written does not fail the chat."""
    chats = _load()
    chats.pop(base_url, None)
    newest = {**chats, base_url: response_id}
    path = _path()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(dict([*newest.items()][-MAX_SERVERS:])))


def _path() -> Path:
    return data_folder() / FILE


def _load() -> dict[str, str]:
    try:
        return msgspec.json.decode(_path().read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}
