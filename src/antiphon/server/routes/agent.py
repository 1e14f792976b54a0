"""``/v1/agent/execute``: an agent's answer, whole or as a stream of events; ``/v1/agent/modes``."""

import logging

import msgspec

from antiphon.errors import AntiphonError
from antiphon.orchestrator.agent import ServedAgent
from antiphon.orchestrator.casing import Case, to_json
from antiphon.orchestrator.models import AgentExecuteRequest
from antiphon.orchestrator.request_parser import parse_execute_request
from antiphon.server.agent_stream import AgentStream, asked_case
from antiphon.server.exchange import Bodies, Exchange
from antiphon.server.lifetime import ClientGone, Lifetimes

logger = logging.getLogger(__name__)


class AgentRoutes:
    """The routes that an agent answers at once."""

    def __init__(self, agent: ServedAgent, lifetimes: Lifetimes, bodies: Bodies, heartbeat: float) -> None:
        self._served = agent
        self._lifetimes = lifetimes
        self._bodies = bodies
        self._heartbeat = heartbeat

    async def execute(self, exchange: Exchange) -> None:
        """Do what the request asks. Who leaves cancels it."""
        case = asked_case(exchange.query())
        stream = AgentStream(exchange, case, self._heartbeat)
        body = await self._bodies.read(exchange)
        request = parse_execute_request(body, lambda asked: self._served.agent.check(asked, exchange.tenant))
        try:
            with self._lifetimes.lease(exchange.receive) as lease:
                lease.expect_disconnect()
                await self._answer(exchange, request, case, stream)
        except ClientGone:
            raise
        except Exception as error:
            if exchange.phase != "streaming":
                raise
            await self._abort(exchange, request, stream, error)

    async def _answer(
        self, exchange: Exchange, request: AgentExecuteRequest, case: Case, stream: AgentStream
    ) -> None:
        """Until the first event, a refusal is still an HTTP status."""
        if not request.streaming:
            response = await self._served.perform(exchange.tenant, request)
            await exchange.send_json(to_json(response, case))
            return
        async with stream.alive():
            await self._served.perform(exchange.tenant, request, tell=stream.tell)

    async def _abort(
        self, exchange: Exchange, request: AgentExecuteRequest, stream: AgentStream, error: Exception
    ) -> None:
        """The stream has begun, so the fault is told in the stream."""
        if not isinstance(error, AntiphonError):
            logger.error("request %s broke", exchange.request_id, exc_info=error)
            error = AntiphonError("Antiphon has a bug; the log knows more. Try again.", code="internal_error")
        await stream.fail(self._served.agent.failed(request, error), error.code or "")

    async def modes(self, exchange: Exchange) -> None:
        """The modes that a request may name."""
        listed = {"object": "list", "data": self._served.agent.list_modes(exchange.tenant)}
        await exchange.send_json(msgspec.json.encode(listed))
