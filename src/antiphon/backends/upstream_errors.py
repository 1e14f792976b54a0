"""Translate errors of an upstream. The specifics of a dialect are an `ErrorTable`.

If the upstream rejects Antiphon's credentials, the caller receives a 502. Statuses that the caller can act on
are passed on. The upstream's message is passed on, redacted.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from antiphon.backends.registry import Endpoint
from antiphon.backends.request_faults import find_fault
from antiphon.backends.stream_reader import DECODE_ERRORS
from antiphon.errors import BackendRefused
from antiphon.http.client import AUTH_ERROR, retry_after
from antiphon.http.redact import excerpt, redact
from antiphon.known_secrets import KNOWN_SECRETS

_CALLERS_STATUSES = frozenset({400, 404, 408, 409, 413, 422, 425, 429})
"""Statuses that mean the same to the caller."""
_CREDENTIAL_STATUSES = frozenset({401, 402, 403})
_OVERLOADED_STATUSES = frozenset({503, 529})
_SERVER_FAULT_STATUSES = frozenset({500, 501, 502})
"""Statuses whose message may tell that the request is at fault. A 503 is about the load."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class ErrorDetail(NamedTuple):
    """The contents of an error object."""

    message: str = ""
    code: str = ""
    kind: str = ""
    param: str = ""
    status: int = 0
    """The status that the object itself names; 0: none."""
    retry_after: float | None = None


def _no_param(_status: int, _detail: ErrorDetail) -> str | None:
    return None


def _never(_status: int, _detail: ErrorDetail) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTable:
    """How a dialect writes its errors."""

    read: Callable[[object], ErrorDetail]
    """Reads a decoded error body, or an error object in a stream."""
    context_length: re.Pattern[str]
    """Matches 'CODE MESSAGE' if the input is too long for the model."""
    context_statuses: frozenset[int]
    """The statuses with which it reports that."""
    no_model: re.Pattern[str]
    """Matches 'CODE MESSAGE' of a 404 if the model does not exist."""
    no_path: re.Pattern[str]
    """Matches the message of a 404 if the path does not exist, which means that the base URL is wrong."""
    path: str
    """The path that follows the base URL, as operators should read it."""
    status_of: Mapping[str, int]
    """The status of an error in a stream, by its code or type."""
    default_status: int | None = None
    """The status of all other errors in a stream; None: it is unknown."""
    param_of: Callable[[int, ErrorDetail], str | None] = _no_param
    """The caller's name of the parameter that the error is about."""
    is_credentials: Callable[[int, ErrorDetail], bool] = _never
    """Whether the error is about Antiphon's credentials although its status does not show it."""

    def refusal(
        self, endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes
    ) -> BackendRefused:
        """The error for a response with an error status."""
        try:
            detail = self.read(msgspec.json.decode(body))
        except DECODE_ERRORS:
            detail = ErrorDetail(excerpt(body, endpoint.secrets))
        after = retry_after(headers)
        error = self._refused(
            endpoint, status, detail if after is None else detail._replace(retry_after=after)
        )
        error.is_web_page = body.lstrip()[:1] == b"<"
        return error

    def failure(self, endpoint: Endpoint, error: object) -> BackendRefused:
        """The error for an error object in a stream, or in a response with status 200."""
        detail = self.read(error)
        status = detail.status or self.status_of.get(detail.code) or self.status_of.get(detail.kind)
        if status is None:
            status = self.default_status or (400 if self._is_context_length(detail) else None)
        if status is None and find_fault(detail.message) is not None:
            status = 500
        if status is not None:
            return self._refused(endpoint, status, detail)
        message = redact(detail.message, endpoint.secrets)
        return BackendRefused(f"The upstream '{endpoint.name}' failed{_reported(message)}", status=502)

    def _refused(self, endpoint: Endpoint, status: int, detail: ErrorDetail) -> BackendRefused:
        detail = detail._replace(
            message=redact(detail.message, endpoint.secrets),
            code=KNOWN_SECRETS.scrub(detail.code),
            param=KNOWN_SECRETS.scrub(detail.param),
        )
        if status in self.context_statuses and self._is_context_length(detail):
            return BackendRefused(detail.message, status=400, code="context_length_exceeded", param="input")
        fault = find_fault(detail.message) if status in _SERVER_FAULT_STATUSES else None
        if fault is not None:
            return BackendRefused(detail.message, status=400, code=fault.code, param=fault.param)
        if status in _CREDENTIAL_STATUSES or self.is_credentials(status, detail):
            return _credentials_refused(endpoint, status, detail.message)
        if status in _CALLERS_STATUSES:
            return self._passed_on(endpoint, status, detail)
        return _failed(endpoint, status, detail)

    def _passed_on(self, endpoint: Endpoint, status: int, detail: ErrorDetail) -> BackendRefused:
        code = detail.code if _IDENTIFIER.fullmatch(detail.code) else None
        param = self.param_of(status, detail)
        message = detail.message
        if status == 429:
            code = code or "rate_limit_exceeded"
        elif status == 404 and self.no_model.search(f"{detail.code} {message}"):
            code, param = "model_not_found", "model"
        elif status == 404 and self.no_path.search(message):
            message = (
                f"The upstream '{endpoint.name}' does not serve this path. For the operator: correct its "
                f"base_url, which is the part before {self.path}{_reported(message)}"
            )
        if not message:
            message = f"The upstream '{endpoint.name}' refused the request with status {status}."
        return BackendRefused(message, status=status, code=code, param=param, retry_after=detail.retry_after)

    def _is_context_length(self, detail: ErrorDetail) -> bool:
        return bool(self.context_length.search(f"{detail.code} {detail.kind} {detail.message}"))


def _credentials_refused(endpoint: Endpoint, status: int, message: str) -> BackendRefused:
    where = f" ({endpoint.key_source})" if endpoint.key_source else ""
    text = (
        f"The upstream '{endpoint.name}' refused the credentials of this server with status {status}. "
        f"For the operator: check its API key{where} and account{_reported(message)}"
    )
    return BackendRefused(text, status=502, code=AUTH_ERROR)


def _failed(endpoint: Endpoint, status: int, detail: ErrorDetail) -> BackendRefused:
    text = f"The upstream '{endpoint.name}' failed with status {status}{_reported(detail.message)}"
    outward = 503 if status in _OVERLOADED_STATUSES else 502
    error = BackendRefused(text, status=outward, retry_after=detail.retry_after)
    error.retryable = status >= 500 and status != 501
    return error


def _reported(message: str) -> str:
    """The upstream's own message, at the end of a sentence."""
    return f". It said: {message}" if message else "."
