"""Calls of MCP tools as calls of functions: those that ran, and those that were not approved."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item
from antiphon.protocol.stored_items import item_id
from antiphon.protocol.tool_items import OUTCOME_UNKNOWN, McpApprovalRequest, McpApprovalResponse, McpCall

BYTES_PER_TOKEN = 4
CUT_NOTE = "\n\n[The output is longer: {} of its {} bytes are shown.]"

_UNKNOWN = (
    "The call was cut off, and its outcome is unknown: the tool may have run. Do not call it again unless it "
    "is safe to run it twice."
)
_UNANSWERED = "The user has not approved this call, so it was not run."
_REFUSED = "The user refused this call, so it was not run."
_NOTHING = "The tool has answered without any output."


class McpCalls:
    """The calls of one conversation, and the answers to requests for approvals."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._answers = {
            item.approval_request_id: item for item in items if isinstance(item, McpApprovalResponse)
        }
        self._run = {item.approval_request_id for item in items if isinstance(item, McpCall)}

    def show_call(self, item: McpCall, name: str, position: int) -> Iterable[Item]:
        """A call that a server made, and its output."""
        return _pair(item, name, position, call_text(item))

    def show_request(self, item: McpApprovalRequest, name: str, position: int) -> Iterable[Item]:
        """A call that was not run, or may have run; nothing if its own item shows it."""
        if item_id(item) in self._run:
            return ()
        answer = self._answers.get(item_id(item))
        if answer is None or answer.approve:
            return _pair(item, name, position, _UNANSWERED)
        if answer.reason == OUTCOME_UNKNOWN:
            return _pair(item, name, position, OUTCOME_UNKNOWN)
        reason = f" The reason: {answer.reason}" if answer.reason else ""
        return _pair(item, name, position, _REFUSED + reason)


def call_text(item: McpCall) -> str:
    """What the model is shown of the outcome of a call."""
    if item.status == "incomplete":
        return _UNKNOWN
    if item.output:
        return item.output
    return f"The call failed: {error_text(item.error)}" if item.error else _NOTHING


def error_text(error: object) -> str:
    """The message of an error in any of its forms."""
    if not isinstance(error, dict):
        return str(error)
    body = cast("JsonObject", error)
    if isinstance(body.get("message"), str):
        return str(body["message"])
    content: Any = body.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    texts = [str(cast("JsonObject", part).get("text", "")) for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if text) or str(body)


def cut_text(text: str, max_bytes: int) -> str:
    """The beginning of a text that is too long, with a note."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= max_bytes:
        return text
    return data[:max_bytes].decode("utf-8", "ignore") + CUT_NOTE.format(max_bytes, len(data))


def _pair(item: McpCall | McpApprovalRequest, name: str, position: int, output: str) -> Iterable[Item]:
    call_id = item_id(item) or f"call_mcp_{position}"
    call = FunctionCall(call_id=call_id, name=name, arguments=item.arguments or "{}")
    return call, FunctionCallOutput(call_id=call_id, output=output)
