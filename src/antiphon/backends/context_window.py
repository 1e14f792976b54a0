"""Context windows of models, read from the reports of their servers. Sans-IO, except for `WindowCache`.

The window that the server uses counts, not the one that the model was trained for: a server with a smaller
one truncates the prompt, or rejects it.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from antiphon.backends.registry import WindowSource

WINDOW_TTL_SECONDS = 300.0
"""How long an answer is cached: a server may reload its model with another window."""
NO_WINDOW_TTL_SECONDS = 15.0
"""How long the lack of an answer is cached."""
MAX_CACHED_ANSWERS = 1000
MAX_WINDOW_TOKENS = 2**40
"""No window is larger: a number beyond is a mistake."""
ANY = ""
"""The name for the only model of a server, regardless of its own name."""
LATEST = ":latest"
"""Ollama's tag of a model that was named without one."""

_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,18})\s*$", re.MULTILINE)
_NAMES = ("id", "name", "model", "key", "slug")
"""The members by which servers call a model in a list."""

Windows = Mapping[str, int]
"""Tokens by model."""
Ask = Callable[[WindowSource, str], Awaitable[bytes | None]]
"""Asks a server about a model at one place; None if it does not answer."""


def read_windows(source: WindowSource, body: bytes) -> Windows:
    """The windows of all models in an answer."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    match source.form:
        case "object":
            window = _first(answer, source.members)
        case "show":
            window = _parameter(answer)
        case "list":
            return _listed(answer, source.members)
    return {} if window is None else {ANY: window}


def window_of(model: str, windows: Windows) -> int | None:
    return windows.get(model) or windows.get(model + LATEST) or windows.get(ANY)


def _listed(answer: object, members: Iterable[str]) -> Windows:
    if isinstance(answer, dict):
        tree = cast("dict[str, Any]", answer)
        answer = tree.get("data") or tree.get("models")
    rows = [cast("dict[str, Any]", row) for row in _list(answer) if isinstance(row, dict)]
    windows = _by_name(rows, {id(row): _first(row, members) for row in rows})
    # vLLM lists an adapter without a window of its own, but with the model that it belongs to.
    of_parents = {id(row): windows.get(str(row.get("parent"))) for row in rows}
    return {**_by_name(rows, of_parents), **windows}


def _by_name(rows: Sequence[dict[str, Any]], found: Mapping[int, int | None]) -> dict[str, int]:
    windows: dict[str, int] = {}
    for row in rows:
        window = found[id(row)]
        if window is not None:
            windows |= {row[name]: window for name in _NAMES if isinstance(row.get(name), str)}
    return windows


def _first(tree: object, members: Iterable[str]) -> int | None:
    return next((found for member in members if (found := _member(tree, member.split(".")))), None)


def _member(tree: object, path: list[str]) -> int | None:
    """The number at the end of a path. `*` is every element of a list, and then the least number counts."""
    if not path:
        return (
            tree
            if isinstance(tree, int) and not isinstance(tree, bool) and 0 < tree < MAX_WINDOW_TOKENS
            else None
        )
    if path[0] == "*":
        return min(filter(None, (_member(inner, path[1:]) for inner in _list(tree))), default=None)
    return _member(cast("dict[str, object]", tree).get(path[0]), path[1:]) if isinstance(tree, dict) else None


def _parameter(answer: object) -> int | None:
    """`num_ctx` among the parameters of a Modelfile."""
    text = cast("dict[str, object]", answer).get("parameters") if isinstance(answer, dict) else None
    found = _NUM_CTX.search(text) if isinstance(text, str) else None
    return _member(int(found[1]), []) if found else None


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


class WindowCache:
    """Caches the answers of a server. A list is requested once for all its models."""

    def __init__(self, sources: Sequence[WindowSource], ask: Ask) -> None:
        self._sources = sources
        self._ask = ask
        self._cache: dict[tuple[str, str], tuple[float, asyncio.Task[Windows]]] = {}

    async def get(self, model: str) -> int | None:
        """The window of this model from the first source that has it, or None. Never an error."""
        for source in self._sources:
            found = window_of(model, await self._windows(source, model))
            if found is not None:
                return found
        return None

    async def aclose(self) -> None:
        tasks = [task for _, task in self._cache.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _windows(self, source: WindowSource, model: str) -> Windows:
        key = (source.path, model if source.form == "show" else ANY)
        now = asyncio.get_running_loop().time()
        asked, task = self._cache.get(key, (now, None))
        if task is None or now - asked > _lifetime(task):
            self._cache.pop(key, None)
            if len(self._cache) >= MAX_CACHED_ANSWERS:
                self._forget_oldest()
            task = asyncio.create_task(self._look(source, model))
            self._cache[key] = (now, task)
        return await asyncio.shield(task)

    def _forget_oldest(self) -> None:
        """Remove old entries. An entry that is still being requested stays, because callers wait for it."""
        answered = (key for key, (_, task) in self._cache.items() if task.done())
        if (oldest := next(answered, None)) is not None:
            del self._cache[oldest]

    async def _look(self, source: WindowSource, model: str) -> Windows:
        body = await self._ask(source, model)
        return {} if body is None else read_windows(source, body)


def _lifetime(task: "asyncio.Task[Windows]") -> float:
    """How long an answer is believed. One without a window may have one soon: when a model is loaded."""
    return (
        WINDOW_TTL_SECONDS
        if not task.done() or (not task.cancelled() and task.result())
        else NO_WINDOW_TTL_SECONDS
    )
