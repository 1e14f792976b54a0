"""Upstream errors as ours: OpenAI's error object, nested, flat, or whatever came instead.

The upstream's own words are kept, redacted.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

import msgspec

from antiphon.backends.refusals import (
    CREDENTIALS,
    KEPT,
    failed,
    no_path,
    no_words,
    not_our_callers_key,
    said,
    too_long,
)
from antiphon.backends.registry import Endpoint
from antiphon.backends.responses.wire import DECODE_ERRORS
from antiphon.errors import BackendRefused
from antiphon.http.client import retry_after
from antiphon.http.redact import excerpt, redact
from antiphon.protocol.requests import CreateBody

_CONTEXT_LENGTH = re.compile(
    r"context[_ ]length[_ ]exceeded|maximum context length|prompt is too long|input is too long"
    r"|exceed\w* (?:the |this |its )?(?:model'?s? )?(?:available |maximum )?context",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|\bmodel\b.{0,120}(?:not found|not exist|unknown|not available)",
    re.IGNORECASE | re.DOTALL,
)
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_STATUS = re.compile(r"[45]\d\d")

_STATUS_OF = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "NotFoundError": 404,
    "context_length_exceeded": 400,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "BadRequestError": 400,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 503,
    "server_is_overloaded": 503,
    "slow_down": 503,
}
"""The status that an error inside a stream stands for, by its code or type."""

_PARAMS = {"input", "tools", "tool_choice", *CreateBody.__struct_fields__}


class Detail(NamedTuple):
    """What an error says."""

    message: str = ""
    code: str = ""
    kind: str = ""
    param: str = ""


def refusal(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> BackendRefused:
    """The error for an answer with this status."""
    try:
        detail = _read_detail(msgspec.json.decode(body))
    except DECODE_ERRORS:
        detail = Detail(excerpt(body, endpoint.secrets))
    return _refused(endpoint, status, detail, retry_after(headers))


def failure(endpoint: Endpoint, error: object) -> BackendRefused:
    """The error for an error object in a stream, or in a response that has failed."""
    detail = _read_detail(error)
    if _STATUS.fullmatch(detail.code):
        return _refused(endpoint, int(detail.code), detail, None)
    status = _STATUS_OF.get(detail.code) or _STATUS_OF.get(detail.kind)
    if status is None and _CONTEXT_LENGTH.search(detail.message):
        status = 400
    if status is not None:
        return _refused(endpoint, status, detail, None)
    message = redact(detail.message, endpoint.secrets)
    return BackendRefused(f"The upstream '{endpoint.name}' failed{said(message)}", status=502)


def _read_detail(value: object) -> Detail:
    """From ``{"error": {…}}``, or its inside, or ``{"detail": …}``, or anything else."""
    if not isinstance(value, dict):
        return Detail("" if value is None else value if isinstance(value, str) else _json(value))
    members = cast("dict[str, object]", value)
    inner = members.get("error")
    if isinstance(inner, dict):
        return _read_detail(cast("object", inner))
    words = next((members[key] for key in ("message", "detail", "error") if members.get(key)), None)
    code, kind, param = (members.get(key) for key in ("code", "type", "param"))
    return Detail(
        message=words if isinstance(words, str) else "" if words is None else _json(words),
        code="" if code is None else str(code),
        kind=kind if isinstance(kind, str) else "",
        param=param if isinstance(param, str) else "",
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _refused(endpoint: Endpoint, status: int, detail: Detail, after: float | None) -> BackendRefused:
    message = redact(detail.message, endpoint.secrets)
    if status in (400, 413, 422, 500) and _CONTEXT_LENGTH.search(f"{detail.code} {message}"):
        return too_long(message)
    if status in CREDENTIALS:
        return not_our_callers_key(endpoint, status, message)
    if status in KEPT:
        return _kept(endpoint, status, detail._replace(message=message), after)
    return failed(endpoint, status, message, after)


def _kept(endpoint: Endpoint, status: int, detail: Detail, after: float | None) -> BackendRefused:
    code = detail.code if _IDENTIFIER.fullmatch(detail.code) else None
    # Positions in `input` are those of the whole history, and not of what the caller has sent.
    param = re.split(r"[.\[]", detail.param)[0]
    message = detail.message or no_words(endpoint, status)
    if status == 429:
        code = code or "rate_limit_exceeded"
    elif status == 404 and _NO_MODEL.search(f"{detail.code} {detail.message}"):
        code, param = "model_not_found", "model"
    elif status == 404:
        message = no_path(endpoint, "'/responses', and not every server has that", detail.message)
    return BackendRefused(
        message, status=status, code=code, param=param if param in _PARAMS else None, retry_after=after
    )
