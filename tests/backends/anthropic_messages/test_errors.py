"""Upstream errors mapped to ours."""

import json
from dataclasses import replace
from typing import Any

import pytest

from antiphon.backends.anthropic_messages.errors import ERRORS
from antiphon.backends.registry import default_endpoint
from antiphon.errors import BackendRefused

ENDPOINT = replace(default_endpoint("anthropic"), api_key="sk-ant-canary-0123456789")


def refuse(status: int, kind: str, message: str, **headers: str) -> BackendRefused:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return ERRORS.refusal(ENDPOINT, status, headers, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("status", "kind", "message", "outward", "code", "param", "retryable"),
    [
        (
            400,
            "invalid_request_error",
            "max_tokens: 9 > 8",
            400,
            "upstream_error",
            "max_output_tokens",
            False,
        ),
        (400, "invalid_request_error", "messages.0.content: bad", 400, "upstream_error", "input", False),
        (
            400,
            "invalid_request_error",
            "output_config.effort: no",
            400,
            "upstream_error",
            "reasoning.effort",
            False,
        ),
        (
            400,
            "invalid_request_error",
            "output_config.format.schema: no",
            400,
            "upstream_error",
            "text.format",
            False,
        ),
        (400, "invalid_request_error", "tools.1.custom: no", 400, "upstream_error", "tools", False),
        (400, "invalid_request_error", "Something else", 400, "upstream_error", None, False),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            400,
            "context_length_exceeded",
            "input",
            False,
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
            400,
            "context_length_exceeded",
            "input",
            False,
        ),
        (401, "authentication_error", "invalid x-api-key", 502, "upstream_auth_error", None, True),
        (402, "billing_error", "pay", 502, "upstream_auth_error", None, True),
        (403, "permission_error", "no", 502, "upstream_auth_error", None, True),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the API.",
            502,
            "upstream_auth_error",
            None,
            True,
        ),
        (404, "not_found_error", "model: claude-x", 404, "model_not_found", "model", False),
        (404, "not_found_error", "Not found", 404, "upstream_error", None, False),
        (413, "request_too_large", "Request exceeds the maximum size", 413, "upstream_error", None, False),
        (429, "rate_limit_error", "slow down", 429, "rate_limit_exceeded", None, True),
        (500, "api_error", "Internal server error", 502, "upstream_error", None, True),
        (410, "api_error", "gone", 502, "upstream_error", None, False),
        (501, "api_error", "never", 502, "upstream_error", None, False),
        (504, "timeout_error", "late", 502, "upstream_error", None, True),
        (529, "overloaded_error", "Overloaded", 503, "upstream_error", None, True),
    ],
)
def test_refusals(
    status: int, kind: str, message: str, outward: int, code: str, param: str | None, retryable: bool
) -> None:
    error = refuse(status, kind, message)
    assert (error.status, error.code, error.param, error.retryable) == (outward, code, param, retryable)
    assert message in error.message


def test_errors_for_the_operator_include_the_remedy() -> None:
    assert "ANTHROPIC_API_KEY" in refuse(401, "authentication_error", "x").message
    assert "base_url" in refuse(404, "not_found_error", "Not found").message


def test_when_to_come_back() -> None:
    assert refuse(429, "rate_limit_error", "x", **{"retry-after": "7"}).retry_after == 7
    assert refuse(529, "overloaded_error", "x", **{"retry-after": "7"}).retry_after == 7


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html><b>Bad gateway</b></html>", "Bad gateway"),
        (b'{"error":"odd"}', "odd"),
        (b'{"message":"flat"}', "flat"),
        (b'{"detail":"flat"}', "flat"),
        (b'["list"]', "list"),
        (b'{"a":1}', '"a":1'),
        (b"", "status 502"),
    ],
)
def test_other_shapes(body: bytes, expected: str) -> None:
    assert expected in ERRORS.refusal(ENDPOINT, 502, {}, body).message


def test_secrets_are_not_repeated() -> None:
    assert "canary" not in refuse(400, "invalid_request_error", f"key {ENDPOINT.api_key}").message


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"type": "overloaded_error", "message": "x"}, 503),
        ({"type": "invalid_request_error", "message": "x"}, 400),
        ({"type": "rate_limit_error", "message": "x"}, 429),
        ({"type": "later_error", "message": "x"}, 502),
        ("words", 502),
        ({}, 502),
    ],
)
def test_errors_without_a_status(error: Any, status: int) -> None:
    assert ERRORS.failure(ENDPOINT, error).status == status
