"""Create a response: resolve the history, run the turn, number the events, commit, tell.

`Run.events` is the one loop; a JSON answer is its last event's response.
"""

import dataclasses
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import (
    AntiphonError,
    BackendBroken,
    BackendError,
    NotFound,
    RequestError,
    StoreFull,
    StoreUnavailable,
    Unavailable,
    Unsupported,
)
from antiphon.protocol.call_items import is_for_client
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import Event, OutputItemDone
from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.items import Compaction, CompactionTrigger, Item
from antiphon.protocol.parse_tools import parse_tools
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response, new_response
from antiphon.service.compact import Compactor, Plan
from antiphon.service.persist import ResponseWriter, StoreWriter
from antiphon.service.resolve import (
    CONVERSATION_LEASE,
    Resolved,
    Resolver,
    Session,
    kept_items,
    model_view,
)
from antiphon.service.rounds import Round, RoundPlan
from antiphon.service.routing.attempts import Attempt
from antiphon.service.routing.router import Router
from antiphon.store.base import StoredResponse
from antiphon.store.ports import Stores
from antiphon.turn.chunks import Chunk, Failed
from antiphon.turn.context import TurnRequest, build_turn
from antiphon.turn.machine import Machine
from antiphon.turn.provider_state import count_unopened
from antiphon.turn.sealing import Sealer
from antiphon.turn.token_estimate import estimate_tokens

logger = logging.getLogger(__name__)

HASTE = 1.0
"""Seconds that the end of a response waits for the database when the server is going away."""


@dataclass(frozen=True, slots=True)
class Creator:
    """Starts responses. Everything that differs between installations is handed in."""

    router: Router
    store: Stores
    ids: IdSource
    clock: Clock
    sealer: Sealer
    ignored_tools: frozenset[str] = frozenset()
    inherit_tools: bool = True
    lifetime: int | None = None
    """Seconds for which a response is kept; None: for ever."""
    patience: float = 30.0
    """Seconds that an ended response waits for a database that is away."""
    similar_models: bool = False
    """Whether work in the background may be done by a model with a similar name, as it was accepted."""
    repairs: int = 2
    """How often a model is asked again for what a request wants for certain."""
    summary_model: str | None = None
    """The model that summarises long conversations; None: the one that is asked."""

    @property
    def compactor(self) -> Compactor:
        store = self.store.responses
        return Compactor(self.router, store, self.ids, self.clock, self.sealer, self.summary_model)

    def start(self, request: CreateResponse, tenant: str, session: Session | None = None) -> "Run":
        """A run of this request; nothing happens until its events are read."""
        keeper = StoreWriter(self.store.responses, tenant, self.patience) if request.stored else None
        return Run(self, request, Place(tenant, session), keeper)

    async def prepare(
        self, request: CreateResponse, tenant: str, session: Session | None = None
    ) -> list[Event]:
        """Keep a request without asking the model: a response without output, to be continued."""
        return await self.start(request, tenant, session).prepare()

    def expires_at(self) -> int | None:
        return None if self.lifetime is None else int(self.clock()) + self.lifetime


@dataclass(frozen=True, slots=True)
class Place:
    """Whose response it is, and the connection whose memory it shares."""

    tenant: str
    session: Session | None = None


class Prior(Struct, frozen=True):
    """What an earlier attempt left: the response at its start, and everything that was said."""

    response: Response
    said: Sequence[Event]


