"""Blocks of tools that a server ran, sent back by the client, as items: the model sees the calls again."""

import re
from collections.abc import Callable
from typing import Any, cast

import msgspec
from msgspec import Struct

from antiphon.protocol.containers import is_own_container
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item
from antiphon.protocol.parse import as_object, convert
from antiphon.protocol.tool_items import CodeInterpreterCall, McpCall, WebSearchCall
from antiphon.server.compat.messages.server_blocks import MCP_TOOL_USE, PAGE, SERVER_TOOL_USE
from antiphon.turn.function_forms.code_runs import PYTHON
from antiphon.turn.function_forms.file_searches import ERROR, SOURCE
from antiphon.turn.function_forms.web_searches import FIND_IN_PAGE, NOTE, OPEN_PAGE, SEARCH

OpenPrivate = Callable[[str], JsonObject | None]
"""The private members in an envelope; None if it was not sealed here."""

_USES = (SERVER_TOOL_USE, MCP_TOOL_USE)
_RESULTS = (
    "web_search_tool_result",
    "mcp_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
)
_LISTING = "mcp_tool_listing"
SERVER_BLOCKS = frozenset({*_USES, *_RESULTS, _LISTING})
"""The types of blocks that are read here."""
_CONTAINER = re.compile(r"srvtoolu_(cntr_[0-9a-f]{44})_")
_NOTHING = "No pages of this search are known. Search again if you need them."
_PAUSED = "calls of server tools without a result are left out"
_FOREIGN = "results of searches that were not made here are left out: their text is encrypted"


class ServerUse(Struct, frozen=True):
    """The model has called a tool of a server."""

    id: str
    name: str
    server_name: str = ""
    input: JsonObject = {}


class ServerResult(Struct, frozen=True):
    """The result of such a call."""

    tool_use_id: str
    content: str | list[Any] | JsonObject | None = None
    is_error: bool | None = None


class SearchResult(Struct, frozen=True):
    """A page that was found."""

    encrypted_content: str = ""


class CodeResult(Struct, frozen=True):
    """What a run has printed."""

    stdout: str = ""
    stderr: str = ""
    error_code: str = ""


class ServerCalls:
    """The calls of one conversation, until their results are read."""

    def __init__(self, open_private: OpenPrivate, downgrades: Downgrades) -> None:
        self._open = open_private
        self._downgrades = downgrades
        self._uses: dict[str, ServerUse] = {}

    def read(self, kind: str, block: JsonObject, path: str) -> list[Item]:
        """The items that a block adds. A call becomes an item with its result."""
        if kind in _USES:
            use = convert(block, ServerUse, path)
            self._uses[use.id] = use
            return []
        if kind == _LISTING:  # the tools of a server are listed again, or their list is still known
            return []
        return self._result(kind, convert(block, ServerResult, path), path)

    def _result(self, kind: str, result: ServerResult, path: str) -> list[Item]:
        """The items of a call and its result; none, with a downgrade, if they cannot be shown."""
        use = self._uses.pop(result.tool_use_id, None)
        if use is None:
            self._omit(f"content blocks of type '{kind}' without their call are left out")
            return []
        if kind == "mcp_tool_result":
            return [_mcp_call(use, result, f"{path}.content")]
        if kind == "web_search_tool_result":
            return self._search(use, result, f"{path}.content")
        return _code_run(use, convert(_object(result.content), CodeResult, f"{path}.content"))

    def end(self) -> None:
        """The conversation has ended: report the calls without a result."""
        if self._uses:
            self._omit(_PAUSED)

    def _omit(self, text: str) -> None:
        self._downgrades.add("input_omitted", text, "messages")

    def _search(self, use: ServerUse, result: ServerResult, path: str) -> list[Item]:
        if not isinstance(result.content, list):
            code = str(_object(result.content).get("error_code") or "unavailable")
            row: JsonObject = {ERROR: f"the search has reported '{code}'", SOURCE: {"function": SEARCH}}
            return [WebSearchCall(status="failed", action=_action(use.input), results=[row])]
        pages: list[JsonObject] = []
        for index, value in enumerate(result.content):
            where = f"{path}[{index}]"
            found = convert(as_object(value, where), SearchResult, where)
            members = self._open(found.encrypted_content)
            page = None if members is None else members.get(PAGE)
            if isinstance(page, dict):
                pages.append(cast("JsonObject", page))
        if result.content and not pages:
            self._omit(_FOREIGN)
            return []
        rows = pages or [{NOTE: _NOTHING, SOURCE: {"function": SEARCH}}]
        return [WebSearchCall(status="completed", action=_action(use.input), results=rows)]


def _action(given: JsonObject) -> JsonObject:
    """The action of a search; those of pages have an address."""
    members = {name: given[name] for name in ("query", "queries", "url", "pattern") if name in given}
    if "url" in members:
        return {"type": FIND_IN_PAGE if "pattern" in members else OPEN_PAGE, **members}
    if "query" in members:
        members.setdefault("queries", [members["query"]])
    return {"type": "search", **members}


def _code_run(use: ServerUse, result: CodeResult) -> list[Item]:
    """A run in a container of this server; one of another server is shown as a call of a function."""
    code = str(use.input.get("code") or "")
    if not code and isinstance(use.input.get("command"), str):
        code = f"!{use.input['command']}"
    parts = [result.stdout, result.stderr]
    if result.error_code:
        parts.append(f"The code could not be run: {result.error_code}")
    output = "\n".join(part for part in parts if part)
    own = _CONTAINER.match(use.id)
    if own is not None and is_own_container(own[1]):
        outputs: list[JsonObject] = [{"type": "logs", "logs": output}] if output else []
        return [CodeInterpreterCall(status="completed", code=code, container_id=own[1], outputs=outputs)]
    arguments = msgspec.json.encode({"code": code}).decode()
    return [
        FunctionCall(call_id=use.id, name=PYTHON, arguments=arguments),
        FunctionCallOutput(call_id=use.id, output=output),
    ]


def _mcp_call(use: ServerUse, result: ServerResult, path: str) -> McpCall:
    arguments = msgspec.json.encode(use.input).decode()
    content = result.content if isinstance(result.content, list) else []
    parts = [as_object(value, f"{path}[{index}]") for index, value in enumerate(content)]
    text = "\n".join(str(part.get("text") or "") for part in parts)
    if isinstance(result.content, str):
        text = result.content
    failed = result.is_error is True
    return McpCall(
        status="failed" if failed else "completed",
        server_label=use.server_name,
        name=use.name,
        arguments=arguments,
        output=None if failed else text,
        error=(text or "the tool has reported an error") if failed else None,
    )


def _object(content: object) -> JsonObject:
    return cast("JsonObject", content) if isinstance(content, dict) else {}
