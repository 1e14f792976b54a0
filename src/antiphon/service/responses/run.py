"""A response under way: the rounds that it takes, and the events that come of them.

`ResponseRun.events` is the one loop; a JSON answer is its last event's response.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice

from msgspec.structs import replace

from antiphon.backends.files import FileNotTaken
from antiphon.caller import Caller
from antiphon.errors import AntiphonError, BackendError, BackendTimeout, Overloaded, RequestError, Unavailable
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import Event
from antiphon.protocol.ids import Clock
from antiphon.protocol.items import Item
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response, new_response
from antiphon.service.hosted_tools.mcp.approvals import unfinished, unlisted
from antiphon.service.responses.answer import Answer, wants_seal
from antiphon.service.responses.compaction import Compactor
from antiphon.service.responses.context import Context, Contexts, ConversationLock
from antiphon.service.responses.earlier_attempt import EarlierAttempt
from antiphon.service.responses.file_texts import FileTexts
from antiphon.service.responses.finish import Finisher
from antiphon.service.responses.history import ModelView
from antiphon.service.responses.history_room import HistoryReading
from antiphon.service.responses.loop_end import LoopEnd
from antiphon.service.responses.rounds import Round, RoundBuilder
from antiphon.service.responses.stages.base import RoundPlan
from antiphon.service.responses.summarise import Beat, no_beat
from antiphon.service.routing.attempts import Attempt
from antiphon.service.routing.router import Route
from antiphon.service.routing.turn_slot import Batches, TurnSlot
from antiphon.store.base import NONE_PRIVATE, PrivateSides, Progress
from antiphon.turn.answer_limit import AnswerBounds, AnswerLimit
from antiphon.turn.chunks import Chunk, Failed, Finished, HostedItemBegun, HostedItemDone
from antiphon.turn.machine import Machine
from antiphon.turn.opening import NewId
from antiphon.turn.private_sides import stored_sides
from antiphon.turn.sealing import SealKey

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What the rounds of a response are made with."""

    contexts: Contexts
    compactor: Compactor
    rounds: RoundBuilder
    files: FileTexts
    bounds: AnswerBounds
    seal_key: SealKey
    clock: Clock