class Run:
    """One response under way. Without a keeper it is kept nowhere."""

    def __init__(
        self,
        creator: Creator,
        request: CreateResponse,
        place: Place,
        keeper: ResponseWriter | None,
        prior: Prior | None = None,
    ) -> None:
        _refuse_unserved(request)
        self._creator = creator
        self._place = place
        self._keeper = keeper
        self._prior = prior
        similar = request.profile.similar_models if prior is None else creator.similar_models
        self._routes = creator.router.routes(request.params.model, similar=similar)
        self._new_id = creator.ids.maker(request.profile.ids)
        self._resolved = Resolved(request)
        self._machine: Machine | None = None
        self._opening: list[Chunk] = []
        self._downgrades: tuple[Downgrade, ...] = ()
        self._shown = 0
        self._entered = 0.0
        self.id = self._new_id("resp") if prior is None else prior.response.id
        self.ended = False

    async def events(self) -> AsyncGenerator[list[Event], None]:
        """Batches of events; the last one holds the terminal event, and what it says is kept.

        What goes wrong before the first batch is raised: nothing was promised yet.
        """
        try:
            plan = await self._plan(await self.resolve())
            batches = self._compaction() if plan.is_all else self._rounds(plan)
            try:
                async for events in batches:
                    yield events
            finally:
                await batches.aclose()
        except BaseException:
            if self._machine is None:
                await self.leave()
            raise
        if self._machine is None:
            raise BackendBroken("The backend ended the turn without an answer.")
        yield await self._finish(self._machine)

    async def result(self) -> Response:
        """The final response, for callers that do not stream. A failure is raised, not returned."""
        async for _ in self.events():
            pass
        machine = self._machine
        assert machine is not None
        if machine.failure is not None:
            raise machine.failure
        return machine.response

    async def abort(self, error: AntiphonError) -> list[Event]:
        """End a run from outside: its last events, as if the backend had failed with `error`."""
        if self.ended or (self._machine is None and self._prior is None):
            return []
        begun = self._begin(None) if self._machine is None else []
        assert self._machine is not None
        if isinstance(error, Unavailable) and isinstance(self._keeper, StoreWriter):
            # The server is going away: who waits longer for the database is cut off without a last word.
            self._keeper = dataclasses.replace(self._keeper, patience=min(self._keeper.patience, HASTE))
        return await self._finish(self._machine, begun + self._machine.feed([Failed(error)]))

    async def abandon(self) -> None:
        """The client left: what was said so far is kept as a cancelled response."""
        if self.ended or self._machine is None:
            return
        await self._finish(self._machine, self._machine.cancel())

    @property
    def failure(self) -> AntiphonError | None:
        """What broke it, if anything did."""
        return None if self._machine is None else self._machine.failure

    @property
    def downgrades(self) -> Sequence[Downgrade]:
        """What was emulated, changed or left out so far."""
        return () if self._machine is None else self._machine.downgrades

    @property
    def over(self) -> bool:
        """Whether the model has said its last word."""
        return self._machine is not None and self._machine.over

    async def check(self) -> CreateResponse:
        """Refuse at once what would be refused later; the request with what it inherits."""
        try:
            view, request = await self.resolve(), self._resolved.request
            view = self._creator.compactor.view(view, request.params, history=len(view) - len(request.items))
            question = RoundPlan(Attempt(self._routes, view))
            question.attempt.route.backend.prepare(self._build(question))
        except BaseException:
            await self.leave()
            raise
        return self._resolved.request

    async def prepare(self) -> list[Event]:
        """Keep the request without asking the model: a response with no output, to be continued."""
        try:
            await self.resolve()
        except BaseException:
            await self.leave()
            raise
        events = self._begin(None)
        assert self._machine is not None
        self._machine.conclude()
        return await self._finish(self._machine, events)

    async def resolve(self) -> list[Item]:
        """Look up what the request stands on; what the model will see."""
        creator, place = self._creator, self._place
        if self._resolved.request.stored:
            await creator.store.responses.check()
        if self._resolved.request.conversation_id is not None:
            self._entered = creator.clock()
        if self._prior is not None:
            resolved = self._resolved = await self._resolve_again(self._prior)
        else:
            resolver = Resolver(
                creator.store, self._new_id, creator.inherit_tools, place.tenant, place.session
            )
            resolved = self._resolved = await resolver.resolve(self._resolved.request, self.id)
        view = model_view([*resolved.history, *resolved.request.items, *self._whole()], creator.sealer)
        shut = count_unopened(view)
        if shut:
            text = f"reasoning was left out that was not sealed here, or is damaged: {shut} item(s)"
            self._downgrades = (Downgrade("input_omitted", text, ("input",)),)
            logger.warning("response %s: %s", self.id, text)
        return view

    async def _resolve_again(self, prior: Prior) -> Resolved:
        """What was resolved when the response was submitted; what it stands on may be deleted by now."""
        store, tenant, request = self._creator.store, self._place.tenant, self._resolved.request
        request = replace(request, tools=parse_tools(prior.response.tools))
        if request.conversation_id is None:
            return Resolved(request, (await store.background.base(tenant, self.id)).items)
        lock = store.conversations.enter(tenant, request.conversation_id, self.id, CONVERSATION_LEASE)
        return Resolved(request, (await lock).items)

    def _whole(self) -> list[Item]:
        """What an earlier attempt has finished; the model goes on after it."""
        said = self._prior.said if self._prior is not None else ()
        done = [event.item for event in said if isinstance(event, OutputItemDone)]
        return [item for item in done if item.status == "completed"]

    async def _plan(self, view: Sequence[Item]) -> Plan:
        """What the model sees of a conversation that is compacted, or is to be compacted now."""
        request = self._resolved.request
        if not request.params.context_management and not any(isinstance(item, _COMPACTING) for item in view):
            return Plan(view)
        plan = await self._creator.compactor.plan(
            view,
            request.params,
            history=max(0, len(view) - len(request.items)),
            count=lambda items: estimate_tokens(items, request.params.instructions, request.tools),
            beat=self._stay,
        )
        if plan.compacted is not None:
            self._opening.append(plan.compacted)
        return plan

    async def _compaction(self) -> AsyncGenerator[list[Event], None]:
        """All that was asked for is a compaction, and it is there: no model has to say more."""
        yield self._begin(None)
        self._settled()

    async def _rounds(self, plan: Plan) -> AsyncGenerator[list[Event], None]:
        """Ask until there is nothing more to ask. Until a backend has said something, another one may take
        its place."""
        question: RoundPlan | None = RoundPlan(Attempt(self._routes, plan.items))
        while question is not None:
            following: RoundPlan | None = None
            try:
                asked = self._round(question)
                if self._machine is None and self._prior is not None:
                    yield self._begin(asked)
                    if self._settled():
                        return
                async with aclosing(asked.heard()) as batches:
                    async for chunks in batches:
                        events = self._machine_events(chunks, asked)
                        if events:
                            yield events
                        await self._stay()
                if asked.next is not None:
                    following, events = self._between(asked.next)
                    yield events
            except (BackendError, RequestError) as error:
                try:
                    following = question.after(error, self._resolved.request)
                except (BackendError, RequestError) as final:
                    yield self._failed(final)
            question = following

    def _between(self, question: RoundPlan) -> tuple[RoundPlan, list[Event]]:
        """Before another round: what was told so far is closed, and the model is shown it."""
        machine = self._machine
        assert machine is not None
        events = machine.settle()
        told = [*machine.output[self._shown :]]
        self._shown += len(told)
        return question.behind(model_view(told, self._creator.sealer)), events

    def _round(self, question: RoundPlan) -> Round:
        """The next turn, in the terms of the backend that is asked."""
        creator, turn = self._creator, question.fitted(self._build(question))
        for omitted in turn.left_out:
            logger.warning("response %s: %s", self.id, omitted.render())
        sent = turn if question.detour is None else question.detour.turn(turn)
        prepared = question.attempt.route.backend.prepare(sent)
        asked = Round(question, turn, prepared, clock=creator.clock, repairs=creator.repairs)
        if self._machine is not None:
            self._machine.downgrade(asked.downgrades)
            self._machine.offer({tool.name: tool for tool in turn.tools}, turn.forbidden)
        return asked

    def _build(self, question: RoundPlan) -> TurnRequest:
        request, attempt = self._resolved.request, question.attempt
        return build_turn(
            request,
            [*attempt.items, *question.added],
            model=attempt.route.upstream_name(request.params.model),
            history=max(0, len(attempt.items) - len(request.items)),
            native=attempt.route.backend.natives,
            ignored_tools=self._creator.ignored_tools,
            downgrades=(*self._downgrades, *attempt.downgrades, *question.downgrades),
        )

    def _failed(self, error: BackendError | RequestError) -> list[Event]:
        """No backend has answered. That a conversation is too long is told in the stream, as the real API
        does: clients make it shorter and go on when they hear of it there."""
        begun: list[Event] = []
        if self._machine is None:
            if error.code != "context_length_exceeded" or not self._resolved.request.streamed:
                raise error
            begun = self._begin(None)
        assert self._machine is not None
        return begun + self._machine.feed([Failed(error)])

    def _settled(self) -> bool:
        """Whether all has been said: the compaction that a trigger asked for; or whole calls, of an earlier
        attempt: it is the client's turn then, the model could not go on without their outputs."""
        machine, items = self._machine, self._resolved.request.items
        asked = bool(items) and isinstance(items[-1], CompactionTrigger)
        if machine is None or not any(
            item.status == "completed" and (isinstance(item, Compaction) if asked else is_for_client(item))
            for item in machine.output
        ):
            return False
        machine.conclude()
        return True

    def _machine_events(self, chunks: Sequence[Chunk] | None, asked: Round) -> list[Event]:
        """What these chunks mean to the client. No chunks: that the line is alive; None: nothing, but that
        the response has begun."""
        begun = self._begin(asked) if self._machine is None else []
        machine = self._machine
        assert machine is not None
        if chunks is None:
            return begun
        if asked.late_downgrades:
            machine.downgrade(asked.downgrades)
        told = machine.feed(chunks) if chunks else machine.keepalive()
        return begun + told if begun else told

    def _begin(self, asked: Round | None) -> list[Event]:
        creator, request = self._creator, self._resolved.request
        response = (
            new_response(request, id=self.id, created_at=int(creator.clock()))
            if self._prior is None
            else self._prior.response
        )
        turn = asked.asked if asked is not None else None
        machine = self._machine = Machine(
            response,
            new_id=self._new_id,
            tools={tool.name: tool for tool in turn.tools} if turn else None,
            forbidden=turn.forbidden if turn else frozenset(),
            seal=creator.sealer.seal if _wants_seal(request) else creator.sealer.seal_states,
            profile=request.profile,
            told=request.streamed or self._prior is not None,
        )
        if asked is not None and asked.downgrades:
            machine.downgrade(asked.downgrades)
        begun = machine.start() if self._prior is None else machine.resume(self._prior.said)
        begun += machine.feed(self._opening)
        self._shown = len(machine.output)
        return begun

    async def _stay(self) -> None:
        """Hold the conversation: whoever is silent for too long has lost it."""
        if not self._entered:
            return
        conversation = self._resolved.request.conversation_id
        if conversation is not None and self._creator.clock() - self._entered > CONVERSATION_LEASE / 3:
            with suppress(StoreUnavailable, StoreFull):  # the next batch tries again
                conversations = self._creator.store.conversations
                await conversations.enter(self._place.tenant, conversation, self.id, CONVERSATION_LEASE)
                self._entered = self._creator.clock()

    async def leave(self) -> None:
        """Nothing comes of this run: let go of its conversation."""
        conversation = self._resolved.request.conversation_id
        if self._entered and conversation is not None:
            with suppress(AntiphonError):  # what went wrong before is told; the lock ends by itself
                await self._creator.store.conversations.leave(self._place.tenant, conversation, self.id)

    async def _finish(self, machine: Machine, untold: Sequence[Event] = ()) -> list[Event]:
        """Commit, then tell: the events that are not told yet, and the last ones. What could not be kept
        has failed."""
        now = int(self._creator.clock())
        events = [*untold, *machine.end(now)]
        try:
            await self._keep(machine.response, events)
        except AntiphonError as error:
            logger.error("response %s could not be kept: %s", self.id, error.message)
            events = [*untold, *machine.end(now, save_error=error)]
            await self._keep_failure(machine.response, events, error)
        else:
            self._remember(machine.response)
        self.ended = True
        return events

    async def _keep(self, response: Response, events: Sequence[Event]) -> None:
        if self._keeper is None:
            return
        try:
            await self._keeper.keep(self._record(response), events)
        except NotFound:
            if not self._resolved.rooted or self._resolved.request.params.previous_response_id is None:
                raise
            # What it continues was deleted meanwhile. It goes on, with its history as its own.
            self._resolved = dataclasses.replace(self._resolved, rooted=False)
            await self._keeper.keep(self._record(response), events)

    async def _keep_failure(self, response: Response, events: Sequence[Event], error: AntiphonError) -> None:
        """A store that refuses a response where it belongs, because its conversation was lost to another one,
        takes it as failed. A store that is away is not asked again."""
        if isinstance(error, RequestError) and self._keeper is not None:
            with suppress(AntiphonError):
                await self._keeper.keep(self._record(response), events)

    def _record(self, response: Response) -> StoredResponse:
        resolved = self._resolved
        return StoredResponse(
            response=response,
            parent=resolved.request.params.previous_response_id if resolved.rooted else None,
            conversation=resolved.request.conversation_id,
            input=kept_items(
                resolved.request.items if resolved.rooted else (*resolved.history, *resolved.request.items)
            ),
            expires_at=self._creator.expires_at(),
        )

    def _remember(self, response: Response) -> None:
        session, resolved = self._place.session, self._resolved
        if session is not None and not resolved.request.stored:
            items = (*resolved.history, *resolved.request.items, *response.output)
            session.remember(response, items, resolved.request.tools)


_COMPACTING = (Compaction, CompactionTrigger)


def _refuse_unserved(request: CreateResponse) -> None:
    """Parameters of the protocol that this build does not serve yet would change the answer: say so."""
    given = request.params
    for name, value in (("prompt", given.prompt), ("moderation", given.moderation)):
        if value:
            message = f"'{name}' is not supported by this server yet. Leave it out."
            raise Unsupported(message, param=name, code="unsupported_parameter")


def _wants_seal(request: CreateResponse) -> bool:
    return not request.stored or "reasoning.encrypted_content" in (request.params.include or ())
