"""`Thread`: a thread of codex with its one turn."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress

from msgspec import Raw

from antiphon.backends.codex_app_server.child import Asked, Child
from antiphon.backends.codex_app_server.reader import TurnReader
from antiphon.backends.codex_app_server.request import CodexRequest
from antiphon.backends.codex_app_server.rpc import decode
from antiphon.backends.codex_app_server.wire import Message, ThreadStarted, ToolCall, TurnStarted
from antiphon.errors import BackendError, BackendTimeout
from antiphon.protocol.content import JsonObject
from antiphon.turn.chunks import Chunk


class Thread:
    """A turn that codex works on. Until it is closed, codex keeps it."""

    def __init__(self, child: Child, request: CodexRequest, *, silence: float) -> None:
        self._child = child
        self._request = request
        self._silence = silence
        self._heard: asyncio.Queue[Message | BackendError] = asyncio.Queue()
        self._started = child.ask("thread/start", request.thread)
        self._turn: Asked | None = None
        self._reader: TurnReader | None = None
        self._asked: dict[str, int | str] = {}

    @classmethod
    async def open(cls, child: Child, request: CodexRequest, *, silence: float) -> "Thread":
        """Start a thread, give it its history, and begin the turn."""
        thread = cls(child, request, silence=silence)
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
        self._reader = TurnReader(await self._turn_id(self._turn), self._request.tools)

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
    def open_calls(self) -> frozenset[str]:
        """The ids of the calls whose outputs it waits for; empty: it waits for none."""
        return self._reader.open_calls if self._reader is not None and self._reader.waiting else frozenset()

    async def batches(self) -> AsyncGenerator[list[Chunk], None]:
        """What codex says, until the turn is over or waits for tool outputs; raises `BackendError`."""
        reader = self._reader
        assert reader is not None
        while not reader.over and not reader.waiting:
            chunks: list[Chunk] = []
            for heard in await self._hear():
                chunks += self._read(reader, heard)
            if chunks:
                yield chunks
        if reader.error is not None:
            raise reader.error

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
            if self._turn is not None and (self._reader is None or not self._reader.over):
                turn = {**about, "turnId": await self._turn_id(self._turn)}
                await self._answer_to(self._child.ask("turn/interrupt", turn))
            await self._answer_to(self._child.ask("thread/unsubscribe", about))

    async def _hear(self) -> list[Message | BackendError]:
        """Everything that was said since the last time; waits for something."""
        try:
            heard = [await asyncio.wait_for(self._heard.get(), self._silence)]
        except TimeoutError:
            raise BackendTimeout(f"codex said nothing for {self._silence:g} s.") from None
        while not self._heard.empty():
            heard.append(self._heard.get_nowait())
        return heard

    def _read(self, reader: TurnReader, heard: Message | BackendError) -> list[Chunk]:
        if isinstance(heard, BackendError):
            reader.lost(heard)
            return []
        assert heard.method is not None
        if heard.id is None:
            return reader.notified(heard.method, heard.params)
        self._asked[decode(heard.params, ToolCall).call_id] = heard.id
        return reader.asked(heard.params)
