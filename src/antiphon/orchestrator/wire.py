"""Makes literal bodies, as AGN-003 has them, strict, so that every Responses server accepts them.

Nothing is modified in place; unchanged parts are shared.
"""

from collections.abc import Sequence
from typing import cast

import msgspec

from antiphon.orchestrator.blocks import build_tool_results_block
from antiphon.orchestrator.models import AgentToolCall
from antiphon.protocol.content import JsonObject

MAX_REMEMBERED_RESPONSES = 1_000
"""Responses whose tools a client remembers in order to send them again."""

_NOT_EXECUTED = "This call was not executed."


def to_strict(body: JsonObject) -> JsonObject:
    """The body with the names that the Responses API itself uses."""
    strict = dict(body)
    if isinstance(body.get("input"), list):
        strict["input"] = [_strict_item(item) for item in body["input"]]
    if isinstance(body.get("tools"), list):
        strict["tools"] = [to_strict_tool(tool) for tool in body["tools"]]
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and cast("JsonObject", choice).get("type") == "tool":
        strict["tool_choice"] = {**cast("JsonObject", choice), "type": "function"}
    return strict


def answer_calls(
    body: JsonObject, outputs: Sequence[AgentToolCall], approvals: Sequence[JsonObject] = ()
) -> JsonObject:
    """The body of a continuation with the results and approvals as items, so that a server can match them
    with its calls.

    The items precede the messages. The equivalent `[TOOL_RESULTS]` block is removed, and so is a user message
    that is empty without it.
    """
    if not outputs and not approvals:
        return body
    block = build_tool_results_block(outputs)
    messages = [_without(block, item) for item in items_of(body.get("input"))]
    answers = [*map(_output_item, outputs), *approvals]
    return {**body, "input": [*answers, *(item for item in messages if item is not None)]}


class SentTools:
    """The tools of the last responses, for servers that do not inherit them along a chain."""

    def __init__(self, limit: int = MAX_REMEMBERED_RESPONSES) -> None:
        self._limit = limit
        self._by_response: dict[str, object] = {}

    def fill_in(self, body: JsonObject) -> JsonObject:
        """The body with the tools of the response that it continues, unless it has tools itself."""
        tools = self._by_response.get(str(body.get("previous_response_id")))
        return body if tools is None or "tools" in body else {**body, "tools": tools}

    def remember(self, response_id: str, body: JsonObject) -> None:
        """Remember the tools of a response's request."""
        if not body.get("tools"):
            return
        self._by_response[response_id] = body["tools"]
        if len(self._by_response) > self._limit:
            del self._by_response[next(iter(self._by_response))]


def _strict_item(item: object) -> object:
    """A message with the content types of its role; a tool's output has those of user input."""
    if not isinstance(item, dict):
        return item
    body = cast("JsonObject", item)
    if "role" in body:
        return _strict_parts(body, "content", "output_text" if body["role"] == "assistant" else "input_text")
    return _strict_parts(body, "output", "input_text")


def _strict_parts(item: JsonObject, member: str, text_type: str) -> JsonObject:
    parts = item.get(member)
    if not isinstance(parts, list):
        return item
    strict: list[object] = [
        {**cast("JsonObject", part), "type": text_type} if _is_text(part) else part
        for part in cast("list[object]", parts)
    ]
    return {**item, member: strict}


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and cast("JsonObject", part).get("type") == "text"


def to_strict_tool(tool: object) -> object:
    """A tool in the form of the Responses API: a function if it has no type, and flat where chat completions
    nest."""
    if not isinstance(tool, dict):
        return tool
    body: JsonObject = {"type": "function", **cast("JsonObject", tool)}
    nested = body.get("function")
    if body["type"] != "function" or not isinstance(nested, dict):
        return body
    flat = {name: value for name, value in body.items() if name != "function"}
    return {**flat, **cast("JsonObject", nested)}


def items_of(given: object) -> list[JsonObject]:
    """The items of an `input` or an `output`; a string is one user message."""
    if isinstance(given, list):
        return cast("list[JsonObject]", given)
    return [{"role": "user", "content": given}] if given else []


def _output_item(call: AgentToolCall) -> JsonObject:
    return {"type": "function_call_output", "call_id": call.call_id, "output": _output(call)}


def _output(call: AgentToolCall) -> str:
    """The output for the model. `null` beside an error counts as no result."""
    result, error = call.result_json or "", (call.error_message or "").strip()
    if error and result.strip() in ("", "null"):
        return _error(error)
    if result or call.was_executed:
        return result
    return _error(_NOT_EXECUTED)


def _error(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()


def _without(block: str, item: JsonObject) -> JsonObject | None:
    """The item without this block; None if it is a user message without any other content."""
    content = item.get("content")
    if item.get("role") != "user" or not isinstance(content, list):
        return item
    parts = cast("list[JsonObject]", content)
    left = [part for part in parts if not block or part.get("text") != block]
    if not left or (len(left) == 1 and _is_empty_instruction(left[0])):
        return None
    return {**item, "content": left}


def _is_empty_instruction(part: JsonObject) -> bool:
    """Whether it is the first part of a user message with an empty instruction."""
    mode, marker, instruction = str(part.get("text", "")).partition("]\n\n[INSTRUCTION]\n")
    return mode.startswith("[MODE: ") and bool(marker) and not instruction.strip()
