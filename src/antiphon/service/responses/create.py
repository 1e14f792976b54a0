"""Creates responses: gives each run the parts that it uses."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from antiphon.caller import Caller
from antiphon.errors import Unsupported
from antiphon.protocol.events import Event
from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.requests import CreateResponse
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools.base import ServedTool, ServedTools
from antiphon.service.hosted_tools.calls import DEFAULT_LIMITS, HostedLimits
from antiphon.service.long_work import LongWork
from antiphon.service.responses.compaction import Compactor
from antiphon.service.responses.context import Contexts, Session
from antiphon.service.responses.earlier_attempt import EarlierAttempt
from antiphon.service.responses.file_texts import FileTexts
from antiphon.service.responses.finish import Finisher, ResponseWriter, Retention, StoreWriter
from antiphon.service.responses.history_room import DEFAULT_HISTORY_LIMITS, HistoryLimits
from antiphon.service.responses.input_tokens import TokenCount
from antiphon.service.responses.record import NO_ORIGIN, Origin, RunRecord, TracePolicy
from antiphon.service.responses.rounds import RoundBuilder
from antiphon.service.responses.run import ResponseRun, RunParts
from antiphon.service.routing.router import Router
from antiphon.store.ports import Stores
from antiphon.turn.answer_limit import DEFAULT_BOUNDS, AnswerBounds
from antiphon.turn.function_forms.file_searches import DEFAULT_RESULT_TOKENS
from antiphon.turn.sealing import SealKey
from antiphon.turn.toolbox import HostedToolset


@dataclass(frozen=True, slots=True, kw_only=True)
class Creator:
    """Starts responses."""

    parts: RunParts
    router: Router
    store: Stores
    ids: IdSource
    clock: Clock
    retention: Retention
    traces: TracePolicy
    work: LongWork
    """For requests with many items, when they are parsed."""
    similar_models: bool = False
    """Whether a background response may be made by a model with a similar name, as it was accepted."""

    def start(
        self,
        request: CreateResponse,
        caller: Caller,
        session: Session | None = None,
        origin: Origin = NO_ORIGIN,
    ) -> ResponseRun:
        """A run of this request; nothing happens until its events are read."""
        writer = None
        if request.stored:
            writer = StoreWriter(self.store.responses, caller.tenant, self.retention.save_wait_seconds)
        return self._run(
            request, caller, writer, session, similar=request.profile.similar_models, origin=origin
        )

    async def store_only(
        self,
        request: CreateResponse,
        caller: Caller,
        session: Session | None = None,
        origin: Origin = NO_ORIGIN,
    ) -> Sequence[Event]:
        """Save a request without asking the model: a response without output, to be continued."""
        return await self.start(request, caller, session, origin).store_only()

    def draft(
        self,
        request: CreateResponse,
        caller: Caller,
        origin: Origin = NO_ORIGIN,
        *,
        response_id: str | None = None,
    ) -> ResponseRun:
        """A run that is only checked: somebody else makes the response later, with this id or a new one."""
        similar = request.profile.similar_models
        return self._run(request, caller, None, similar=similar, origin=origin, response_id=response_id)

    def resume(
        self,
        request: CreateResponse,
        caller: Caller,
        writer: ResponseWriter,
        earlier: EarlierAttempt,
        origin: Origin = NO_ORIGIN,
    ) -> ResponseRun:
        """A run of a response that was submitted, after the attempts before it."""
        return self._run(
            request,
            caller,
            writer,
            similar=self.similar_models,
            earlier=earlier,
            origin=origin,
            response_id=earlier.response.id,
        )

    def _run(
        self,
        request: CreateResponse,
        caller: Caller,
        writer: ResponseWriter | None,
        session: Session | None = None,
        *,
        similar: bool,
        earlier: EarlierAttempt | None = None,
        origin: Origin = NO_ORIGIN,
        response_id: str | None = None,
    ) -> ResponseRun:
        _refuse_unserved(request)
        new_id = self.ids.maker(request.profile.ids)
        return ResponseRun(
            self.parts,
            request,
            caller=caller,
            response_id=response_id or new_id("resp"),
            routes=self.router.routes(request.params.model, similar=similar),
            new_id=new_id,
            finisher=Finisher(
                self.clock,
                writer,
                session,
                self.retention,
                RunRecord(
                    caller,
                    origin.request_id,
                    self.traces.recorder(origin, time.monotonic) if request.stored else None,
                ),
                self.parts.seal_key.sealer(caller.tenant),
                self.parts.contexts.inherit_tools,
            ),
            earlier=earlier,
        )


class ResponseOptions(Struct, frozen=True, kw_only=True):
    """What an operator chooses about responses."""

    ignored_tools: frozenset[str] = frozenset()
    """Types of hosted tools that are left out and reported where nothing serves them."""
    inherit_tools: bool = True
    """Whether a continuation that declares no tools has those of the response before."""
    max_repairs: int = 2
    summary_model: str | None = None
    """The model that summarises long conversations; None: the model of the request."""
    retention: Retention = Retention()
    traces: TracePolicy = TracePolicy()
    similar_models: bool = False
    bounds: AnswerBounds = DEFAULT_BOUNDS
    served_tools: tuple[ServedTool, ...] = ()
    """The hosted tools that this server runs."""
    hosted: HostedLimits = DEFAULT_LIMITS
    history: HistoryLimits = DEFAULT_HISTORY_LIMITS
    result_tokens: int = DEFAULT_RESULT_TOKENS
    """Tokens of the results of searches that a model is shown in all."""


DEFAULT_OPTIONS = ResponseOptions()


class ResponseServices(NamedTuple):
    """What answers requests for responses, over one store and one router."""

    creator: Creator
    compactor: Compactor
    tokens: TokenCount


def response_services(
    *,
    router: Router,
    stores: Stores,
    ids: IdSource,
    clock: Clock,
    seal_key: SealKey,
    checks: Checks,
    files: FileTexts,
    options: ResponseOptions = DEFAULT_OPTIONS,
) -> ResponseServices:
    """The services, each with the parts that it uses."""
    toolset = HostedToolset(ignored=options.ignored_tools, result_tokens=options.result_tokens)
    served = ServedTools(options.served_tools, toolset)
    work = LongWork()
    contexts = Contexts(
        *(stores, seal_key, clock, checks, options.inherit_tools, served), limits=options.history, work=work
    )
    compactor = Compactor(router, contexts, ids, clock, seal_key, files.sent, options.summary_model)
    parts = RunParts(
        contexts=contexts,
        compactor=compactor,
        rounds=RoundBuilder(clock, checks, options.max_repairs, options.hosted, work=work),
        files=files,
        bounds=options.bounds,
        seal_key=seal_key,
        clock=clock,
    )
    creator = Creator(
        parts=parts,
        router=router,
        store=stores,
        ids=ids,
        clock=clock,
        retention=options.retention,
        traces=options.traces,
        work=work,
        similar_models=options.similar_models,
    )
    return ResponseServices(creator, compactor, TokenCount(router=router, contexts=contexts, sent=files.sent))


def _refuse_unserved(request: CreateResponse) -> None:
    """Parameters of the protocol that this server does not serve would change the answer: reject them."""
    given = request.params
    if given.prompt or given.moderation:
        name = "prompt" if given.prompt else "moderation"
        message = f"'{name}' is not supported by this server yet. Leave it out."
        raise Unsupported(message, param=name, code="unsupported_parameter")
