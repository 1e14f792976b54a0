"""A run as clients see it: an entry of a list, and a tree of turns with the calls of each turn."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from antiphon.orchestrator.casing import Case, to_json
from antiphon.orchestrator.events import (
    AgentCancelled,
    AgentCompleted,
    AgentEvent,
    AgentFailed,
    AgentStarted,
    AgentWaiting,
    AgentWarned,
    ApprovalAnswered,
    HostedCompleted,
    HostedStarted,
    TextDelta,
    ToolCompleted,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from antiphon.orchestrator.models import (
    AgentExecuteResponse,
    AgentToolCall,
    ApprovalRequest,
    HostedCallRecord,
    LlmUsage,
)
from antiphon.store.agent_runs import AgentRun, RunStatus
from antiphon.tools.call_record import Outcome

MAX_EXCERPT_CHARS = 200

State = Literal["in_progress", "waiting", "completed", "failed", "cancelled"]


class CallNode(Struct, frozen=True, kw_only=True):
    """A call of a tool. Without an outcome it has not ended, or the client answers it."""

    call_id: str
    name: str
    arguments: str
    started: bool = False
    outcome: Outcome | None = None
    output: str = ""
    """An excerpt of the output."""
    elapsed_ms: int | None = None


class TurnNode(Struct, frozen=True, kw_only=True):
    """One turn of the model. Without a response id it is not answered yet."""

    number: int
    text: str = ""
    """An excerpt."""
    response_id: str | None = None
    finish_reason: str | None = None
    usage: LlmUsage = LlmUsage()
    calls: tuple[CallNode, ...] = ()
    hosted_calls: tuple[HostedCallRecord, ...] = ()
    """Calls of hosted tools within the turn."""


class RunTree(Struct, frozen=True, kw_only=True):
    """The turns of a run, and its state."""

    state: State = "in_progress"
    mode: str = ""
    model: str = ""
    turns: tuple[TurnNode, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None
    approvals: tuple[ApprovalRequest, ...] = ()
    """The requests that wait for a person."""


def tree_of(events: Sequence[AgentEvent]) -> RunTree:
    tree = RunTree()
    for event in events:
        tree = _grow(tree, event)
    return tree


def response_of(events: Sequence[AgentEvent]) -> AgentExecuteResponse | None:
    """The response of a run that has ended with one."""
    last = events[-1] if events else None
    return last.response if isinstance(last, AgentCompleted | AgentFailed) else None


def _grow(tree: RunTree, event: AgentEvent) -> RunTree:
    match event:
        case AgentStarted():
            warnings = (*tree.warnings, *event.warnings)
            return replace(tree, mode=event.mode, model=event.model, warnings=warnings)
        case AgentWarned():
            return replace(tree, warnings=(*tree.warnings, event.message))
        case TextDelta():
            return tree
        case AgentWaiting():
            return replace(tree, state="waiting", approvals=event.approvals)
        case ApprovalAnswered():
            left = tuple(each for each in tree.approvals if each.id != event.answer.id)
            return replace(tree, state="waiting" if left else "in_progress", approvals=left)
        case (
            TurnStarted()
            | TurnCompleted()
            | ToolStarted()
            | ToolCompleted()
            | HostedStarted()
            | HostedCompleted()
        ):
            return _grow_turn(tree, event)
        case AgentCompleted():
            return replace(tree, state="completed")
        case AgentFailed():
            return replace(tree, state="failed", error=event.response.error_message)
        case AgentCancelled():
            return replace(tree, state="cancelled", approvals=())


def _grow_turn(
    tree: RunTree,
    event: TurnStarted | TurnCompleted | ToolStarted | ToolCompleted | HostedStarted | HostedCompleted,
) -> RunTree:
    turns = {turn.number: turn for turn in tree.turns}
    turn = turns.get(event.turn, TurnNode(number=event.turn))
    match event:
        case TurnStarted():
            pass
        case TurnCompleted():
            turn = _answered(turn, event.response)
        case ToolStarted() | ToolCompleted():
            turn = _called(turn, event)
        case HostedStarted() | HostedCompleted():
            calls = {call.call_id: call for call in turn.hosted_calls}
            turn = replace(turn, hosted_calls=tuple({**calls, event.call.call_id: event.call}.values()))
    return replace(tree, turns=tuple({**turns, event.turn: turn}.values()))


def _answered(turn: TurnNode, response: AgentExecuteResponse) -> TurnNode:
    return replace(
        turn,
        text=_excerpt(response.text or ""),
        response_id=response.response_continuation_id,
        finish_reason=response.finish_reason,
        usage=response.usage,
        hosted_calls=response.hosted_calls,
        calls=tuple(_made(call) for call in response.tool_calls),
    )


def _made(call: AgentToolCall) -> CallNode:
    return CallNode(call_id=call.call_id, name=call.name, arguments=call.arguments_json or "")


def _called(turn: TurnNode, event: ToolStarted | ToolCompleted) -> TurnNode:
    calls = {call.call_id: call for call in turn.calls}
    match event:
        case ToolStarted():
            arguments = event.arguments_json
            fresh = CallNode(call_id=event.call_id, name=event.name, arguments=arguments, started=True)
            calls[event.call_id] = fresh
        case ToolCompleted():
            begun = calls.get(event.call_id, CallNode(call_id=event.call_id, name=event.name, arguments=""))
            output, elapsed = _excerpt(event.output), event.elapsed_ms
            calls[event.call_id] = replace(begun, outcome=event.outcome, output=output, elapsed_ms=elapsed)
    return replace(turn, calls=tuple(calls.values()))


def _excerpt(text: str) -> str:
    line = " ".join(text[: 4 * MAX_EXCERPT_CHARS].split())
    return line if len(line) <= MAX_EXCERPT_CHARS else f"{line[: MAX_EXCERPT_CHARS - 1]}…"


class RunObject(Struct, frozen=True, kw_only=True):
    """A run as an entry of a list."""

    id: str
    object: str = "agent.run"
    status: RunStatus
    title: str
    created_at: int
    ended_at: int | None
    expires_at: int | None
    attempts: int


class _DetailedRun(RunObject, frozen=True, kw_only=True):
    response: Raw | None
    tree: RunTree


def run_object(run: AgentRun) -> RunObject:
    return RunObject(**msgspec.structs.asdict(run))


def run_json(run: AgentRun, response: AgentExecuteResponse | None, tree: RunTree, case: Case) -> bytes:
    """A run with its tree, and its response if it has ended, as JSON; `case` applies to the response."""
    detailed = _DetailedRun(
        **msgspec.structs.asdict(run),
        response=None if response is None else Raw(to_json(response, case)),
        tree=tree,
    )
    return msgspec.json.encode(detailed)
