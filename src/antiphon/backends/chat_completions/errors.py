"""Upstream errors, in whatever shape they come, as ours. The upstream's own words are kept, redacted."""

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

import msgspec

from antiphon.backends.chat_completions.wire import DECODE_ERRORS
from antiphon.backends.refusals import (
    CREDENTIALS,
    KEPT,
    failed,
    no_words,
    not_our_callers_key,
    said,
    too_long,
)
from antiphon.backends.registry import Endpoint
from antiphon.errors import BackendRefused
from antiphon.http.client import retry_after
from antiphon.http.redact import excerpt, redact

_CONTEXT_LENGTH = re.compile(
    "|".join(
        (
            r"context[_ ]length[_ ]exceeded",
            r"maximum context length",  # OpenAI, vLLM, DeepSeek, Mistral
            r"exceed\w* (?:the |this |its )?(?:model'?s? )?(?:available |maximum )?context",  # llama.cpp, xAI
            r"context (?:window|size|length) (?:is |was )?(?:exceeded|overflow|of only)",  # LM Studio
            r"greater than the context length",  # LM Studio
            r"prompt is too long|input is too long|maximum prompt length",
            r"reduce the length of the (?:messages|prompt|input)",  # Groq
            r"inputs` tokens \+ `max_new_tokens` must be",  # TGI, Together
            r"exceeds the maximum number of tokens",  # Gemini
        )
    ),
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"\bmodel\b.{0,120}(?:not found|not exist|unknown|not available|no longer)"
    r"|(?:unknown|no such|invalid|not find the) model|model_not_found",
    re.IGNORECASE | re.DOTALL,
)
_NO_PATH = re.compile(r"^\W*(?:404)?\W*(?:page )?(?:not found)?\W*$", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

_STATUS_OF = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "context_length_exceeded": 400,
    "NotFoundError": 404,
    "not_found_error": 404,
    "model_not_found": 404,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 503,
}
"""The status that an error inside a stream stands for, by its code or type."""

_PARAM_OF = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
    **{name: name for name in ("model", "temperature", "top_p", "tools", "tool_choice", "top_logprobs")},
}
"""What the caller calls the parameter that the upstream complains about."""


class Detail(NamedTuple):
    """What an error body says."""

    message: str = ""
    code: str = ""
    kind: str = ""
    param: str = ""


def refusal(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> BackendRefused:
    """The error for an answer with this status."""
    try:
        detail = read_detail(msgspec.json.decode(body))
    except DECODE_ERRORS:
        detail = Detail(excerpt(body, endpoint.secrets))
    return _refused(endpoint, status, detail, retry_after(headers))


def failure(endpoint: Endpoint, error: object) -> BackendRefused:
    """The error for an error object in a stream, or in an answer with status 200."""
    detail = read_detail(error)
    if re.fullmatch(r"[45]\d\d", detail.code):
        return _refused(endpoint, int(detail.code), detail, None)
    status = _STATUS_OF.get(detail.code) or _STATUS_OF.get(detail.kind)
    if status is not None:
        return _refused(endpoint, status, detail, None)
    message = redact(detail.message, endpoint.secrets)
    if _is_context_length(detail):
        return too_long(message)
    return BackendRefused(f"The upstream '{endpoint.name}' failed{said(message)}", status=502)


def read_detail(value: object) -> Detail:
    """Find the message in ``{"error": {…}}``, ``{"error": "…"}``, ``{"message": …}``, ``{"detail": …}``…"""
    if not isinstance(value, dict):
        return Detail(_flat(value))
    members = cast("dict[str, object]", value)
    inner = members.get("error")
    if isinstance(inner, dict):
        return read_detail(cast("object", inner))
    words = next((members[key] for key in ("message", "detail", "msg", "error") if members.get(key)), None)
    code, kind, param = (members.get(key) for key in ("code", "type", "param"))
    return Detail(
        message=_with_cause(_flat(words), members.get("metadata")),
        code="" if code is None else str(code),
        kind=kind if isinstance(kind, str) else "",
        param=param if isinstance(param, str) else "",
    )


def _with_cause(message: str, metadata: object) -> str:
    """OpenRouter says "Provider returned error" and puts the provider's words beside it."""
    raw = cast("dict[str, object]", metadata).get("raw") if isinstance(metadata, dict) else None
    return f"{message}: {raw}" if isinstance(raw, str) and raw else message


def _flat(value: object) -> str:
    """Text, or the messages inside a list of problems such as FastAPI's."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "; ".join(map(_flat, cast("list[object]", value)))
    if not isinstance(value, dict):
        return str(value)
    members = cast("dict[str, object]", value)
    words = next((members[key] for key in ("detail", "message", "msg") if key in members), None)
    if words is None:
        return msgspec.json.encode(members).decode()
    place = members.get("loc")
    path = ".".join(map(str, cast("list[object]", place))) + ": " if isinstance(place, list) else ""
    return path + _flat(words)


def _refused(endpoint: Endpoint, status: int, detail: Detail, after: float | None) -> BackendRefused:
    message = redact(detail.message, endpoint.secrets)
    if status in (400, 413, 422, 500) and _is_context_length(detail):
        return too_long(message)
    if status in CREDENTIALS:
        return not_our_callers_key(endpoint, status, message)
    if status in KEPT:
        return _kept(endpoint, status, detail._replace(message=message), after)
    return failed(endpoint, status, message, after)


def _kept(endpoint: Endpoint, status: int, detail: Detail, after: float | None) -> BackendRefused:
    code = detail.code if _IDENTIFIER.fullmatch(detail.code) else None
    param = _PARAM_OF.get(re.split(r"[.\[]", detail.param)[0])
    message = detail.message or no_words(endpoint, status)
    if status == 429:
        code = code or "rate_limit_exceeded"
    elif status == 404 and _NO_MODEL.search(f"{detail.code} {detail.message}"):
        code, param = "model_not_found", "model"
    elif status == 404 and _NO_PATH.match(detail.message):
        message = (
            f"The upstream '{endpoint.name}' does not serve this path. "
            "For the operator: its base_url probably lacks '/v1'."
        )
    return BackendRefused(message, status=status, code=code, param=param, retry_after=after)


def _is_context_length(detail: Detail) -> bool:
    return detail.kind == "exceed_context_size_error" or bool(
        _CONTEXT_LENGTH.search(f"{detail.code} {detail.message}")
    )
