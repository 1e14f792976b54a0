"""``POST /v1/responses``: as one JSON answer or as a stream of events."""

import logging
from contextlib import aclosing

import msgspec

from antiphon.errors import AntiphonError
from antiphon.protocol.events import Event
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.sse import DONE, SseRenderer
from antiphon.server.exchange import Exchange
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.service.create import Creator, Run

logger = logging.getLogger(__name__)


class ResponsesRoutes:
    """The routes of `/v1/responses`."""

    def __init__(self, creator: Creator, lifetimes: Lifetimes, *, max_body: int, body_timeout: float) -> None:
        self._creator = creator
        self._lifetimes = lifetimes
        self._max_body = max_body
        self._body_timeout = body_timeout

    async def create(self, exchange: Exchange) -> None:
        """Create a response."""
        body = await exchange.body(self._max_body, self._body_timeout)
        request = parse_create(body)
        run = self._creator.start(request)
        if request.streamed:
            await self._stream(exchange, run)
        else:
            with self._lifetimes.lease(exchange.receive):
                response = await run.result()
            await exchange.send_json(msgspec.json.encode(response))

    async def _stream(self, exchange: Exchange, run: Run) -> None:
        """Send events as they come. Until the first batch, an error is still an HTTP status."""
        renderer = SseRenderer()
        try:
            with self._lifetimes.lease(exchange.receive):
                async with aclosing(run.events()) as batches:
                    async for events in batches:
                        if not exchange.started:
                            await exchange.start_stream()
                        await self._send(exchange, run, renderer, events)
        except ClientGone:
            raise
        except AntiphonError as error:
            await self._abort(exchange, run, renderer, error)
        except Exception:
            logger.exception("request %s broke", exchange.request_id)
            fault = AntiphonError("Antiphon has a bug; the log knows more. Try again.", code="internal_error")
            await self._abort(exchange, run, renderer, fault)

    @staticmethod
    async def _send(exchange: Exchange, run: Run, renderer: SseRenderer, events: list[Event]) -> None:
        if run.ended:
            await exchange.end_stream(renderer.render(events) + DONE)
        else:
            await exchange.send_events(renderer.render(events))

    async def _abort(self, exchange: Exchange, run: Run, renderer: SseRenderer, error: AntiphonError) -> None:
        """A fault from outside the run: told in the stream if that has begun."""
        if not exchange.started:
            raise error
        await self._send(exchange, run, renderer, await run.abort(error))
