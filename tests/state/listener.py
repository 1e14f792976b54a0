"""Clients of a server that gets into trouble."""

import json
import threading
import time
from contextlib import closing
from typing import Any

import httpx
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

    def __init__(self, served: Served, method: str, path: str, body: object = None) -> None:
        self._request = httpx.Request(method, f"{served.base_url}{path}", json=body)
        self._speaking = threading.Event()
        self._heard: list[dict[str, Any]] = []
        self._broken: Exception | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def wait_for_a_word(self) -> None:
        """Return when the model has begun to speak."""
        assert self._speaking.wait(PATIENCE), "the model never spoke"

    def to_the_end(self) -> list[dict[str, Any]]:
        """Everything that was heard, up to `[DONE]`."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the stream did not end"
        if self._broken is not None:
            raise self._broken
        return self._heard

    def _listen(self) -> None:
        try:
            with httpx.Client(timeout=PATIENCE) as client, closing(client.send(self._request, stream=True)) as answer:
                self._hear(answer)
        except Exception as error:  # noqa: BLE001 -- it belongs to whoever asks for the end
            self._broken = error

    def _hear(self, answer: httpx.Response) -> None:
        answer.raise_for_status()
        data = (line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: "))
        for piece in data:
            if piece == "[DONE]":
                return
            self._heard.append(json.loads(piece))
            if self._heard[-1]["type"] == "response.output_text.delta":
                self._speaking.set()
        raise AssertionError("the stream broke off")


def listen_to_new(served: Served, model: str, text: str = "x") -> Listener:
    """Ask for a stream and hear it."""
    return Listener(served, "POST", "/responses", {"model": model, "input": text, "stream": True})


def listen_to_background(served: Served, response_id: str) -> Listener:
    """Follow a background response."""
    return Listener(served, "GET", f"/responses/{response_id}?stream=true")


def wait_for_log(served: Served, text: str) -> None:
    """Return when the server has said this."""
    deadline = time.monotonic() + PATIENCE
    while text not in served.log.read_text():
        assert time.monotonic() < deadline, f"'{text}' is not in the log: {served.log.read_text()}"
        time.sleep(0.02)
