"""A replacement for xllamacpp: the same few names, with a script instead of a model."""

import importlib.machinery
import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

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
        self.params: list[Any] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "FakeLlama":
        """Replace the real module."""
        module = types.ModuleType("xllamacpp")
        module.__spec__ = importlib.machinery.ModuleSpec("xllamacpp", None)
        module.CommonParams = _Params  # pyright: ignore[reportAttributeAccessIssue] -- a module made on the fly
        module.Server = self._load  # pyright: ignore[reportAttributeAccessIssue] -- as above
        monkeypatch.setitem(sys.modules, "xllamacpp", module)
        return self

    def _load(self, params: Any) -> "FakeLlama":
        self.loads += 1
        self.params.append(params)
        if self.load_errors:
            raise self.load_errors.pop(0)
        return self

    def handle_chat_completions(self, body: bytes, callback: Callable[[bytes], bool]) -> None:
        """Send the scripted answer until the callback stops it."""
        requested = msgspec.json.decode(body, type=dict[str, Any])
        self.bodies.append(requested)
        self.requested.release()
        for payload in self.answer(requested):
            if callback(payload):
                self.stopped.set()
                return


class _Params(types.SimpleNamespace):
    def __init__(self) -> None:
        groups = ("model", "cpuparams", "cpuparams_batch")
        super().__init__(**{group: types.SimpleNamespace() for group in groups})
