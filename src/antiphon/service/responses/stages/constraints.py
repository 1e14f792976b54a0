"""Constraints of answers: output that violates one is not sent, and a repair round is planned.

`ConstraintStage` checks a turn (turn/constraint_check.py). `RepairStage` reads a repair turn (repair.py): its
text is not the answer, but is parsed as the requested call.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from antiphon.backends.base import PreparedTurn
from antiphon.protocol.response import Usage
from antiphon.service.checks import TenantChecks
from antiphon.service.responses.repair import (
    broken_promise,
    correction,
    gave_up,
    passed_anyway,
    repair_turn,
    repaired,
)
from antiphon.service.responses.stages.base import Cut, Repair, RoundPlan
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    DowngradesAdded,
    Failed,
    Finished,
    RefusalDelta,
    TextDelta,
    UsageReported,
    UsageSpent,
)
from antiphon.turn.constraint_check import ConstraintCheck, constraint_check
from antiphon.turn.constraints import Constraint, Violation
from antiphon.turn.context import TurnRequest

_FORMAT: frozenset[Constraint] = frozenset({"format"})


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """Plans the round after a violation. `limit`: the most repairs."""

    turn: TurnRequest
    plan: RoundPlan
    limit: int

    def after(
        self, violation: Violation, withheld: Sequence[Chunk], usage: Usage | None
    ) -> tuple[Sequence[Chunk], RoundPlan | None]:
        """Another round; after the last one, the withheld call if its tool can judge it, or a failure. A text
        that was sent already cannot be repaired."""
        plan, turn = self.plan, self.turn
        repairs = plan.repairs + 1
        spent: list[Chunk] = [] if usage is None else [UsageSpent(usage)]
        if violation.sent:
            return [*spent, Failed(broken_promise(violation, turn.model))], None
        if repairs > self.limit:
            if violation.constraint == "grammar":
                return [DowngradesAdded((passed_anyway(violation),)), *withheld], None
            return [*spent, Failed(gave_up(violation, turn.model, repairs))], None
        features = plan.attempt.route.backend.features(turn.model)
        other_way = repair_turn(violation, turn, features)
        return spent, replace(
            plan,
            appended=() if other_way is not None else tuple(correction(violation, turn, repairs)),
            repairs=repairs,
            downgrades=(*plan.downgrades, repaired(violation, usage)),
            repair=None if other_way is None else Repair(other_way, violation),
        )


class ConstraintStage:
    """Checks one turn."""

    cut: Cut | None = None

    def __init__(self, check: ConstraintCheck, policy: RepairPolicy, checks: TenantChecks) -> None:
        self._check = check
        self._policy = policy
        self._checks = checks
        self.next: RoundPlan | None = None

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Withhold output that may violate a constraint."""
        passed = self._check.feed(chunks)
        if self._check.is_rejected:
            self.cut = "rejected"
        return passed

    async def end(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """Pass on valid output; plan a repair of a violation."""
        verdict = await self._checks.run(self._check.end())
        downgrades = [DowngradesAdded(verdict.downgrades)] if verdict.downgrades else []
        chunks: Sequence[Chunk] = ()
        if verdict.violation is not None:
            chunks, self.next = self._policy.after(verdict.violation, verdict.withheld, verdict.usage)
        yield [*downgrades, *verdict.passed, *chunks]


def constraint_stage(
    turn: TurnRequest, prepared: PreparedTurn, policy: RepairPolicy, checks: TenantChecks
) -> ConstraintStage | None:
    """None if the turn has no constraint to check."""
    unenforced = prepared.unenforced
    if _is_strict(turn) and not (turn.streamed and policy.plan.attempt.route.strict_schemas == "trusted"):
        unenforced |= _FORMAT  # a client that does not stream does not wait longer for it
    check = constraint_check(turn, unenforced)
    return None if check is None else ConstraintStage(check, policy, checks)


def _is_strict(turn: TurnRequest) -> bool:
    text = turn.params.text
    return text is not None and text.format is not None and text.format.is_strict


class RepairStage:
    """Reads the answer to a repair turn."""

    cut: Cut | None = None

    def __init__(self, repair: Repair, policy: RepairPolicy, checks: TenantChecks) -> None:
        self._repair = repair
        self._policy = policy
        self._checks = checks
        self._text: list[str] = []
        self._usage: UsageReported | None = None
        self._ended = False
        """Whether the turn has ended in a way that is not read as a call: a refusal, a failure, a cut."""
        self.next: RoundPlan | None = None

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Collect the text; everything else passes on."""
        passed: list[Chunk] = []
        for chunk in chunks:
            match chunk:
                case TextDelta():
                    self._text.append(chunk.text)
                case UsageReported():
                    self._usage = chunk
                case Finished(reason="stop") if not self._ended:
                    pass
                case Finished() | Failed():
                    self._ended = True
                    passed += [*([self._usage] if self._usage is not None else []), chunk]
                case RefusalDelta():
                    self._ended = True
                    passed.append(chunk)
                case _:
                    passed.append(chunk)
        return passed

    async def end(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """The call in the text; if there is none, plan the next repair."""
        if self._ended:
            return
        read = await self._checks.run(self._repair.turn.read("".join(self._text)))
        cost: list[Chunk] = [] if self._usage is None else [self._usage]
        if read is not None:
            yield [*cost, *read]
            return
        violation = self._repair.violation
        usage = None if self._usage is None else self._usage.usage
        chunks, self.next = self._policy.after(violation, [*cost, *_as_written(violation)], usage)
        yield chunks


def _as_written(violation: Violation) -> list[Chunk]:
    """The calls as the model wrote them in the first place."""
    chunks: list[Chunk] = []
    for index, call in enumerate(violation.calls):
        chunks += [
            CallStarted(index, call.call_id, call.tool.name),
            CallDelta(index, call.arguments),
            CallFinished(index),
        ]
    return [*chunks, Finished("tool_calls")]
