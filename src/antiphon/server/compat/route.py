"""One route for every door: read the body, run it, tell the answer in the door's own words."""

import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import NamedTuple

from msgspec.structs import replace

from antiphon.caller import Caller
from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.protocol.events import ErrorEvent, Event, ResponseCreated, ResponseInProgress
from antiphon.server.compat.api import CompatApi, CompatRequest, Renderer
from antiphon.server.exchange import Exchange
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.service.responses.create import Creator
from antiphon.service.responses.run import ResponseRun

logger = logging.getLogger(__name__)

_BEGINNING = (ResponseCreated, ResponseInProgress)


class _Asked(NamedTuple):
    """A question that is being answered."""

    question: CompatRequest
    teller: Renderer
    run: ResponseRun


class CompatRoute:
    """Creates answers for the clients of another API. Nothing is stored."""

    def __init__(
        self, door: CompatApi, creator: Creator, lifetimes: Lifetimes, *, max_body: int, body_timeout: float
    ) -> None:
        self._door = door
        self._creator = creator
        self._lifetimes = lifetimes
        self._max_body = max_body
        self._body_timeout = body_timeout

    async def create(self, exchange: Exchange) -> None:
        """Answer a request."""
        asked: _Asked | None = None
        try:
            with self._lifetimes.lease(exchange.receive) as lease:
                lease.expect_body(self._body_timeout)
                question, teller = self._door.read(await exchange.body(self._max_body))
                lease.expect_disconnect()
                request = replace(question.request, stop=question.stops)
                run = self._creator.start(request, Caller.of(exchange.tenant))
                asked = _Asked(question, teller, run)
                if question.streamed:
                    await self._stream(exchange, run, teller)
                    return
                response = await run.result()
            teller.downgraded(run.downgrades)
            payload = teller.whole(response, run.stop_sequence)
            await exchange.send_json(payload, headers=exchange.errors.headers(exchange.request_id))
        except ClientGone:
            raise
        except Exception as error:
            if asked is None:
                raise
            if exchange.started:
                await self._abort(exchange, asked, error)
                return
            if isinstance(error, AntiphonError):
                asked.question.blame(error)
            raise

    async def _stream(self, exchange: Exchange, run: ResponseRun, teller: Renderer) -> None:
        """Tell the events as they come. Until the first word, an error is still an HTTP status."""
        unsaid: list[Event] = []
        async with aclosing(run.events()) as batches:
            async for batch in batches:
                events = batch
                if not exchange.started:
                    events = unsaid = [*unsaid, *batch]
                    if all(isinstance(event, _BEGINNING) for event in events):
                        continue
                    _check_refused(events)
                    await exchange.start_stream(exchange.errors.headers(exchange.request_id))
                if run.stop_sequence is not None:
                    teller.stopped(run.stop_sequence)
                elif run.failure is not None:
                    teller.failed(run.failure.status, exchange.request_id)
                if run.ended:
                    teller.downgraded(run.downgrades)
                    await exchange.end_stream(teller.render(events))
                elif payload := teller.render(events):
                    await exchange.send_events(payload)

    async def _abort(self, exchange: Exchange, asked: _Asked, error: Exception) -> None:
        """The stream has begun, so the fault is told in the stream."""
        if not isinstance(error, AntiphonError):
            logger.error("request %s broke", exchange.request_id, exc_info=error)
            error = AntiphonError("Antiphon has a bug; the log knows more. Try again.", code="internal_error")
        asked.teller.failed(error.status, exchange.request_id)
        await exchange.end_stream(asked.teller.render(await asked.run.abort(error)))


def _check_refused(events: Sequence[Event]) -> None:
    """The engine tells in the stream that a conversation is too long; clients of other APIs look for that
    in the status."""
    for event in events:
        if isinstance(event, ErrorEvent) and event.error.type == "invalid_request_error":
            error = event.error
            raise InvalidRequest(error.message, param=error.param, code=error.code)
