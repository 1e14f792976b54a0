"""llama.cpp in a child process, called over HTTP. Everything here blocks, and is called in threads.

A process of its own, because loading a model holds the interpreter's lock for seconds, and with it the event
loop. A crash of llama.cpp ends the child only.
"""

import contextlib
import http.client
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from antiphon.backends.local.engine_child import EngineOptions, EngineReport, EngineStart
from antiphon.backends.local.errors import broken_model
from antiphon.errors import BackendBroken

_TIMEOUT_SECONDS = 30.0
_END_SECONDS = 0.5
"""How long the child may take to end by itself before it is killed."""
_DATA = b"data: "
_DONE = b"[DONE]"


class _Tokens(Struct):
    tokens: list[int]


class EngineProcess:
    """A model in memory, in a process of its own."""

    def __init__(self, path: Path, options: EngineOptions) -> None:
        """Start the process, and return when it has loaded the model."""
        # Readable by this user only.
        self._folder = tempfile.TemporaryDirectory(prefix="antiphon-", ignore_cleanup_errors=True)
        self._key = secrets.token_urlsafe(32)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "antiphon.backends.local.engine_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self._address = self._wait_until_loaded(path, options)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def chat(self, body: bytes, put: Callable[[bytes], bool]) -> None:
        """Run one chat completion; `put` gets its payloads, an error too, and returns True to stop."""
        with self._errors("answer"), self._connected() as connection:
            self._post(connection, "/v1/chat/completions", body)
            connection.sock.settimeout(None)  # a long prompt may take long
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                put(answer.read())
                return
            while line := answer.readline():
                payload = line.rstrip().removeprefix(_DATA) if line.startswith(_DATA) else b""
                if payload == _DONE or (payload and put(payload)):
                    return
            raise ConnectionError("its answer was cut off")

    def count_tokens(self, text: str) -> int:
        """The number of tokens of a text, without those of a chat template."""
        with self._errors("count tokens"), self._connected() as connection:
            self._post(connection, "/tokenize", msgspec.json.encode({"content": text}))
            answer = connection.getresponse().read()
            return len(msgspec.json.decode(answer, type=_Tokens).tokens)

    def close(self) -> None:
        """End the process. Requests that run fail."""
        with contextlib.suppress(OSError):
            cast("IO[bytes]", self._process.stdin).close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        cast("IO[bytes]", self._process.stdout).close()
        self._folder.cleanup()

    def _wait_until_loaded(self, path: Path, options: EngineOptions) -> str:
        start = EngineStart(str(path), options, self._key, self._folder.name)
        try:
            with contextlib.suppress(BrokenPipeError):
                stdin = cast("IO[bytes]", self._process.stdin)
                stdin.write(msgspec.json.encode(start) + b"\n")
                stdin.flush()
            line = cast("IO[bytes]", self._process.stdout).readline()
            report = msgspec.json.decode(line, type=EngineReport) if line else EngineReport(error=self._end())
        except msgspec.DecodeError as error:
            report = EngineReport(error=str(error))
        if report.error:
            raise broken_model(path, report.error)
        return report.address

    def _end(self) -> str:
        """How the process ended."""
        code = self._process.wait()
        return (
            f"its process was ended by signal {-code}" if code < 0 else f"its process ended with code {code}"
        )

    @contextlib.contextmanager
    def _connected(self) -> Generator[http.client.HTTPConnection, None, None]:
        connection = _connection(self._address)
        try:
            yield connection
        finally:
            connection.close()

    def _post(self, connection: http.client.HTTPConnection, path: str, body: bytes) -> None:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        connection.request("POST", path, body, headers)

    @contextlib.contextmanager
    def _errors(self, what: str) -> Generator[None, None, None]:
        """Failures of the exchange, in terms of the model."""
        try:
            yield
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)  # a connection breaks a little before the process has ended
            reason = str(error) if self.is_alive else f"{self._end()}; the next request starts it again"
            raise BackendBroken(f"The embedded model could not {what}: {reason}.") from error


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT_SECONDS)
        self.sock.connect(self._path)


def _connection(address: str) -> http.client.HTTPConnection:
    split = urlsplit(address)
    if split.scheme == "unix":
        return _UnixConnection(split.path)
    return http.client.HTTPConnection(split.hostname or "127.0.0.1", split.port, timeout=_TIMEOUT_SECONDS)
