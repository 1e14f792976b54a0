"""Responses in the background: submit, work, follow, cancel.

The row of the response is authoritative. One process claims its job, and the newest claim wins: the store
rejects writes of earlier claims. Finished items are the checkpoints: the next attempt continues from them.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from antiphon.caller import Caller
from antiphon.errors import (
    AntiphonError,
    BackendBroken,
    BackendTimeout,
    InvalidRequest,
    Overloaded,
    StoreFull,
    StoreUnavailable,
    drop_tracebacks,
)
from antiphon.jobs.kinds import Kind
from antiphon.jobs.worker import Worker
from antiphon.protocol.events import Event
from antiphon.protocol.large_body import Body
from antiphon.protocol.parse_create import parse_create, without_items
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response, new_response
from antiphon.protocol.sse import COMMENT
from antiphon.service.event_log import (
    LARGE_LOG_BYTES,
    EventLog,
    Unkept,
    UnstoredEvents,
    read_log,
    render,
    rest,
)
from antiphon.service.responses.create import Creator
from antiphon.service.responses.earlier_attempt import EarlierAttempt
from antiphon.service.responses.history import storable_items
from antiphon.service.responses.record import NO_ORIGIN, Origin
from antiphon.service.responses.run import ResponseRun
from antiphon.store.base import (
    RESPONSE_JOB,
    UNFINISHED,
    Claim,
    Events,
    Fenced,
    Job,
    StoredResponse,
    is_full_page,
)
from antiphon.store.stats import ResponseStats
from antiphon.store.working import MAX_ATTEMPTS, ShieldedTasks, follow_rows, run_until_first_ends
from antiphon.turn.chunks import Failed
from antiphon.turn.machine import Machine
from antiphon.turn.private_sides import open_tools

logger = logging.getLogger(__name__)

CANCEL_SECONDS = 5.0
"""How long a cancelled run may take to store its end, before it is ended from its log."""


@dataclass(slots=True)
class Background:
    """Submits, creates, follows and cancels responses in the background."""

    creator: Creator
    jobs: Worker
    max_log_bytes: int = 64 * 1024 * 1024
    """Of stored events, after which a response is cut off."""
    _attempts: dict[tuple[str, str], "_Attempt"] = field(init=False, default_factory=dict[Any, Any])
    _shielded: ShieldedTasks = field(init=False, default_factory=ShieldedTasks)

    def __post_init__(self) -> None:
        self.jobs.register(Kind(name=RESPONSE_JOB, work=self.work))

    async def submit(
        self, request: CreateResponse, body: Body, caller: Caller, origin: Origin = NO_ORIGIN
    ) -> Response:
        """Save and return a queued response. Invalid requests are rejected here, not by the job."""
        creator = self.creator
        run = creator.draft(request, caller, origin)
        resolved = await run.check()
        response = new_response(resolved.request, id=run.id, created_at=int(creator.clock()))
        machine = Machine(response, new_id=creator.ids.new)
        events = render(machine.queue())
        stored = StoredResponse(
            response=machine.response,
            parent=request.params.previous_response_id,
            conversation=request.conversation_id,
            input=resolved.request.items,
            expires_at=creator.retention.expires_at(creator.clock),
            private=resolved.private,
            sealed_tools=resolved.sealed_tools,
            stats=ResponseStats(key_id=caller.key_id, request_id=origin.request_id),
            trace=await run.record.sealed_trace(run.id, creator.parts.seal_key.sealer(caller.tenant)),
        )
        await self._shielded.run(self._save(run, caller.tenant, stored, without_items(body), events))
        return machine.response

    async def _save(
        self, run: ResponseRun, tenant: str, stored: StoredResponse, body: bytes, events: Events
    ) -> None:
        store = self.creator.store.background
        try:
            await self.jobs.submit(
                RESPONSE_JOB,
                tenant,
                run.id,
                lambda owner: store.submit(tenant, stored, body, events, owner),
            )
        except AntiphonError:
            await self._undo(run, tenant)
            raise

    async def _undo(self, run: ResponseRun, tenant: str) -> None:
        """Delete the response, because the client receives an error."""
        with suppress(AntiphonError):
            await run.release()
            await self.creator.store.responses.delete(tenant, run.id)

    async def work(self, job: Job) -> None:
        """Create a submitted response, or continue it. Returns when it has ended or another owner has it."""
        stores, tenant, response_id = self.creator.store, job.tenant, job.id
        try:
            claim = await stores.background.claim(tenant, response_id, job)
        except Fenced:
            return
        if claim is None:
            return
        stored_bytes = sum(len(row.data) for row in claim.events)
        log = EventLog(
            *(stores.background, stores.signals, tenant, response_id, claim.token), stored_bytes=stored_bytes
        )
        try:
            if claim.attempt > MAX_ATTEMPTS:
                raise BackendBroken(f"Given up: {claim.attempt - 1} attempts broke off without an end.")
            run = self._resume(claim, tenant, log, await read_log(claim.events))
        except AntiphonError as error:
            with suppress(Fenced):
                await self._end(claim, tenant, error)
            return
        attempt = _Attempt(run, log, replace(claim.response, status="in_progress"))
        self._attempts[tenant, response_id] = attempt
        try:
            await run_until_first_ends(self._make(run, log), log.write())
        except Fenced:
            logger.info("response %s was taken over or has ended", response_id)
        except asyncio.CancelledError:
            if attempt.cancelled:
                await _abandon(run)
            raise
        finally:
            del self._attempts[tenant, response_id]
            attempt.ended.set()
            await log.close()

    async def _make(self, run: ResponseRun, log: EventLog) -> None:
        """Run one attempt. Errors end the response as failed, except those of an unavailable database and of
        an overloaded server: then the worker tries again later."""
        try:
            run.store_start = log.flush
            async with aclosing(run.events()) as batches:
                async for events in batches:
                    if run.over:
                        log.hold(events)  # they are stored together with the end
                        continue
                    log.add(events, run.take_private(), run.progress)
                    if log.stored_bytes > self.max_log_bytes:
                        run.cut_off(f"{self.max_log_bytes} bytes of stored events")
                    if log.crowded:
                        await _wait_for_room(run, log)
        except (Fenced, Unkept, StoreUnavailable, StoreFull, Overloaded):
            raise
        except AntiphonError as error:
            drop_tracebacks(error)
            await run.abort(error)
        except Exception:
            logger.exception("response %s broke", run.id)
            await run.abort(AntiphonError("Internal error; see the server log.", code="internal_error"))

    def _resume(self, claim: Claim, tenant: str, log: EventLog, events: Sequence[Event]) -> ResponseRun:
        request = parse_create(claim.request, input_optional=True)
        # Followers receive every token from the log, so the model always streams.
        params = replace(request.params, stream=True)
        sealer = self.creator.parts.seal_key.sealer(tenant)
        tools = open_tools(claim.tools, claim.sealed_tools, sealer, "background")
        request = replace(request, params=params, items=claim.input, tools=tools)
        earlier = EarlierAttempt(claim.response, events, claim.private, claim.sealed_tools, claim.progress)
        origin = Origin(traced=claim.traced, body=claim.request)
        caller = Caller(tenant, key_id=claim.key_id, tools=claim.key_tools)
        return self.creator.resume(request, caller, log, earlier, origin)

    async def cancel(self, caller: Caller, response_id: str) -> Response:
        """Cancel a response, whichever process works on it. An ended response is unchanged."""
        store, tenant = self.creator.store, caller.tenant
        attempt = self._attempts.get((tenant, response_id))
        if attempt is not None:
            response = await self._cancel_attempt(attempt, tenant, response_id)
        else:
            response = await store.responses.response(tenant, response_id)
        if not response.background:
            raise InvalidRequest("Cannot cancel a synchronous response.", code="not_cancellable")
        while response.status in UNFINISHED:
            claim = await store.background.claim(tenant, response_id)
            if claim is not None:
                with suppress(Fenced):
                    await self._end(claim, tenant)
            response = await store.responses.response(tenant, response_id)
        store.signals.publish(f"events:{response_id}")
        await self.jobs.stop(RESPONSE_JOB, tenant, response_id)
        return response

    async def _cancel_attempt(self, attempt: "_Attempt", tenant: str, response_id: str) -> Response:
        """End a run of this process. It knows its output: nothing need be read. If the answer is over, its
        end is being stored, which is not begun again."""
        if not attempt.run.over:
            attempt.cancelled = True
            await self.jobs.stop(RESPONSE_JOB, tenant, response_id)
        with suppress(TimeoutError):
            await asyncio.wait_for(attempt.ended.wait(), CANCEL_SECONDS)
        # To read it takes a tenth of a second for the largest answers.
        return attempt.log.saved or await self.creator.store.responses.response(tenant, response_id)

    def unfinished(self, caller: Caller, response_id: str) -> Response | None:
        """A response that this process is making, as it is stored until its end; None if it makes none."""
        attempt = self._attempts.get((caller.tenant, response_id))
        return None if attempt is None else attempt.unfinished

    async def _end(self, claim: Claim, tenant: str, error: AntiphonError | None = None) -> None:
        """End a claimed response without calling the model: as failed, or as cancelled."""
        creator = self.creator
        machine = Machine(claim.response, new_id=creator.ids.new)
        spent = None if claim.progress is None else claim.progress.usage
        events = machine.resume(await read_log(claim.events), spent)
        events += machine.cancel() if error is None else machine.feed([Failed(error)])
        events += machine.end(int(creator.clock()))
        conversation = claim.response.conversation
        stored = StoredResponse(
            response=machine.response,
            parent=claim.response.previous_response_id,
            conversation=conversation.get("id") if isinstance(conversation, dict) else None,
            input=storable_items(claim.input),
            expires_at=claim.expires_at,
            private=claim.private,
            sealed_tools=claim.sealed_tools if creator.parts.contexts.inherit_tools else None,
        )
        large = sum(len(row.data) for row in claim.events) > LARGE_LOG_BYTES
        await creator.store.background.finish(tenant, claim.token, stored, UnstoredEvents(events, large))

    async def follow(self, caller: Caller, response_id: str, after: int = -1) -> AsyncGenerator[bytes, None]:
        """Yield the events with numbers above `after` as they are stored, until the last one."""
        store, tenant = self.creator.store, caller.tenant
        await self._check_log(tenant, response_id, after)
        with store.signals.subscribe(f"events:{response_id}") as more:
            async with aclosing(
                follow_rows(lambda: store.background.events(tenant, response_id, after), more, is_full_page)
            ) as batches:
                async for rows in batches:
                    if not rows:
                        yield COMMENT
                    for row in rows:
                        yield rest(row, after)
                        after = row.first + row.count - 1

    async def _check_log(self, tenant: str, response_id: str, after: int) -> None:
        """Raise, before the stream begins, if the response has no events to follow."""
        response = await self.creator.store.responses.response(tenant, response_id)
        if not response.background:
            message = "Only a response that was created with 'background': true can be streamed again."
            raise InvalidRequest(message, param="stream", code="not_streamable")
        rows, _ = await self.creator.store.background.events(tenant, response_id, max(-1, after - 1))
        if not rows and after < 1:
            message = "The events of this response are no longer stored. Retrieve it without 'stream'."
            raise InvalidRequest(message, param="stream", code="events_expired")
        if not rows:
            message = f"'starting_after' is {after}, but there is no event with that number."
            raise InvalidRequest(message, param="starting_after", code="invalid_value")


@dataclass(slots=True)
class _Attempt:
    """A run of this process. `cancelled`: its task is cancelled because a client asked for it."""

    run: ResponseRun
    log: EventLog
    unfinished: Response
    cancelled: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


async def _abandon(run: ResponseRun) -> None:
    """End the response as cancelled, unless it has just ended in another way."""
    try:
        await run.abandon()
    except (Fenced, Unkept, AntiphonError) as error:
        logger.info("response %s is cancelled from its log: %s", run.id, error)


async def _wait_for_room(run: ResponseRun, log: EventLog) -> None:
    """Let the model wait for the store, but no longer than the answer may take."""
    seconds = run.turn.total_seconds if run.turn is not None else math.inf
    try:
        async with asyncio.timeout(seconds if seconds < math.inf else None):
            await log.room()
    except TimeoutError:
        raise BackendTimeout(f"The answer took longer than {seconds:g} s.") from None
