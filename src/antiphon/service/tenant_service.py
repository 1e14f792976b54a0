"""`TenantService`: the service for one caller, called from within this process, without a port."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from antiphon.caller import Caller
from antiphon.errors import NotFound
from antiphon.protocol.compact import CompactedResponse
from antiphon.protocol.events import Event
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response
from antiphon.service.event_log import read_events
from antiphon.service.services import Services
from antiphon.store.base import RESPONSE_JOB, UNFINISHED


@dataclass(frozen=True, slots=True)
class TenantService:
    """The operations of the server's routes for one caller. Errors are raised."""

    services: Services
    caller: Caller

    async def create(self, /, **params: Any) -> Response:
        """Create a response; with `background=True` it is queued. A failure is raised. Cancelling the call
        cancels the response, unless it is in the background."""
        request = create_from(**params)
        if request.params.background:
            return await self.services.background.submit(request, msgspec.json.encode(params), self.caller)
        run = self.services.creator.start(request, self.caller)
        try:
            return await run.result()
        finally:
            await run.abandon()  # which does nothing if it has ended

    async def stream(self, /, **params: Any) -> AsyncGenerator[Event, None]:
        """Yield the events of a new response. Closing the generator cancels it, unless it is in the
        background."""
        if params.get("background"):
            events = self.follow((await self.create(**params)).id)
        else:
            events = self._events(create_from(**{**params, "stream": True}))
        async with aclosing(events):
            async for event in events:
                yield event

    def new_response_id(self) -> str:
        """An id for `submit`."""
        return self.services.creator.ids.new("resp")

    async def submit(self, response_id: str, /, **params: Any) -> Response:
        """Save a background response under an id of `new_response_id`, and return it. If it was submitted
        before, it is returned as it is now, and continued if no process works on it."""
        background = self.services.background
        try:
            response = await self.retrieve(response_id)
        except NotFound:
            request, body = create_from(**params), msgspec.json.encode(params)
            return await background.submit(request, body, self.caller, response_id=response_id)
        if response.status in UNFINISHED:
            await background.jobs.begin(RESPONSE_JOB, self.caller.tenant, [response_id])
        return response

    async def retrieve(self, response_id: str) -> Response:
        """A stored response; one that is still being made as far as it has come."""
        return await self.services.stored.retrieve(self.caller, response_id)

    async def follow(self, response_id: str, after: int = -1) -> AsyncGenerator[Event, None]:
        """Yield the events of a background response after number `after`: those in the log, then the new
        ones. Closing the generator does not affect the response."""
        pieces = self.services.stored.follow(self.caller, response_id, after)
        async with aclosing(pieces):
            async for piece in pieces:
                for event in read_events(piece):
                    yield event

    async def cancel(self, response_id: str) -> Response:
        """End a background response; the response as it is now."""
        return await self.services.stored.cancel(self.caller, response_id)

    async def delete(self, response_id: str) -> None:
        """Forget a response; one that is still being made is cancelled first."""
        await self.services.stored.delete(self.caller, response_id)

    async def compact(self, /, **params: Any) -> CompactedResponse:
        """A conversation made short. Takes the parameters of ``POST /v1/responses/compact``."""
        return await self.services.compactor.compact(msgspec.json.encode(params), self.caller)

    async def models(self) -> list[str]:
        """The names of the models that can be asked."""
        return [model.id for model in await self.services.router.models()]

    async def _events(self, request: CreateResponse) -> AsyncGenerator[Event, None]:
        run = self.services.creator.start(request, self.caller)
        try:
            async with aclosing(run.events()) as batches:
                async for events in batches:
                    for event in events:
                        yield event
        finally:
            await run.abandon()  # which does nothing if it has ended
