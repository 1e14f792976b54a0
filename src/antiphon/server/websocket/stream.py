"""A stream: turns of one connection that run one after another. Streams run concurrently."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from antiphon.caller import Caller
from antiphon.errors import AntiphonError, drop_tracebacks
from antiphon.protocol.events import ErrorEvent, Event, ResponseFailed
from antiphon.protocol.frames import Frame, FrameWriter, parse_create_frame
from antiphon.protocol.profile import Profile
from antiphon.protocol.requests import StreamOptions
from antiphon.protocol.shape import Shape
from antiphon.server.admission import CHEAP_BODY_BYTES
from antiphon.server.error_shapes import internal_error
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.start_queue import StartQueue
from antiphon.server.websocket.channel import Channel
from antiphon.service.long_work import objects_in
from antiphon.service.responses.create import Creator
from antiphon.service.responses.run import ResponseRun
from antiphon.service.responses.session import ConnectionMemory
from antiphon.tenant_budget import TenantBudget

logger = logging.getLogger(__name__)

UNCHARGED_BYTES = 64 * 1024
"""Frames up to this size are not counted, so that ordinary requests always have room."""

Admit = Callable[[], Caller]
"""The caller of a connection; raises `Unauthorized` when its key has ended."""


class HeldFrames:
    """The large frames of one connection whose turns have not ended."""

    def __init__(self, budget: TenantBudget, tenant: str) -> None:
        self._budget = budget
        self._tenant = tenant
        self._charged_bytes = 0

    def charge(self, frame: Frame) -> bool:
        """Returns whether there is room for it. Small frames are not counted."""
        size = len(frame.body)
        if size <= UNCHARGED_BYTES:
            return True
        if not self._budget.charge(self._tenant, size):
            return False
        self._charged_bytes += size
        return True

    def release(self, frame: Frame) -> None:
        """Its turn has ended."""
        if len(frame.body) > UNCHARGED_BYTES:
            self._budget.release(self._tenant, len(frame.body))
            self._charged_bytes -= len(frame.body)

    def release_all(self) -> None:
        """The connection has ended."""
        self._budget.release(self._tenant, self._charged_bytes)
        self._charged_bytes = 0


@dataclass(slots=True)
class Shared:
    """Shared by the streams of one connection. `turns` limits the number of concurrent responses; `admit`
    checks the key for every turn, so that a revoked key cannot start one."""

    creator: Creator
    lifetimes: Lifetimes
    channel: Channel
    memory: ConnectionMemory
    frames: HeldFrames
    starts: StartQueue
    turns: asyncio.Semaphore
    admit: Admit
    profile: Profile
    request_id: str
    ending: AntiphonError | None = None
    """The error for every further turn."""


class SocketStream:
    """One stream; its task lives while there is work."""

    def __init__(self, shared: Shared, stream_id: str | None) -> None:
        self._shared = shared
        self._writer = FrameWriter(stream_id, shared.profile)
        self._shape = Shape(shared.profile)
        self._session = shared.memory.session()
        self._unsent: deque[Event] = deque()
        self.waiting: deque[Frame] = deque()
        self.task: asyncio.Task[None] | None = None

    def add(self, frame: Frame) -> None:
        """Serve this frame after those that came before."""
        self.waiting.append(frame)
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self.waiting:
                async with self._shared.turns:
                    frame = self.waiting.popleft()
                    await self._serve(frame)
                    self._shared.frames.release(frame)
        except ClientGone:
            self.waiting.clear()
        finally:
            self.task = None

    async def _serve(self, frame: Frame) -> None:
        """One turn; an error is sent as a frame, and the stream continues."""
        try:
            await self._turn(frame)
        except ClientGone:
            raise
        except AntiphonError as error:
            drop_tracebacks(error)
            await self._refuse(frame, error)
        except Exception:
            logger.exception("request %s failed", self._shared.request_id)
            await self._refuse(frame, internal_error(self._shared.request_id))

    async def _turn(self, frame: Frame) -> None:
        """Raises errors that occur before the first event."""
        shared = self._shared
        if shared.ending is not None:
            raise shared.ending
        caller = shared.admit()
        if len(frame.body) > CHEAP_BODY_BYTES and not shared.starts.start_now(caller.tenant):
            await shared.starts.wait(caller.tenant)
        parse = partial(parse_create_frame, frame.body, shared.profile)
        create = await shared.creator.work.run(caller.tenant, objects_in(frame.body), parse)
        if len(frame.body) > UNCHARGED_BYTES:
            await asyncio.sleep(0)
        self._shape = Shape(shared.profile, create.request.params.stream_options or StreamOptions())
        if create.generate:
            await self._run(shared.creator.start(create.request, caller, self._session), frame)
        else:
            await self._send(await shared.creator.store_only(create.request, caller, self._session), frame)

    async def _run(self, run: ResponseRun, frame: Frame) -> None:
        """Run to the end. An error after the first event is sent as the end of the response."""
        try:
            with self._shared.lifetimes.lease() as lease:
                lease.limit_turns(run)
                async with aclosing(run.events()) as batches:
                    async for events in batches:
                        await self._send(events, frame)
        except (ClientGone, asyncio.CancelledError):
            await run.abandon()
            raise
        except Exception as error:
            sent = error if isinstance(error, AntiphonError) else internal_error(self._shared.request_id)
            closing = await run.abort(sent)
            if not closing and not run.ended:
                raise
            if sent is not error:
                logger.error("request %s failed", self._shared.request_id, exc_info=error)
            await self._send(closing, frame)

    async def _send(self, events: Sequence[Event], frame: Frame) -> None:
        """Send these events, after those of a batch that was interrupted, so that no number is missing."""
        if events and isinstance(events[-1], ResponseFailed):
            self._evict_parent(frame)
        self._unsent.extend(_with_one_end(events))
        while self._unsent:
            await self._shared.channel.send(self._writer.event(self._unsent[0], self._shape))
            self._unsent.popleft()

    async def _refuse(self, frame: Frame, error: AntiphonError) -> None:
        """Answer a turn that failed before its first event with an error frame."""
        level = logging.WARNING if error.status >= 500 else logging.INFO
        logger.log(level, "request %s: %d %s", self._shared.request_id, error.status, error.message)
        self._evict_parent(frame)
        await self._shared.channel.send(self._writer.error(error))

    def _evict_parent(self, frame: Frame) -> None:
        """A failed continuation removes its parent from the connection's memory."""
        if frame.parent is not None:
            self._session.evict(frame.parent)


def _with_one_end(events: Sequence[Event]) -> Sequence[Event]:
    """On a socket an `error` frame ends a turn, and clients would take a `response.failed` after it for the
    end of the next one. Both have the same error, so `response.failed` alone is sent, with its number."""
    if len(events) < 2 or not isinstance(events[-2], ErrorEvent):
        return events
    return [*events[:-2], replace(events[-1], sequence_number=events[-2].sequence_number)]
