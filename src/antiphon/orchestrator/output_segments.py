"""Reads the segments of a response's output, in all shapes that servers use: text, tool calls and finish
reasons, calls of hosted tools and citations, in order. Reasoning and unknown segments are skipped, except for
their finish reason.
"""

from dataclasses import dataclass, field
from typing import cast

from antiphon.orchestrator.hosted_segments import (
    APPROVAL_REQUEST,
    HOSTED_CALLS,
    read_approval_request,
    read_citations,
    read_hosted_call,
    text_of,
)
from antiphon.orchestrator.models import AgentToolCall, ApprovalRequest, HostedCallRecord, SourceRef
from antiphon.orchestrator.raw_response import Members, Segment, string

_TEXTS = frozenset({"output_text", "text"})
_CALLS = frozenset({"tool_call", "function_call", "custom_tool_call"})
_NEWLINES = "\r\n"


@dataclass(slots=True)
class Output:
    """The contents of the segments."""

    texts: list[str] = field(default_factory=list[str])
    """Texts of the model, refusals included."""
    refusals: list[str] = field(default_factory=list[str])
    """The reasons of refusals."""
    calls: list[AgentToolCall] = field(default_factory=list[AgentToolCall])
    hosted_calls: list[HostedCallRecord] = field(default_factory=list[HostedCallRecord])
    approvals: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])
    sources: dict[SourceRef, None] = field(default_factory=dict[SourceRef, None])
    """What the texts cite, each source once."""
    finish_reason: str = ""
    """The last one found; empty: none."""

    @property
    def text(self) -> str:
        """All texts, with exactly one blank line between two of them."""
        if len(self.texts) < 2:
            return "".join(self.texts)
        first, *inner, last = self.texts
        trimmed = [text.strip(_NEWLINES) for text in inner]
        return "\n\n".join([first.rstrip(_NEWLINES), *trimmed, last.lstrip(_NEWLINES)])


def read_output(response: Members) -> Output:
    """Read `output`. The convenience member `output_text` is used only if there is no other text."""
    output = Output()
    for segment in _segments(response.output):
        kind = _kind(segment)
        if kind == "message":
            _read_message(segment, output)
        else:
            _read_segment(segment, kind, output)
    if not output.texts:
        _add_text(response.output_text, output)
    return output


def _segments(value: object) -> list[Segment]:
    """The objects of a list; a single object is a list of one."""
    elements = cast("list[object]", value) if isinstance(value, list) else [value]
    return [element for element in elements if isinstance(element, Segment)]


def _kind(segment: Segment) -> str:
    """The type in lower case. A segment without type but with content is a message."""
    kind = segment.type
    if isinstance(kind, str) and kind:
        return kind.lower()
    return "" if segment.content is None else "message"


def _read_message(message: Segment, output: Output) -> None:
    if isinstance(message.content, str):
        _add_text(message.content, output)
    for part in _segments(message.content):
        _read_segment(part, _kind(part), output)
    if message.finish_reason is not None:
        _note_reason(message.finish_reason, output)


def _read_segment(segment: Segment, kind: str, output: Output) -> None:
    if kind in _CALLS:
        nested = getattr(segment, kind)
        _add_call(nested if type(nested) is Segment else segment, kind, output)
    elif kind in _TEXTS:
        _add_text(segment.text, output)
        output.sources.update(dict.fromkeys(read_citations(segment.annotations)))
    elif kind in HOSTED_CALLS:
        output.hosted_calls.append(read_hosted_call(segment, kind))
    elif kind == APPROVAL_REQUEST:
        output.approvals.append(read_approval_request(segment))
    elif kind == "refusal":
        _add_text(segment.refusal, output)
        output.refusals.append(string(segment.refusal).strip() or "no reason given.")
    if segment.finish_reason is not None:
        _note_reason(segment.finish_reason, output)


def _add_text(text: object, output: Output) -> None:
    if isinstance(text, str) and text.strip():
        output.texts.append(text)


def _add_call(call: Segment, kind: str, output: Output) -> None:
    """`id` identifies the call only if there is no `call_id`."""
    call_id = string(call.call_id) or string(call.id)
    name = string(call.name)
    if call_id or name:
        arguments = text_of(call.input if kind == "custom_tool_call" else call.arguments)
        output.calls.append(AgentToolCall(call_id=call_id, name=name, arguments_json=arguments))
    if call.finish_reason is not None:
        _note_reason(call.finish_reason, output)


def _note_reason(reason: object, output: Output) -> None:
    if isinstance(reason, str) and reason.strip():
        output.finish_reason = reason
