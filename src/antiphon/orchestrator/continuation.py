"""What a request goes on from: the calls of the response before, and what the client has to say to them.

Nothing is remembered between two requests. Which calls were made is read from the stored response, so no
result is taken that nobody asked for, or that the server itself must give. Sans-IO.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse, AgentToolCall
from antiphon.orchestrator.request_parser import tool_results_of
from antiphon.orchestrator.resolution import Chain, Plan, tool_names

MODE_KEY = "agent_mode"
"""The metadata of a response in which its mode is told: the next request may name another one."""
Owner = Literal["server", "client", "both"]
"""Who answers a call. `both`: the server checks it, then the client gives the result."""


class Previous(Struct, frozen=True):
    """The response that a request goes on from. The empty one: it begins a conversation."""

    calls: tuple[AgentToolCall, ...] = ()
    chain: Chain | None = None
    """The conversation; None: there is none, or nothing is known of it."""

    @property
    def tools(self) -> frozenset[str] | None:
        """The names of the tools that the model knows; None: that is not known."""
        return None if self.chain is None else frozenset(tool_names(self.chain.tools))


class _Told(Struct):
    tools: list[Any] | None = None
    metadata: dict[str, Any] | None = None


def previous_of(response: AgentExecuteResponse) -> Previous:
    """A response as one to go on from: its calls, and what it says about the conversation."""
    try:
        told = msgspec.json.decode(response.raw_response_json or "", type=_Told)
    except (msgspec.MsgspecError, UnicodeError):
        told = _Told()
    if told.tools is None:
        return Previous(response.tool_calls)
    mode = (told.metadata or {}).get(MODE_KEY)
    return Previous(response.tool_calls, Chain(told.tools, mode if isinstance(mode, str) else None))


def owner_of(call: AgentToolCall, plan: Plan, response_tools: frozenset[str] | None) -> Owner:
    """Whose a call is. One that nobody declared is the server's, who says so to the model; but if it cannot
    be known what was declared, it must be the client's."""
    tool = plan.offered.get(call.name)
    if tool is not None:
        return "server" if tool.final == "server" else "both"
    if call.name in plan.taken:
        return "server"
    if response_tools is None and not plan.client_tools:
        return "client"
    return "client" if call.name in plan.client_tools | (response_tools or frozenset()) else "server"


def results_for(request: AgentExecuteRequest, previous: Previous, plan: Plan) -> dict[str, AgentToolCall]:
    """The client's results by call id. Raises `InvalidRequest` for results that answer no call of its own.

    Without any results, the calls that are open count as not executed, and there must be an instruction.
    """
    results = {result.call_id: result for result in tool_results_of(request)}
    if not results:
        if not (request.instruction or "").strip() and not request.image_attachments:
            raise InvalidRequest(
                "Say what the agent shall do: 'instruction' is missing.", param="instruction"
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
    """The calls that the client should have answered and has not."""
    return [
        call
        for call in previous.calls
        if call.call_id not in results and owner_of(call, plan, previous.tools) != "server"
    ]


def missing_result(request: AgentExecuteRequest, call: AgentToolCall) -> InvalidRequest:
    """The refusal of results that are not complete."""
    message = f"There is no result for the call '{call.call_id}' of '{call.name}'. Send all results together."
    return _refused(request, message, "missing_tool_result")


def abandoned(request: AgentExecuteRequest, previous: Previous) -> list[str]:
    """A warning, if the request goes on without answering what is open."""
    if not previous.calls or tool_results_of(request):
        return []
    names = ", ".join(call.name for call in previous.calls)
    return [f"The conversation goes on without the results of open calls ({names}); they were not executed."]


def _check_name(request: AgentExecuteRequest, call: AgentToolCall, result: AgentToolCall | None) -> None:
    """Who mixes up two calls would tell the model the result of one as that of the other."""
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
        return ": say with responseContinuationId which response has made it."
    return f" in the response '{request.response_continuation_id}'."


def _refused(request: AgentExecuteRequest, message: str, code: str) -> InvalidRequest:
    as_text = bool((request.tool_results_json or "").strip())
    return InvalidRequest(message, param="toolResultsJson" if as_text else "toolResults", code=code)
