"""`CodexBackend`: runs turns on `codex app-server`."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from antiphon.backends.base import ModelInfo
from antiphon.backends.codex_app_server.parking import Parking
from antiphon.backends.codex_app_server.process import ChildOptions
from antiphon.backends.codex_app_server.request import CodexRequest, ThreadOptions, build_request
from antiphon.backends.codex_app_server.rpc import decode
from antiphon.backends.codex_app_server.supervisor import Supervisor
from antiphon.backends.codex_app_server.thread import QUIET_SECONDS, Thread
from antiphon.backends.codex_app_server.wire import AccountState, ModelList
from antiphon.backends.features import FUNCTIONS, NATIVE, Features, Support
from antiphon.backends.files import TEXT_OF_FILES
from antiphon.errors import BackendError, Unavailable
from antiphon.turn.chunks import HEARTBEAT, Chunk, Failed
from antiphon.turn.context import TurnRequest

_ASKED = Support("emulated", "it is described in the prompt; the answer is checked and repaired")
_NO_FIELD = Support("unsupported", "codex has no field for it")

FEATURES: Features = {
    "streaming": NATIVE,
    "usage": NATIVE,
    "function_tools": NATIVE,
    "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
    "grammars": Support(
        "emulated",
        "the grammar is described to the model; its input is checked, and requested again if it is wrong",
    ),
    "constrained_text": _NO_FIELD,
    "parallel_tool_calls": NATIVE,
    "single_tool_calls": Support("unsupported", "codex has no field that forbids several calls at once"),
    "tool_choice_required": _ASKED,
    "tool_choice_named": _ASKED,
    "structured_output": NATIVE,
    "json_mode": _ASKED,
    "reasoning": NATIVE,
    "reasoning_effort": NATIVE,
    "reasoning_replay": _NO_FIELD,
    "images": NATIVE,
    "files": Support("emulated", TEXT_OF_FILES),
    "audio": _NO_FIELD,
    "logprobs": _NO_FIELD,
    "prompt_caching": _NO_FIELD,
}


REQUEST_TIMEOUT_SECONDS = 10.0
"""For requests that codex answers without its model."""

Batches = AsyncGenerator[Sequence[Chunk], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much at once, and how long."""

    turns: int = 4
    silence: float = 300.0
    quiet: float = QUIET_SECONDS
    tools: float = 600.0
    heartbeat: float = 10.0


class CodexBackend:
    """One child process for all turns; it is started by the first one."""

    name = "codex"

    def __init__(
        self, child: ChildOptions, thread: ThreadOptions, limits: Limits, *, pause: float = 0.5
    ) -> None:
        self.limits = limits
        self.slots = asyncio.Semaphore(limits.turns)
        self.parking = Parking(limits.tools)
        self.supervisor = Supervisor(child, pause=pause)
        self._thread = thread

    @property
    def natives(self) -> frozenset[str]:
        """Functions only: they become its dynamic tools."""
        return FUNCTIONS

    def features(self, model: str) -> Features:
        """The features that codex passes on to its own model."""
        return FEATURES

    async def context_window(self, model: str) -> int | None:
        """Unknown: codex reports only the usage of a turn."""
        return None

    def prepare(self, turn: TurnRequest) -> "CodexTurn":
        """Translate a turn."""
        return CodexTurn(build_request(turn, self._thread), self)

    async def models(self) -> Sequence[ModelInfo]:
        child = await self.supervisor.child()
        found: list[ModelInfo] = []
        cursor: str | None = None
        while True:
            answer = await child.call("model/list", {"cursor": cursor}, patience=REQUEST_TIMEOUT_SECONDS)
            page = decode(answer, ModelList)
            found += [ModelInfo(model.id, owned_by=self.name) for model in page.data]
            if page.next_cursor is None or page.next_cursor == cursor:
                return found
            cursor = page.next_cursor

    async def account(self) -> AccountState:
        """The login of codex, and whether one is required."""
        child = await self.supervisor.child()
        return decode(await child.call("account/read", {}, patience=REQUEST_TIMEOUT_SECONDS), AccountState)

    async def aclose(self) -> None:
        """End the child, and with it all turns."""
        self.parking.clear()
        await self.supervisor.aclose()


class CodexTurn:
    """Run a turn on a new thread, or on a parked one that waits for the tool outputs of this turn."""

    def __init__(self, request: CodexRequest, backend: CodexBackend) -> None:
        self.downgrades = request.downgrades
        self.unenforced = request.unenforced
        self.request = request
        self._backend = backend

    async def chunks(self) -> Batches:
        """Run it."""
        begun = False
        try:
            async with aclosing(with_heartbeats(self._run(), self._backend.limits.heartbeat)) as batches:
                async for batch in batches:
                    begun = begun or batch is not HEARTBEAT
                    yield batch
        except (BackendError, Unavailable) as error:
            if not begun:
                raise
            yield [Failed(error)]

    async def _run(self) -> Batches:
        async with self._backend.slots:
            thread = await self._thread()
            parked = False
            try:
                async with aclosing(thread.batches()) as batches:
                    async for batch in batches:
                        if thread.open_calls:
                            # Before the calls are emitted: their outputs may arrive at once.
                            self._backend.parking.put(thread, self.request)
                            parked = True
                        yield batch
                        if parked:
                            break
                self._backend.supervisor.worked()
            finally:
                if not parked:
                    thread.close()

    async def _thread(self) -> Thread:
        thread = self._backend.parking.take(self.request)
        if thread is not None:
            thread.answer(self.request.outputs)
            return thread
        child = await self._backend.supervisor.child()
        limits = self._backend.limits
        return await Thread.open(child, self.request, silence=limits.silence, quiet=limits.quiet)


async def with_heartbeats(
    batches: AsyncGenerator[Sequence[Chunk], None], heartbeat: float
) -> AsyncGenerator[Sequence[Chunk], None]:
    """The same batches, and an empty one after each `heartbeat` seconds without any."""
    coming: asyncio.Task[Sequence[Chunk] | None] | None = None
    try:
        while True:
            coming = asyncio.create_task(_next(batches))
            while not coming.done():
                await asyncio.wait({coming}, timeout=heartbeat)
                if not coming.done():
                    yield HEARTBEAT
            batch = coming.result()
            if batch is None:
                return
            yield batch
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await batches.aclose()


async def _next(batches: AsyncGenerator[Sequence[Chunk], None]) -> Sequence[Chunk] | None:
    return await anext(batches, None)
