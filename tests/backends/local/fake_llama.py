"""A replacement for the process with llama.cpp, with a script instead of a model."""

import importlib.machinery
import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.backends.local.engine_child import EngineOptions

Answer = Callable[[dict[str, Any]], Iterable[bytes]]
"""The payloads for a request body."""


def piece(text: str) -> bytes:
    """A chunk with text."""
    return msgspec.json.encode({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


def ending(reason: str = "stop", *, prompt: int = 5, completion: int = 2, cached: int = 1) -> list[bytes]:
    """The last chunks of a completion."""
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return [
        msgspec.json.encode({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        msgspec.json.encode({"choices": [], "usage": usage}),
    ]


def sending(payloads: Iterable[bytes]) -> Answer:
    """Sends the same payloads for every request."""

    def answer(_body: dict[str, Any]) -> Iterable[bytes]:
        return payloads

    return answer


def answering_with(*texts: str) -> Answer:
    """Gives the same answer to every request."""
    return sending([*map(piece, texts), *ending()])


def endless() -> Answer:
    """A model that never stops by itself, and always has something new to say."""
    return sending(piece(f"{number} ") for number in itertools.count())


def looping() -> Answer:
    """A model that says the same word forever."""
    return sending(map(piece, itertools.repeat("word ")))


class FakeLlama:
    """A fake engine that records its requests."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requested = threading.Semaphore(0)
        """Released once for each request that reached the engine."""
        self.bodies: list[dict[str, Any]] = []
        self.stopped = threading.Event()
        """Set when a callback stopped the answer."""
        self.loads = 0
        self.load_errors: list[Exception] = []
        self.is_alive = True

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "FakeLlama":
        """Replace the process, as if the library were installed."""
        module = types.ModuleType("xllamacpp")
        module.__spec__ = importlib.machinery.ModuleSpec("xllamacpp", None)
        monkeypatch.setitem(sys.modules, "xllamacpp", module)
        monkeypatch.setattr("antiphon.backends.local.engine.EngineProcess", self._load)
        return self

    def _load(self, _path: Path, _options: EngineOptions) -> "FakeLlama":
        self.loads += 1
        if self.load_errors:
            raise self.load_errors.pop(0)
        return self

    def chat(self, body: bytes, put: Callable[[bytes], bool]) -> None:
        """Send the scripted answer until the callback stops it."""
        requested = msgspec.json.decode(body, type=dict[str, Any])
        self.bodies.append(requested)
        self.requested.release()
        for payload in self.answer(requested):
            if put(payload):
                self.stopped.set()
                return

    def close(self) -> None:
        self.is_alive = False
