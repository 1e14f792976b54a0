"""The text blocks of a request: retrieved context (AGN-002), guidance for tools (AGN-005), tool results.

The contents come from documents, tools and models, and cannot end a block early or start a new part of it: a
fence is longer than any in its text, our markers inside a text are broken up, and values are indented line by
line.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from antiphon.orchestrator.casing import cased, fold
from antiphon.orchestrator.models import AgentToolCall
from antiphon.protocol.content import JsonObject
from antiphon.retrieval.base import RagChunk

logger = logging.getLogger(__name__)

_FENCE = re.compile(r"`{3,}")
_NOT_IN_NAMES = re.compile(r"[^\w.-]", re.ASCII)
_MARKER = "<<<APTIX_"
_BROKEN_MARKER = "<< <APTIX_"

_RESULT_MEMBERS = {
    spelling: field.name
    for field in msgspec.structs.fields(AgentToolCall)
    for spelling in (fold(field.name), field.name, cased(field.name, "camel"), cased(field.name, "pascal"))
}
"""The members of a tool result, by their usual spellings and by their folded spelling."""


def build_rag_context_block(chunks: Iterable[RagChunk]) -> str:
    """The `[CONTEXT]` block; empty without chunks."""
    parts = [_chunk(number, chunk) for number, chunk in enumerate(chunks, 1)]
    return "\n".join(["[CONTEXT]\n", *parts]) if parts else ""


def build_tool_usage_block(tools: Iterable[tuple[str, str | None]]) -> str:
    """The usage block, from (name, text). Tools without text are left out; empty if none has text."""
    parts = [part for name, text in tools if (part := _usage(name, text))]
    if not parts:
        return ""
    begin = "<<<APTIX_SERVER_TOOL_USAGE_METADATA_BEGIN>>>"
    return "\n".join([begin, *parts, "<<<APTIX_SERVER_TOOL_USAGE_METADATA_END>>>"])


def build_tool_results_block(tool_results: str | Sequence[AgentToolCall] | None) -> str:
    """The `[TOOL_RESULTS]` block, from a JSON array or from typed results.

    Member names may be in any case. The block is empty for anything but an array of objects.
    """
    if tool_results is None or isinstance(tool_results, str):
        entries = [_result(element) for element in _objects(tool_results or "")]
    else:
        entries = [_result(msgspec.structs.asdict(result)) for result in tool_results]
    return "\n\n".join(["[TOOL_RESULTS]", *entries]) if entries else ""


def json_or_none(text: str) -> Any:
    """The value of a JSON document; None if it is not valid JSON."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None


def _chunk(number: int, chunk: RagChunk) -> str:
    language = _one_line(chunk.language).replace("`", "") or "plaintext"
    fence = _fence_around(chunk.text)
    lines = [
        f"=== CHUNK {number} ===",
        f"Id: {_one_line(chunk.id)}",
        f"Path: {_one_line(chunk.path)}",
        f"Lines: {chunk.start_line}-{chunk.end_line}",
        f"Language: {language}",
        f"{fence}{language}",
        chunk.text.removesuffix("\n").removesuffix("\r"),
        f"{fence}\n",
    ]
    return "\n".join(lines)


def _usage(name: str, text: str | None) -> str:
    text = (text or "").strip().replace(_MARKER, _BROKEN_MARKER)
    if not text:
        logger.debug("The tool '%s' has no usage text; it is not in the usage block.", name)
        return ""
    label = _NOT_IN_NAMES.sub("_", name)
    return f"<<<APTIX_TOOL_USAGE_BEGIN name='{label}'>>>\n{text}\n<<<APTIX_TOOL_USAGE_END name='{label}'>>>\n"


def _objects(text: str) -> list[JsonObject]:
    found = json_or_none(text)
    elements = cast("list[object]", found) if isinstance(found, list) else []
    return [cast("JsonObject", element) for element in elements if isinstance(element, dict)]


def _result(element: JsonObject) -> str:
    """One entry. If a member occurs in several spellings, the first one is used."""
    known: dict[str, str] = {}
    for key, value in element.items():
        name = _RESULT_MEMBERS.get(key) or _RESULT_MEMBERS.get(fold(key))
        if name is not None and value is not None and name not in known:
            known[name] = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    lines = [
        f"- CallId: {_one_line(known.get('call_id', '')) or '(missing)'}",
        f"  Name: {_one_line(known.get('name', '')) or '(missing)'}",
    ]
    for name, label in _FLAGS:
        if name in known:
            lines.append(f"  {label}: {_one_line(known[name])}")
    for name, label in _VALUES:
        if name in known and (value := known[name].rstrip()):
            lines.append(f"  {label}:\n    {_indented(value)}")
    return "\n".join(lines)


_FLAGS = (("is_server_tool", "IsServerTool"), ("was_executed", "WasExecuted"))
_VALUES = (
    ("arguments_json", "ArgumentsJson"),
    ("result_json", "ResultJson"),
    ("error_message", "ErrorMessage"),
)


def _one_line(text: str) -> str:
    printable = text if text.isprintable() else " ".join(text.splitlines())
    return printable.strip()


def _indented(text: str) -> str:
    """Indent all lines but the first; a carriage return starts a line too."""
    if "\r" in text:
        text = text.replace("\r", "\r    ")
    return text.replace("\n", "\n    ")


def _fence_around(text: str) -> str:
    """A fence longer than any run of backticks in the text."""
    if "```" not in text:
        return "```"
    return "`" * (max(map(len, _FENCE.findall(text))) + 1)
