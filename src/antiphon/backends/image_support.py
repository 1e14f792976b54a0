"""Whether a model takes images, as its server says. Sans-IO, except for `ImageSupportCache`."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import msgspec

from antiphon.backends.context_window import LATEST
from antiphon.backends.features import Support
from antiphon.backends.registry import ImageSource

ANSWER_TTL_SECONDS = 300.0
NO_ANSWER_TTL_SECONDS = 15.0
MAX_CACHED_ANSWERS = 200
_NAMES = ("id", "name", "model", "key")

NO_IMAGES = Support("unsupported", "its server says that this model takes no images")
REFUSED_IMAGES = Support("unsupported", "its server refused images for this model")
UNKNOWN_IMAGES = Support(
    "unsupported", "its server does not say whether this model takes images; they are sent, and it decides"
)

Ask = Callable[[ImageSource, str], Coroutine[Any, Any, bytes | None]]
"""Asks a server about a model at one place; None if it does not answer."""


def read_images(source: ImageSource, body: bytes, model: str) -> bool | None:
    """Whether the model takes images; None if the answer does not say it."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if source.form == "list":
        answer = _listed(answer, model)
    for member in source.member.split("."):
        answer = cast("dict[str, Any]", answer).get(member) if isinstance(answer, dict) else None
    if isinstance(answer, bool):
        return answer
    if isinstance(answer, list):
        return source.word in answer
    return answer == source.word if isinstance(answer, str) else None


def _listed(answer: object, model: str) -> object:
    """The row of a model in a list."""
    if isinstance(answer, dict):
        tree = cast("dict[str, Any]", answer)
        answer = tree.get("data") or tree.get("models")
    rows = cast("list[object]", answer) if isinstance(answer, list) else []
    tables = [cast("dict[str, Any]", row) for row in rows if isinstance(row, dict)]
    named = (row for row in tables if {model, model + LATEST} & {str(row.get(name)) for name in _NAMES})
    return next(named, None)


class ImageSupportCache:
    """Asks a server, and caches what it said. A list is requested once for all its models."""

    def __init__(self, sources: Sequence[ImageSource], ask: Ask) -> None:
        self._sources = sources
        self._ask = ask
        self._answers: dict[tuple[str, str], tuple[float, asyncio.Task[bytes | None]]] = {}

    async def get(self, model: str) -> bool | None:
        """Whether the model takes images, from the first source that says it. Never an error."""
        for source in self._sources:
            body = await self._answer(source, model)
            found = None if body is None else read_images(source, body, model)
            if found is not None:
                return found
        return None

    async def aclose(self) -> None:
        tasks = [task for _, task in self._answers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, source: ImageSource, model: str) -> bytes | None:
        key = (source.path, model if source.form == "show" else "")
        now = asyncio.get_running_loop().time()
        asked, task = self._answers.get(key, (now, None))
        if task is None or (task.done() and now - asked > _lifetime(task)):
            self._answers.pop(key, None)
            if len(self._answers) >= MAX_CACHED_ANSWERS:
                self._forget_oldest()
            task = asyncio.create_task(self._ask(source, model))
            self._answers[key] = (now, task)
        return await asyncio.shield(task)

    def _forget_oldest(self) -> None:
        """Remove an old answer. One that is still being requested stays, because callers wait for it."""
        answered = (key for key, (_, task) in self._answers.items() if task.done())
        if (oldest := next(answered, None)) is not None:
            del self._answers[oldest]


def _lifetime(task: "asyncio.Task[bytes | None]") -> float:
    is_answer = not task.cancelled() and task.result() is not None
    return ANSWER_TTL_SECONDS if is_answer else NO_ANSWER_TTL_SECONDS
