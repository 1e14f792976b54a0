"""What an agent's run tells while it goes on. The events are also its memory: a run that broke off goes on
from those that were kept (`antiphon.orchestrator.run_state`).

Every event that decides something is told before the next thing is done.
"""

from typing import Literal

from msgspec import Struct

from antiphon.orchestrator.models import AgentExecuteResponse, FileBundleItem, SourceRef

Outcome = Literal["ok", "error", "timeout", "suppressed", "interrupted", "handed"]
"""What became of a tool call. `suppressed`: it was a repetition and was not run; `interrupted`: the process
died in the middle of it, and since it has side effects, it was not run again; `handed`: the server's check
has let it pass, the client gives the result."""


class AgentStarted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.started"):
    """The context is known: which mode, which model, what was retrieved."""

    sequence_number: int
    mode: str
    model: str
    context_block: str = ""
    sources: tuple[SourceRef, ...] = ()
    warnings: tuple[str, ...] = ()
    """What was noticed on the way here; also in the warnings of the response."""


class TurnStarted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.turn.started"):
    """The model is asked. Turns count from 1; a run that broke off asks again without telling it again."""

    sequence_number: int
    turn: int


class TextDelta(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.text.delta"):
    """Some text of the model; only told when the request is streaming."""

    sequence_number: int
    turn: int
    delta: str


class TurnCompleted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.turn.completed"):
    """The model has answered: `response` is its answer, mapped."""

    sequence_number: int
    turn: int
    response: AgentExecuteResponse


class ToolStarted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.tool.started"):
    """A call is taken up by the server. A run that broke off does not tell it again."""

    sequence_number: int
    turn: int
    """0: the call was made in the response that the request goes on from."""
    call_id: str
    name: str
    arguments_json: str
    runs: bool = True
    """Whether a tool is about to be run; if not, the call is answered without."""


class ToolCompleted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.tool.completed"):
    """A tool was run, or was not. `output` is what the model is told."""

    sequence_number: int
    turn: int
    call_id: str
    name: str
    outcome: Outcome
    output: str
    elapsed_ms: int
    files: tuple[FileBundleItem, ...] = ()
    mode: str | None = None
    """The mode that the tool has switched to."""


class AgentWarned(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.warning"):
    """Something that the client should know; also in the warnings of the response."""

    sequence_number: int
    message: str


class AgentCompleted(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.completed"):
    """The end."""

    sequence_number: int
    response: AgentExecuteResponse


class AgentFailed(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.failed"):
    """The end, by an error: the kind of the response is `error`."""

    sequence_number: int
    response: AgentExecuteResponse
    code: str = ""
    """The code of the error object, more exact than the `error_code` of the response: that is its type."""


class AgentCancelled(Struct, frozen=True, kw_only=True, tag_field="type", tag="agent.cancelled"):
    """The end of a run that was called off."""

    sequence_number: int


AgentEvent = (
    AgentStarted
    | TurnStarted
    | TextDelta
    | TurnCompleted
    | ToolStarted
    | ToolCompleted
    | AgentWarned
    | AgentCompleted
    | AgentFailed
    | AgentCancelled
)
END = (AgentCompleted, AgentFailed, AgentCancelled)
"""Nothing comes after one of these."""
