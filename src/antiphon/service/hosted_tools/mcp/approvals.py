"""Approvals of calls of MCP tools: which calls a request approves, before a model is asked."""

from collections.abc import Mapping, Sequence

from antiphon.errors import InvalidRequest
from antiphon.protocol.items import Item
from antiphon.protocol.stored_items import item_id
from antiphon.protocol.tool_items import (
    HostedItem,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
)
from antiphon.service.hosted_tools.base import OpenedTools
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.tools import mcp_key

_APPROVALS = frozenset({McpApprovalRequest, McpApprovalResponse})


def check_approvals(history: Sequence[Item], items: Sequence[Item], served: frozenset[str]) -> None:
    """Refuse answers to requests that do not exist, or were answered before; and a request that is sent again
    though the history has it."""
    if "mcp" not in served or _APPROVALS.isdisjoint(map(type, items)):
        return
    known = _requests(history)
    answered = {item.approval_request_id for item in history if isinstance(item, McpApprovalResponse)}
    for index, item in enumerate(items):
        if isinstance(item, McpApprovalRequest):
            if item_id(item) in known:
                message = f"Duplicate item found with id '{item_id(item)}'. The history has it already."
                raise InvalidRequest(message, param="input", code="invalid_value")
            known[item_id(item)] = item
        elif isinstance(item, McpApprovalResponse):
            where = f"input[{index}].approval_request_id"
            if item.approval_request_id not in known:
                message = f"No approval request found with id '{item.approval_request_id}'."
                raise InvalidRequest(message, param=where, code="invalid_value")
            if item.approval_request_id in answered:
                message = f"The approval request '{item.approval_request_id}' was already answered."
                raise InvalidRequest(message, param=where, code="invalid_value")
            answered.add(item.approval_request_id)


def approved_calls(
    history: Sequence[Item], items: Sequence[Item], opened: OpenedTools
) -> tuple[HostedCall, ...]:
    """The calls that `items` approve and that were not run yet. Raises `InvalidRequest` if their tool is not
    available any more."""
    answers = [item for item in items if isinstance(item, McpApprovalResponse) and item.approve]
    if not answers or "mcp" not in {tool.type for tool in opened.toolset.opened}:
        return ()
    requests = {**_requests(history), **_requests(items)}
    run = {item.approval_request_id for item in items if isinstance(item, McpCall)}
    calls: list[HostedCall] = []
    for answer in answers:
        if answer.approval_request_id not in run:
            request = requests[answer.approval_request_id]
            key = _key(request, opened.functions)
            calls.append(HostedCall(len(calls), key, request.arguments, answer.approval_request_id))
    return tuple(calls)


def _key(request: McpApprovalRequest, functions: Mapping[str, object]) -> str:
    key = mcp_key(request.server_label, request.name)
    if key not in functions:
        message = (
            f"The call that '{item_id(request)}' asks for cannot be run: 'tools' declares no MCP server "
            f"'{request.server_label}' with a tool '{request.name}' that may be used."
        )
        raise InvalidRequest(message, param="tools", code="invalid_value")
    return key


def _requests(items: Sequence[Item]) -> dict[str, McpApprovalRequest]:
    return {item_id(item): item for item in items if isinstance(item, McpApprovalRequest)}


def unfinished(calls: Sequence[HostedCall], output: Sequence[Item]) -> list[HostedCall]:
    """The approved calls that an earlier attempt at the response has not begun."""
    begun = {item.approval_request_id for item in output if isinstance(item, McpCall)}
    return [call for call in calls if call.approval_request_id not in begun]


def unlisted(listed: Sequence[HostedItem], items: Sequence[Item]) -> list[HostedItem]:
    """The lists of tools that the conversation does not have, or has in another form."""
    known = {item.server_label: item.tools for item in items if isinstance(item, McpListTools)}
    return [
        item
        for item in listed
        if not isinstance(item, McpListTools) or known.get(item.server_label) != item.tools
    ]
