"""`Child`: one running `codex app-server`, and what is said between it and us."""

import asyncio
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec import Raw

from antiphon.backends.codex_app_server.errors import request_refusal
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
from antiphon.backends.redact import redact
from antiphon.errors import BackendBroken, BackendError, BackendTimeout, BackendUnreachable

READ = 256 * 1024
GRACE = 2.0
"""Seconds that the child gets for each step of its end: closed streams, SIGTERM, SIGKILL."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_HELLO = {
    "clientInfo": {"name": "antiphon", "title": "Antiphon", "version": "1"},
    "capabilities": {"experimentalApi": True},
}

# A thread that we have let go is of no use to anybody.
_ARGUMENTS = ("-c", "thread_unload_delay_secs=0", "app-server")

Listener = Callable[[Message | BackendError], None]


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """How the child is started."""

    command: str
    environment: Mapping[str, str]
    folder: Path
    handshake_timeout: float = 15.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of ours, and its answer to come."""

    method: str
    answer: asyncio.Future[Raw]


class Child:
    """A process that can be asked. When it ends, whoever waits for something is told why."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        self._process = process
        self._stdin = process.stdin
        self._asked: dict[int, Asked] = {}
        self._listeners: dict[str, Listener] = {}
        self._count = 0
        self._error: BackendError | None = None
        self._words: deque[str] = deque(maxlen=5)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening_to_errors = self.spawn(self._read_errors())
        self.spawn(self._read())

    @classmethod
    async def start(cls, options: ChildOptions) -> "Child":
        """Start it and shake hands."""
        child = cls(await _start(options))
        try:
            await child.call("initialize", _HELLO, patience=options.handshake_timeout)
        except BaseException:
            child.kill()
            await child.aclose()
            raise
        child.send(notification_line("initialized"))
        return child

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._error is None

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    async def call(self, method: str, params: object, *, patience: float) -> Raw:
        """Ask, and wait for the answer; raises `BackendError`."""
        return await self.answer_to(self.ask(method, params), patience=patience)

    def ask(self, method: str, params: object) -> Asked:
        """Ask; the answer comes later."""
        asked = Asked(method, asyncio.get_running_loop().create_future())
        # Nobody may wait for the answer any more when it comes; that is no reason to complain.
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
        """Write a line, if there is still somebody who reads."""
        if self._error is None:
            self._stdin.write(line)

    def listen(self, thread_id: str, listener: Listener) -> None:
        """Tell `listener` what is said about a thread, and, as an error, that nothing more will be."""
        self._listeners[thread_id] = listener

    def forget(self, thread_id: str) -> None:
        """Nobody listens to this thread any more."""
        self._listeners.pop(thread_id, None)

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Do this beside everything else, as long as the child lives."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def kill(self) -> None:
        """End it at once, with everything that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def give_up(self, error: BackendError) -> None:
        """It is of no use any more: nobody is to ask it, whether it has ended yet or not."""
        self._fail(error)
        self.kill()

    async def aclose(self) -> None:
        """End it: kindly at first."""
        self._fail(BackendUnreachable("codex was ended: this server shuts down."))
        self._stdin.close()
        for insist in (self._process.terminate, self.kill, None):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), GRACE)
                break
            if insist is not None:
                with suppress(ProcessLookupError):
                    insist()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        lines = LineReader()
        try:
            while data := await self._process.stdout.read(READ):
                for message in lines.feed(data):
                    self._take(message)
            self._fail(await self._cause_of_death())
        except BackendBroken as error:
            self.give_up(error)

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        tail = ""
        while data := await self._process.stderr.read(READ):
            *lines, tail = (tail[-READ:] + data.decode("utf-8", "replace")).split("\n")
            self._words.extend(filter(None, map(str.strip, lines)))
        if tail.strip():
            self._words.append(tail.strip())

    async def _cause_of_death(self) -> BackendBroken:
        await asyncio.wait({self._listening_to_errors}, timeout=GRACE)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE)
        status = self._process.returncode
        if status is None:
            self.kill()
        how = "closed its output" if status is None else f"exited with status {status}"
        last = redact(_COLOURS.sub("", self._words[-1])) if self._words else "it did not say why"
        return BackendBroken(f"codex {how}: {last}")

    def _fail(self, error: BackendError) -> None:
        if self._error is not None:
            return
        self._error = error
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


async def _start(options: ChildOptions) -> Process:
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        return await asyncio.create_subprocess_exec(
            options.command,
            *_ARGUMENTS,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=options.folder,
            env=options.environment,
            start_new_session=True,  # an interrupt from the keyboard is for us; we end it ourselves
        )
    except OSError as error:
        raise BackendUnreachable(
            f"codex cannot be started as '{options.command}': {error.strerror}. For the operator: "
            "install it with `npm install -g @openai/codex`, or set 'codex.command' to its path."
        ) from None
