"""The compatible endpoints: read a request of another API, run it, render the answer for that API."""

import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import ClassVar, NamedTuple

import msgspec
from msgspec.structs import replace

from antiphon.caller import READ, WRITE
from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.protocol.events import ErrorEvent, Event, ResponseCreated, ResponseInProgress
from antiphon.server.compat.api import CompatApi, CompatRequest, Renderer
from antiphon.server.compat.messages.request import read_count
from antiphon.server.error_shapes import ANTHROPIC_ERRORS, CHAT_ERRORS, internal_error
from antiphon.server.exchange import COUNTED_BY, BodyReader, Exchange
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.routing import Route
from antiphon.service.long_work import let_others_run
from antiphon.service.responses.create import Creator
from antiphon.service.responses.input_tokens import TokenCount
from antiphon.service.responses.run import ResponseRun
from antiphon.turn.sealing import SealKey

logger = logging.getLogger(__name__)

_BEGINNING = (ResponseCreated, ResponseInProgress)


class _Running(NamedTuple):
    """A request that is being answered."""

    question: CompatRequest
    renderer: Renderer
    run: ResponseRun


class CompatRoutes:
    """Creates answers for the clients of another API. Nothing is stored."""

    def __init__(self, api: CompatApi, creator: Creator, lifetimes: Lifetimes, bodies: BodyReader) -> None:
        self._api = api
        self._creator = creator
        self._lifetimes = lifetimes
        self._bodies = bodies

    async def create(self, exchange: Exchange) -> None:
        """Answer a request."""
        running: _Running | None = None
        try:
            with self._lifetimes.lease(exchange.receive) as lease:
                body = await self._bodies.read_within(exchange, lease)
                lease.expect_disconnect()
                question, renderer = self._api.read(body, exchange.caller)
                request = replace(question.request, stop=question.stops, input_bytes=len(body))
                del body  # it is not held while the model answers
                await let_others_run(len(request.items))
                run = self._creator.start(request, exchange.caller)
                lease.limit_turns(run)
                running = _Running(question, renderer, run)
                if question.streamed:
                    await self._stream(exchange, run, renderer)
                    return
                response = await run.result()
            renderer.private_sides(run.take_private())
            renderer.downgraded(run.downgrades)
            payload = renderer.render_response(response, run.stop_sequence)
            await exchange.send_json(payload, headers=exchange.errors.headers(exchange.request_id))
        except ClientGone:
            raise
        except Exception as error:
            if running is None:
                raise
            if exchange.started:
                await self._abort(exchange, running, error)
                return
            if isinstance(error, AntiphonError):
                running.question.blame(error)
            raise

    async def _stream(self, exchange: Exchange, run: ResponseRun, renderer: Renderer) -> None:
        """Send events as they are made. Until the first content, an error is still an HTTP status."""
        unsent: list[Event] = []
        async with aclosing(run.events()) as batches:
            async for batch in batches:
                events = batch
                if not exchange.started:
                    events = unsent = [*unsent, *batch]
                    if all(isinstance(event, _BEGINNING) for event in events):
                        continue
                    _check_refused(events)
                    await exchange.start_stream(exchange.errors.headers(exchange.request_id))
                if run.stop_sequence is not None:
                    renderer.stopped(run.stop_sequence)
                elif run.failure is not None:
                    renderer.failed(run.failure.status, exchange.request_id)
                renderer.private_sides(run.take_private())
                if run.ended:
                    renderer.downgraded(run.downgrades)
                    await exchange.end_stream(renderer.render(events))
                elif payload := renderer.render(events):
                    await exchange.send_events(payload)

    async def _abort(self, exchange: Exchange, running: _Running, error: Exception) -> None:
        """End a stream that has begun with the error as an event."""
        if not isinstance(error, AntiphonError):
            logger.error("request %s failed", exchange.request_id, exc_info=error)
            error = internal_error(exchange.request_id)
        running.renderer.failed(error.status, exchange.request_id)
        await exchange.end_stream(running.renderer.render(await running.run.abort(error)))


def _check_refused(events: Sequence[Event]) -> None:
    """The engine reports a conversation that is too long as an event; other APIs answer with a status."""
    for event in events:
        if isinstance(event, ErrorEvent) and event.error.type == "invalid_request_error":
            error = event.error
            raise InvalidRequest(error.message, param=error.param, code=error.code)


class ChatCompletionsRoutes(CompatRoutes):
    """The chat completions API."""

    ROUTES: ClassVar = (Route("POST /v1/chat/completions", CompatRoutes.create, WRITE, errors=CHAT_ERRORS),)


class MessagesRoutes(CompatRoutes):
    """Anthropic's Messages API."""

    ROUTES: ClassVar = (Route("POST /v1/messages", CompatRoutes.create, WRITE, errors=ANTHROPIC_ERRORS),)


class CountTokensRoutes:
    """Counts the tokens of a Messages request; the model is not called."""

    def __init__(self, tokens: TokenCount, bodies: BodyReader, seal_key: SealKey) -> None:
        self._tokens = tokens
        self._bodies = bodies
        self._seal_key = seal_key

    async def count(self, exchange: Exchange) -> None:
        """The number of tokens, and in a header whether it is exact."""
        sealer = self._seal_key.sealer(exchange.caller.tenant)
        question = read_count(await self._bodies.read(exchange), sealer)
        try:
            count = await self._tokens.count(question.request, exchange.caller)
        except AntiphonError as error:
            question.blame(error)
            raise
        headers = ((COUNTED_BY, count.by.encode()), *exchange.errors.headers(exchange.request_id))
        await exchange.send_json(msgspec.json.encode({"input_tokens": count.tokens}), headers=headers)

    ROUTES: ClassVar = (Route("POST /v1/messages/count_tokens", count, READ, errors=ANTHROPIC_ERRORS),)
