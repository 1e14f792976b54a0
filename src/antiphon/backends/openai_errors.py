"""Error objects in OpenAI's format and its many variants, for the dialects of OpenAI-compatible servers."""

import re
from typing import cast

import msgspec

from antiphon.backends.upstream_errors import ErrorDetail

CONTEXT_LENGTH = re.compile(
    "|".join(
        (
            r"context[_ ]length[_ ]exceeded|exceed_context_size_error",
            r"maximum context length",  # OpenAI, vLLM, DeepSeek, Mistral
            r"exceed\w* (?:the |this |its )?(?:model'?s? )?(?:available |maximum )?context",  # llama.cpp, xAI
            r"context (?:window|size|length) (?:is |was )?(?:exceeded|overflow|of only)",  # LM Studio
            r"greater than the context length",  # LM Studio
            r"prompt is too long|input is too long|maximum prompt length",
            r"input is too large to process",  # llama.cpp
            r"reduce the length of the (?:messages|prompt|input)",  # Groq
            r"inputs` tokens \+ `max_new_tokens` must be",  # TGI, Together
            r"exceeds the maximum number of tokens",  # Gemini
        )
    ),
    re.IGNORECASE,
)
CONTEXT_STATUSES = frozenset({400, 413, 422, 500})
NO_MODEL = re.compile(
    r"\bmodel\b.{0,120}(?:not found|not exist|unknown|not available|no longer)"
    r"|(?:unknown|no such|invalid|not find the) model|model_not_found",
    re.IGNORECASE | re.DOTALL,
)
STATUS_OF = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "BadRequestError": 400,
    "context_length_exceeded": 400,
    "NotFoundError": 404,
    "not_found_error": 404,
    "model_not_found": 404,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 503,
    "server_is_overloaded": 503,
    "slow_down": 503,
}
_STATUS = re.compile(r"[45]\d\d")


def read_detail(value: object) -> ErrorDetail:
    """Find the message in ``{"error": {…}}``, ``{"error": "…"}``, ``{"message": …}``, ``{"detail": …}``…"""
    if not isinstance(value, dict):
        return ErrorDetail(_flat(value))
    members = cast("dict[str, object]", value)
    inner = members.get("error")
    if isinstance(inner, dict):
        return read_detail(cast("object", inner))
    message = next((members[key] for key in ("message", "detail", "msg", "error") if members.get(key)), None)
    code, kind, param = (members.get(key) for key in ("code", "type", "param"))
    code = "" if code is None else str(code)
    return ErrorDetail(
        message=_with_cause(_flat(message), members.get("metadata")),
        code=code,
        kind=kind if isinstance(kind, str) else "",
        param=param if isinstance(param, str) else "",
        status=int(code) if _STATUS.fullmatch(code) else 0,
    )


def _with_cause(message: str, metadata: object) -> str:
    """OpenRouter sends "Provider returned error", and the provider's message in another member."""
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
    message = next((members[key] for key in ("detail", "message", "msg") if key in members), None)
    if message is None:
        return msgspec.json.encode(members).decode()
    place = members.get("loc")
    path = ".".join(map(str, cast("list[object]", place))) + ": " if isinstance(place, list) else ""
    return path + _flat(message)
