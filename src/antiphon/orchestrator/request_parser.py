"""`POST /v1/agent/execute`: from the bytes of the body to a validated `AgentExecuteRequest`.

The builder tolerates malformed JSON in `tools_json` and `tool_results_json`, as AGN-003 requires. The
endpoint rejects it. Every error names the field as the client spelled it.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Callable
from typing import cast

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.casing import fold, from_members, respelled, spelled
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentToolCall,
    ApprovalAnswer,
    ImageAttachment,
)
from antiphon.protocol.bounds import check_length, check_texts
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.parse import as_object, decode, kind_of, missing
from antiphon.protocol.parse_tools import parse_tools
from antiphon.retrieval.scope import parse_scope

_IMAGE_TYPE = re.compile(r"image/[\w.+-]+", re.IGNORECASE | re.ASCII)
_JSON_MEMBERS = frozenset({"toolsjson", "toolresultsjson"})
MAX_TITLE_CHARS = 200
MAX_RESULTS = 10_000
"""Results of tools in a request."""
MAX_ACTIVE_FILES = 10_000
MAX_IMAGES = 100
MAX_APPROVALS = 1_000
MAX_REASON_CHARS = 10_000
"""Of the reason for a rejection."""

Check = Callable[[AgentExecuteRequest], None]
"""A further check. It raises `InvalidRequest` with the Python name of the field, which is then respelled."""


class RunRequest(Struct, frozen=True):
    """The body of a request to start a run."""

    title: str
    request: AgentExecuteRequest


class _Titled(Struct, frozen=True):
    title: str = ""


def parse_execute_request(body: bytes, check: Check | None = None) -> AgentExecuteRequest:
    """Parse and check a request. Raises `InvalidRequest` that names the field."""
    return _request(_members(body), check)


def parse_run_request(body: bytes, check: Check | None = None) -> RunRequest:
    """The same for a run: a request, and a title that the agent does not see."""
    sent = _members(body)
    request, title = _request(sent, check), from_members(sent, _Titled).title
    if len(title) > MAX_TITLE_CHARS:
        where = spelled(sent, "title")
        message = f"'{where}' has {len(title)} characters; the limit is {MAX_TITLE_CHARS}."
        raise InvalidRequest(message, param=where)
    return RunRequest(title, request)


class _Approval(Struct, frozen=True):
    approval_request_id: str
    approve: bool
    reason: str | None = None


def parse_approval(body: bytes) -> ApprovalAnswer:
    """The answer to an approval request of a run."""
    sent = _members(body)
    found = from_members(sent, _Approval)
    if len(found.reason or "") > MAX_REASON_CHARS:
        where = spelled(sent, "reason")
        message = f"'{where}' has {len(found.reason or '')} characters; the limit is {MAX_REASON_CHARS}."
        raise InvalidRequest(message, param=where, code="string_above_max_length")
    return ApprovalAnswer(id=found.approval_request_id, approve=found.approve, reason=found.reason)


def check_tools(tools: list[object], path: str) -> None:
    """Raise `InvalidRequest` for invalid tools. A tool without a type is a function. Expensive schemas
    are checked with the turn that sends them."""
    objects = [as_object(tool, f"{path}[{index}]") for index, tool in enumerate(tools)]
    parse_tools([{"type": "function", **tool} for tool in objects], Definitions(), path)


def check_results(results: list[object], path: str) -> None:
    """Raise `InvalidRequest` for invalid results."""
    _read_results(results, path)


def _members(body: bytes) -> JsonObject:
    if not body:
        raise InvalidRequest("The request body is empty; send a JSON object.", code="invalid_json")
    return decode(body, JsonObject)


def _request(sent: JsonObject, check: Check | None) -> AgentExecuteRequest:
    request = from_members(_with_arrays_as_text(sent), AgentExecuteRequest)
    for name, values, most in (
        ("tool_results", request.tool_results, MAX_RESULTS),
        ("active_files", request.active_files, MAX_ACTIVE_FILES),
        ("image_attachments", request.image_attachments, MAX_IMAGES),
        ("approvals", request.approvals, MAX_APPROVALS),
    ):
        check_length(values, most, spelled(sent, name), "elements")
    tools_path = spelled(sent, "tools_json")
    check_tools(_array(request.tools_json, tools_path), tools_path)
    parse_scope(request.rag_scope_filter, spelled(sent, "rag_scope_filter"))
    for index, image in enumerate(request.image_attachments):
        _check_image(image, f"image_attachments[{index}]", sent)
    if not _results(request, sent) and not request.approvals and not (request.instruction or "").strip():
        raise missing(spelled(sent, "instruction"), "Send an instruction, tool results or approvals.")
    if check is not None:
        _check_further(check, request, sent)
    return request


def tool_results_of(request: AgentExecuteRequest) -> tuple[AgentToolCall, ...]:
    """The tool results of a request, sent as JSON text, as a list, or as both."""
    return _results(request, msgspec.to_builtins(request))


def _with_arrays_as_text(sent: JsonObject) -> JsonObject:
    """`toolsJson` and `toolResultsJson` hold JSON as text; a client may send the array itself."""
    members = dict(sent)
    for key, value in sent.items():
        if isinstance(value, list) and fold(key) in _JSON_MEMBERS:
            members[key] = msgspec.json.encode(value).decode()
    return members


def _check_further(check: Check, request: AgentExecuteRequest, sent: JsonObject) -> None:
    try:
        check(request)
    except InvalidRequest as error:
        raise respelled(error, sent) from None


def _check_image(image: ImageAttachment, path: str, sent: JsonObject) -> None:
    if not _IMAGE_TYPE.fullmatch(image.mime_type):
        where = spelled(sent, f"{path}.mime_type")
        message = f"Invalid value for '{where}': expected an image type such as 'image/png'."
        raise InvalidRequest(message, param=where)
    try:
        data = b64decode(image.data_base64, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data:
        where = spelled(sent, f"{path}.data_base64")
        message = f"Invalid value for '{where}': expected base64, without a 'data:' prefix or line breaks."
        raise InvalidRequest(message, param=where)


def _results(request: AgentExecuteRequest, sent: JsonObject) -> tuple[AgentToolCall, ...]:
    """Both members as one list. Equal results of the same call count once."""
    as_text, as_list = spelled(sent, "tool_results_json"), spelled(sent, "tool_results")
    listed_as_text = _array(request.tool_results_json, as_text)
    check_length(listed_as_text, MAX_RESULTS, as_text, "results")
    results = _read_results(listed_as_text, as_text)
    listed = cast("list[object]", sent[as_list]) if request.tool_results else []
    for call_id, result in _read_results(listed, as_list).items():
        if results.setdefault(call_id, result) != result:
            message = f"'{as_text}' and '{as_list}' hold different results of the call '{call_id}'."
            raise InvalidRequest(message, param=as_list, code="duplicate_call_id")
    return tuple(results.values())


def _read_results(elements: list[object], path: str) -> dict[str, AgentToolCall]:
    found: dict[str, AgentToolCall] = {}
    for index, element in enumerate(elements):
        where = f"{path}[{index}]"
        result = _result(as_object(element, where), where)
        if found.setdefault(result.call_id, result) is not result:
            message = f"'{where}' is a second result of the call '{result.call_id}'. Send one for each call."
            raise InvalidRequest(message, param=where, code="duplicate_call_id")
    return found


def _result(raw: JsonObject, path: str) -> AgentToolCall:
    result = from_members(raw, AgentToolCall, path)
    if not result.call_id.strip():
        raise missing(f"{path}.{spelled(raw, 'call_id')}", "It names the call of the result.")
    if result.result_json is None and result.error_message is None:
        hint = "Send the output of the tool, or an error message."
        raise missing(f"{path}.{spelled(raw, 'result_json')}", hint)
    return result


def _array(text: str | None, path: str) -> list[object]:
    """The elements of a JSON array that was sent as text; none if it is blank."""
    if not text or not text.strip():
        return []
    check_texts([text], path)
    try:
        found: object = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        message = f"'{path}' is not valid JSON: {error}. Send a JSON array."
        raise InvalidRequest(message, param=path, code="invalid_json") from None
    if not isinstance(found, list):
        message = f"Invalid type for '{path}': expected a JSON array, but got {kind_of(found)} instead."
        raise InvalidRequest(message, param=path, code="invalid_type")
    return cast("list[object]", found)
