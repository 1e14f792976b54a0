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

QUIET = 5.0
"""Seconds without a word, after which a model that has called tools is taken to call no more."""


class Thread:
    """A turn that codex works on. Until it is closed, codex keeps it."""

    def __init__(self, child: Child, request: CodexRequest, *, silence: float, quiet: float = QUIET) -> None:
        self._child = child
        self._request = request
        self._silence = silence
        self._quiet = min(quiet, silence)
        self._heard: asyncio.Queue[Message | BackendError] = asyncio.Queue()
        self._started = child.ask("thread/start", request.thread)
        self._turn: Asked | None = None
        self._reader: StreamReader | None = None
        self._asked: dict[str, int | str] = {}

    @classmethod
    async def open(
        cls, child: Child, request: CodexRequest, *, silence: float, quiet: float = QUIET
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
        self._child.listen(thread_id, self._heard.put_nowait)
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
            # A model may be slow to speak; a program that does not even answer hangs, and is started anew.
            self._child.give_up(error)
            raise

    @property
    def alive(self) -> bool:
        """Whether codex still knows it."""
        return self._child.alive

    @property
    def open_calls(self) -> list[Call]:
        """The calls whose outputs it waits for; empty: it waits for none."""
        return self._reader.calls if self._reader is not None and self._reader.waiting else []

    @property
    def text(self) -> str:
        """What was told as text before them."""
        return "" if self._reader is None else self._reader.text

    async def batches(self) -> AsyncGenerator[list[Chunk], None]:
        """What codex says, until the turn is over or waits for tool outputs; raises `BackendError`."""
        reader = self._reader
        assert reader is not None
        while not reader.over and not reader.waiting:
            chunks: list[Chunk] = []
            heard = await self._hear(self._quiet if reader.was_asked else self._silence)
            for message in heard:
                chunks += self._read(reader, message)
            if not heard:
                chunks = self._fallen_silent(reader)
            if chunks:
                yield chunks
        if reader.error is not None:
            raise reader.error

    def _fallen_silent(self, reader: StreamReader) -> list[Chunk]:
        if not reader.was_asked:
            raise BackendTimeout(f"codex said nothing for {self._silence:g} s.")
        return reader.break_off()

    def answer(self, outputs: Mapping[str, JsonObject]) -> None:
        """Give codex the outputs of its open calls; the turn goes on."""
        assert self._reader is not None
        for call_id, output in outputs.items():
            self._child.answer(self._asked[call_id], output)
        self._asked.clear()
        self._reader.resume()

    def close(self) -> None:
        """Let it go; a turn that is not over is interrupted."""
        if self._child.alive:
            self._child.spawn(self._say_goodbye())

    async def _say_goodbye(self) -> None:
        with suppress(BackendError):
            about = {"threadId": await self._thread_id()}
            self._child.forget(about["threadId"])
            if self._turn is not None and (self._reader is None or not self._reader.ended):
                turn = {**about, "turnId": await self._turn_id(self._turn)}
                await self._answer_to(self._child.ask("turn/interrupt", turn))
            await self._answer_to(self._child.ask("thread/unsubscribe", about))

    async def _hear(self, patience: float) -> list[Message | BackendError]:
        """Everything that was said since the last time; waits for something, and then in vain: nothing."""
        # Not `wait_for`: in Python 3.11 it forgets that it was cancelled when something is heard just then.
        try:
            async with asyncio.timeout(patience):
                heard = [await self._heard.get()]
        except TimeoutError:
            return []
        while not self._heard.empty():
            heard.append(self._heard.get_nowait())
        return heard

    def _read(self, reader: StreamReader, heard: Message | BackendError) -> list[Chunk]:
        if isinstance(heard, BackendError):
            reader.lost(heard)
            return []
        assert heard.method is not None
        if heard.id is None:
            return reader.notified(heard.method, heard.params)
        self._asked[decode(heard.params, ToolCall).call_id] = heard.id
        return reader.asked(heard.params)
