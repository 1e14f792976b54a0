"""Clients of a server that gets into trouble."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterable
from typing import Any

from openai import OpenAI

from tests.serving import Served

PATIENCE = 60.0
"""Seconds after which something counts as not happening; far more than anything takes."""


def sdk(served: Served, *, retries: int = 0) -> OpenAI:
    """The official client. With `retries` it tries again as the server tells it to."""
    return OpenAI(base_url=served.base_url, api_key="-", max_retries=retries, timeout=PATIENCE)


def follow(served: Served, response_id: str) -> list[dict[str, Any]]:
    """All events of a background response, to its end."""
    return listen_to_background(served, response_id).to_the_end()


class Listener:
    """Hears a stream to its end, in a thread of its own. The official client would raise at an `error`."""

    def __init__(self, served: Served, path: str, body: object = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        self._request = urllib.request.Request(
            f"{served.base_url}{path}", data, {"content-type": "application/json"}
        )
        self._words = threading.Semaphore(0)
        self._heard: list[dict[str, Any]] = []
        self._broken: Exception | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def wait_for_a_word(self) -> None:
        """Return when the model has spoken; the next time, when it has spoken again."""
        assert self._words.acquire(timeout=PATIENCE), "the model is silent"

    def to_the_end(self) -> list[dict[str, Any]]:
        """Everything that was heard, up to `[DONE]`."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the stream did not end"
        if self._broken is not None:
            raise self._broken
        return self._heard

    def _listen(self) -> None:
        try:
            with urllib.request.urlopen(self._request, timeout=PATIENCE) as answer:
                self._hear(answer)
        except Exception as error:  # noqa: BLE001 -- it belongs to whoever asks for the end
            self._broken = error

    def _hear(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            kind, _, data = line.rstrip().partition(b": ")
            if kind != b"data":
                continue
            if data == b"[DONE]":
                return
            self._heard.append(json.loads(data))
            if self._heard[-1]["type"] == "response.output_text.delta":
                self._words.release()
        raise AssertionError("the stream broke off")


def listen_to_new(served: Served, model: str, text: str = "x") -> Listener:
    """Ask for a stream and hear it."""
    return Listener(served, "/responses", {"model": model, "input": text, "stream": True})


def listen_to_background(served: Served, response_id: str) -> Listener:
    """Follow a background response."""
    return Listener(served, f"/responses/{response_id}?stream=true")


def wait_for_log(served: Served, text: str) -> None:
    """Return when the server has said this."""
    deadline = time.monotonic() + PATIENCE
    while text not in served.log.read_text():
        assert time.monotonic() < deadline, f"'{text}' is not in the log: {served.log.read_text()}"
        time.sleep(0.02)
