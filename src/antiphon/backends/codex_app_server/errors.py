"""Translate a failed turn of codex into an error."""

import re
from typing import NamedTuple, cast

import msgspec

from antiphon.backends.codex_app_server.wire import RpcError, TurnError
from antiphon.errors import BackendRefused
from antiphon.http.redact import redact
from antiphon.known_secrets import KNOWN_SECRETS
from antiphon.turn.chunks import FinishReason


class _Kind(NamedTuple):
    status: int
    code: str
    param: str | None = None


_KINDS = {
    "contextWindowExceeded": _Kind(400, "context_length_exceeded", "input"),
    "sessionBudgetExceeded": _Kind(429, "rate_limit_exceeded"),
    "usageLimitExceeded": _Kind(429, "rate_limit_exceeded"),
    "rateLimitExceeded": _Kind(429, "rate_limit_exceeded"),
    "flexUnavailable": _Kind(429, "rate_limit_exceeded"),
    "serverOverloaded": _Kind(503, "server_overloaded"),
    "policyCapacityUnavailable": _Kind(503, "server_overloaded"),
    "modelNotFound": _Kind(404, "model_not_found", "model"),
    "cyberPolicy": _Kind(400, "content_policy_violation"),
    "misalignmentPolicyViolation": _Kind(400, "content_policy_violation"),
    "unauthorized": _Kind(401, "unauthorized"),
    "badRequest": _Kind(400, "bad_request"),
    "sandboxError": _Kind(400, "sandbox_error"),
    "internalServerError": _Kind(500, "server_error"),
    "httpConnectionFailed": _Kind(502, "connection_failed"),
    "responseStreamConnectionFailed": _Kind(502, "connection_failed"),
    "responseStreamDisconnected": _Kind(502, "stream_disconnected"),
    "responseTooManyFailedAttempts": _Kind(502, "connection_failed"),
}
_OTHER = _Kind(500, "server_error")
_OF_STATUS = {
    400: _KINDS["badRequest"],
    401: _KINDS["unauthorized"],
    402: _Kind(429, "insufficient_quota"),
    403: _Kind(403, "forbidden"),
    404: _KINDS["modelNotFound"],
    413: _Kind(400, "request_too_large", "input"),
    422: _KINDS["badRequest"],
    429: _KINDS["rateLimitExceeded"],
    503: _KINDS["serverOverloaded"],
}
"""For errors with which codex reports the status of its own upstream."""

_LOGIN = " For the operator: log codex in with `codex login`, or check the key of its model provider."
_CUT_OFF = re.compile(r"\AIncomplete response returned, reason: (max_output_tokens|content_filter)\Z")
_DISCONNECTED = "stream disconnected before completion"
_INVALID = (-32700, -32600, -32602)


class _Refusal(msgspec.Struct, frozen=True):
    message: str
    code: str | None = None
    param: str | None = None


class _RefusalBody(msgspec.Struct, frozen=True):
    error: _Refusal


_BODY = msgspec.json.Decoder(_RefusalBody)


def cut_off(error: TurnError) -> FinishReason | None:
    """Whether the answer was merely cut off, and why: codex calls that a failure too."""
    found = _CUT_OFF.match(error.message)
    if found is None:
        return None
    return "length" if found[1] == "max_output_tokens" else "content_filter"


def turn_failure(error: TurnError) -> BackendRefused:
    """The error for a turn that failed."""
    body = _body_of(error.message)
    if body is not None:
        # Codex passes on a 400 of its own upstream as "other".
        code = KNOWN_SECRETS.scrub(body.code or "bad_request")
        param = None if body.param is None else KNOWN_SECRETS.scrub(body.param)
        return BackendRefused(redact(body.message), status=400, code=code, param=param)
    kind = _kind_of(error)
    text = " ".join(filter(None, [error.message, error.additional_details]))
    message = f"codex failed: {redact(text)}" if text else "codex failed."
    if kind.status in (401, 403):
        message += _LOGIN
    return BackendRefused(message, status=kind.status, code=kind.code, param=kind.param)


def request_refusal(method: str, error: RpcError) -> BackendRefused:
    """The error for a request that codex rejects."""
    message = f"codex refused '{method}': {redact(error.message)}"
    if error.code in _INVALID:
        return BackendRefused(message, status=400, code="bad_request")
    return BackendRefused(message, status=502, code="upstream_error")


def _body_of(message: str) -> _Refusal | None:
    try:
        return _BODY.decode(message).error
    except msgspec.DecodeError:
        return None


def _kind_of(error: TurnError) -> _Kind:
    info = error.codex_error_info
    if isinstance(info, dict):
        name, detail = next(iter(info.items()), ("", None))
        status = cast("dict[str, object]", detail).get("httpStatusCode") if isinstance(detail, dict) else None
        if isinstance(status, int) and status in _OF_STATUS:
            return _OF_STATUS[status]
    else:
        name = info or ""
    if name not in _KINDS and error.message.startswith(_DISCONNECTED):
        return _KINDS["responseStreamDisconnected"]
    return _KINDS.get(name, _OTHER)
