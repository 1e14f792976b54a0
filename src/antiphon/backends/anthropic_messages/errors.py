"""The errors of Anthropic's API: ``{"type": "error", "error": {"type", "message"}}``."""

import re
from typing import cast

import msgspec

from antiphon.backends.upstream_errors import ErrorDetail, ErrorTable

_NO_CREDIT = re.compile(r"credit balance is too low", re.IGNORECASE)
_PATH = re.compile(r"([a-z_]+)(?:\.([a-z_]+))?[.:\[ ]")
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


def _read_detail(value: object) -> ErrorDetail:
    """From ``{"error": {"type", "message"}}``, or the object inside it, or anything else."""
    if not isinstance(value, dict):
        return ErrorDetail(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    members = cast("dict[str, object]", value)
    inner = members.get("error")
    if isinstance(inner, dict | str):
        return _read_detail(cast("object", inner))
    message, kind = members.get("message") or members.get("detail"), members.get("type")
    return ErrorDetail(
        message if isinstance(message, str) else msgspec.json.encode(members).decode(),
        kind=kind if isinstance(kind, str) else "",
    )


def _param_of(_status: int, detail: ErrorDetail) -> str | None:
    """A message begins with the path of the parameter: ``max_tokens: …``, ``messages.1: …``."""
    path = _PATH.match(detail.message)
    if path is None:
        return None
    full = f"{path[1]}.{path[2]}" if path[2] else path[1]
    return _PARAM_OF.get(full) or _PARAM_OF.get(path[1])


ERRORS = ErrorTable(
    read=_read_detail,
    context_length=re.compile(
        r"prompt is too long|input is too long|maximum context length"
        r"|exceed\w* (?:the |its )?(?:model'?s? )?context",
        re.IGNORECASE,
    ),
    context_statuses=frozenset({400, 413}),
    no_model=re.compile(r"^ model:|\bmodel\b.{0,120}(?:not found|not exist|not available)", re.IGNORECASE),
    no_path=re.compile(""),
    path="'/v1/messages'",
    status_of={
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
    },
    default_status=500,
    param_of=_param_of,
    is_credentials=lambda status, detail: status == 400 and bool(_NO_CREDIT.search(detail.message)),
)
