"""Clients of a failing server."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterable
from typing import Any

from openai import OpenAI

from tests.serving import Served

TEST_TIMEOUT_SECONDS = 60.0
"""Timeout of tests in seconds; far more than any step takes."""


def sdk(served: Served, *, retries: int = 0) -> OpenAI:
    """The official client. With `retries` it retries as the server requests."""
    return OpenAI(base_url=served.base_url, api_key="-", max_retries=retries, timeout=TEST_TIMEOUT_SECONDS)


def follow(served: Served, response_id: str) -> list[dict[str, Any]]:
    """All events of a background response, to its end."""
    return listen_to_background(served, response_id).to_the_end()


class Listener:
    """Receives a stream to its end, in its own thread. The official client would raise on an `error`."""

    def __init__(self, served: Served, path: str, body: object = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        self._request = urllib.request.Request(
            f"{served.base_url}{path}", data, {"content-type": "application/json"}
        )
        self._deltas = threading.Semaphore(0)
        self._received: list[dict[str, Any]] = []
        self._broken: Exception | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def wait_for_delta(self) -> None:
        """Wait for the next text delta."""
        assert self._deltas.acquire(timeout=TEST_TIMEOUT_SECONDS), "no text delta was received"

    def to_the_end(self) -> list[dict[str, Any]]:
        """All received events, up to `[DONE]`."""
        self._thread.join(TEST_TIMEOUT_SECONDS)
        assert not self._thread.is_alive(), "the stream did not end"
        if self._broken is not None:
            raise self._broken
        return self._received

    def _listen(self) -> None:
        try:
            with urllib.request.urlopen(self._request, timeout=TEST_TIMEOUT_SECONDS) as answer:
                self._receive(answer)
        except Exception as error:  # noqa: BLE001 -- it is raised by `to_the_end`
            self._broken = error

    def _receive(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            kind, _, data = line.rstrip().partition(b": ")
            if kind != b"data":
                continue
            if data == b"[DONE]":
                return
            self._received.append(json.loads(data))
            if self._received[-1]["type"] == "response.output_text.delta":
                self._deltas.release()
        raise AssertionError("the stream broke off")


def listen_to_new(served: Served, model: str, text: str = "x") -> Listener:
    """Request a stream and receive it."""
    return Listener(served, "/responses", {"model": model, "input": text, "stream": True})


def listen_to_background(served: Served, response_id: str) -> Listener:
    """Follow a background response."""
    return Listener(served, f"/responses/{response_id}?stream=true")


def wait_for_log(served: Served, text: str) -> None:
    """Wait until the server has logged this."""
    deadline = time.monotonic() + TEST_TIMEOUT_SECONDS
    while text not in served.log.read_text():
        assert time.monotonic() < deadline, f"'{text}' is not in the log: {served.log.read_text()}"
        time.sleep(0.02)
