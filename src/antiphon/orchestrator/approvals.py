"""Approvals: which calls wait for a person, and the answers that a request or a run has. Sans-IO."""

from collections.abc import Mapping, Sequence

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.continuation import Previous
from antiphon.orchestrator.models import AgentExecuteRequest, AgentToolCall, ApprovalAnswer, ApprovalRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.tool_items import OUTCOME_UNKNOWN
from antiphon.tools.call_record import CallKey
from antiphon.tools.call_runner import Approval, CallRunner
from antiphon.tools.declaration import ToolCall


def as_tool_call(call: AgentToolCall) -> ToolCall:
    return ToolCall(call.call_id, call.name, call.arguments_json or "")


def decisions(
    request: AgentExecuteRequest, answered: Mapping[CallKey, ApprovalAnswer]
) -> dict[CallKey, Approval]:
    """All decisions: those of the request are about the response that it continues, which is turn 0."""
    given = {CallKey(0, answer.id): answer for answer in request.approvals}
    return {
        key: Approval(answer.approve, answer.reason or "") for key, answer in {**given, **answered}.items()
    }


def waiting_for(
    calls: Sequence[AgentToolCall], asked: Sequence[ApprovalRequest], turn: int, runner: CallRunner
) -> tuple[ApprovalRequest, ...]:
    """The requests of a turn that nobody has answered: for its calls, and those of its MCP tools."""
    own = [
        ApprovalRequest(id=call.call_id, kind="agent", name=call.name, arguments=call.arguments_json or "{}")
        for call in calls
        if runner.waits(as_tool_call(call), turn)
    ]
    return (*own, *(each for each in asked if CallKey(turn, each.id) not in runner.approvals))


def approval_items(
    asked: Sequence[ApprovalRequest], turn: int, decided: Mapping[CallKey, Approval]
) -> list[JsonObject]:
    """The answers to the requests of MCP tools, as items for the server of the model."""
    items: list[JsonObject] = []
    for each in asked:
        decision = decided.get(CallKey(turn, each.id))
        if decision is not None:
            item: JsonObject = {
                "type": "mcp_approval_response",
                "approval_request_id": each.id,
                "approve": decision.approved,
            }
            items.append({**item, "reason": decision.reason} if decision.reason else item)
    return items


def outcome_unknown(item: JsonObject) -> JsonObject:
    """An approval that was sent before: its call must not run again, and the model gets the reason. The call
    of a refusal has not run."""
    if item.get("type") != "mcp_approval_response" or not item.get("approve"):
        return item
    return {**item, "approve": False, "reason": OUTCOME_UNKNOWN}


def check_answers(request: AgentExecuteRequest, previous: Previous, runner: CallRunner) -> None:
    """Raise `InvalidRequest` for answers that do not fit the response that the request continues."""
    if not request.approvals:
        return
    ids = [answer.id for answer in request.approvals]
    needed = [call.call_id for call in previous.calls if runner.waits_by_tool(call.name)]
    known = {*needed, *(each.id for each in previous.approvals)}
    for approval_id in ids:
        if approval_id not in known:
            message = f"There is no approval request '{approval_id}' in the response that is continued."
            raise _refused(message, "unknown_approval_request")
        if ids.count(approval_id) > 1:
            raise _refused(f"There are two answers to '{approval_id}'. Send one.", "duplicate_approval")
    if missing := sorted(known - set(ids)):
        message = f"There is no answer to the approval request '{missing[0]}'. Send all answers together."
        raise _refused(message, "missing_approval")


def _refused(message: str, code: str) -> InvalidRequest:
    return InvalidRequest(message, param="approvals", code=code)
