"""Upstream errors as ours: ``{"type": "error", "error": {"type", "message"}}``.

The words of the upstream are kept, redacted.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

import msgspec

from antiphon.backends.anthropic_messages.wire import DECODE_ERRORS
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
    r"prompt is too long|input is too long|maximum context length"
    r"|exceed\w* (?:the |its )?(?:model'?s? )?context",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(r"^model:|\bmodel\b.{0,120}(?:not found|not exist|not available)", re.IGNORECASE)
_NO_CREDIT = re.compile(r"credit balance is too low", re.IGNORECASE)
_PATH = re.compile(r"([a-z_]+)(?:\.([a-z_]+))?[.:\[ ]")

_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that an error inside a stream stands for."""

_PARAM_OF = {
    "messages": "input",
    "system": "instructions",
    "max_tokens": "max_output_tokens",
    "thinking": "reasoning.effort",
    "output_config.effort": "reasoning.effort",
    "output_config.format": "text.format",
    "output_config": "text.format",
    **{name: name for name in ("model", "temperature", "top_p", "tools", "tool_choice", "metadata")},
}
"""What the caller calls the parameter that the upstream's message begins with."""


class Detail(NamedTuple):
    """What an error body says."""

    message: str = ""
    kind: str = ""


def refusal(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> BackendRefused:
    """The error for an answer with this status."""
    try:
        detail = _read_detail(msgspec.json.decode(body))
    except DECODE_ERRORS:
        detail = Detail(excerpt(body, endpoint.secrets))
    return _refused(endpoint, status, detail, retry_after(headers))


def failure(endpoint: Endpoint, error: object) -> BackendRefused:
    """The error for an error object in a stream, or in an answer with status 200."""
    detail = _read_detail(error)
    return _refused(endpoint, _STATUS_OF.get(detail.kind, 500), detail, None)


def _read_detail(value: object) -> Detail:
    """From ``{"error": {"type", "message"}}``, or from its inside, or from whatever came instead."""
    if not isinstance(value, dict):
        return Detail(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    members = cast("dict[str, object]", value)
    inner = members.get("error")
    if isinstance(inner, dict | str):
        return _read_detail(cast("object", inner))
    message, kind = members.get("message") or members.get("detail"), members.get("type")
    return Detail(
        message if isinstance(message, str) else msgspec.json.encode(members).decode(),
        kind if isinstance(kind, str) else "",
    )


def _refused(endpoint: Endpoint, status: int, detail: Detail, after: float | None) -> BackendRefused:
    message = redact(detail.message, endpoint.secrets)
    if status in (400, 413) and _CONTEXT_LENGTH.search(message):
        return too_long(message)
    if status in CREDENTIALS or (status == 400 and _NO_CREDIT.search(message)):
        return not_our_callers_key(endpoint, status, message)
    if status in KEPT:
        return _kept(endpoint, status, message, after)
    return failed(endpoint, status, message, after)


def _kept(endpoint: Endpoint, status: int, message: str, after: float | None) -> BackendRefused:
    code, param = None, _param(message)
    if status == 429:
        code = "rate_limit_exceeded"
    elif status == 404 and _NO_MODEL.search(message):
        code, param = "model_not_found", "model"
    elif status == 404:
        message = no_path(endpoint, "'/v1/messages'", message)
    text = message or no_words(endpoint, status)
    return BackendRefused(text, status=status, code=code, param=param, retry_after=after)


def _param(message: str) -> str | None:
    """Its messages begin with the path of what they are about: ``max_tokens: …``, ``messages.1: …``."""
    path = _PATH.match(message)
    if path is None:
        return None
    whole = f"{path[1]}.{path[2]}" if path[2] else path[1]
    return _PARAM_OF.get(whole) or _PARAM_OF.get(path[1])
