"""`Thread`: a thread of codex with its one turn."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress

from msgspec import Raw

from antiphon.backends.codex_app_server.child import Asked, Child
from antiphon.backends.codex_app_server.request import CodexRequest
from antiphon.backends.codex_app_server.rpc import decode
from antiphon.backends.codex_app_server.stream import Call, StreamReader
from antiphon.backends.codex_app_server.wire import Message, ThreadStarted, ToolCall, TurnStarted
from antiphon.errors import BackendError, BackendTimeout
from antiphon.protocol.content import JsonObject
from antiphon.turn.chunks import Chunk

QUIET_SECONDS = 5.0
"""After this silence a model that has called tools is taken to call no more."""


class Thread:
    """A turn that codex works on. Codex holds it until it is closed."""

    def __init__(
        self, child: Child, request: CodexRequest, *, silence: float, quiet: float = QUIET_SECONDS
    ) -> None:
        self._child = child
        self._request = request
        self._silence = silence
        self._quiet = min(quiet, silence)
        self._received: asyncio.Queue[Message | BackendError] = asyncio.Queue()
        self._started = child.ask("thread/start", request.thread)
        self._turn: Asked | None = None
        self._reader: StreamReader | None = None
        self._asked: dict[str, int | str] = {}

    @classmethod
    async def open(
        cls, child: Child, request: CodexRequest, *, silence: float, quiet: float = QUIET_SECONDS
    ) -> "Thread":
        """Start a thread, give it its history, and begin the turn."""
        thread = cls(child, request, silence=silence, quiet=quiet)
        try:
            await thread._begin()
        except BaseException:
            thread.close()
            raise
        return thread

    async def _begin(self) -> None:
        thread_id = await self._thread_id()
        self._child.listen(thread_id, self._received.put_nowait)
        about = {"threadId": thread_id}
        if self._request.items:
            items = {**about, "items": self._request.items}
            await self._answer_to(self._child.ask("thread/inject_items", items))
        self._turn = self._child.ask("turn/start", {**about, "input": [], **self._request.turn})
        self._reader = StreamReader(await self._turn_id(self._turn), self._request.tools)

    async def _thread_id(self) -> str:
        return decode(await self._answer_to(self._started), ThreadStarted).thread.id

    async def _turn_id(self, turn: Asked) -> str:
        return decode(await self._answer_to(turn), TurnStarted).turn.id

    async def _answer_to(self, asked: Asked) -> Raw:
        try:
            return await self._child.answer_to(asked, patience=self._silence)
        except BackendTimeout as error:
            # A model may be slow; a program that does not answer hangs, and is restarted.
            self._child.give_up(error)
            raise

    @property
    def alive(self) -> bool:
        """Whether the thread still exists in codex."""
        return self._child.alive

    @property
    def open_calls(self) -> list[Call]:
        """The calls whose outputs it waits for; empty: it waits for none."""
        return self._reader.calls if self._reader is not None and self._reader.waiting else []

    @property
    def text(self) -> str:
        """The text that was emitted before them."""
        return "" if self._reader is None else self._reader.text

    async def batches(self) -> AsyncGenerator[list[Chunk], None]:
        """The chunks of codex, until the turn is over or waits for tool outputs; raises `BackendError`."""
        reader = self._reader
        assert reader is not None
        while not reader.over and not reader.waiting:
            chunks: list[Chunk] = []
            received = await self._receive(self._quiet if reader.was_asked else self._silence)
            for message in received:
                chunks += self._read(reader, message)
            if not received:
                chunks = self._after_silence(reader)
            if chunks:
                yield chunks
        if reader.error is not None:
            raise reader.error

    def _after_silence(self, reader: StreamReader) -> list[Chunk]:
        if not reader.was_asked:
            raise BackendTimeout(f"codex sent nothing for {self._silence:g} s.")
        return reader.break_off()

    def answer(self, outputs: Mapping[str, JsonObject]) -> None:
        """Give codex the outputs of its open calls; the turn continues."""
        assert self._reader is not None
        for call_id, output in outputs.items():
            self._child.answer(self._asked[call_id], output)
        self._asked.clear()
        self._reader.resume()

    def close(self) -> None:
        """Close it; a turn that is not over is interrupted."""
        if self._child.alive:
            self._child.spawn(self._close_thread())

    async def _close_thread(self) -> None:
        with suppress(BackendError):
            about = {"threadId": await self._thread_id()}
            self._child.forget(about["threadId"])
            if self._turn is not None and (self._reader is None or not self._reader.ended):
                turn = {**about, "turnId": await self._turn_id(self._turn)}
                await self._answer_to(self._child.ask("turn/interrupt", turn))
            await self._answer_to(self._child.ask("thread/unsubscribe", about))

    async def _receive(self, seconds: float) -> list[Message | BackendError]:
        """All messages since the last call. Waits for one; returns none after `seconds`."""
        # Not `wait_for`: in Python 3.11 it forgets that it was cancelled when a message arrives just then.
        try:
            async with asyncio.timeout(seconds):
                received = [await self._received.get()]
        except TimeoutError:
            return []
        while not self._received.empty():
            received.append(self._received.get_nowait())
        return received

    def _read(self, reader: StreamReader, received: Message | BackendError) -> list[Chunk]:
        if isinstance(received, BackendError):
            reader.lost(received)
            return []
        assert received.method is not None
        if received.id is None:
            return reader.notified(received.method, received.params)
        self._asked[decode(received.params, ToolCall).call_id] = received.id
        return reader.asked(received.params)
