"""Sandboxes in Monty, where bubblewrap does not work: an interpreter of Python, written in Rust, that has no
access to the host. It runs in a child process. It knows a part of the language and of the standard library.

Files are in a folder of the host that only the user of this process can open; the interpreter can make no
links. Importing this module needs `pydantic_monty`, an optional package.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import pydantic_monty

from antiphon.sandbox.folder import FileFolder, Stamps
from antiphon.sandbox.last_value import show_last_value
from antiphon.sandbox.port import (
    DATA_FOLDER,
    MIB,
    CommandResult,
    Outcome,
    RunResult,
    SandboxEnded,
    SandboxFile,
    SandboxLimits,
)

P = ParamSpec("P")
T = TypeVar("T")

GRACE_SECONDS = 5.0
"""How much later than the interpreter itself the server ends a run that takes too long."""
MAX_HOST_CALLS = 20_000
"""Operations on files in the life of one interpreter. How many files there can be is bounded by `FileFolder`,
which counts them before and after each run."""
MAX_MEMORY_BYTES = 128 * MIB
"""What a run raises is copied to this process, in full."""
MAX_CHANGED = 64
MAX_ERROR_CHARACTERS = 20_000
_TIME_LIMIT = "TimeoutError: feed time limit exceeded: "
_NOTES = (
    "It is a small Python: no packages, no generators, no shell, and of the standard library only asyncio, "
    "base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, hashlib, itertools, "
    "json, math, os, pathlib, random, re, sys, time, typing and unicodedata."
)


class Monty:
    """Starts sandboxes with `pydantic_monty`."""

    notes = _NOTES
    has_shell = False

    async def start(self, limits: SandboxLimits) -> "MontySession":
        """Start a sandbox."""
        try:
            folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="antiphon-container-")
        except OSError as error:
            raise SandboxEnded(f"there is no folder for its files: {error}") from error
        session = MontySession(limits, Path(folder))
        try:
            await session.open()
        except BaseException:
            await session.close()
            raise
        return session


class MontySession:
    """A running sandbox."""

    def __init__(self, limits: SandboxLimits, root: Path) -> None:
        self._limits = limits
        self._turn = asyncio.Lock()
        self._root = root
        self._folder = FileFolder(root, limits.disk_bytes)
        self._program: asyncio.Task[RunResult] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._pool: pydantic_monty.AsyncMonty | None = None
        self._interpreter: pydantic_monty.AsyncMontySession | None = None
        self._ended = False

    @property
    def running(self) -> bool:
        """Whether it can be used."""
        return not self._ended

    async def open(self) -> None:
        """Start an interpreter."""
        limits = self._limits
        try:
            pool = self._pool = pydantic_monty.AsyncMonty(min_processes=1, max_processes=1)
            await pool.__aenter__()
            interpreter = pool.checkout(
                limits={
                    "max_feed_duration_secs": limits.run_seconds,
                    "max_memory": min(limits.memory_bytes, MAX_MEMORY_BYTES),
                    "max_suspensions": MAX_HOST_CALLS,
                }
            )
            await interpreter.__aenter__()
            self._interpreter = interpreter
        except (OSError, RuntimeError, TimeoutError, pydantic_monty.MontyError) as error:
            raise SandboxEnded(f"the interpreter does not start: {error}") from error

    async def run(self, code: str) -> RunResult:
        """Run code. A run that takes too long, or kills the interpreter, is followed by a new one."""
        async with self._turn:
            if self._ended:
                raise SandboxEnded("it was closed")
            self._program = asyncio.create_task(self._run(code))
            try:
                await asyncio.wait([self._program])
                if self._ended:
                    raise SandboxEnded("it was closed")
                return self._program.result()
            except BaseException:
                await self.close()
                raise

    async def run_command(self, command: str, seconds: float) -> CommandResult:
        """There is no shell."""
        raise SandboxEnded("it has no shell")

    async def _run(self, code: str) -> RunResult:
        before = await asyncio.to_thread(self._folder.stamps)
        room = await asyncio.to_thread(self._folder.room_bytes)
        shown = await asyncio.to_thread(show_last_value, code)
        output = _Output(self._limits.output_bytes)
        outcome, error = await self._feed(shown, output, room)
        if outcome in ("timeout", "died"):
            await self._close_interpreter()
            await self.open()
        after = await asyncio.to_thread(self._folder.stamps)
        return RunResult(
            outcome=outcome,
            logs=(output.text + error).replace("\0", "�"),
            dropped_bytes=output.dropped_bytes,
            changed=_changed(before, after),
        )

    async def _feed(self, code: str, output: "_Output", room: int) -> tuple[Outcome, str]:
        """The outcome of a run, and the traceback of what it has raised."""
        assert self._interpreter is not None
        began = time.monotonic()
        mount = pydantic_monty.MountDir(
            host_path=self._root, virtual_path=DATA_FOLDER, mode="read-write", write_bytes_limit=room
        )
        try:
            with mount:
                async with asyncio.timeout(self._limits.run_seconds + GRACE_SECONDS):
                    # The last line: the value of the code is not to become objects of this process.
                    await self._interpreter.feed_run(f"{code}\nNone", print_callback=output, mount=mount)
        except TimeoutError:
            return "timeout", ""
        except pydantic_monty.MontyCrashedError:
            return "died", ""
        except (pydantic_monty.MontyRuntimeError, pydantic_monty.MontySyntaxError) as error:
            text = await asyncio.to_thread(_text_of, error)
        else:
            return "completed", ""
        # Code can raise the same error: the clock decides.
        if text.startswith(_TIME_LIMIT) and time.monotonic() - began >= self._limits.run_seconds:
            return "timeout", ""
        if text.endswith(f"RuntimeError: suspension limit {MAX_HOST_CALLS} exceeded"):
            used = f"The {MAX_HOST_CALLS:,} operations on files that one Python process has are used up."
            return "died", f"{text}\n{used} The next run has a new one.\n"
        # A single allocation beyond the memory limit ends the process, and is an ordinary error here.
        alive = self._interpreter.worker_pid is not None
        return "raised" if alive else "died", f"{text}\n"

    async def write(self, name: str, content: bytes, offset: int = 0) -> None:
        """Write a slice of a file."""
        await self._about_files(self._folder.write, name, content, offset)

    async def read(self, name: str, offset: int = 0) -> bytes:
        """A slice of a file; empty at its end."""
        return await self._about_files(self._folder.read, name, offset)

    async def move(self, name: str, to: str) -> None:
        """Rename a file."""
        await self._about_files(self._folder.move, name, to)

    async def delete(self, name: str) -> None:
        """Delete a file."""
        await self._about_files(self._folder.delete, name)

    async def files(self) -> tuple[SandboxFile, ...]:
        """The files of the sandbox."""
        return await self._about_files(self._folder.files)

    async def close(self) -> None:
        """End the interpreter, and delete the files."""
        self._ended = True
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._program is not None:
            self._program.cancel()
            await asyncio.gather(self._program, return_exceptions=True)
        await self._close_interpreter()
        await asyncio.to_thread(self._folder.delete_all)

    async def _about_files(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._turn:
            if self._ended:
                raise SandboxEnded("it was closed")
            try:
                return await asyncio.to_thread(work, *args, **kwargs)
            except SandboxEnded:
                await self.close()
                raise

    async def _close_interpreter(self) -> None:
        interpreter, self._interpreter = self._interpreter, None
        pool, self._pool = self._pool, None
        with suppress(Exception):  # it may have crashed
            if interpreter is not None:
                await interpreter.__aexit__(None, None, None)
        with suppress(Exception):
            if pool is not None:
                await pool.__aexit__(None, None, None)


class _Output:
    """Keeps what a run prints, up to a limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept = bytearray()
        self.dropped_bytes = 0

    def __call__(self, stream: str, text: str) -> None:
        encoded = text.encode(errors="backslashreplace")
        piece = encoded[: self._limit_bytes - len(self._kept)]
        self._kept += piece
        self.dropped_bytes += len(encoded) - len(piece)

    @property
    def text(self) -> str:
        return self._kept.decode(errors="replace")


def _text_of(error: pydantic_monty.MontyRuntimeError | pydantic_monty.MontySyntaxError) -> str:
    """Its traceback, without the middle if it is very long. It blocks while a long text is built."""
    text = error.display()
    if len(text) <= MAX_ERROR_CHARACTERS:
        return text
    half = MAX_ERROR_CHARACTERS // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}"


def _changed(before: Stamps, after: Stamps) -> tuple[SandboxFile, ...]:
    changed = [SandboxFile(name, stamp[0]) for name, stamp in after.items() if before.get(name) != stamp]
    return tuple(changed[:MAX_CHANGED])
