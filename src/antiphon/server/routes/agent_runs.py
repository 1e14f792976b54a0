"""``/v1/agent/runs``: what an agent does in the background: submit, list, show, follow, cancel, delete.

The run object is spelled like every other object here. The agent's own answer and its events are spelled in
the case that `case` names.
"""

from contextlib import aclosing

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.agent import AgentServices
from antiphon.orchestrator.agent_runs import RunRecord
from antiphon.orchestrator.casing import Case
from antiphon.orchestrator.request_parser import parse_run_request
from antiphon.orchestrator.run_tree import response_of, run_json, run_object, tree_of
from antiphon.protocol.profile import DONE
from antiphon.protocol.sse import COMMENT
from antiphon.server.agent_stream import asked_case, render
from antiphon.server.exchange import Bodies, Exchange
from antiphon.server.lifetime import Lifetimes
from antiphon.server.query import MAX_LIMIT
from antiphon.store.agent_runs import AgentRun

LIMIT = 20
RUN_ID = b"x-agent-run-id"
"""The header that names the run whose events are streamed."""


class AgentRunRoutes:
    """The routes of runs."""

    def __init__(self, agents: AgentServices, lifetimes: Lifetimes, bodies: Bodies) -> None:
        self._agent = agents.agent.agent
        self._runs = agents.runs
        self._lifetimes = lifetimes
        self._bodies = bodies

    async def submit(self, exchange: Exchange) -> None:
        """Have something done whether somebody listens or not; `streaming` follows it."""
        case = asked_case(exchange.query())
        body = await self._bodies.read(exchange)
        submitted = parse_run_request(body, lambda asked: self._agent.check(asked, exchange.tenant))
        run = await self._runs.submit(exchange.tenant, submitted.request, submitted.title)
        if submitted.request.streaming:
            # Who loses the stream must know what to come back to.
            await exchange.start_stream(((RUN_ID, run.id.encode()),))
            await self._follow(exchange, run.id, -1, case)
        else:
            await exchange.send_json(_told(run))

    async def list(self, exchange: Exchange) -> None:
        """A page of runs, newest first."""
        query = exchange.query()
        limit = query.number("limit", least=1, most=MAX_LIMIT) or LIMIT
        runs = await self._runs.list_runs(exchange.tenant, limit=limit + 1, after=query.text("after"))
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
            message = "'starting_after' is about a stream. Send 'stream=true' with it, or leave it out."
            raise InvalidRequest(message, param="starting_after")
        await exchange.send_json(_shown(await self._runs.show(exchange.tenant, run_id), case))

    async def cancel(self, exchange: Exchange, run_id: str) -> None:
        """Call off a run. One that has ended stays as it is."""
        await exchange.send_json(_told(await self._runs.cancel(exchange.tenant, run_id)))

    async def delete(self, exchange: Exchange, run_id: str) -> None:
        """Forget a run; if it is still going on, it is cancelled first."""
        await self._runs.delete(exchange.tenant, run_id)
        deleted = {"id": run_id, "object": "agent.run", "deleted": True}
        await exchange.send_json(msgspec.json.encode(deleted))

    async def _follow(self, exchange: Exchange, run_id: str, after: int, case: Case) -> None:
        """Send events from the log and then as they come.

        A stream that breaks off ends without `[DONE]`: the run goes on, and can be followed again.
        """
        with self._lifetimes.lease(exchange.receive) as lease:
            lease.expect_disconnect()
            async with aclosing(self._runs.follow(exchange.tenant, run_id, after)) as events:
                async for event in events:
                    if not exchange.started:
                        await exchange.start_stream()
                    await exchange.send_events(COMMENT if event is None else render(event, case))
            if not exchange.started:
                await exchange.start_stream()
            await exchange.end_stream(DONE)


def _told(run: AgentRun) -> bytes:
    return msgspec.json.encode(run_object(run))


def _shown(record: RunRecord, case: Case) -> bytes:
    return run_json(record.run, response_of(record.events), tree_of(record.events), case)
