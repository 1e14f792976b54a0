"""`Child`: a running `codex app-server`, and the messages to and from it."""

import asyncio
import logging
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass

from msgspec import Raw

from antiphon.backends.codex_app_server.errors import request_refusal
from antiphon.backends.codex_app_server.process import ChildOptions, ErrorOutput, start_process
from antiphon.backends.codex_app_server.rpc import (
    METHOD_NOT_FOUND,
    LineReader,
    decode,
    notification_line,
    refusal_line,
    request_line,
    result_line,
)
from antiphon.backends.codex_app_server.wire import DECLINED, TOOL_CALL, Addressed, Message
from antiphon.errors import BackendBroken, BackendError, BackendTimeout, BackendUnreachable

logger = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
GRACE_SECONDS = 2.0
"""The time for each step of the child's end: closed streams, SIGTERM, SIGKILL."""
_HELLO = {
    "clientInfo": {"name": "antiphon", "title": "Antiphon", "version": "1"},
    "capabilities": {"experimentalApi": True},
}

Listener = Callable[[Message | BackendError], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to codex, and the future of its answer."""

    method: str
    answer: asyncio.Future[Raw]


class Child:
    """A process that takes requests. When it ends, everything that waits for it gets the cause."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        self._process = process
        self._stdin = process.stdin
        self._asked: dict[int, Asked] = {}
        self._listeners: dict[str, Listener] = {}
        self._count = 0
        self._error: BackendError | None = None
        self.failed_at = 0.0
        self._dying = False
        self._error_output = ErrorOutput()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening_to_errors = self.spawn(self._read_errors())
        self._reading = self.spawn(self._read())
        self._watching = self.spawn(self._watch_input())

    @classmethod
    async def start(cls, options: ChildOptions) -> "Child":
        """Start it and shake hands."""
        child = cls(await start_process(options))
        try:
            await child.call("initialize", _HELLO, patience=options.handshake_timeout)
        except BaseException:
            child.kill()
            await child.aclose()
            raise
        child.send(notification_line("initialized"))
        child._error_output.clear()
        return child

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._error is None and not self._dying

    @property
    def error(self) -> BackendError | None:
        """Why it cannot be asked any more, once that is known."""
        return self._error

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    async def call(self, method: str, params: object, *, patience: float) -> Raw:
        """Ask, and wait for the answer; raises `BackendError`."""
        return await self.answer_to(self.ask(method, params), patience=patience)

    def ask(self, method: str, params: object) -> Asked:
        """Send a request; its answer arrives later."""
        asked = Asked(method, asyncio.get_running_loop().create_future())
        # The caller may have stopped waiting: then asyncio must not report the unread exception.
        asked.answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._error is not None:
            asked.answer.set_exception(self._error)
            return asked
        self._count += 1
        self._asked[self._count] = asked
        self.send(request_line(self._count, method, params))
        return asked

    async def answer_to(self, asked: Asked, *, patience: float) -> Raw:
        """Wait for an answer. If the wait is broken off, the answer can still be waited for later."""
        done, _ = await asyncio.wait({asked.answer}, timeout=patience)
        if not done:
            raise BackendTimeout(f"codex did not answer '{asked.method}' within {patience:g} s.")
        return asked.answer.result()

    def answer(self, number: int | str, result: object) -> None:
        """Answer a request of codex."""
        self.send(result_line(number, result))

    def send(self, line: bytes) -> None:
        """Write a line, unless the pipe is closed."""
        if not self.alive or self._stdin.is_closing():
            return
        try:
            self._stdin.write(line)
        except (OSError, RuntimeError):  # RuntimeError: uvloop, when the pipe was closed just now
            self.spawn(self._expect_death())

    def listen(self, thread_id: str, listener: Listener) -> None:
        """Send `listener` the messages about a thread and, as an error, the end of the process."""
        self._listeners[thread_id] = listener

    def forget(self, thread_id: str) -> None:
        """Stop delivering messages of this thread."""
        self._listeners.pop(thread_id, None)

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run a task in the background, until the child ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def kill(self) -> None:
        """End it at once, with everything that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def give_up(self, error: BackendError) -> None:
        """Mark the child as unusable: no further request is sent to it, even if it has not ended yet."""
        self._fail(error)
        self.kill()

    async def aclose(self) -> None:
        """End the child and its descendants: close its input, then send SIGTERM, then SIGKILL."""
        if self._dying:
            # Waiters get the cause of the end, not the clean-up.
            await asyncio.wait({self._reading}, timeout=2 * GRACE_SECONDS)
        self._fail(BackendUnreachable("codex was ended: this server shuts down."))
        self._stdin.close()
        try:
            for insist in (self._process.terminate, self.kill):
                if await self._has_ended():
                    break
                with suppress(ProcessLookupError):
                    insist()
            await self._has_ended()
        finally:
            self.kill()
        # No process holds its streams any more, so they end and are closed.
        await asyncio.wait({self._watching, self._reading, self._listening_to_errors}, timeout=GRACE_SECONDS)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _has_ended(self) -> bool:
        """Whether the process ends within the grace."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self._process.wait()
        return self._process.returncode is not None

    async def _read(self) -> None:
        """Dispatch its messages until it ends, then fail everything that waits."""
        try:
            await self._read_messages()
            self._dying = True
            self._fail(await self._cause_of_death())
        except BackendBroken as error:
            self.give_up(error)
        except Exception as error:
            logger.exception("codex cannot be read")
            self.give_up(BackendBroken(f"codex cannot be read: {error!r}"))

    async def _read_messages(self) -> None:
        assert self._process.stdout is not None
        lines = LineReader()
        while data := await self._process.stdout.read(READ_BYTES):
            for message in lines.feed(data):
                self._take(message)

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(READ_BYTES):
            self._error_output.feed(data)

    async def _watch_input(self) -> None:
        """Notice a closed pipe: writes into it are lost silently, and their answers would be awaited."""
        with suppress(OSError):
            await self._stdin.wait_closed()
        await self._expect_death()

    async def _expect_death(self) -> None:
        """The error for a child that has stopped reading: it is usually about to end, and its error output
        contains the cause."""
        self._dying = True
        await asyncio.wait({self._reading}, timeout=3 * GRACE_SECONDS)
        if self._error is None:
            self.give_up(BackendBroken("codex closed its input."))

    async def _cause_of_death(self) -> BackendBroken:
        await asyncio.wait({self._listening_to_errors}, timeout=GRACE_SECONDS)
        if not await self._has_ended():
            self.kill()
        return BackendBroken(f"codex {_how(self._process.returncode, self._error_output)}")

    def _fail(self, error: BackendError) -> None:
        if self._error is not None:
            return
        self._error = error
        self.failed_at = asyncio.get_running_loop().time()
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(error)
        for listener in list(self._listeners.values()):
            listener(error)
        self._asked.clear()
        self._listeners.clear()

    def _take(self, message: Message) -> None:
        if message.method is None:
            self._answered(message)
            return
        listener = self._listeners.get(decode(message.params, Addressed).thread_id)
        if message.id is None:
            if listener is not None:
                listener(message)
        elif message.method == TOOL_CALL and listener is not None:
            listener(message)
        elif message.method in DECLINED:
            self.answer(message.id, DECLINED[message.method])
        else:
            text = f"'{message.method}' is not served here."
            self.send(refusal_line(message.id, METHOD_NOT_FOUND, text))

    def _answered(self, message: Message) -> None:
        asked = self._asked.pop(message.id, None) if isinstance(message.id, int) else None
        if asked is None or asked.answer.done():
            return
        if message.error is not None:
            asked.answer.set_exception(request_refusal(asked.method, message.error))
        else:
            asked.answer.set_result(message.result)


def _how(status: int | None, output: ErrorOutput) -> str:
    if status is None:
        return f"closed its output: {output.cause()}"
    if status == -signal.SIGKILL:
        # Killed: its error output is about something else.
        return "was killed by signal 9: for lack of memory, or by hand."
    how = f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
    return f"{how}: {output.cause()}"
