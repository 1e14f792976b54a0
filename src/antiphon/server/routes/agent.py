"""``/v1/agent``: execute a request at once, as JSON or as a stream; list modes; runs in the background.

A run object has the same casing as every other object of this server. The agent's own answer and its events
have the casing that the query parameter `case` names.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, aclosing
from typing import ClassVar, get_args

import msgspec

from antiphon.caller import DELETE, READ, WRITE
from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.orchestrator.agent import AgentServices, ServedAgent
from antiphon.orchestrator.agent_runs import RunRecord
from antiphon.orchestrator.casing import Case, to_json
from antiphon.orchestrator.events import END, AgentEvent, AgentFailed
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse
from antiphon.orchestrator.request_parser import parse_approval, parse_execute_request, parse_run_request
from antiphon.orchestrator.run_tree import response_of, run_json, run_object, tree_of
from antiphon.protocol.profile import DONE
from antiphon.protocol.sse import COMMENT
from antiphon.server.error_shapes import internal_error
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.heartbeats import heartbeats
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.query import MAX_LIMIT, Query
from antiphon.server.routing import Route
from antiphon.store.agent_runs import AgentRun

logger = logging.getLogger(__name__)

CASES: tuple[Case, ...] = get_args(Case)
PAGE_LIMIT = 20
RUN_ID = b"x-agent-run-id"
"""The header that names the run whose events are streamed."""


def asked_case(query: Query) -> Case:
    """The casing of the answer."""
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
    """The event stream of one exchange. It begins with the first event, and has comments during silence."""

    def __init__(self, exchange: Exchange, case: Case, heartbeat_seconds: float) -> None:
        self._exchange = exchange
        self._case: Case = case
        self._heartbeat = heartbeat_seconds
        self._sending = asyncio.Lock()
        self._sent_at = 0.0
        self._next = 0

    async def send(self, event: AgentEvent) -> None:
        """Send an event; the last one ends the stream."""
        self._next = event.sequence_number + 1
        payload = render(event, self._case)
        async with self._sending:
            self._sent_at = asyncio.get_running_loop().time()
            if not self._exchange.started:
                await self._exchange.start_stream()
            if isinstance(event, END):
                await self._exchange.end_stream(payload + DONE)
            else:
                await self._exchange.send_events(payload)

    async def fail(self, response: AgentExecuteResponse, code: str) -> None:
        """End a stream whose agent did not."""
        await self.send(AgentFailed(sequence_number=self._next, response=response, code=code))

    def alive(self) -> AbstractAsyncContextManager[None]:
        """Send comments while there are no events, once there was one."""
        return heartbeats(self._heartbeat, lambda: self._sent_at, self._send_comment)

    async def _send_comment(self) -> None:
        async with self._sending:
            self._sent_at = asyncio.get_running_loop().time()
            if self._exchange.phase == "streaming":
                await self._exchange.send_events(COMMENT)


class AgentRoutes:
    """Answers at once."""

    def __init__(
        self, agent: ServedAgent, lifetimes: Lifetimes, bodies: BodyReader, heartbeat_seconds: float
    ) -> None:
        self._served = agent
        self._lifetimes = lifetimes
        self._bodies = bodies
        self._heartbeat = heartbeat_seconds

    async def execute(self, exchange: Exchange) -> None:
        """Execute a request. It is cancelled when the client leaves."""
        case = asked_case(exchange.query())
        stream = AgentStream(exchange, case, self._heartbeat)
        request = parse_execute_request(
            await self._bodies.read(exchange),
            lambda asked: self._served.agent.check(asked, exchange.caller.tenant),
        )
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
        """Until the first event, an error is still an HTTP status."""
        if not request.streaming:
            response = await self._served.perform(exchange.caller, request)
            await exchange.send_json(to_json(response, case))
            return
        async with stream.alive():
            await self._served.perform(exchange.caller, request, tell=stream.send)

    async def _abort(
        self, exchange: Exchange, request: AgentExecuteRequest, stream: AgentStream, error: Exception
    ) -> None:
        """End a stream that has begun with the error as an event."""
        if not isinstance(error, AntiphonError):
            logger.error("request %s failed", exchange.request_id, exc_info=error)
            error = internal_error(exchange.request_id)
        await stream.fail(self._served.agent.failed(request, error), error.code or "")

    async def modes(self, exchange: Exchange) -> None:
        """The modes that a request may name."""
        listed = {"object": "list", "data": self._served.agent.list_modes(exchange.caller.tenant)}
        await exchange.send_json(msgspec.json.encode(listed))

    ROUTES: ClassVar = (
        Route("POST /v1/agent/execute", execute, WRITE),
        Route("GET /v1/agent/modes", modes, READ),
    )


class AgentRunRoutes:
    """Runs in the background."""

    def __init__(self, agents: AgentServices, lifetimes: Lifetimes, bodies: BodyReader) -> None:
        self._agent = agents.agent.agent
        self._runs = agents.runs
        self._lifetimes = lifetimes
        self._bodies = bodies

    async def submit(self, exchange: Exchange) -> None:
        """Begin a run; it continues when the client leaves. With `streaming` the answer follows it."""
        case = asked_case(exchange.query())
        body = await self._bodies.read(exchange)
        submitted = parse_run_request(body, lambda asked: self._agent.check(asked, exchange.caller.tenant))
        del body
        run = await self._runs.submit(exchange.caller, submitted.request, submitted.title)
        if submitted.request.streaming:
            # A client that loses the stream needs the id to follow the run again.
            await exchange.start_stream(((RUN_ID, run.id.encode()),))
            await exchange.send_events(b"")
            await self._follow(exchange, run.id, -1, case)
        else:
            await exchange.send_json(_run_json(run))

    async def list(self, exchange: Exchange) -> None:
        """A page of runs, newest first."""
        query = exchange.query()
        limit = query.number("limit", least=1, most=MAX_LIMIT) or PAGE_LIMIT
        runs = await self._runs.list_runs(exchange.caller, limit=limit + 1, after=query.text("after"))
        page = [run_object(run) for run in runs[:limit]]
        listed = {
            "object": "list",
            "data": page,
            "first_id": page[0].id if page else "",
            "last_id": page[-1].id if page else "",
            "has_more": len(runs) > limit,
        }
        await exchange.send_json(msgspec.json.encode(listed))

    async def retrieve(self, exchange: Exchange, run_id: str) -> None:
        """A run with its answer, if it has ended, and its tree; or its events from the log."""
        query = exchange.query()
        case = asked_case(query)
        after = query.number("starting_after", least=0)
        if query.flag("stream"):
            await self._follow(exchange, run_id, -1 if after is None else after, case)
            return
        if after is not None:
            message = "'starting_after' applies to a stream. Send 'stream=true' with it, or leave it out."
            raise InvalidRequest(message, param="starting_after")
        await exchange.send_json(_record_json(await self._runs.show(exchange.caller, run_id), case))

    async def cancel(self, exchange: Exchange, run_id: str) -> None:
        """Cancel a run. One that has ended stays as it is."""
        await exchange.send_json(_run_json(await self._runs.cancel(exchange.caller, run_id)))

    async def answer(self, exchange: Exchange, run_id: str) -> None:
        """Answer an approval request of a waiting run."""
        answer = parse_approval(await self._bodies.read(exchange))
        await exchange.send_json(_run_json(await self._runs.answer(exchange.caller, run_id, answer)))

    async def delete(self, exchange: Exchange, run_id: str) -> None:
        """Delete a run; if it has not ended, it is cancelled first."""
        await self._runs.delete(exchange.caller, run_id)
        deleted = {"id": run_id, "object": "agent.run", "deleted": True}
        await exchange.send_json(msgspec.json.encode(deleted))

    async def _follow(self, exchange: Exchange, run_id: str, after: int, case: Case) -> None:
        """Send events from the log and then as they are made.

        A stream that breaks off ends without `[DONE]`: the run continues, and can be followed again.
        """
        with self._lifetimes.lease(exchange.receive) as lease:
            lease.expect_disconnect()
            async with aclosing(self._runs.follow(exchange.caller, run_id, after)) as events:
                async for event in events:
                    if not exchange.started:
                        await exchange.start_stream()
                    await exchange.send_events(COMMENT if event is None else render(event, case))
            if not exchange.started:
                await exchange.start_stream()
            await exchange.end_stream(DONE)

    ROUTES: ClassVar = (
        Route("POST /v1/agent/runs", submit, WRITE),
        Route("GET /v1/agent/runs", list, READ),
        Route("GET /v1/agent/runs/{id}", retrieve, READ),
        Route("DELETE /v1/agent/runs/{id}", delete, DELETE),
        Route("POST /v1/agent/runs/{id}/cancel", cancel, WRITE),
        Route("POST /v1/agent/runs/{id}/approvals", answer, WRITE),
    )


def _run_json(run: AgentRun) -> bytes:
    return msgspec.json.encode(run_object(run))


def _record_json(record: RunRecord, case: Case) -> bytes:
    return run_json(record.run, response_of(record.events), tree_of(record.events), case)
