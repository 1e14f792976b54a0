"""The response that a request continues: its open calls, and the client's results for them.

No state is held between two requests. The open calls are read from the stored response, so a result is
rejected if there is no such call, or if the server itself answers it. Sans-IO.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    AgentToolCall,
    ApprovalRequest,
)
from antiphon.orchestrator.request_parser import tool_results_of
from antiphon.orchestrator.resolution import Chain, Plan, tool_names

MODE_KEY = "agent_mode"
"""The metadata key under which a response carries its mode."""
Owner = Literal["server", "client", "both"]
"""Who answers a call. `both`: the server checks it, then the client gives the result."""


class Previous(Struct, frozen=True):
    """The response that a request continues; empty: the request starts a conversation."""

    calls: tuple[AgentToolCall, ...] = ()
    chain: Chain | None = None
    """The conversation; None: there is none, or its tools are unknown."""
    approvals: tuple[ApprovalRequest, ...] = ()
    """The approval requests of its MCP tools."""

    @property
    def tools(self) -> frozenset[str] | None:
        """The names of the conversation's tools; None: unknown."""
        return None if self.chain is None else frozenset(tool_names(self.chain.tools))


class _ResponseMembers(Struct):
    tools: list[Any] | None = None
    metadata: dict[str, Any] | None = None


def previous_of(response: AgentExecuteResponse) -> Previous:
    """A response as one to continue: its calls, tools and mode."""
    try:
        found = msgspec.json.decode(response.raw_response_json or "", type=_ResponseMembers)
    except (msgspec.MsgspecError, UnicodeError):
        found = _ResponseMembers()
    if found.tools is None:
        return Previous(response.tool_calls, None, response.approvals)
    mode = (found.metadata or {}).get(MODE_KEY)
    chain = Chain(found.tools, mode if isinstance(mode, str) else None)
    return Previous(response.tool_calls, chain, response.approvals)


def owner_of(call: AgentToolCall, plan: Plan, response_tools: frozenset[str] | None) -> Owner:
    """Who answers a call. An undeclared tool is the server's, which reports it to the model; but if the
    declared tools are unknown, it is taken for the client's."""
    tool = plan.offered.get(call.name)
    if tool is not None:
        return "server" if tool.final == "server" else "both"
    if call.name in plan.taken:
        return "server"
    if response_tools is None and not plan.client_tools:
        return "client"
    return "client" if call.name in plan.client_tools | (response_tools or frozenset()) else "server"


def results_for(request: AgentExecuteRequest, previous: Previous, plan: Plan) -> dict[str, AgentToolCall]:
    """The client's results by call id. Raises `InvalidRequest` for a result without a call of the client's.

    Without any results and approvals, open calls count as not executed, and an instruction is required.
    """
    results = {result.call_id: result for result in tool_results_of(request)}
    if not results and not request.approvals:
        if not (request.instruction or "").strip() and not request.image_attachments:
            raise InvalidRequest(
                "'instruction' is missing: describe what the agent should do.", param="instruction"
            )
        return {call.call_id: _unanswered(call) for call in previous.calls}
    if unknown := [call_id for call_id in results if call_id not in _ids(previous.calls)]:
        raise _refused(request, f"There is no open call '{unknown[0]}'{_where(request)}", "unknown_tool_call")
    ours = [call for call in previous.calls if owner_of(call, plan, previous.tools) == "server"]
    if answered := [call for call in ours if call.call_id in results]:
        message = f"The call '{answered[0].call_id}' of '{answered[0].name}' is answered by the server."
        raise _refused(request, message, "server_tool_call")
    for call in previous.calls:
        _check_name(request, call, results.get(call.call_id))
    return results


def without_result(
    results: dict[str, AgentToolCall], previous: Previous, plan: Plan
) -> Sequence[AgentToolCall]:
    """The calls of the client's tools that have no result."""
    return [
        call
        for call in previous.calls
        if call.call_id not in results and owner_of(call, plan, previous.tools) != "server"
    ]


def missing_result(request: AgentExecuteRequest, call: AgentToolCall) -> InvalidRequest:
    """The error for incomplete results."""
    message = f"There is no result for the call '{call.call_id}' of '{call.name}'. Send all results together."
    return _refused(request, message, "missing_tool_result")


def abandoned(request: AgentExecuteRequest, previous: Previous) -> list[str]:
    """A warning if the request leaves open calls unanswered."""
    if not previous.calls or tool_results_of(request) or request.approvals:
        return []
    names = ", ".join(call.name for call in previous.calls)
    return [
        f"The conversation continues without the results of open calls ({names}); they were not executed."
    ]


def _check_name(request: AgentExecuteRequest, call: AgentToolCall, result: AgentToolCall | None) -> None:
    """Reject a result whose tool name differs from the call: the client has mixed up two calls."""
    if result is not None and result.name.strip() and result.name != call.name:
        message = (
            f"The result of the call '{call.call_id}' is named '{result.name}', but the call is one of "
            f"'{call.name}'. Send the result of that call, or leave the name out."
        )
        raise _refused(request, message, "tool_result_mismatch")


def _unanswered(call: AgentToolCall) -> AgentToolCall:
    return AgentToolCall(call_id=call.call_id, name=call.name)


def _ids(calls: Iterable[AgentToolCall]) -> set[str]:
    return {call.call_id for call in calls}


def _where(request: AgentExecuteRequest) -> str:
    if not (request.response_continuation_id or "").strip():
        return ": pass the id of the response with that call as responseContinuationId."
    return f" in the response '{request.response_continuation_id}'."


def _refused(request: AgentExecuteRequest, message: str, code: str) -> InvalidRequest:
    as_text = bool((request.tool_results_json or "").strip())
    return InvalidRequest(message, param="toolResultsJson" if as_text else "toolResults", code=code)
