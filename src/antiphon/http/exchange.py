"""`Exchange`: one request and its response: retried while that is safe, awaited under deadlines.

Safe means: before the response has begun. After that a request is never sent twice.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping

from antiphon.errors import BackendBroken, BackendError, drop_tracebacks
from antiphon.http.client import AUTH_ERROR, HttpClient, HttpRequest
from antiphon.http.connection import INTERRUPTED, Connection, ConnectionFault, Disconnected
from antiphon.http.deadlines import DeadlineWatch

logger = logging.getLogger(__name__)

HEARTBEAT = b""
"""The result of a `read` during which nothing arrived for a heartbeat."""
MAX_RETRY_PAUSE_SECONDS = 30.0
"""If a server asks for a longer pause, the request fails with its answer instead of waiting."""
LINGER_SECONDS = 1.0
"""Time for a connection to end a body whose content is complete."""

Chance = Callable[[], float]


class Exchange(DeadlineWatch):
    """One request and its response. `opened` and `read` wait no longer than a heartbeat.

    `first_byte` is the deadline in seconds for the beginning of the response; `retries` counts those of the
    target if it is not given.
    """

    __slots__ = (
        "_attempt",
        "_begun",
        "_chance",
        "_client",
        "_connect_by",
        "_connecting",
        "_fresh",
        "_pieces",
        "_request",
        "_resume_at",
        "_retries",
        "_size",
    )

    def __init__(
        self,
        client: HttpClient,
        request: HttpRequest,
        *,
        first_byte: float,
        retries: int | None = None,
        chance: Chance = random.random,
    ) -> None:
        super().__init__(client.timer, client.pool.loop(), client.target, first_byte)
        self._client = client
        self._request = request
        self._retries = client.target.retries if retries is None else retries
        self._attempt = 0
        self._resume_at = 0.0
        self._chance = chance
        self._connecting: asyncio.Task[Connection] | None = None
        self._connect_by = 0.0
        self._fresh = False
        self._begun = False
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def media_type(self) -> str:
        return self._response.media_type if self._response else ""

    @property
    def status(self) -> int:
        return self._response.status if self._response else 0

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response, names in lower case; empty before it has begun."""
        return self._response.headers if self._response else {}

    async def opened(self) -> bool:
        """Whether the response has begun; False after a heartbeat. Raises `BackendError` if it cannot."""
        while not self._begun:
            try:
                if self._response is None and not self._reuse() and not await self._send():
                    return False
                if not await self._head():
                    return False
                self._begun = True
            except BackendError as error:
                self._plan_retry(error)
        return True

    async def read(self) -> bytes | None:
        """The next bytes, or `HEARTBEAT`; None after the last. Raises `BackendError` if it fails."""
        assert self._response is not None
        self._begin_wait()
        try:
            data = await self._response.read()
        except ConnectionFault as fault:
            raise self._client.connection_error(fault) from None
        self._left_at = self._loop.time()
        if data == INTERRUPTED:
            self._raise_if_late()
        return data

    async def body(self) -> bytes | None:
        """The complete body, or None after a heartbeat."""
        response = self._response
        assert response is not None
        while not response.exhausted and (data := response.read_now() or await self.read()) is not None:
            if data == HEARTBEAT:
                return None
            if not data.isspace():  # DeepSeek sends empty lines while a request waits in its queue
                self.progress(delivered=False)
            self._size += len(data)
            if self._size > self._target.max_body_bytes:
                raise BackendBroken(f"The {self._target.described} sent a body beyond the size limit.")
            self._pieces.append(data)
        return b"".join(self._pieces)

    def close(self, *, complete: bool) -> None:
        """End the exchange. Unless the content is `complete`, the connection is aborted."""
        self._timer.remove(self)
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting.add_done_callback(_abort_late)
        if self._response is not None:
            self._response.close(linger=LINGER_SECONDS if complete else 0.0)

    def _reuse(self) -> bool:
        """Send on an idle connection, unless there is none, or a pause."""
        if self._resume_at or self._connecting or self._fresh:
            return False
        connection = self._client.pool.take()
        if connection is not None:
            self._send_on(connection)
        return connection is not None

    async def _send(self) -> bool:
        """Wait for the retry pause, connect, send; False if a heartbeat was due before that."""
        beat = self._loop.time() + self._target.heartbeat
        if self._resume_at:
            await asyncio.sleep(min(self._resume_at, beat) - self._loop.time())
            if beat < self._resume_at:
                return False
            self._resume_at = 0.0
            if self._reuse():
                return True
        self._fresh = True
        connection = await self._connect(beat)
        if connection is None:
            return False
        self._send_on(connection)
        return True

    def _send_on(self, connection: Connection) -> None:
        request = self._request
        self._follow(connection.send(request.data, request.pieces, bodiless=request.bodiless))

    async def _connect(self, beat: float) -> Connection | None:
        """Open a connection; None if a heartbeat was due before it was open."""
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._client.pool.connect())
            self._connect_by = self._loop.time() + self._target.deadlines.connect
        task = self._connecting
        await asyncio.wait({task}, timeout=min(beat, self._connect_by) - self._loop.time())
        if not task.done():
            if beat < self._connect_by:
                return None
            task.cancel()
            task.add_done_callback(_abort_late)
            self._connecting = None
            raise self._client.connect_timeout()
        self._connecting = None
        try:
            return task.result()
        except OSError as error:
            drop_tracebacks(error)  # asyncio leaves it in a reference cycle, which must not hold the request
            raise self._client.connect_error(error) from None

    async def _head(self) -> bool:
        """Wait for the head of a response that can be read; False after a heartbeat."""
        response = self._response
        assert response is not None
        self._begin_wait()
        try:
            arrived = await response.head()
            self._left_at = self._loop.time()
            if not arrived:
                self._raise_if_late()
                return False
        except Disconnected as fault:
            if not self._fresh and self._request.resend:
                # The server closed an idle connection just as it was used: this does not count as an attempt.
                self._fresh, self._response = True, None
                return await self._send() and await self._head()
            raise self._client.connection_error(fault) from None
        except ConnectionFault as fault:
            raise self._client.connection_error(fault) from None
        if not self._request.accept.includes(response):
            raise await self._client.unreadable(response, self._request.accept)
        return True

    def _plan_retry(self, error: BackendError) -> None:
        """Schedule the next attempt, or raise the error."""
        if self._response is not None:
            self._response.close()
            self._response = None
        pause = self._pause(error)
        if pause is None:
            raise error
        self._attempt += 1
        self._resume_at = self._loop.time() + pause
        logger.warning("%s: next attempt in %.2f s: %s", self._target.name, pause, error.message)

    def _pause(self, error: BackendError) -> float | None:
        """Seconds before the next attempt; None if the request is not retried."""
        if self._attempt >= self._retries or not error.retryable or error.code == AUTH_ERROR:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= MAX_RETRY_PAUSE_SECONDS else None
        # Jitter keeps clients that failed together from coming back together.
        return self._target.backoff * 2**self._attempt * (0.5 + self._chance() / 2)


async def fetch(client: HttpClient, request: HttpRequest, first_byte: float, *, retries: int = 0) -> bytes:
    """The complete body of the response to a request; raises `BackendError`."""
    exchange = Exchange(client, request, first_byte=first_byte, retries=retries)
    body = None
    try:
        while not await exchange.opened():
            pass
        while (body := await exchange.body()) is None:
            pass
        return body
    finally:
        exchange.close(complete=body is not None)


def _abort_late(task: "asyncio.Task[Connection]") -> None:
    """Abort a connection that was opened after its exchange had ended."""
    if not task.cancelled() and task.exception() is None:
        task.result().abort()
