"""``POST /v1/responses``: as one JSON answer, as a stream of events, or in the background."""

import logging
from contextlib import aclosing

from antiphon.caller import Caller
from antiphon.errors import AntiphonError
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.requests import CreateResponse, StreamOptions
from antiphon.protocol.response import Response
from antiphon.protocol.shape import Shape, finish_reason
from antiphon.protocol.sse import SseRenderer
from antiphon.server.exchange import Exchange
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.routes.stored import StoredRoutes
from antiphon.service.background import Background
from antiphon.service.responses.create import Creator
from antiphon.service.responses.run import ResponseRun

logger = logging.getLogger(__name__)


class ResponsesRoutes:
    """The route that creates. `stored` streams what is made in the background."""

    def __init__(
        self,
        creator: Creator,
        background: Background,
        stored: StoredRoutes,
        lifetimes: Lifetimes,
        *,
        max_body: int,
        body_timeout: float,
    ) -> None:
        self._creator = creator
        self._background = background
        self._stored = stored
        self._lifetimes = lifetimes
        self._max_body = max_body
        self._body_timeout = body_timeout

    async def create(self, exchange: Exchange) -> None:
        """Create a response."""
        run: ResponseRun | None = None
        renderer = SseRenderer()
        try:
            with self._lifetimes.lease(exchange.receive) as lease:
                lease.expect_body(self._body_timeout)
                body = await exchange.body(self._max_body)
                request = parse_create(body, exchange.profile)
                lease.expect_disconnect()
                if request.params.background:
                    await self._submit(exchange, request, body)
                    return
                run = self._creator.start(request, Caller.of(exchange.tenant))
                if request.streamed:
                    shape = Shape(request.profile, request.params.stream_options or StreamOptions())
                    renderer = SseRenderer(shape)
                    await self._stream(exchange, run, renderer)
                    return
                response = await run.result()
            await self._answer(exchange, response)
        except ClientGone:
            if run is not None:
                await run.abandon()
            raise
        except Exception as error:
            if run is None or not exchange.started:
                if run is not None:
                    await run.abandon()
                raise
            await self._abort(exchange, run, renderer, error)

    async def _answer(self, exchange: Exchange, response: Response) -> None:
        profile = exchange.profile
        reason = finish_reason(response) if profile.finish_reason == "header" else None
        headers = () if reason is None else ((b"x-proxy-finish-reason", reason.encode()),)
        await exchange.send_json(Shape(profile).encode(response), headers=headers)

    async def _submit(self, exchange: Exchange, request: CreateResponse, body: bytes) -> None:
        """The response is made whether somebody listens or not."""
        response = await self._background.submit(request, body, exchange.tenant)
        if request.streamed:
            await self._stored.follow(exchange, response.id)
        else:
            await self._answer(exchange, response)

    async def _stream(self, exchange: Exchange, run: ResponseRun, renderer: SseRenderer) -> None:
        """Send events as they come. Until the first batch, an error is still an HTTP status."""
        async with aclosing(run.events()) as batches:
            async for events in batches:
                if not exchange.started:
                    await exchange.start_stream()
                if run.ended:
                    await exchange.end_stream(renderer.render(events) + exchange.profile.end)
                else:
                    await exchange.send_events(renderer.render(events))

    async def _abort(
        self, exchange: Exchange, run: ResponseRun, renderer: SseRenderer, error: Exception
    ) -> None:
        """The stream has begun, so the fault is told in the stream."""
        if not isinstance(error, AntiphonError):
            logger.error("request %s broke", exchange.request_id, exc_info=error)
            error = AntiphonError("Antiphon has a bug; the log knows more. Try again.", code="internal_error")
        await exchange.end_stream(renderer.render(await run.abort(error)) + exchange.profile.end)
