"""Reads the items of hosted tools and the citations of texts: calls, approval requests, sources."""

from collections.abc import Iterable
from typing import cast

import msgspec

from antiphon.orchestrator.models import ApprovalRequest, HostedCallRecord, SourceRef
from antiphon.orchestrator.raw_response import Segment, string
from antiphon.protocol.content import JsonObject

APPROVAL_REQUEST = "mcp_approval_request"
_TOOLS = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
    "shell_call": "shell",
}
HOSTED_CALLS = frozenset(_TOOLS)
"""The types of items that are calls of hosted tools."""

_decode = msgspec.json.Decoder(Segment).decode


def hosted_call_of(item: JsonObject) -> HostedCallRecord:
    """The call in an item of an event."""
    return read_hosted_call(_decode(msgspec.json.encode(item)), string(item.get("type")))


def read_hosted_call(call: Segment, kind: str) -> HostedCallRecord:
    """A call, from an item of one of the types in `HOSTED_CALLS`."""
    return HostedCallRecord(
        call_id=string(call.id),
        type=kind,
        name=string(call.name) or _TOOLS[kind],
        server_label=string(call.server_label) or None,
        arguments_json=_arguments(call, kind),
        status=string(call.status) or None,
        output=_logs(call.outputs) if kind == "code_interpreter_call" else string(call.output) or None,
        error_message=_error(call.error),
    )


def read_approval_request(request: Segment) -> ApprovalRequest:
    """A call of an MCP tool that needs an approval."""
    return ApprovalRequest(
        id=string(request.id),
        kind="mcp",
        name=string(request.name),
        arguments=text_of(request.arguments) or "{}",
        server_label=string(request.server_label) or None,
    )


def read_citations(annotations: object) -> Iterable[SourceRef]:
    """The sources that the annotations of a text cite."""
    for element in cast("list[object]", annotations) if isinstance(annotations, list) else ():
        members = cast("JsonObject", element) if isinstance(element, dict) else {}
        match members.get("type"):
            case "url_citation":
                url = string(members.get("url"))
                yield SourceRef(tag=url, path=url, file_name=string(members.get("title")))
            case "file_citation" | "container_file_citation":
                name = string(members.get("filename"))
                yield SourceRef(tag=string(members.get("file_id")), path=name, file_name=name)
            case _:
                pass


def text_of(arguments: msgspec.Raw) -> str | None:
    """The arguments as the model wrote them: the value of a string, or the raw JSON of anything else."""
    source = bytes(arguments)
    if source[:1] == b'"':
        return msgspec.json.decode(source, type=str)
    return None if source in (b"", b"null") else source.decode()


def _arguments(call: Segment, kind: str) -> str | None:
    match kind:
        case "mcp_call":
            return text_of(call.arguments)
        case "web_search_call" | "shell_call":
            return _json(call.action)
        case "file_search_call":
            return _json({"queries": call.queries})
        case "code_interpreter_call":
            return _json({"code": call.code})
        case _:
            return None


def _json(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _logs(outputs: object) -> str | None:
    """What the code printed; images are only in the raw response."""
    elements = cast("list[object]", outputs) if isinstance(outputs, list) else []
    members = [cast("JsonObject", element) for element in elements if isinstance(element, dict)]
    return "".join(string(each.get("logs")) for each in members if each.get("type") == "logs") or None


def _error(error: object) -> str | None:
    """The text of an error, in any of its forms."""
    if isinstance(error, str):
        return error or None
    if not isinstance(error, dict):
        return None
    members = cast("JsonObject", error)
    content = members.get("content")
    parts = cast("list[object]", content) if isinstance(content, list) else []
    texts = [string(cast("JsonObject", part).get("text")) for part in parts if isinstance(part, dict)]
    return string(members.get("message")) or " ".join(text for text in texts if text) or _json(members)
