"""One request and its answer: sent again while that is safe, awaited under deadlines.

Safe means: before the answer has begun. After that nothing is ever sent twice.
"""

import asyncio
import logging
import random
from collections.abc import Callable

from antiphon.backends.connection import INTERRUPTED, Answer, Connection, ConnectionFault, Disconnected
from antiphon.backends.http import AUTH_ERROR, Upstream, media_type
from antiphon.backends.watch import Watch
from antiphon.errors import BackendBroken, BackendError

logger = logging.getLogger(__name__)

HEARTBEAT = b""
"""What `read` returns when nothing came for a heartbeat."""
MAX_RETRY_AFTER = 30.0
"""Longer than this we do not wait: the caller is told, and may."""
LINGER = 1.0
"""Seconds that a connection gets to end a body whose content we have."""

Chance = Callable[[], float]


class Exchange:
    """One request and its answer. `opened` and `read` wait no longer than a heartbeat."""

    def __init__(
        self,
        upstream: Upstream,
        request: bytes,
        *,
        patience: float,
        retries: int,
        chance: Chance = random.random,
    ) -> None:
        self._loop = upstream.pool.loop()
        self._upstream = upstream
        self._endpoint = upstream.endpoint
        self._request = request
        self._retries = retries
        self._attempt = 0
        self._resume_at = 0.0
        self._chance = chance
        self._watch = Watch(upstream.watches, self._loop, upstream.endpoint, patience)
        self._connecting: asyncio.Task[Connection] | None = None
        self._connect_by = 0.0
        self._answer: Answer | None = None
        self._fresh = False
        self._begun = False
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def media_type(self) -> str:
        """What the answer is: `EVENT_STREAM` or `JSON`."""
        return media_type(self._answer) if self._answer else ""

    async def opened(self) -> bool:
        """Whether the answer has begun; False after a heartbeat. Raises `BackendError` when it will not."""
        while not self._begun:
            try:
                if self._answer is None and not await self._send():
                    return False
                if not await self._head():
                    return False
                self._begun = True
            except BackendError as error:
                self._plan_another(error)
        return True

    async def read(self) -> bytes | None:
        """The next bytes, or `HEARTBEAT`; None after the last. `BackendError` if late or broken off."""
        assert self._answer is not None
        self._watch.begin_wait()
        try:
            data = await self._answer.read()
        except ConnectionFault as fault:
            raise self._upstream.lost(fault) from None
        self._watch.end_wait()
        if data == INTERRUPTED:
            self._watch.check()
        return data

    async def body(self) -> bytes | None:
        """The whole body, or None after a heartbeat."""
        while (data := await self.read()) is not None:
            if data == HEARTBEAT:
                return None
            if not data.isspace():  # DeepSeek sends empty lines while a request waits in its queue
                self.alive(heard=False)
            self._size += len(data)
            if self._size > self._endpoint.max_body_bytes:
                raise BackendBroken(
                    f"The upstream '{self._endpoint.name}' sent a body beyond the size limit."
                )
            self._pieces.append(data)
        return b"".join(self._pieces)

    def alive(self, *, heard: bool) -> None:
        """An event came: only events count as life. `heard`: and our own client was told something."""
        self._watch.alive(heard=heard)

    def hurry(self, seconds: float) -> None:
        """Wait no longer than this for what is still to come."""
        self._watch.hurry(seconds)

    def close(self, *, whole: bool) -> None:
        """Let go. What was not read `whole` is cut off at once; else the connection goes back to the pool."""
        self._watch.close()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting.add_done_callback(_abort_late)
        if self._answer is not None:
            self._answer.close(linger=LINGER if whole else 0.0)

    async def _send(self) -> bool:
        """Pause if need be, connect if need be, send; False when a heartbeat was due before that."""
        beat = self._loop.time() + self._endpoint.heartbeat
        if self._resume_at:
            await asyncio.sleep(min(self._resume_at, beat) - self._loop.time())
            if beat < self._resume_at:
                return False
            self._resume_at = 0.0
        connection = None if self._connecting or self._fresh else self._upstream.pool.take()
        if connection is None:
            self._fresh = True
            connection = await self._connect(beat)
            if connection is None:
                return False
        self._answer = connection.send(self._request)
        self._watch.follow(self._answer)
        return True

    async def _connect(self, beat: float) -> Connection | None:
        """A new connection; None when a heartbeat was due before it stood."""
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._upstream.pool.connect())
            self._connect_by = self._loop.time() + self._endpoint.deadlines.connect
        task = self._connecting
        await asyncio.wait({task}, timeout=min(beat, self._connect_by) - self._loop.time())
        if not task.done():
            if beat < self._connect_by:
                return None
            task.cancel()
            task.add_done_callback(_abort_late)
            self._connecting = None
            raise self._upstream.no_connection_in_time()
        self._connecting = None
        try:
            return task.result()
        except OSError as error:
            raise self._upstream.unreachable(error) from None

    async def _head(self) -> bool:
        """Wait for the head of an answer that can be read; False after a heartbeat."""
        answer = self._answer
        assert answer is not None
        self._watch.begin_wait()
        try:
            arrived = await answer.head()
            self._watch.end_wait()
            if not arrived:
                self._watch.check()
                return False
        except Disconnected as fault:
            if not self._fresh:
                # The upstream closed an idle connection just as we used it: that costs no try.
                self._fresh, self._answer = True, None
                return await self._send() and await self._head()
            raise self._upstream.lost(fault) from None
        except ConnectionFault as fault:
            raise self._upstream.lost(fault) from None
        await self._upstream.check(answer)
        return True

    def _plan_another(self, error: BackendError) -> None:
        """Another try after a pause, or the error."""
        if self._answer is not None:
            self._answer.close()
            self._answer = None
        pause = self._pause(error)
        if pause is None:
            raise error
        self._attempt += 1
        self._resume_at = self._loop.time() + pause
        logger.warning("%s: trying again in %.2f s: %s", self._endpoint.name, pause, error.message)

    def _pause(self, error: BackendError) -> float | None:
        """Seconds before the next try; None if there shall be none."""
        if self._attempt >= self._retries or not error.retryable or error.code == AUTH_ERROR:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= MAX_RETRY_AFTER else None
        # Jitter keeps clients that failed together from coming back together.
        return self._endpoint.backoff * 2**self._attempt * (0.5 + self._chance() / 2)


async def fetch(upstream: Upstream, request: bytes, patience: float) -> bytes:
    """The whole body of the answer to a small question, asked once; raises `BackendError`."""
    exchange = Exchange(upstream, request, patience=patience, retries=0)
    body = None
    try:
        while not await exchange.opened():
            pass
        while (body := await exchange.body()) is None:
            pass
        return body
    finally:
        exchange.close(whole=body is not None)


def _abort_late(task: "asyncio.Task[Connection]") -> None:
    """Cut a connection that came after nobody wanted it any more."""
    if not task.cancelled() and task.exception() is None:
        task.result().abort()
