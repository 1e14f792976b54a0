"""The errors of Google's API: ``{"error": {"code", "message", "status", "details"}}``, or a list of one."""

import re
from typing import Any, cast

import msgspec

from antiphon.backends.upstream_errors import ErrorDetail, ErrorTable

_BAD_KEY = re.compile(r"API[ _]key (?:not valid|not found|expired|invalid)|API_KEY_\w+", re.IGNORECASE)
_FIELD = re.compile(r"(?:GenerateContentRequest\.|at ')?\b([a-z]\w*(?:\.[a-z]\w*)*)")
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")
_PARAM_OF = {
    "contents": "input",
    "system_instruction": "instructions",
    "tools": "tools",
    "tool_config": "tool_choice",
    "generation_config.temperature": "temperature",
    "generation_config.top_p": "top_p",
    "generation_config.max_output_tokens": "max_output_tokens",
    "generation_config.presence_penalty": "presence_penalty",
    "generation_config.frequency_penalty": "frequency_penalty",
    "generation_config.logprobs": "top_logprobs",
    "generation_config.response_logprobs": "top_logprobs",
    "generation_config.response_mime_type": "text.format",
    "generation_config.response_json_schema": "text.format",
    "generation_config.thinking_config": "reasoning.effort",
    "service_tier": "service_tier",
}


def _read_detail(value: object) -> ErrorDetail:
    """Read the documented form, the object inside it, or any other value."""
    if isinstance(value, list) and value:
        value = cast("list[object]", value)[0]
    if not isinstance(value, dict):
        return ErrorDetail(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    members = cast("dict[str, Any]", value)
    if isinstance(members.get("error"), dict | str):
        return _read_detail(members["error"])
    message, kind, code = members.get("message"), members.get("status"), members.get("code")
    details = _objects(members.get("details"))
    return ErrorDetail(
        message if isinstance(message, str) else msgspec.json.encode(members).decode(),
        kind=kind if isinstance(kind, str) else "",
        param=next((field for row in details if (field := _violated(row))), ""),
        status=code if isinstance(code, int) and 400 <= code < 600 else 0,
        retry_after=next((after for row in details if (after := _delay(row)) is not None), None),
    )


def _violated(row: dict[str, Any]) -> str:
    """The first field that a `BadRequest` names."""
    for violation in _objects(row.get("fieldViolations")):
        field = violation.get("field")
        if isinstance(field, str):
            return field
    return ""


def _delay(row: dict[str, Any]) -> float | None:
    """The seconds of a `RetryInfo`: ``34s``."""
    value = row.get("retryDelay")
    found = _DELAY.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) if found else None


def _objects(value: object) -> list[dict[str, Any]]:
    rows = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", row) for row in rows if isinstance(row, dict)]


def _param_of(status: int, detail: ErrorDetail) -> str | None:
    if status == 429:
        return None  # names of quotas look like fields
    return _first_param(detail.param) or _first_param(detail.message)


def _first_param(text: str) -> str | None:
    """The parameter of the first field in a text: ``* GenerateContentRequest.contents: …``."""
    for path in _FIELD.findall(text):
        parts = cast("str", path).split(".")
        for length in (2, 1):
            if found := _PARAM_OF.get(".".join(parts[:length])):
                return found
    return None


def _is_credentials(status: int, detail: ErrorDetail) -> bool:
    return status == 400 and (
        detail.kind == "FAILED_PRECONDITION" or _BAD_KEY.search(detail.message) is not None
    )


ERRORS = ErrorTable(
    read=_read_detail,
    context_length=re.compile(
        r"token count .{0,40}exceeds the maximum|exceed\w* (?:the )?(?:maximum )?(?:context|input token)"
        r"|input context is too long|prompt is too long",
        re.IGNORECASE,
    ),
    context_statuses=frozenset({400, 413}),
    no_model=re.compile(
        r"\bmodels?\b.{0,200}(?:not found|not exist|not supported|not available|no longer available)",
        re.IGNORECASE,
    ),
    no_path=re.compile(""),
    path="'/models/'",
    status_of={
        "INVALID_ARGUMENT": 400,
        "OUT_OF_RANGE": 400,
        "FAILED_PRECONDITION": 400,
        "UNAUTHENTICATED": 401,
        "PERMISSION_DENIED": 403,
        "NOT_FOUND": 404,
        "ABORTED": 409,
        "RESOURCE_EXHAUSTED": 429,
        "UNIMPLEMENTED": 501,
        "UNAVAILABLE": 503,
        "DEADLINE_EXCEEDED": 504,
    },
    default_status=500,
    param_of=_param_of,
    is_credentials=_is_credentials,
)
