"""What is known of a run, folded from its events. Sans-IO.

Whoever goes on with a run that broke off folds the events that were kept, and knows as much as the one that
told them.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

import msgspec

from antiphon.orchestrator.events import (
    AgentCancelled,
    AgentCompleted,
    AgentEvent,
    AgentFailed,
    AgentStarted,
    AgentWarned,
    TextDelta,
    ToolCompleted,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from antiphon.orchestrator.models import (
    AgentExecuteResponse,
    AgentToolCall,
    FileBundle,
    FileBundleItem,
    LlmUsage,
)
from antiphon.orchestrator.repeat_guard import RepeatGuard


class RunState:
    """The state of a run after some of its events."""

    def __init__(self, past: Iterable[AgentEvent] = ()) -> None:
        self.next_number = 0
        self.started: AgentStarted | None = None
        self.asked = 0
        """The last turn that the model was asked for."""
        self.turn = 0
        """The last turn that the model has answered."""
        self.answer: AgentExecuteResponse | None = None
        """What it answered there."""
        self.begun: dict[str, ToolStarted] = {}
        """The calls of that answer that were taken up, by id."""
        self.done: dict[str, ToolCompleted] = {}
        """Those that were answered."""
        self.executed: list[AgentToolCall] = []
        """The server's calls of all turns, with what became of them."""
        self.files: dict[str, FileBundleItem] = {}
        """The file bundle so far, by path."""
        self.mode: str | None = None
        """The mode that a tool has switched to."""
        self.usage = LlmUsage()
        """The tokens of all turns."""
        self.warnings: list[str] = []
        self.guard = RepeatGuard()
        self.end: AgentCompleted | AgentFailed | AgentCancelled | None = None
        for event in past:
            self.apply(event)

    def apply(self, event: AgentEvent) -> None:
        """Take note of the next event."""
        self.next_number = event.sequence_number + 1
        match event:
            case AgentStarted():
                self.started = event
                self.warnings.extend(event.warnings)
            case TurnStarted():
                self.asked = event.turn
            case TurnCompleted():
                self._answered(event)
            case ToolStarted():
                self.begun[event.call_id] = event
            case ToolCompleted():
                self._completed(event)
            case AgentWarned():
                self.warnings.append(event.message)
            case AgentCompleted() | AgentFailed() | AgentCancelled():
                self.end = event
            case TextDelta():
                pass  # the whole text comes with the end of the turn
            case _:
                assert_never(event)

    def bundle(self) -> FileBundle | None:
        """The changes that the tools of all turns have proposed."""
        return FileBundle(files=tuple(self.files.values())) if self.files else None

    def finished(
        self, answer: AgentExecuteResponse, left: Sequence[AgentToolCall] = ()
    ) -> AgentExecuteResponse:
        """The answer with which a run ends, with what all its turns have brought; `left` are open calls."""
        return msgspec.structs.replace(
            answer,
            mode=self.mode or answer.mode,
            usage=self.usage,
            sources=self.started.sources if self.started else (),
            file_bundle=self.bundle(),
            warnings=tuple(self.warnings),
            tool_calls=(*self.executed, *left),
        )

    def _answered(self, event: TurnCompleted) -> None:
        self.turn = event.turn
        self.answer = event.response
        self.begun = {}
        self.done = {}
        self.usage = _sum(self.usage, event.response.usage)

    def _completed(self, event: ToolCompleted) -> None:
        self.done[event.call_id] = event
        if event.outcome == "handed":
            return
        arguments = self.begun[event.call_id].arguments_json
        self.guard.note(event.name, arguments)
        self.executed.append(_told(event, arguments))
        for item in event.files:
            propose(self.files, item)
        self.mode = event.mode or self.mode


def propose(files: dict[str, FileBundleItem], item: FileBundleItem) -> None:
    """Add a change to those so far. A later one of the same path wins; a file that was created and then
    deleted was never there."""
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


def _told(event: ToolCompleted, arguments: str) -> AgentToolCall:
    failed = event.outcome in ("error", "timeout", "interrupted")
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
    """The text of `{"error": text}`, which is what the model is told when there is no result."""
    try:
        return msgspec.json.decode(output, type=_Error).error
    except (msgspec.MsgspecError, UnicodeError):
        return output
