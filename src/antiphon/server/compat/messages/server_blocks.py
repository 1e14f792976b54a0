"""Calls of hosted tools as content blocks: one with the input of the call, one with its result.

What the model saw of the result is in these blocks, so that a client that sends them back continues with the
same context: the text of web pages in `encrypted_content`, sealed; everything else in plain.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item
from antiphon.protocol.stored_items import item_id
from antiphon.protocol.tool_items import CodeInterpreterCall, McpCall, WebSearchCall
from antiphon.turn.function_forms.mcp_calls import call_text, error_text
from antiphon.turn.sealing import Sealer

ServerCall = WebSearchCall | CodeInterpreterCall | McpCall
"""The items that have blocks of their own."""

PAGE = "page"
"""The member of an envelope that holds a result of a search."""
CODE_EXECUTION, WEB_SEARCH = "code_execution", "web_search"
SERVER_TOOL_USE, MCP_TOOL_USE = "server_tool_use", "mcp_tool_use"
MAX_CITED_CHARACTERS = 150
_ID_PREFIX, _MCP_PREFIX = "srvtoolu_", "mcptoolu_"
_EMPTY: JsonObject = {}


class CitedPages:
    """The pages that an answer can cite, by their addresses."""

    def __init__(self, items: Sequence[Item] = ()) -> None:
        self._texts: dict[str, str] = {}
        for item in items:
            if isinstance(item, WebSearchCall):
                self.add(item)

    def add(self, item: WebSearchCall) -> None:
        """The pages that a search has found."""
        for result in found_pages(item):
            self._texts[str(result["url"])] = str(result.get("text") or "")

    def has(self, annotation: JsonObject) -> bool:
        """Whether the annotation cites one of these pages."""
        return annotation.get("type") == "url_citation" and annotation.get("url") in self._texts

    def citation(self, annotation: JsonObject, sealer: Sealer) -> JsonObject | None:
        """A citation in the form of this API; None if the cited text is not known."""
        if not self.has(annotation):
            return None
        url = str(annotation["url"])
        return {
            "type": "web_search_result_location",
            "url": url,
            "title": annotation.get("title"),
            "cited_text": self._texts[url][:MAX_CITED_CHARACTERS],
            "encrypted_index": sealer.seal_private({"url": url}),
        }


def with_private_side(item: ServerCall, private: Mapping[str, str]) -> ServerCall:
    """The item with what the model was shown. `private`: the private sides by item id."""
    side = private.get(item_id(item))
    if side is None:
        return item
    return replace(item, **msgspec.json.decode(side, type=dict[str, Any]))


def use_block(item: ServerCall) -> JsonObject:
    """The block of a call that begins: its input follows."""
    if isinstance(item, McpCall):
        return {
            "type": MCP_TOOL_USE,
            "id": _use_id(item),
            "name": item.name,
            "server_name": item.server_label,
            "input": {},
        }
    name = WEB_SEARCH if isinstance(item, WebSearchCall) else CODE_EXECUTION
    return {"type": SERVER_TOOL_USE, "id": _use_id(item), "name": name, "input": {}}


def use_input(item: ServerCall) -> JsonObject:
    """The input of a call."""
    match item:
        case WebSearchCall():
            return _search_input(item)
        case CodeInterpreterCall():
            return {"code": item.code if isinstance(item.code, str) else ""}
        case McpCall():
            return arguments_object(item.arguments)


def result_block(item: ServerCall, sealer: Sealer) -> JsonObject:
    """The block with the result of a call. `item` has its private side."""
    match item:
        case WebSearchCall():
            return _block("web_search_tool_result", item, _search_content(item, sealer))
        case CodeInterpreterCall():
            return _block("code_execution_tool_result", item, _code_content(item))
        case McpCall():
            failed = item.status in ("failed", "incomplete") or bool(item.error)
            text = error_text(item.error) if item.error else call_text(item)
            content = [{"type": "text", "text": text, "citations": None}]
            return {**_block("mcp_tool_result", item, content), "is_error": failed}


def found_pages(item: WebSearchCall) -> list[JsonObject]:
    """The pages that a search has found, without notes and errors."""
    results = item.results if isinstance(item.results, list) else []
    return [result for result in results if isinstance(result.get("url"), str)]


def arguments_object(arguments: str, unreadable: str = "INVALID_JSON") -> JsonObject:
    """The arguments of a call as an object. `unreadable`: the member that holds arguments which are none,
    Anthropic's own advice for such input."""
    try:
        called = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        called = None
    return cast("JsonObject", called) if isinstance(called, dict) else {unreadable: arguments}


class Container(Struct, frozen=True):
    """The container of an answer."""

    id: str
    expires_at: str


def last_container(output: Sequence[Item]) -> str | None:
    """The id of the container that the last run of code has used."""
    for item in reversed(output):
        if isinstance(item, CodeInterpreterCall) and isinstance(item.container_id, str) and item.container_id:
            return item.container_id
    return None


def _use_id(item: ServerCall) -> str:
    """The id of the call. That of a run names its container, so that the next turn finds it."""
    if isinstance(item, McpCall):
        return _MCP_PREFIX + item_id(item)
    if isinstance(item, CodeInterpreterCall) and isinstance(item.container_id, str) and item.container_id:
        return f"{_ID_PREFIX}{item.container_id}_{item_id(item)}"
    return _ID_PREFIX + item_id(item)


def _block(kind: str, item: ServerCall, content: object) -> JsonObject:
    return {"type": kind, "tool_use_id": _use_id(item), "content": content}


def _search_input(item: WebSearchCall) -> JsonObject:
    """The members of the action. This API has one query; a search with several has them all besides."""
    action = _EMPTY if isinstance(item.action, UnsetType) else item.action
    members = {name: action[name] for name in ("query", "url", "pattern") if name in action}
    queries = action.get("queries")
    if isinstance(queries, list) and len(cast("list[object]", queries)) > 1:
        members["queries"] = queries
    return members


def _search_content(item: WebSearchCall, sealer: Sealer) -> list[JsonObject] | JsonObject:
    if item.status in ("failed", "incomplete"):
        code = "unavailable" if _search_input(item).get("query") else "invalid_tool_input"
        return {"type": "web_search_tool_result_error", "error_code": code}
    return [
        {
            "type": "web_search_result",
            "url": result["url"],
            "title": result.get("title") or "",
            "encrypted_content": sealer.seal_private({PAGE: result}),
            "page_age": None,
        }
        for result in found_pages(item)
    ]


def _code_content(item: CodeInterpreterCall) -> JsonObject:
    if item.status == "incomplete":
        return {"type": "code_execution_tool_result_error", "error_code": "unavailable"}
    outputs = item.outputs if isinstance(item.outputs, list) else []
    logs = "\n".join(str(output["logs"]) for output in outputs if output.get("logs"))
    failed = item.status == "failed"
    return {
        "type": "code_execution_result",
        "stdout": "" if failed else logs,
        "stderr": logs if failed else "",
        "return_code": int(failed),
        "content": [],
    }
