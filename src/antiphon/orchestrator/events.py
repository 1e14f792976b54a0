"""The events of an agent run. They are also its log: a run that was cut off resumes from the events that were
stored (`antiphon.orchestrator.run_state`).

An event is emitted before the next step is taken.
"""

from msgspec import Struct

from antiphon.orchestrator.models import (
    AgentExecuteResponse,
    ApprovalAnswer,
    ApprovalRequest,
    FileBundleItem,
    HostedCallRecord,
    SourceRef,
)
from antiphon.tools.call_record import Outcome


class AgentStarted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.started"):
    """The context is resolved: mode, model, retrieved chunks."""

    sequence_number: int
    mode: str
    model: str
    context_block: str = ""
    sources: tuple[SourceRef, ...] = ()
    warnings: tuple[str, ...] = ()
    """Warnings of the resolution; also in the warnings of the response."""


class TurnStarted(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="agent.turn.started"
):
    """The model is called. Turns count from 1. A resumed run that calls the model again does not repeat the
    event."""

    sequence_number: int
    turn: int
    response_id: str | None = None
    """The background response that makes the turn, also if it is not submitted yet; None: the turn is not
    made in the background."""


class TextDelta(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.text.delta"):
    """A piece of the model's text; only if the request is streaming."""

    sequence_number: int
    turn: int
    delta: str


class TurnCompleted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.turn.completed"):
    """The model has answered: `response` is the mapped answer."""

    sequence_number: int
    turn: int
    response: AgentExecuteResponse


class ToolStarted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.tool.started"):
    """The server begins to answer a call. A resumed run does not repeat the event."""

    sequence_number: int
    turn: int
    """0: the call belongs to the response that the request continues."""
    call_id: str
    name: str
    arguments_json: str
    runs: bool = True
    """Whether a tool is about to run; if not, the call is answered without running one."""


class ToolCompleted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.tool.completed"):
    """A call is answered. `output` is what the model receives."""

    sequence_number: int
    turn: int
    call_id: str
    name: str
    outcome: Outcome
    output: str
    elapsed_ms: int
    files: tuple[FileBundleItem, ...] = ()
    mode: str | None = None
    """The mode that the tool switched to."""


class HostedStarted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.hosted.started"):
    """The server of the model begins to run a hosted tool."""

    sequence_number: int
    turn: int
    call: HostedCallRecord


class HostedCompleted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.hosted.completed"):
    """A hosted tool has ended."""

    sequence_number: int
    turn: int
    call: HostedCallRecord


class AgentWaiting(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.waiting"):
    """The run waits until a person has answered these requests. Runs in the background only."""

    sequence_number: int
    turn: int
    approvals: tuple[ApprovalRequest, ...]


class ApprovalAnswered(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.approval.answered"):
    """A person has answered a request. After the last answer the run continues."""

    sequence_number: int
    turn: int
    answer: ApprovalAnswer


class AgentWarned(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.warning"):
    """A warning for the client; also in the warnings of the response."""

    sequence_number: int
    message: str


class AgentCompleted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.completed"):
    """The run ended with an answer."""

    sequence_number: int
    response: AgentExecuteResponse


class AgentFailed(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.failed"):
    """The run ended with an error: the kind of the response is `error`."""

    sequence_number: int
    response: AgentExecuteResponse
    code: str = ""
    """The code of the error object; more specific than `error_code` of the response, which is its type."""


class AgentCancelled(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.cancelled"):
    """The run was cancelled."""

    sequence_number: int


AgentEvent = (
    AgentStarted
    | TurnStarted
    | TextDelta
    | TurnCompleted
    | ToolStarted
    | ToolCompleted
    | HostedStarted
    | HostedCompleted
    | AgentWaiting
    | ApprovalAnswered
    | AgentWarned
    | AgentCompleted
    | AgentFailed
    | AgentCancelled
)
END = (AgentCompleted, AgentFailed, AgentCancelled)
"""The terminal events."""
