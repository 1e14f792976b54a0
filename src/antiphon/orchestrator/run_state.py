"""The log of a run and the state that is folded from it.

An event is emitted first, which makes it durable in a background run, and then applied to the state. A later
attempt folds the stored events and continues with the same state. The log is also the run's record of calls.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import assert_never

import msgspec

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
    ApprovalAnswer,
    ApprovalRequest,
    FileBundle,
    FileBundleItem,
    HostedCallRecord,
    LlmUsage,
    SourceRef,
)
from antiphon.orchestrator.tool import ToolResult
from antiphon.tools.call_record import CallEnded, CallKey, CallStarted, RecordedCall
from antiphon.tools.repeat_guard import RepeatGuard

Emit = Callable[[AgentEvent], Awaitable[None]]
"""Receives an event. The next step is taken when it returns: a background run stores the event there."""


class RunState:
    """The state of a run after some of its events."""

    def __init__(self, past: Iterable[AgentEvent] = ()) -> None:
        self.next_number = 0
        self.started: AgentStarted | None = None
        self.asked = 0
        """The last turn that was requested."""
        self.response_id: str | None = None
        """The background response that makes that turn."""
        self.turn = 0
        """The last turn that was answered."""
        self.answer: AgentExecuteResponse | None = None
        """The answer of that turn."""
        self.calls: dict[CallKey, RecordedCall] = {}
        """The calls of all turns that the server has answered, or begun to answer."""
        self.executed: list[AgentToolCall] = []
        """The calls of all turns that the server has answered, with their results."""
        self.hosted_calls: list[HostedCallRecord] = []
        """The calls of hosted tools in all turns."""
        self.shown: set[tuple[type[AgentEvent], int, str]] = set()
        """The events of these calls while they ran: kind, turn and id of the call."""
        self.cited: dict[SourceRef, None] = {}
        """What the texts of all turns cite."""
        self.pending: dict[str, ApprovalRequest] = {}
        """The approval requests of the last turn that nobody has answered."""
        self.approvals: dict[CallKey, ApprovalAnswer] = {}
        """The answers to approval requests, in all turns."""
        self.files: dict[str, FileBundleItem] = {}
        """The file bundle so far, by path."""
        self.mode: str | None = None
        """The mode that a tool switched to."""
        self.usage = LlmUsage()
        """The tokens of all turns."""
        self.warnings: list[str] = []
        self.guard = RepeatGuard()
        self.end: AgentCompleted | AgentFailed | AgentCancelled | None = None
        for event in past:
            self.apply(event)

    def apply(self, event: AgentEvent) -> None:
        self.next_number = event.sequence_number + 1
        match event:
            case AgentStarted():
                self.started = event
                self.warnings.extend(event.warnings)
            case TurnStarted():
                self.asked, self.response_id = event.turn, event.response_id
            case TurnCompleted():
                self._answered(event)
            case ToolStarted():
                self.calls[CallKey(event.turn, event.call_id)] = RecordedCall(_started(event))
            case ToolCompleted():
                self._completed(event)
            case AgentWaiting() | ApprovalAnswered():
                self._waited(event)
            case AgentWarned():
                self.warnings.append(event.message)
            case AgentCompleted() | AgentFailed() | AgentCancelled():
                self.end = event
            case TextDelta() | HostedStarted() | HostedCompleted():
                self._show(event)
            case _:
                assert_never(event)

    @property
    def open_response_id(self) -> str | None:
        """The background response of a turn that is requested and not answered."""
        return self.response_id if self.asked > self.turn else None

    def bundle(self) -> FileBundle | None:
        """The changes that tools have proposed in all turns."""
        return FileBundle(files=tuple(self.files.values())) if self.files else None

    def finished(
        self,
        answer: AgentExecuteResponse,
        left: Sequence[AgentToolCall] = (),
        approvals: Sequence[ApprovalRequest] = (),
    ) -> AgentExecuteResponse:
        """The last answer, completed with the results of all turns; `left` are the calls still open,
        `approvals` those that wait for a person."""
        sources = self.started.sources if self.started else ()
        return msgspec.structs.replace(
            answer,
            mode=self.mode or answer.mode,
            usage=self.usage,
            sources=(*sources, *(source for source in self.cited if source not in sources)),
            file_bundle=self.bundle(),
            warnings=tuple(self.warnings),
            tool_calls=(*self.executed, *left),
            hosted_calls=tuple(self.hosted_calls),
            approvals=tuple(approvals),
            finish_reason="approval_required" if approvals else answer.finish_reason,
        )

    def _answered(self, event: TurnCompleted) -> None:
        self.turn = event.turn
        self.answer = event.response
        self.usage = _sum(self.usage, event.response.usage)
        self.hosted_calls.extend(event.response.hosted_calls)
        self.cited.update(dict.fromkeys(event.response.sources))

    def _show(self, event: TextDelta | HostedStarted | HostedCompleted) -> None:
        """Note that a call is shown. `TurnCompleted` has the complete text, and all calls."""
        if not isinstance(event, TextDelta):
            self.shown.add((type(event), event.turn, event.call.call_id))

    def _waited(self, event: AgentWaiting | ApprovalAnswered) -> None:
        if isinstance(event, AgentWaiting):
            self.pending = {request.id: request for request in event.approvals}
            return
        self.pending.pop(event.answer.id, None)
        self.approvals[CallKey(event.turn, event.answer.id)] = event.answer

    def _completed(self, event: ToolCompleted) -> None:
        key = CallKey(event.turn, event.call_id)
        started = self.calls[key].started
        self.calls[key] = RecordedCall(started, _ended(event))
        if event.outcome == "handed":
            return
        self.guard.note(event.name, started.arguments)
        self.executed.append(_executed(event, started.arguments))
        for item in event.files:
            propose(self.files, item)
        self.mode = event.mode or self.mode


class RunLog:
    """Emits the events of a run in order and folds them. It implements the port `CallRecord`: the receiver of
    the events, which stores them, holds the fencing token."""

    def __init__(self, past: Iterable[AgentEvent], emit: Emit | None) -> None:
        self.state = RunState(past)
        self._emit = emit

    @property
    def emits(self) -> bool:
        """Whether anybody receives the events."""
        return self._emit is not None

    @property
    def number(self) -> int:
        """The sequence number of the next event."""
        return self.state.next_number

    async def add(self, event: AgentEvent) -> None:
        """Emit an event that has the next number, then apply it."""
        if self._emit is not None:
            await self._emit(event)
        self.state.apply(event)

    async def warn(self, message: str) -> None:
        """Add a warning, unless the run has the same one already: a resumed run does not repeat warnings."""
        if message not in self.state.warnings:
            await self.add(AgentWarned(sequence_number=self.number, message=message))

    def find(self, key: CallKey) -> RecordedCall | None:
        return self.state.calls.get(key)

    async def start(self, call: CallStarted) -> None:
        started = ToolStarted(
            sequence_number=self.number,
            turn=call.key.turn,
            call_id=call.key.call_id,
            name=call.name,
            arguments_json=call.arguments,
            runs=call.runs,
        )
        await self.add(started)

    async def end(self, key: CallKey, ended: CallEnded) -> None:
        result = ended.result
        completed = ToolCompleted(
            sequence_number=self.number,
            turn=key.turn,
            call_id=key.call_id,
            name=self.state.calls[key].started.name,
            outcome=ended.outcome,
            output=result.output,
            elapsed_ms=ended.elapsed_ms,
            files=result.files if isinstance(result, ToolResult) else (),
            mode=result.mode if isinstance(result, ToolResult) else None,
        )
        await self.add(completed)


def _started(event: ToolStarted) -> CallStarted:
    key = CallKey(event.turn, event.call_id)
    return CallStarted(key=key, name=event.name, arguments=event.arguments_json, runs=event.runs)


def _ended(event: ToolCompleted) -> CallEnded:
    result = ToolResult(output=event.output, files=event.files, mode=event.mode)
    return CallEnded(outcome=event.outcome, result=result, elapsed_ms=event.elapsed_ms)


def propose(files: dict[str, FileBundleItem], item: FileBundleItem) -> None:
    """Add a change to the bundle. A later change of the same path replaces an earlier one; a file that was
    created and then deleted is left out."""
    before = files.pop(item.path, None)
    if before is not None and before.action == "create":
        if item.action == "delete":
            return
        item = msgspec.structs.replace(item, action="create")
    elif before is not None and item.action == "create":
        item = msgspec.structs.replace(item, action="replace")
    files[item.path] = item


def _sum(one: LlmUsage, other: LlmUsage) -> LlmUsage:
    return LlmUsage(
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        total_tokens=one.total_tokens + other.total_tokens,
    )


def _executed(event: ToolCompleted, arguments: str) -> AgentToolCall:
    failed = event.outcome in ("error", "timeout", "interrupted", "rejected")
    return AgentToolCall(
        call_id=event.call_id,
        name=event.name,
        arguments_json=arguments,
        is_server_tool=True,
        was_executed=event.outcome == "ok",
        result_json=None if failed else event.output,
        error_message=_error_in(event.output) if failed else None,
    )


class _Error(msgspec.Struct):
    error: str


def _error_in(output: str) -> str:
    """The text of `{"error": text}`, the output of a call that failed."""
    try:
        return msgspec.json.decode(output, type=_Error).error
    except (msgspec.MsgspecError, UnicodeError):
        return output
