"""AGN-004: from what `/responses` returned to an `AgentExecuteResponse`.

The mapping never fails: anything but a response is mapped to a response of kind `error`.
"""

from http import HTTPStatus
from typing import cast

from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    ConversationContext,
    Kind,
    LlmUsage,
)
from antiphon.orchestrator.output_segments import Output, read_output
from antiphon.orchestrator.raw_response import (
    Fault,
    Members,
    RawResponse,
    bare_error,
    decode_members,
    error_object,
    incomplete_reason,
    receive,
    string,
)
from antiphon.protocol.content import JsonObject

CALL_FAILED = "call_failed"
"""The error code of a call that failed without a status."""
MAX_QUOTED_CHARS = 500
"""Length of a body without an error object that becomes the error message."""

_INCOMPLETE = {"max_output_tokens": "length", "": "length"}
_MOST_TOKENS = 2**63 - 1


def map_response(
    raw: RawResponse, request: AgentExecuteRequest, context: ConversationContext
) -> AgentExecuteResponse:
    """Map a response: its JSON, the object itself, or the terminal event of a stream. Never raises."""
    text, response, fault = receive(raw)
    output = read_output(response)
    kind: Kind = "ok" if output.texts else "tool-only" if output.calls or output.approvals else "empty"
    return AgentExecuteResponse(
        kind=kind if fault is None else "error",
        model_id=string(response.model) or None,
        text=output.text or None,
        finish_reason=output.finish_reason or _derived_reason(response, fault, output),
        usage=_usage(response.usage),
        error_code=fault.code if fault else None,
        error_message=fault.message if fault else None,
        sources=tuple(output.sources),
        raw_response_json=text,
        tool_calls=tuple(output.calls),
        hosted_calls=tuple(output.hosted_calls),
        approvals=tuple(output.approvals),
        **_ids(request, context, string(response.id)),
    )


def map_error(
    status: int | None,
    body: RawResponse | None,
    request: AgentExecuteRequest,
    context: ConversationContext,
) -> AgentExecuteResponse:
    """Map a call that failed, with the status and the body of the answer, if any.

    The error code is the error's type; without one its code; without either the status.
    """
    text, members = (None, Members()) if body is None else decode_members(body)[:2]
    given = error_object(members.error) or bare_error(members) or Fault("", "")
    code = given.code or ("" if status is None else str(status)) or CALL_FAILED
    message = given.message or _excerpt(text) or _phrase(status)
    return AgentExecuteResponse(
        kind="error",
        finish_reason="error",
        error_code=code,
        error_message=message,
        raw_response_json=text or None,
        **_ids(request, context, ""),
    )


def _ids(request: AgentExecuteRequest, context: ConversationContext, response_id: str) -> JsonObject:
    """The ids of the response. The caller's turn id takes precedence."""
    conversation, agent = request.conversation_context, request.agent_context
    return {
        "conversation_id": request.conversation_id,
        "conversation_context_id": context.id or (conversation.id if conversation else None) or None,
        "agent_context_id": context.agent_context_id or (agent.id if agent else None) or None,
        "turn_id": request.current_turn_id or response_id or None,
        "response_continuation_id": response_id or None,
        "mode": request.mode,
    }


def _derived_reason(response: Members, fault: Fault | None, output: Output) -> str:
    """The finish reason if no segment has one."""
    status = string(response.status)
    if fault is not None:
        return "error"
    if status == "incomplete":
        reason = incomplete_reason(response)
        return _INCOMPLETE.get(reason, reason)
    if status in ("", "completed"):
        return "tool_use" if output.calls or output.approvals else "stop"
    return status  # not ended, or cancelled


def _usage(value: object) -> LlmUsage:
    members = cast("JsonObject", value) if isinstance(value, dict) else {}
    return LlmUsage(
        prompt_tokens=_tokens(members, "prompt_tokens", "input_tokens"),
        completion_tokens=_tokens(members, "completion_tokens", "output_tokens"),
        total_tokens=_tokens(members, "total_tokens"),
    )


def _tokens(members: JsonObject, *names: str) -> int:
    counts = (members.get(name) for name in names)
    return next((count for count in counts if type(count) is int and 0 <= count <= _MOST_TOKENS), 0)


def _excerpt(text: str | None) -> str:
    stripped = (text or "").strip()
    return stripped if len(stripped) <= MAX_QUOTED_CHARS else f"{stripped[:MAX_QUOTED_CHARS]}…"


def _phrase(status: int | None) -> str:
    if status is None:
        return "The call failed without an answer."
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"The server answered with status {status}."