class ResponseRun:
    """One response. Its events can be read once."""

    def __init__(
        self,
        parts: RunParts,
        request: CreateResponse,
        *,
        caller: Caller,
        response_id: str,
        routes: Sequence[Route],
        new_id: NewId,
        finisher: Finisher,
        earlier: EarlierAttempt | None = None,
    ) -> None:
        self.id = response_id
        self.ended = False
        self.turn: TurnSlot | None = None
        """The turn that is running; each round has its own."""
        self._parts = parts
        self._request = request
        self._caller = caller
        self._tenant = tenant = caller.tenant
        self._sealer = parts.seal_key.sealer(tenant)
        self._held = parts.files.hold(tenant)
        self._routes = routes
        self._new_id = new_id
        self._finisher = finisher
        self.record = finisher.record
        self._reading = HistoryReading(self._held, self.record.history_read)
        self._earlier = earlier
        self._started_at = 0.0
        self._private_taken = 0
        self._downgrades: tuple[Downgrade, ...] = ()
        self._plan: RoundPlan | None = None
        self._limit = AnswerLimit(parts.bounds)
        self._loop_end = LoopEnd(parts.rounds.hosted, self._limit, parts.clock, earlier)
        self._secrets = parts.rounds.secret_filter()
        self.store_start: Callable[[], Awaitable[None]] | None = None
        """Stores the events so far, before a hosted tool begins its work; None: nothing resumes the run."""
        self._lock: ConversationLock | None = None
        if request.params.conversation is not None:
            self._lock = parts.contexts.lock(request, tenant, response_id)
        self._answer = None if earlier is None else self._new_answer(Context(request))

    def events(self) -> AsyncGenerator[list[Event], None]:
        """Batches of events; the last one holds the terminal event, and is saved before it is given. Errors
        before the first batch are raised: nothing was sent yet."""
        return self._closing(self._events()) if self._request.continues else self._events()

    async def _events(self) -> AsyncGenerator[list[Event], None]:
        self._started_at = self.record.started_at = asyncio.get_running_loop().time()
        answer, self._plan = await self._open()
        if self._plan is not None and (self._earlier is not None or answer.context.approved):
            async with aclosing(self._begin(answer, self._plan)) as first_batches:
                async for events in first_batches:
                    yield self.record.record_events(events)
        limit = self._limit
        with self._held:  # later rounds send what the first one does
            while (plan := self._plan) is not None:
                self._plan = made = failure = None
                held = self._held.size
                try:
                    made = await self._entered(answer, plan)
                    route = plan.attempt.route
                    with route.free_slot(self._tenant) or await route.slot(self._tenant) as slot:
                        self.turn = slot
                        batches = self._batches(made, slot)
                        try:
                            async for batch in batches:
                                self._loop_end.check_time()
                                chunks = made.feed(limit.take(batch), slot)
                                self.record.received(chunks)
                                if events := answer.feed(chunks):
                                    yield self.record.record_events(events)
                                if limit.ended or made.cut is not None:
                                    break
                        finally:
                            await batches.aclose()
                        made.check_answered()
                except (BackendError, RequestError) as error:
                    failure = error
                    self._held.release(held)
                self.turn = None
                self.record.end_turn(failure)
                if made is None or made.needs_end or failure is not None:
                    async with aclosing(self._end_round(answer, plan, made, failure)) as last_batches:
                        async for events in last_batches:
                            yield self.record.record_events(events)
        yield await self._finish(answer, answer.begin_and_complete())

    async def _closing(self, batches: AsyncGenerator[list[Event], None]) -> AsyncGenerator[list[Event], None]:
        """These batches. Then lets the history go and, if nothing comes of them, unlocks the conversation."""
        try:
            async with aclosing(batches):
                async for events in batches:
                    yield events
        except BaseException:
            if not self.begun:
                await self.release()
            raise
        finally:
            self._held.release()

    async def result(self) -> Response:
        """The final response, for callers that do not stream. A failure is raised, not returned."""
        async for _ in self.events():
            pass
        if self.failure is not None:
            raise self.failure
        return self.response

    async def abort(self, error: AntiphonError) -> list[Event]:
        """End the response from outside: its last events, as if the backend had failed with `error`."""
        answer = self._answer
        if self.ended or answer is None or not (answer.begun or self._earlier):
            return []
        if isinstance(error, Unavailable) and not isinstance(error, Overloaded):
            self._finisher.hurry()
        return await self._finish(answer, answer.feed([Failed(error)]))

    def cut_off(self, limit: str) -> None:
        """End the answer as incomplete with the model's next sign of life: it has reached this limit."""
        self._limit.reach(limit)

    async def abandon(self) -> None:
        """The client left: save what was sent so far as a cancelled response. Does nothing after the end."""
        answer = self._answer
        if not self.ended and answer is not None and answer.begun:
            await self._finish(answer, answer.machine.cancel())

    @property
    def response(self) -> Response:
        """The response as it stands; final after the last batch of events."""
        if self._answer is None:
            raise RuntimeError("the events of this run were not read")
        return self._answer.machine.response

    @property
    def bytes_bound(self) -> int:
        """The answer so far has no more bytes than this."""
        return self._limit.bytes_bound

    @property
    def failure(self) -> AntiphonError | None:
        """The error that ended it, if one did."""
        return None if self._answer is None else self._answer.machine.failure

    def take_private(self) -> PrivateSides:
        """The private sides of items that have ended since the last call, in their stored form."""
        if self._answer is None or len(private := self._answer.machine.private) == self._private_taken:
            return NONE_PRIVATE
        new = dict(islice(private.items(), self._private_taken, None))
        self._private_taken = len(private)
        return stored_sides(new)

    @property
    def progress(self) -> Progress:
        """What this attempt and those before it have used of the limits."""
        return self._loop_end.progress(None if self._answer is None else self._answer.machine.spent)

    @property
    def downgrades(self) -> Sequence[Downgrade]:
        """What was emulated, changed or left out so far."""
        return () if self._answer is None else self._answer.machine.downgrades

    @property
    def over(self) -> bool:
        """Whether the answer has ended, though it may not be saved yet."""
        return self._answer is not None and self._answer.machine.over

    @property
    def stop_sequence(self) -> str | None:
        """The stop sequence that ended the answer."""
        return None if self._answer is None else self._answer.machine.stop_sequence

    async def check(self) -> Context:
        """Raise at once what would be raised later; the request with what it inherits."""
        try:
            with self._held:
                context, view = await self._resolve()
                shown = self._parts.compactor.view(view.items, context, self._tenant)
                await self._check(RoundPlan(Attempt(self._routes, shown)), context)
        except BaseException:
            await self.release()
            raise
        return context

    async def store_only(self) -> list[Event]:
        """Save the request without asking a model: a response without output, to be continued."""
        try:
            context, _ = await self._resolve()
        except BaseException:
            await self.release()
            raise
        answer = self._answer = self._new_answer(context)
        with self._held:
            return await self._finish(answer, answer.begin_and_complete())

    @property
    def begun(self) -> bool:
        """Whether the first events were made."""
        return self._answer is not None and self._answer.begun

    async def release(self) -> None:
        """Nothing comes of this run: unlock its conversation."""
        if self._lock is not None:
            await self._lock.release()

    async def _open(self) -> tuple[Answer, RoundPlan | None]:
        """The answer, and the first round; None if a compaction is all that was asked for."""
        context = None
        if self._earlier is None and self._finisher.session is None:
            context = self._parts.contexts.own(self._request)
        if context is not None:
            view = await self._view(context, context.request.items)
        else:
            context, view = await self._resolve()
        plan, items = None, view.items
        if view.compacts or context.request.params.context_management:
            plan = await self._parts.compactor.plan(view.items, context, self._tenant, beat=self._beat)
            items = plan.items
        answer = self._answer = self._new_answer(context)
        if plan is not None and plan.compacted is not None:
            answer.open_with([plan.compacted])
        if plan is not None and plan.is_all:
            return answer, None
        answer.open_with([HostedItemDone(item) for item in unlisted(context.hosted.items, view.items)])
        return answer, RoundPlan(
            Attempt(self._routes, items),
            hosted_calls=0 if self._earlier is None else self._earlier.hosted_calls(),
            hosted_rounds=self._loop_end.rounds,
            until=self._loop_end.begin() if context.hosted.functions else None,
        )

    async def _resolve(self) -> tuple[Context, ModelView]:
        contexts, earlier = self._parts.contexts, self._earlier
        if earlier is None:
            context = await contexts.resolve(
                self._request,
                self._caller,
                response_id=self.id,
                lock=self._lock,
                reading=self._reading,
                new_id=self._new_id,
                session=self._finisher.session,
                native=self._natives,
            )
        else:
            context = await contexts.resolve_again(
                self._request,
                self._caller,
                earlier.response.id,
                lock=self._lock,
                reading=self._reading,
                private=earlier.private,
                sealed_tools=earlier.sealed_tools,
                native=self._natives,
            )
        done = () if earlier is None else earlier.finished_items()
        return context, await self._view(context, [*context.history, *context.request.items, *done])

    @property
    def _natives(self) -> frozenset[str]:
        """The tools that every server of the model runs itself."""
        first, *others = (route.backend.natives for route in self._routes)
        return first.intersection(*others)

    async def _view(self, context: Context, items: Sequence[Item]) -> ModelView:
        """What the model sees of the items; reasoning that cannot be opened is reported."""
        view = await self._parts.contexts.view_many(self._tenant, items, context.private)
        if view.unopened:
            text = f"reasoning was left out that was not sealed here, or is damaged: {view.unopened} item(s)"
            logger.warning("response %s: %s", self.id, text)
            self._downgrades = (Downgrade("input_omitted", text, ("input",)),)
        return view

    def _new_answer(self, context: Context) -> Answer:
        parts, request, earlier = self._parts, context.request, self._earlier
        now = int(parts.clock())
        response = earlier.response if earlier else new_response(request, id=self.id, created_at=now)
        sealer = self._sealer
        machine = Machine(
            response,
            new_id=self._new_id,
            seal=sealer.seal if wants_seal(request) else sealer.seal_states,
            profile=request.profile,
            silent=not request.streamed and earlier is None,
        )
        return Answer(machine, context, earlier)

    async def _check(self, plan: RoundPlan, context: Context) -> None:
        """Raise what the backend cannot serve."""
        held = self._held.size
        try:
            await self._parts.rounds.check(plan, context, self._sealer, self._downgrades)
        except FileNotTaken as refused:
            plan = await self._without_files(plan, refused, context)
            await self._parts.rounds.check(plan, context, self._sealer, self._downgrades)
        finally:
            self._held.release(held)

    async def _entered(self, answer: Answer, plan: RoundPlan) -> Round:
        """The round; files that its backend does not take are shown to it as text."""
        try:
            return await self._enter(answer, plan)
        except FileNotTaken as refused:
            return await self._enter(answer, await self._without_files(plan, refused, answer.context))

    async def _without_files(self, plan: RoundPlan, refused: FileNotTaken, context: Context) -> RoundPlan:
        seconds = plan.attempt.route.total_seconds + self._started_at - asyncio.get_running_loop().time()
        return await self._parts.files.converted_in_time(
            *(plan, refused, context, self._tenant, self._held),
            seconds=seconds if self.begun else 0.0,
            beat=self._beat,
        )

    @property
    def _beat(self) -> Beat:
        """For long work: renews the lock."""
        return no_beat if self._lock is None else self._lock.renew

    async def _enter(self, answer: Answer, plan: RoundPlan) -> Round:
        trace = self.record.begin_turn(plan.attempt.route)
        made = await self._parts.rounds.build(
            plan, answer.context, self._sealer, self._secrets, self._downgrades, trace=trace
        )
        if trace is not None:
            self.record.set_downgrades((*made.turn.downgrades, *made.prepared.downgrades))
        for omitted in made.turn.left_out:
            logger.warning("response %s: %s", self.id, omitted.render())
        answer.enter(made)
        return made

    def _batches(self, made: Round, slot: TurnSlot) -> Batches:
        """The turn's batches of chunks; in most rounds those of the backend as they are."""
        batches = slot.chunks(made.prepared, streamed=made.turn.streamed)
        return batches if self._lock is None else self._lock.renewing(batches)

    async def _begin(self, answer: Answer, plan: RoundPlan) -> AsyncGenerator[list[Event], None]:
        """Before the model is asked: continue after an earlier attempt, and run the calls that the client has
        approved."""
        context = answer.context
        if context.approved:
            await self._check(plan, context)
            if self._earlier is None:  # the answers of a background response are taken when it is submitted
                taken = [call.approval_request_id or "" for call in context.approved]
                await self._parts.contexts.stores.responses.take_approvals(self._tenant, taken)
        yield answer.begin()
        if answer.is_settled():
            self._plan = None
        elif context.approved:
            async with aclosing(self._run_approved(answer, plan)) as batches:
                async for events in batches:
                    yield events

    async def _run_approved(self, answer: Answer, plan: RoundPlan) -> AsyncGenerator[list[Event], None]:
        context = answer.context
        calls = unfinished(context.approved, answer.machine.output)
        async with aclosing(self._parts.rounds.run_approved(calls, context, plan.until)) as batches:
            async for chunks in batches:
                async for events in self._sent(answer, chunks):
                    yield events
        events, output = answer.close_round()
        yield events
        shown = self._shown(answer, output)
        self._plan = replace(plan, hosted_calls=plan.hosted_calls + len(calls)).after_output(shown)

    async def _sent(self, answer: Answer, chunks: Sequence[Chunk]) -> AsyncGenerator[list[Event], None]:
        """The events of what hosted tools do. Afterwards the start of a call is stored."""
        if events := answer.feed(chunks):
            yield events
        await self._beat()
        if self.store_start is not None and chunks and isinstance(chunks[0], HostedItemBegun):
            await self.store_start()

    def _shown(self, answer: Answer, output: Sequence[Item]) -> Sequence[Item]:
        """The output of a round as the model sees it in the next one."""
        private = stored_sides(answer.machine.private)
        return self._parts.contexts.view(self._tenant, output, private).items

    async def _end_round(
        self,
        answer: Answer,
        plan: RoundPlan,
        made: Round | None,
        failure: BackendError | RequestError | None,
    ) -> AsyncGenerator[list[Event], None]:
        """The events of a failure, and of what the stages do at the end; the plan of the next round."""
        if failure is not None and (events := self._after_failure(answer, plan, made, failure)):
            yield events
        if made is None or not made.answered or not made.needs_end:
            return
        async with aclosing(made.end()) as batches:
            async for chunks in batches:
                async for events in self._sent(answer, chunks):
                    yield events
        if made.next is not None and (events := self._plan_next(answer, made.next)):
            yield events

    def _after_failure(
        self, answer: Answer, plan: RoundPlan, made: Round | None, error: BackendError | RequestError
    ) -> list[Event]:
        """After an answer has begun, its failure. Before that another backend is planned; without one the
        error is raised, or sent if the response has begun."""
        if made is not None and made.answered:
            return answer.feed(made.feed([Failed(error)]))
        try:
            self._plan = plan.after_error(error, answer.context.request)
        except (BackendError, RequestError) as final:
            # That a conversation is too long is part of the stream, as the real API has it: clients look for
            # it there, shorten the conversation and continue.
            too_long = final.code == "context_length_exceeded" and answer.context.request.streamed
            if not answer.begun and not too_long:
                raise
            return answer.feed([Failed(final)])
        return []

    def _plan_next(self, answer: Answer, plan: RoundPlan) -> list[Event]:
        if self._limit.ended:
            return answer.feed([Finished("length")])
        if self._loop_end.check_round(plan.hosted_rounds, answer.machine.spent):
            return answer.feed(self._limit.take([Finished("stop")]))
        seconds = plan.attempt.route.total_seconds
        if asyncio.get_running_loop().time() - self._started_at > seconds:
            return answer.feed([Failed(BackendTimeout(f"The answer took longer than {seconds:g} s."))])
        events, output = answer.close_round()
        self._plan = plan.after_output(self._shown(answer, output))
        return events

    async def _finish(self, answer: Answer, unsent: Sequence[Event] = ()) -> list[Event]:
        if self._limit.ended:
            logger.warning("response %s: cut off at %s", self.id, self._limit.reached)
        self.turn = None
        events = await self._finisher.finish(answer.machine, answer.context, unsent)
        self.ended = True
        return events
