"""What an upstream's refusal means to our caller, whatever the dialect.

Trouble with *our* credentials is not the caller's: it is a 502. What the caller can act on keeps its status.
"""

from antiphon.backends.registry import Endpoint, endpoint_kind
from antiphon.errors import BackendRefused
from antiphon.http.client import AUTH_ERROR

KEPT = frozenset({400, 404, 408, 409, 413, 422, 425, 429})
"""Statuses that mean the same to our caller."""
CREDENTIALS = frozenset({401, 402, 403})


def too_long(message: str) -> BackendRefused:
    """The conversation does not fit into the model's context."""
    return BackendRefused(message, status=400, code="context_length_exceeded", param="input")


def not_our_callers_key(endpoint: Endpoint, status: int, message: str) -> BackendRefused:
    """The caller's key is fine; the one that we send upstream is not."""
    variable = endpoint_kind(endpoint.kind).api_key_env
    where = f" ({variable})" if variable else ""
    text = (
        f"The upstream '{endpoint.name}' refused the credentials of this server with status {status}. "
        f"For the operator: check its API key{where} and account{said(message)}"
    )
    return BackendRefused(text, status=502, code=AUTH_ERROR)


def failed(endpoint: Endpoint, status: int, message: str, after: float | None) -> BackendRefused:
    """The upstream could not do it."""
    text = f"The upstream '{endpoint.name}' failed with status {status}{said(message)}"
    error = BackendRefused(text, status=503 if status in (503, 529) else 502, retry_after=after)
    error.retryable = status >= 500 and status != 501
    return error


def no_words(endpoint: Endpoint, status: int) -> str:
    """What to say for an upstream that refused without a word."""
    return f"The upstream '{endpoint.name}' refused the request with status {status}."


def no_path(endpoint: Endpoint, before: str, message: str) -> str:
    """The path is wrong, so the address is. `before`: what the base_url stands before."""
    return (
        f"The upstream '{endpoint.name}' does not serve this path. For the operator: its base_url is "
        f"what stands before {before}{said(message)}"
    )


def said(message: str) -> str:
    """The upstream's own words, at the end of a sentence."""
    return f". It said: {message}" if message else "."
