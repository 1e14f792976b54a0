"""Counting tokens: llama.cpp offers its tokenizer over its own private HTTP address only."""

import http.client
import socket
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from antiphon.errors import BackendBroken

_TIMEOUT = 30.0


class _Tokens(Struct):
    tokens: list[int]


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT)
        self.sock.connect(self._path)


def count_tokens(address: str, key: str, text: str) -> int:
    """The number of tokens of a text, without the marks that a chat template puts around it. Blocks."""
    connection = _connect(address)
    try:
        body = msgspec.json.encode({"content": text})
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/tokenize", body, headers)
        answer = connection.getresponse().read()
        return len(msgspec.json.decode(answer, type=_Tokens).tokens)
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        raise BackendBroken(f"The embedded model could not count tokens: {error}.") from error
    finally:
        connection.close()


def _connect(address: str) -> http.client.HTTPConnection:
    split = urlsplit(address)
    if split.scheme == "unix":
        return _UnixConnection(split.path)
    return http.client.HTTPConnection(split.hostname or "127.0.0.1", split.port, timeout=_TIMEOUT)
