"""A round: one turn of one backend, with the stages that its chunks pass on their way to the machine.

Most responses are one round. Another one follows when a stage plans it: an answer violated a constraint, or
the model has searched for tools, or called tools that this server runs.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from msgspec.structs import replace

from antiphon.backends.base import PreparedTurn
from antiphon.errors import BackendBroken
from antiphon.known_secrets import KNOWN_SECRETS, KnownSecrets
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.ids import Clock
from antiphon.service.checks import Checks, TenantChecks
from antiphon.service.hosted_tools.base import OpenedTools
from antiphon.service.hosted_tools.calls import DEFAULT_LIMITS, HostedLimits, run_calls
from antiphon.service.long_work import LongWork
from antiphon.service.responses.context import Context
from antiphon.service.responses.secret_filter import SecretFilter
from antiphon.service.responses.stages.base import Cut, RoundPlan, Stage
from antiphon.service.responses.stages.citations import citation_stage
from antiphon.service.responses.stages.constraints import RepairPolicy, RepairStage, constraint_stage
from antiphon.service.responses.stages.container_files import container_file_stage
from antiphon.service.responses.stages.hosted_tools import (
    after_hosted_calls,
    hosted_tool_stage,
    without_spent_tools,
)
from antiphon.service.responses.stages.stop_sequences import StopSequenceStage
from antiphon.service.responses.stages.text_calls import text_call_stage
from antiphon.service.responses.stages.tool_search import tool_search_stage, without_spent_search
from antiphon.service.routing.turn_slot import TurnSlot
from antiphon.turn.chunks import (
    HEARTBEAT,
    Chunk,
    Failed,
    Finished,
    Heartbeat,
    TextDelta,
    TurnStarted,
)
from antiphon.turn.context import TurnRequest, build_turn
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.machine import BROKEN_OFF
from antiphon.turn.sealing import Sealer
from antiphon.turn.tenant_params import upstream_params
from antiphon.turn.trace import TurnTrace

MAX_SILENCE_SECONDS = 5.0
"""How long stages may hold chunks back before the client is sent a heartbeat."""
_ENDS = (Finished, Failed)
_STARTED: tuple[Chunk, ...] = (TurnStarted(),)
_NOTHING: tuple[Chunk, ...] = ()


class Round:
    """One turn under way. `turn` is what the request wants; `prepared` may ask for it in another way."""

    __slots__ = (
        "_clock",
        "_ended",
        "_held_since",
        "_secrets",
        "answered",
        "cut",
        "next",
        "prepared",
        "stages",
        "turn",
    )

    def __init__(
        self,
        turn: TurnRequest,
        prepared: PreparedTurn,
        stages: Sequence[Stage],
        clock: Clock,
        secrets: SecretFilter | None,
    ) -> None:
        self.turn = turn
        self.prepared = prepared
        self.answered = False
        """Whether the backend has sent anything but heartbeats."""
        self.cut: Cut | None = None
        """Why the rest of the turn need not be read, if that is so."""
        self.next: RoundPlan | None = None
        self.stages = stages
        self._clock = clock
        self._secrets = secrets
        self._ended = False
        self._held_since = 0.0

    def feed(self, batch: Sequence[Chunk], slot: TurnSlot | None = None) -> Sequence[Chunk]:
        """What the machine gets of a batch; it may be empty. The slot learns of the first answer."""
        if type(batch[0]) is Heartbeat:
            return batch
        if not self.answered:
            self.answered = True
            if slot is not None:
                slot.answered()
        if self._secrets is not None:
            batch = self._secrets.feed(batch)
            if not batch:
                return batch
        return self._staged(batch) if self.stages else batch

    @property
    def needs_end(self) -> bool:
        """Whether `end` has something to do."""
        return bool(self.stages) or (self._secrets is not None and self._secrets.holds)

    def check_answered(self) -> None:
        """Raise unless the backend has sent something."""
        if not self.answered:
            raise BackendBroken("The backend ended the turn without an answer.")

    def _staged(self, batch: Sequence[Chunk]) -> Sequence[Chunk]:
        if type(batch[-1]) is not TextDelta and not self._ended:
            self._ended = any(isinstance(chunk, _ENDS) for chunk in batch)
        chunks = self._through(self.stages, batch)
        for stage in self.stages:
            self.cut = stage.cut or self.cut
        if chunks:
            self._held_since = 0.0
            return chunks
        return self._sign_of_life()

    def _sign_of_life(self) -> Sequence[Chunk]:
        """Nothing passes on: the response begins all the same, and long silence is broken by heartbeats."""
        now = self._clock()
        if not self._held_since:
            self._held_since = now
            return _STARTED
        if now - self._held_since < MAX_SILENCE_SECONDS:
            return _NOTHING
        self._held_since = now
        return HEARTBEAT

    def _through(self, stages: Sequence[Stage], chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        for stage in stages:
            if not chunks:
                break
            chunks = stage.feed(chunks)
        return chunks

    async def end(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """After the last batch: what is still held, and what the stages do now. Then `next` is known."""
        held = () if self._secrets is None else self._secrets.release()
        if self.cut == "complete":
            return
        if held:
            yield self._through(self.stages, held)
        if not self.stages:
            return
        if not self._ended and self.cut is None:
            yield self._through(self.stages, [Failed(BackendBroken(BROKEN_OFF))])
        for position, stage in enumerate(self.stages, 1):
            async with aclosing(stage.end()) as batches:
                async for batch in batches:
                    beats = bool(batch) and type(batch[0]) is Heartbeat
                    yield batch if beats else self._through(self.stages[position:], batch)
            self.next = self.next or stage.next


@dataclass(frozen=True, slots=True)
class RoundBuilder:
    """Builds rounds. `max_repairs`: how often a model is asked again for an answer that must be right."""

    clock: Clock
    checks: Checks
    max_repairs: int = 2
    hosted: HostedLimits = DEFAULT_LIMITS
    secrets: KnownSecrets = KNOWN_SECRETS
    work: LongWork = field(default_factory=LongWork)

    def turn(
        self, plan: RoundPlan, context: Context, sealer: Sealer, downgrades: Sequence[Downgrade] = ()
    ) -> TurnRequest:
        """The turn that a plan asks for, by the tenant of the sealer. `downgrades` are known already."""
        request, attempt = context.request, plan.attempt
        items, route = attempt.items, attempt.route
        params = upstream_params(request.params, sealer)
        if params is not request.params:
            request = replace(request, params=params)
        hosted = context.hosted.toolset
        if plan.hosted_calls:
            choice = after_hosted_calls(request.tool_choice, hosted.served)
            request = replace(request, tool_choice=choice)
        if attempt.dropped or route.instead_of:
            downgrades = (*downgrades, *attempt.downgrades)
        turn = build_turn(
            request,
            [*items, *plan.added] if plan.added else items,
            model=route.upstream_name(request.params.model),
            history=max(0, len(items) - len(request.items)),
            native=route.backend.natives,
            hosted=hosted,
            downgrades=(*downgrades, *plan.downgrades),
            tenant=sealer.tenant,
        )
        if plan.hosted_calls:
            turn = without_spent_tools(turn, plan, self.hosted)
        return without_spent_search(turn, plan.searches) if plan.searches else turn

    async def check(
        self, plan: RoundPlan, context: Context, sealer: Sealer, downgrades: Sequence[Downgrade] = ()
    ) -> None:
        """Raise what the backend cannot serve."""
        await self._prepared(plan, context, sealer, downgrades, None)

    async def _prepared(
        self,
        plan: RoundPlan,
        context: Context,
        sealer: Sealer,
        downgrades: Sequence[Downgrade],
        trace: TurnTrace | None,
    ) -> tuple[TurnRequest, PreparedTurn]:
        """The turn as the request wants it, and as it will be sent."""

        def prepare() -> tuple[TurnRequest, PreparedTurn]:
            turn = self.turn(plan, context, sealer, downgrades)
            sent = turn if plan.repair is None else plan.repair.turn.turn(turn)
            if trace is not None:
                sent = replace(sent, trace=trace)
            return turn, plan.attempt.route.backend.prepare(sent)

        return await self.work.run(sealer.tenant, len(plan.attempt.items), prepare)

    def run_approved(
        self, calls: Sequence[HostedCall], context: Context, until: float | None
    ) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run calls that the client has approved, at the latest until this time of the event loop."""
        durable = context.request.params.background is True
        return run_calls(calls, context.hosted, self.hosted, until=until, durable=durable)

    def secret_filter(self) -> SecretFilter | None:
        """A filter for the rounds of one response; None if there are no secrets."""
        return SecretFilter(self.secrets) if self.secrets else None

    async def build(
        self,
        plan: RoundPlan,
        context: Context,
        sealer: Sealer,
        secrets: SecretFilter | None,
        downgrades: Sequence[Downgrade] = (),
        *,
        trace: TurnTrace | None = None,
    ) -> Round:
        """The round, ready to be sent. Raises what the backend cannot serve."""
        turn, prepared = await self._prepared(plan, context, sealer, downgrades, trace)
        stages: Sequence[Stage] = ()
        if plan.repair is not None or turn.has_demands:
            checks = TenantChecks(self.checks, sealer.tenant)
            stages = self._stages(plan, turn, prepared, context.hosted, checks)
        stop = context.request.stop
        if stop:
            stages = [*stages, StopSequenceStage(stop)]
        if turn.sources.results and (citations := citation_stage(turn)) is not None:
            stages = [*stages, citations]
        if context.hosted.functions and (links := container_file_stage(turn, context.hosted)) is not None:
            stages = [*stages, links]
        return Round(turn, prepared, stages, self.clock, secrets)

    def _stages(
        self,
        plan: RoundPlan,
        turn: TurnRequest,
        prepared: PreparedTurn,
        opened: OpenedTools,
        checks: TenantChecks,
    ) -> Sequence[Stage]:
        policy = RepairPolicy(turn, plan, self.max_repairs)
        hosted = hosted_tool_stage(turn, opened, plan, self.hosted) if opened.functions else None
        stages: tuple[Stage | None, ...]
        if plan.repair is not None:
            stages = (RepairStage(plan.repair, policy, checks), hosted)
        else:
            stages = (
                text_call_stage(turn, plan.attempt.route) if turn.tools else None,
                tool_search_stage(turn, plan) if turn.tools else None,
                hosted,
                constraint_stage(turn, prepared, policy, checks),
            )
        return [stage for stage in stages if stage is not None]
