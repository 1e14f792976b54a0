"""The events of an agent as a stream: told as they come, with comments during silence."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import get_args

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.casing import Case, to_json
from antiphon.orchestrator.events import END, AgentEvent, AgentFailed
from antiphon.orchestrator.models import AgentExecuteResponse
from antiphon.protocol.profile import DONE
from antiphon.protocol.sse import COMMENT
from antiphon.server.exchange import Exchange
from antiphon.server.query import Query

CASES: tuple[Case, ...] = get_args(Case)


def asked_case(query: Query) -> Case:
    """In which case the answer is spelled."""
    asked = query.text("case") or "camel"
    for case in CASES:
        if case == asked:
            return case
    message = f"Invalid value for 'case': '{asked[:100]}'; use one of {', '.join(CASES)}."
    raise InvalidRequest(message, param="case", code="invalid_value")


def render(event: AgentEvent, case: Case) -> bytes:
    """One server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (_tag(event), to_json(event, case))


def _tag(event: AgentEvent) -> bytes:
    return str(type(event).__struct_config__.tag).encode()


class AgentStream:
    """The stream of one exchange. It begins with the first event."""

    def __init__(self, exchange: Exchange, case: Case, heartbeat: float) -> None:
        self._exchange = exchange
        self._case: Case = case
        self._heartbeat = heartbeat
        self._sending = asyncio.Lock()
        self._spoke_at = 0.0
        self._next = 0

    async def tell(self, event: AgentEvent) -> None:
        """Send an event; the last one ends the stream."""
        self._next = event.sequence_number + 1
        payload = render(event, self._case)
        async with self._sending:
            self._spoke_at = asyncio.get_running_loop().time()
            if not self._exchange.started:
                await self._exchange.start_stream()
            if isinstance(event, END):
                await self._exchange.end_stream(payload + DONE)
            else:
                await self._exchange.send_events(payload)

    async def fail(self, response: AgentExecuteResponse, code: str) -> None:
        """End a stream that has no end of its own."""
        await self.tell(AgentFailed(sequence_number=self._next, response=response, code=code))

    @asynccontextmanager
    async def alive(self) -> AsyncGenerator[None, None]:
        """While nothing is told, send a comment now and then, so that nothing on the way gives up."""
        beating = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            silent = loop.time() - self._spoke_at
            if silent < self._heartbeat:
                await asyncio.sleep(self._heartbeat - silent)
                continue
            async with self._sending:
                self._spoke_at = loop.time()
                if self._exchange.phase == "streaming":
                    await self._exchange.send_events(COMMENT)
