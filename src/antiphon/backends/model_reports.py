"""A cache of what model servers report of their models."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

import msgspec

REPORT_TTL_SECONDS = 300.0
"""How long a report is cached: a server may reload its model in another way."""
NO_REPORT_TTL_SECONDS = 15.0
"""How long the lack of one is cached."""
MAX_CACHED_REPORTS = 1000
ANY = ""
"""The name for the only model of a server, regardless of its own name."""
LATEST = ":latest"
"""Ollama's tag of a model that was named without one."""
_NAMES = ("id", "name", "model", "key", "slug")
"""The members by which servers call a model in a list."""

Tree = dict[str, Any]


class Source(Protocol):
    """A place where a server reports. `show` is about a named model, the other forms about all of them."""

    @property
    def path(self) -> str: ...

    @property
    def form(self) -> Literal["list", "object", "show"]: ...


AnySource = TypeVar("AnySource", bound=Source)
Value = TypeVar("Value")


def decode_report(body: bytes) -> object:
    """The JSON of a report; None if it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def listed_rows(report: object) -> list[Tree]:
    """The models of a list."""
    if isinstance(report, dict):
        tree = cast("Tree", report)
        report = tree.get("data") or tree.get("models")
    rows = cast("list[object]", report) if isinstance(report, list) else []
    return [cast("Tree", row) for row in rows if isinstance(row, dict)]


def by_name(rows: Sequence[Tree], values: Sequence[Value | None]) -> dict[str, Value]:
    """The values of the rows that have one, by all names of their models."""
    return {
        row[name]: value
        for row, value in zip(rows, values, strict=True)
        if value is not None
        for name in _NAMES
        if isinstance(row.get(name), str)
    }


def value_of(model: str, values: Mapping[str, Value]) -> Value | None:
    """What is reported of a model."""
    return next((values[name] for name in (model, model + LATEST, ANY) if name in values), None)


class ReportCache(Generic[AnySource, Value]):
    """Asks a server, and caches what it reports. A list is requested once for all its models."""

    def __init__(
        self,
        sources: Sequence[AnySource],
        ask: Callable[[AnySource, str], Awaitable[bytes | None]],
        read: Callable[[AnySource, bytes], Mapping[str, Value]],
    ) -> None:
        """`ask` gets a report about a model, or None if the server does not answer; `read` finds values."""
        self._sources = sources
        self._ask = ask
        self._read = read
        self._cache: dict[tuple[str, str], tuple[float, asyncio.Task[Mapping[str, Value]]]] = {}

    async def get(self, model: str) -> Value | None:
        """The value of this model from the first source that has it, or None. Never an error."""
        for source in self._sources:
            found = value_of(model, await self._report(source, model))
            if found is not None:
                return found
        return None

    async def aclose(self) -> None:
        tasks = [task for _, task in self._cache.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _report(self, source: AnySource, model: str) -> Mapping[str, Value]:
        key = (source.path, model if source.form == "show" else ANY)
        now = asyncio.get_running_loop().time()
        asked, task = self._cache.get(key, (now, None))
        if task is None or now - asked > _lifetime(task):
            self._cache.pop(key, None)
            if len(self._cache) >= MAX_CACHED_REPORTS:
                self._forget_oldest()
            task = asyncio.create_task(self._look(source, model))
            self._cache[key] = (now, task)
        return await asyncio.shield(task)

    def _forget_oldest(self) -> None:
        """Remove old entries. An entry that is still being requested stays, because callers wait for it."""
        answered = (key for key, (_, task) in self._cache.items() if task.done())
        if (oldest := next(answered, None)) is not None:
            del self._cache[oldest]

    async def _look(self, source: AnySource, model: str) -> Mapping[str, Value]:
        body = await self._ask(source, model)
        return {} if body is None else self._read(source, body)


def _lifetime(task: "asyncio.Task[Mapping[str, Value]]") -> float:
    """How long a report is believed. One without a value may have one soon: when a model is loaded."""
    has_value = not task.done() or (not task.cancelled() and task.result())
    return REPORT_TTL_SECONDS if has_value else NO_REPORT_TTL_SECONDS
