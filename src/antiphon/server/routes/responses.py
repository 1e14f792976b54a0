"""``/v1/responses``: create, retrieve, follow, cancel, delete; count tokens; compact."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from functools import partial
from typing import ClassVar

import msgspec

from antiphon.backends.sliced_json import encode_sliced
from antiphon.caller import DELETE, READ, WRITE
from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.protocol.ids import RESPONSE_ID
from antiphon.protocol.item_lists import list_items
from antiphon.protocol.large_body import Body
from antiphon.protocol.parse_create import parse_count, parse_create, without_items
from antiphon.protocol.requests import CreateResponse, StreamOptions
from antiphon.protocol.response import Response
from antiphon.protocol.shape import Shape, finish_reason
from antiphon.protocol.sse import SseRenderer
from antiphon.server.error_shapes import Header, internal_error
from antiphon.server.exchange import COUNTED_BY, YIELDING_BYTES, BodyReader, Exchange
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.routing import Route
from antiphon.service.background import Background
from antiphon.service.event_log import read_events
from antiphon.service.long_work import MANY_ITEMS, objects_in
from antiphon.service.responses.compaction import Compactor
from antiphon.service.responses.create import Creator
from antiphon.service.responses.input_tokens import TokenCount
from antiphon.service.responses.record import Origin
from antiphon.service.responses.run import ResponseRun
from antiphon.service.stored import StoredResponses

logger = logging.getLogger(__name__)


class StoredRoutes:
    """Works on a response that was created before."""

    def __init__(self, stored: StoredResponses, lifetimes: Lifetimes) -> None:
        self._stored = stored
        self._lifetimes = lifetimes

    async def retrieve(self, exchange: Exchange, response_id: str) -> None:
        """The response, or its events from the log."""
        query = exchange.query()
        query.check_include()
        query.flag("include_obfuscation")  # nothing is obfuscated here: either value is served
        after = query.number("starting_after", least=0)
        if query.flag("stream"):
            with self._lifetimes.lease(exchange.receive) as lease:
                lease.expect_disconnect()
                await self.follow(exchange, response_id, -1 if after is None else after)
            return
        if after is not None:
            message = "'starting_after' applies to a stream. Send 'stream=true' with it, or leave it out."
            raise InvalidRequest(message, param="starting_after")
        response = await self._stored.retrieve(exchange.caller, response_id)
        await exchange.send_json(Shape(exchange.profile).encode(response))

    async def delete(self, exchange: Exchange, response_id: str) -> None:
        """Delete a response; one that is still being made is cancelled first."""
        await self._stored.delete(exchange.caller, response_id)
        deleted = {"id": response_id, "object": "response", "deleted": True}
        await exchange.send_json(msgspec.json.encode(deleted))

    async def cancel(self, exchange: Exchange, response_id: str) -> None:
        """End a response that is made in the background."""
        response = await self._stored.cancel(exchange.caller, response_id)
        await exchange.send_json(Shape(exchange.profile).encode(response))

    async def input_items(self, exchange: Exchange, response_id: str) -> None:
        """A page of the input of a response."""
        page = exchange.query().page()
        found = await self._stored.input_items(exchange.caller, response_id, page)
        await exchange.send_json(msgspec.json.encode(list_items(found.items, has_more=found.has_more)))

    async def follow(self, exchange: Exchange, response_id: str, after: int = -1) -> None:
        """Send events from the log and then as they are made, within the lease of the caller.

        A stream that breaks off ends without `[DONE]`: the response continues, and can be followed again.
        """
        shape = Shape(exchange.profile, StreamOptions())
        async with aclosing(self._stored.follow(exchange.caller, response_id, after)) as pieces:
            async for piece in pieces:
                if not exchange.started:
                    await exchange.start_stream()
                await exchange.send_events(piece if shape.plain else _reshaped(piece, shape))
        if not exchange.started:
            await exchange.start_stream()
        await exchange.end_stream(exchange.profile.end)

    ROUTES: ClassVar = (
        Route("GET /v1/responses/{id}", retrieve, READ, id_form=RESPONSE_ID),
        Route("DELETE /v1/responses/{id}", delete, DELETE, id_form=RESPONSE_ID),
        Route("POST /v1/responses/{id}/cancel", cancel, WRITE, id_form=RESPONSE_ID),
        Route("GET /v1/responses/{id}/input_items", input_items, READ, id_form=RESPONSE_ID),
    )


def _reshaped(piece: bytes, shape: Shape) -> bytes:
    """Stored events in the form of another profile; comments stay as they are."""
    return SseRenderer(shape).render(read_events(piece)) or piece


class ResponsesRoutes:
    """Creates responses. `stored` streams those that are made in the background."""

    def __init__(
        self,
        creator: Creator,
        background: Background,
        stored: StoredRoutes,
        lifetimes: Lifetimes,
        bodies: BodyReader,
    ) -> None:
        self._creator = creator
        self._background = background
        self._stored = stored
        self._lifetimes = lifetimes
        self._bodies = bodies

    async def create(self, exchange: Exchange) -> None:
        """Create a response."""
        run: ResponseRun | None = None
        renderer: SseRenderer | None = None
        try:
            with self._lifetimes.lease(exchange.receive) as lease:
                body = await self._bodies.read_decodable(exchange, lease)
                lease.expect_disconnect()
                request = await self._parsed(exchange, body)
                origin = self._origin(exchange, body)
                if request.params.background:
                    await self._submit(exchange, request, body, origin)
                    return
                if len(body) > YIELDING_BYTES or len(request.items) > MANY_ITEMS:
                    await asyncio.sleep(0)
                del body  # it is not held while the model answers
                run = self._creator.start(request, exchange.caller, origin=origin)
                del origin
                lease.limit_turns(run)
                if request.streamed:
                    shape = Shape(request.profile, request.params.stream_options or StreamOptions())
                    renderer = SseRenderer(shape)
                    await self._stream(exchange, run, renderer)
                    return
                response = await run.result()
            await self._answer(exchange, response, run.bytes_bound)
        except ClientGone:
            if run is not None:
                await run.abandon()
            raise
        except Exception as error:
            if run is None or renderer is None or not exchange.started:
                if run is not None:
                    await run.abandon()
                raise
            await self._abort(exchange, run, renderer, error)

    async def _parsed(self, exchange: Exchange, body: Body) -> CreateResponse:
        """The request of a body. One with many items is parsed in turns with others."""
        parse = partial(parse_create, body, exchange.profile)
        objects = objects_in(body)
        if objects <= MANY_ITEMS:
            return parse()
        return await self._creator.work.run(exchange.caller.tenant, objects, parse)

    def _answer(self, exchange: Exchange, response: Response, max_bytes: int = 0) -> Awaitable[None]:
        """Send a response; one that may be large in slices."""
        profile = exchange.profile
        reason = finish_reason(response) if profile.finish_reason == "header" else None
        headers = () if reason is None else ((b"x-proxy-finish-reason", reason.encode()),)
        if max_bytes > YIELDING_BYTES:
            return _send_sliced(exchange, Shape(profile).shaped(response), headers)
        return exchange.send_json(Shape(profile).encode(response), headers=headers)

    def _origin(self, exchange: Exchange, body: Body) -> Origin:
        """The request, for the record of the run. The body is held only if there is a trace of it."""
        traced = exchange.traced
        if not traced and self._creator.traces.record != "all":
            return Origin(exchange.request_id)
        return Origin(exchange.request_id, traced, body if isinstance(body, bytes) else without_items(body))

    async def _submit(self, exchange: Exchange, request: CreateResponse, body: Body, origin: Origin) -> None:
        """Make the response in the background, whether the client stays or not."""
        response = await self._background.submit(request, body, exchange.caller, origin)
        if request.streamed:
            await self._stored.follow(exchange, response.id)
        else:
            await self._answer(exchange, response)

    async def _stream(self, exchange: Exchange, run: ResponseRun, renderer: SseRenderer) -> None:
        """Send events as they are made. Until the first batch, an error is still an HTTP status."""
        started = False
        async with aclosing(run.events()) as batches:
            async for events in batches:
                if not started:
                    await exchange.start_stream()
                    started = True
                if run.ended:
                    await exchange.end_stream(renderer.render(events) + exchange.profile.end)
                else:
                    await exchange.send_events(renderer.render(events))

    async def _abort(
        self, exchange: Exchange, run: ResponseRun, renderer: SseRenderer, error: Exception
    ) -> None:
        """End a stream that has begun with the error as an event."""
        if not isinstance(error, AntiphonError):
            logger.error("request %s failed", exchange.request_id, exc_info=error)
            error = internal_error(exchange.request_id)
        events = await run.abort(error)  # none if the last events were given already
        await exchange.end_stream(renderer.render(events) + exchange.profile.end if events else b"")

    ROUTES: ClassVar = (Route("POST /v1/responses", create, WRITE),)


async def _send_sliced(exchange: Exchange, response: Response, headers: tuple[Header, ...]) -> None:
    """Send a response whose encoding would hold the event loop for too long."""
    pieces = await encode_sliced(response)

    async def body() -> AsyncGenerator[bytes, None]:
        for piece in pieces:
            yield piece

    length = sum(map(len, pieces))
    await exchange.send_media(body(), "application/json", headers=headers, length=length)


class InputTokensRoutes:
    """Counts the tokens of a request; the model is not called."""

    def __init__(self, tokens: TokenCount, bodies: BodyReader) -> None:
        self._tokens = tokens
        self._bodies = bodies

    async def count(self, exchange: Exchange) -> None:
        """The number of tokens, and in a header whether it is exact."""
        request = parse_count(await self._bodies.read(exchange))
        count = await self._tokens.count(request, exchange.caller)
        payload = {"object": "response.input_tokens", "input_tokens": count.tokens}
        await exchange.send_json(msgspec.json.encode(payload), headers=((COUNTED_BY, count.by.encode()),))

    ROUTES: ClassVar = (Route("POST /v1/responses/input_tokens", count, READ),)


class CompactRoutes:
    """Summarises conversations."""

    def __init__(self, compactor: Compactor, lifetimes: Lifetimes, bodies: BodyReader) -> None:
        self._compactor = compactor
        self._lifetimes = lifetimes
        self._bodies = bodies

    async def compact(self, exchange: Exchange) -> None:
        """Summarise the input; the client continues with the answer's output as its input."""
        with self._lifetimes.lease(exchange.receive) as lease:
            body = await self._bodies.read_within(exchange, lease)
            lease.expect_disconnect()
            compacted = await self._compactor.compact(body, exchange.caller)
        await exchange.send_json(msgspec.json.encode(compacted))

    ROUTES: ClassVar = (Route("POST /v1/responses/compact", compact, WRITE),)
