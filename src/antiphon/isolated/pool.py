"""Child processes that work for all tenants, each within limits.

A tenant has one job running at a time while others wait, and tenants take turns: expensive work of one of
them delays its own requests. A child starts with the first job and ends when there is none for a while.
"""

import asyncio
import logging
import os
import signal
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from contextlib import suppress
from typing import NamedTuple, cast

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError, Overloaded, Unavailable, drop_tracebacks
from antiphon.isolated.frames import HEADER, Excess, Failure, Job, Success
from antiphon.memory_use import resident_bytes

logger = logging.getLogger(__name__)

MAX_WAITING_PER_TENANT = 16
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Of all tenants; one may use a quarter of it. The first job of a tenant is always taken."""
IDLE_SECONDS = 30.0
"""How long a child waits for its next job before it ends."""
MAX_JOBS_PER_CHILD = 1000
"""A child is replaced then, and what it has allocated is given back."""
LARGE_CHILD_BYTES = 64 * 1024 * 1024
LARGE_IDLE_SECONDS = 1.0
"""The same for a child that holds so much: it keeps what it has compiled."""
END_SECONDS = 0.05
"""How long a child may take to end by itself before it is killed."""
_PASSED_ON = ("PATH", "PYTHONPATH", "PYTHONHOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR")
"""The environment of a child. It gets no secrets."""
MAX_PIECE_BYTES = 256 * 1024
_ENCODER = msgspec.msgpack.Encoder()
_RESULTS = msgspec.msgpack.Decoder(Success | Failure)


class PoolLimits(Struct, frozen=True):
    """The limits of each child. CPU time is per job and in whole seconds, and so is wall time."""

    processes: int = 2
    cpu_seconds: int = 1
    wall_seconds: float = 10.0
    memory_bytes: int = 128 * 1024 * 1024
    idle_seconds: float | None = None
    """How long a child waits for its next job before it ends; None: by its size."""


class WorkExceeded(Exception):
    """A job needed more than its limits. Not an `AntiphonError`: the caller knows what that means."""

    def __init__(self, reason: Excess) -> None:
        super().__init__(reason)
        self.reason = reason


class _Waiting(Struct, eq=False):
    job: Job
    pieces: tuple[bytes, ...]
    result: asyncio.Future[memoryview]
    goes_first: bool


class IsolatedPool:
    """Runs functions of bytes in child processes."""

    def __init__(self, limits: PoolLimits | None = None) -> None:
        self._limits = limits or PoolLimits()
        self._waiting: dict[str, deque[_Waiting]] = {}
        """By tenant; the first tenant is next."""
        self._waiting_bytes = 0
        self._running: set[str] = set()
        self._children: set[asyncio.Task[None]] = set()
        self._idle = 0
        self._more = asyncio.Condition()
        self._closed = False

    async def run(self, tenant: str, function: str, *payload: bytes, goes_first: bool = False) -> memoryview:
        """The result of ``function(payload)``, where `function` is a name such as ``package.module:name``.
        The pieces of the payload are joined by the child. A job may go before others of its tenant that wait.

        Raises `WorkExceeded` if it needs more than its limits.
        """
        job = Job(function, sum(map(len, payload)))
        waiting = self._enqueue(tenant, job, payload, goes_first=goes_first)
        self._start_child()
        async with self._more:
            self._more.notify()
        try:
            return await waiting.result
        except asyncio.CancelledError:
            self._forget(tenant, waiting)
            raise
        finally:  # an error refers to this frame, and the future to the error
            del waiting, payload

    def _start_child(self) -> None:
        """Start another child if there are jobs for it."""
        ready = len(self._waiting.keys() - self._running)
        if ready > self._idle and len(self._children) < self._limits.processes and not self._closed:
            child = asyncio.create_task(self._serve())
            self._children.add(child)
            child.add_done_callback(self._ended)

    def _ended(self, child: asyncio.Task[None]) -> None:
        self._children.discard(child)
        self._start_child()  # jobs that came while it ended

    def _forget(self, tenant: str, waiting: _Waiting) -> None:
        """Nobody waits for this job any more; if it has not begun, it takes no place."""
        queue = self._waiting.get(tenant)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            self._waiting_bytes -= waiting.job.payload_bytes

    async def aclose(self) -> None:
        """End the children. Jobs that wait fail."""
        self._closed = True
        children = list(self._children)
        for child in children:
            child.cancel()
        await asyncio.gather(*children, return_exceptions=True)
        for queue in self._waiting.values():
            for waiting in queue:
                if not waiting.result.done():
                    waiting.result.set_exception(Unavailable())
        self._waiting.clear()

    def check_room(self, tenant: str) -> None:
        """Raise `Overloaded` if too many jobs of a tenant wait. For work that nothing was spent on yet."""
        queue = self._waiting.get(tenant, ())
        own_bytes = sum(waiting.job.payload_bytes for waiting in queue)
        is_full = self._waiting_bytes > MAX_WAITING_BYTES or own_bytes > MAX_WAITING_BYTES // 4
        if queue and (len(queue) >= MAX_WAITING_PER_TENANT or is_full):
            message = "Too many schemas, grammars or files wait to be checked or read. Try again in a moment."
            raise Overloaded(message)

    def _enqueue(self, tenant: str, job: Job, pieces: tuple[bytes, ...], *, goes_first: bool) -> _Waiting:
        if self._closed:
            raise Unavailable
        queue = self._waiting.setdefault(tenant, deque())
        waiting = _Waiting(job, pieces, asyncio.get_running_loop().create_future(), goes_first)
        place = sum(other.goes_first for other in queue) if goes_first else len(queue)
        queue.insert(place, waiting)
        self._waiting_bytes += job.payload_bytes
        return waiting

    async def _serve(self) -> None:
        """Do jobs in one child after another, until there are none for a while."""
        child = _Child(self._limits)
        try:
            while (taken := await self._take(child)) is not None:
                tenant, waiting = taken
                try:
                    await self._do(child, waiting)
                finally:
                    self._running.discard(tenant)
                    del taken, waiting  # not held while it waits for the next one
        finally:
            await child.end()

    async def _do(self, child: "_Child", waiting: _Waiting) -> None:
        result, error = memoryview(b""), None
        try:
            result = await child.run(waiting.job, waiting.pieces)
        except asyncio.CancelledError:
            if not waiting.result.done():
                waiting.result.set_exception(Unavailable())
            raise
        except Exception as raised:  # noqa: BLE001 -- whoever waits for the job gets it
            drop_tracebacks(raised)  # their frames hold the payload
            error = raised
        if waiting.result.done():  # nobody waits for it any more
            return
        if error is None:
            waiting.result.set_result(result)
        else:
            waiting.result.set_exception(error)

    async def _take(self, child: "_Child") -> tuple[str, _Waiting] | None:
        """The next job and its tenant; None if there is none for a while."""
        while (taken := self._next()) is None:
            self._idle += 1
            try:
                async with asyncio.timeout(self._idle_seconds(child)), self._more:
                    await self._more.wait()
            except TimeoutError:
                return None
            finally:
                self._idle -= 1
        return taken

    def _idle_seconds(self, child: "_Child") -> float:
        if self._limits.idle_seconds is not None:
            return self._limits.idle_seconds
        return LARGE_IDLE_SECONDS if child.resident_bytes > LARGE_CHILD_BYTES else IDLE_SECONDS

    def _next(self) -> tuple[str, _Waiting] | None:
        """The first job of the tenant whose turn it is; the tenant is the last one then."""
        for tenant in list(self._waiting):
            if tenant in self._running:
                continue
            queue = self._waiting.pop(tenant)
            while queue:
                waiting = queue.popleft()
                self._waiting_bytes -= waiting.job.payload_bytes
                if not waiting.result.done():
                    self._running.add(tenant)
                    if queue:
                        self._waiting[tenant] = queue
                    return tenant, waiting
        return None


class _Running(NamedTuple):
    """A started process with its pipes."""

    process: Process
    jobs: StreamWriter
    results: StreamReader

    async def exchange(self, job: Job, pieces: tuple[bytes, ...]) -> Success | Failure:
        """Send a job, and wait for its result. A large payload is written in slices: a copy of 60 MB would
        hold the event loop."""
        encoded = _ENCODER.encode(job)
        self.jobs.write(HEADER.pack(len(encoded)) + encoded)
        for piece in map(memoryview, pieces):
            for start in range(0, len(piece), MAX_PIECE_BYTES):
                self.jobs.write(piece[start : start + MAX_PIECE_BYTES])
                await self.jobs.drain()
        header = await self.results.readexactly(HEADER.size)
        return _RESULTS.decode(await self._receive(HEADER.unpack(header)[0]))

    async def _receive(self, size: int) -> bytearray:
        """So many bytes, without a step that copies them all: 40 MB would hold the event loop for 25 ms."""
        received = bytearray()
        while len(received) < size:
            piece = await self.results.read(min(MAX_PIECE_BYTES, size - len(received)))
            if not piece:
                raise asyncio.IncompleteReadError(bytes(received[:MAX_PIECE_BYTES]), size)
            received += piece
        return received


class _Child:
    """One child process at a time; it is started when it is needed."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._running: _Running | None = None
        self._jobs_left = 0

    async def run(self, job: Job, pieces: tuple[bytes, ...]) -> memoryview:
        """Do a job."""
        try:
            running = await self._started()
        except OSError as error:
            logger.error("isolated work cannot start: %s", error)
            raise Overloaded from None
        try:
            async with asyncio.timeout(self._limits.wall_seconds):
                result = await running.exchange(job, pieces)
        except TimeoutError:
            await self.end()
            raise WorkExceeded("time") from None
        except (ConnectionError, asyncio.IncompleteReadError):
            raise WorkExceeded(_cause(await self.end())) from None
        except asyncio.CancelledError:
            await self.end()
            raise
        if isinstance(result, Success):
            return result.result
        await self.end()
        if result.reason == "memory":
            raise WorkExceeded("memory")
        logger.error("isolated work broke: %s: %s", job.function, result.message)
        raise AntiphonError

    @property
    def resident_bytes(self) -> int:
        """The memory of the process; 0 if there is none."""
        return 0 if self._running is None else resident_bytes(self._running.process.pid)

    async def end(self) -> int:
        """End the process, if there is one; its exit code."""
        running, self._running = self._running, None
        if running is None:
            return 0
        running.jobs.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                return await running.process.wait()
        except BaseException as error:
            with suppress(ProcessLookupError):
                running.process.kill()
            if not isinstance(error, TimeoutError):
                raise
        return await running.process.wait()

    async def _started(self) -> _Running:
        self._jobs_left -= 1
        if self._running is not None and (
            self._running.process.returncode is not None or self._jobs_left < 0
        ):
            await self.end()
        if self._running is None:
            self._running = await _start(self._limits)
            self._jobs_left = MAX_JOBS_PER_CHILD
        return self._running


async def _start(limits: PoolLimits) -> _Running:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "antiphon.isolated.child",
        str(limits.cpu_seconds),
        str(limits.memory_bytes),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    )
    return _Running(process, cast("StreamWriter", process.stdin), cast("StreamReader", process.stdout))


def _cause(exit_code: int) -> Excess:
    """Why a process has ended by itself."""
    if -exit_code == signal.SIGXCPU:
        return "cpu"
    return "memory" if -exit_code == signal.SIGABRT else "crash"
