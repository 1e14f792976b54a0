"""Upstream errors as ours: ``{"error": {"code", "message", "status", "details"}}``, or a list of one.

The words of the upstream are kept, redacted.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from antiphon.backends.gemini.wire import DECODE_ERRORS
from antiphon.backends.refusals import (
    CREDENTIALS,
    KEPT,
    failed,
    no_path,
    no_words,
    not_our_callers_key,
    too_long,
)
from antiphon.backends.registry import Endpoint
from antiphon.errors import BackendRefused
from antiphon.http.client import retry_after
from antiphon.http.redact import excerpt, redact

_CONTEXT_LENGTH = re.compile(
    r"token count .{0,40}exceeds the maximum|exceed\w* (?:the )?(?:maximum )?(?:context|input token)"
    r"|input context is too long|prompt is too long",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"\bmodels?\b.{0,200}(?:not found|not exist|not supported|not available|no longer available)",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(r"API[ _]key (?:not valid|not found|expired|invalid)|API_KEY_\w+", re.IGNORECASE)
_FIELD = re.compile(r"(?:GenerateContentRequest\.|at ')?\b([a-z]\w*(?:\.[a-z]\w*)*)")
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")

_STATUS_OF = {
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
}
"""The status that an error inside a stream stands for, if it has no number."""

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
"""What the caller calls the field that the upstream's message names."""


class Detail(NamedTuple):
    """What an error body says."""

    message: str = ""
    status: str = ""
    code: int = 0
    field: str = ""
    """The field that it is about."""
    after: float | None = None
    """When to come back."""


def refusal(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> BackendRefused:
    """The error for an answer with this status."""
    try:
        detail = _read_detail(msgspec.json.decode(body))
    except DECODE_ERRORS:
        detail = Detail(excerpt(body, endpoint.secrets))
    after = retry_after(headers)
    return _refused(endpoint, status, detail, detail.after if after is None else after)


def failure(endpoint: Endpoint, error: object) -> BackendRefused:
    """The error for an error object in a stream, or in an answer with status 200."""
    detail = _read_detail(error)
    status = detail.code if 400 <= detail.code < 600 else _STATUS_OF.get(detail.status, 500)
    return _refused(endpoint, status, detail, detail.after)


def _read_detail(value: object) -> Detail:
    """From the documented form, or from its inside, or from whatever came instead."""
    if isinstance(value, list) and value:
        value = cast("list[object]", value)[0]
    if not isinstance(value, dict):
        return Detail(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    members = cast("dict[str, Any]", value)
    if isinstance(members.get("error"), dict | str):
        return _read_detail(members["error"])
    message, status, code = members.get("message"), members.get("status"), members.get("code")
    told = _objects(members.get("details"))
    return Detail(
        message if isinstance(message, str) else msgspec.json.encode(members).decode(),
        status if isinstance(status, str) else "",
        code if isinstance(code, int) else 0,
        next((field for row in told if (field := _violated(row))), ""),
        next((after for row in told if (after := _delay(row.get("retryDelay"))) is not None), None),
    )


def _violated(row: dict[str, Any]) -> str:
    """The first field that a `BadRequest` names."""
    for violation in _objects(row.get("fieldViolations")):
        field = violation.get("field")
        if isinstance(field, str):
            return field
    return ""


def _objects(value: object) -> list[dict[str, Any]]:
    rows = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", row) for row in rows if isinstance(row, dict)]


def _delay(value: object) -> float | None:
    """The seconds of a `RetryInfo`: ``34s``."""
    found = _DELAY.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) if found else None


def _refused(endpoint: Endpoint, status: int, detail: Detail, after: float | None) -> BackendRefused:
    message = redact(detail.message, endpoint.secrets)
    if status in (400, 413) and _CONTEXT_LENGTH.search(message):
        return too_long(message)
    ours = detail.status == "FAILED_PRECONDITION" or _BAD_KEY.search(message)
    if status in CREDENTIALS or (status == 400 and ours):
        return not_our_callers_key(endpoint, status, message)
    if status in KEPT:
        return _kept(endpoint, status, message, detail, after)
    return failed(endpoint, status, message, after)


def _kept(
    endpoint: Endpoint, status: int, message: str, detail: Detail, after: float | None
) -> BackendRefused:
    code, param = None, _param(detail.field) or _param(message)
    if status == 429:
        code, param = "rate_limit_exceeded", None
    elif status == 404 and _NO_MODEL.search(message):
        code, param = "model_not_found", "model"
    elif status == 404:
        message = no_path(endpoint, "'/models/'", message)
    text = message or no_words(endpoint, status)
    return BackendRefused(text, status=status, code=code, param=param, retry_after=after)


def _param(text: str) -> str | None:
    """What we call the first field that is named in a text: ``* GenerateContentRequest.contents: …``."""
    for path in _FIELD.findall(text):
        parts = cast("str", path).split(".")
        for length in (2, 1):
            if found := _PARAM_OF.get(".".join(parts[:length])):
                return found
    return None
