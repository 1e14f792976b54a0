"""Upstream errors mapped to ours."""

import json
from dataclasses import replace
from typing import Any

import pytest

from antiphon.backends.gemini.errors import ERRORS
from antiphon.backends.registry import default_endpoint
from antiphon.errors import BackendRefused

ENDPOINT = replace(default_endpoint("gemini"), api_key="AIzaCanary0123456789")
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}


def body(status: int, kind: str, message: str, *details: Any) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": kind, "details": details}}


def refuse(status: int, kind: str, message: str, *details: Any, **headers: str) -> BackendRefused:
    return ERRORS.refusal(
        ENDPOINT, status, headers, json.dumps(body(status, kind, message, *details)).encode()
    )


def violation(field: str) -> dict[str, Any]:
    return {"@type": "google.rpc.BadRequest", "fieldViolations": [{"field": field, "description": "bad"}]}


BAD = (400, "INVALID_ARGUMENT")
REFUSED = (400, "upstream_error")
AUTH = (502, "upstream_auth_error", None, True)


@pytest.mark.parametrize(
    ("upstream_error", "expected"),
    [
        ((*BAD, "Something else"), (*REFUSED, None, False)),
        ((*BAD, "* GenerateContentRequest.contents[1].parts: empty"), (*REFUSED, "input", False)),
        ((*BAD, "Invalid value at 'generation_config.top_p' (TYPE_FLOAT)"), (*REFUSED, "top_p", False)),
        (
            (*BAD, "bad", violation("generation_config.max_output_tokens")),
            (*REFUSED, "max_output_tokens", False),
        ),
        ((*BAD, "bad", violation("tools[0].function_declarations[0].name")), (*REFUSED, "tools", False)),
        ((*BAD, "bad", violation("later_field")), (*REFUSED, None, False)),
        (
            (*BAD, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
            (400, "context_length_exceeded", "input", False),
        ),
        ((*BAD, "API key not valid. Please pass a valid API key."), AUTH),
        ((*BAD, "API key expired. Please renew the API key."), AUTH),
        ((400, "FAILED_PRECONDITION", "User location is not supported for the API use."), AUTH),
        ((401, "UNAUTHENTICATED", "no"), AUTH),
        ((403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers"), AUTH),
        (
            (404, "NOT_FOUND", "models/gemini-x is not found for API version v1beta, or is not supported"),
            (404, "model_not_found", "model", False),
        ),
        (
            (404, "NOT_FOUND", "This model models/gemini-2.5 is no longer available to new users."),
            (404, "model_not_found", "model", False),
        ),
        ((404, "NOT_FOUND", "Requested entity was not found."), (404, "upstream_error", None, False)),
        ((429, "RESOURCE_EXHAUSTED", "quota of contents"), (429, "rate_limit_exceeded", None, True)),
        ((500, "INTERNAL", "An internal error"), (502, "upstream_error", None, True)),
        ((501, "UNIMPLEMENTED", "not yet"), (502, "upstream_error", None, False)),
        ((503, "UNAVAILABLE", "The model is overloaded."), (503, "upstream_error", None, True)),
        ((504, "DEADLINE_EXCEEDED", "late"), (502, "upstream_error", None, True)),
    ],
)
def test_refusals(upstream_error: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    error = refuse(*upstream_error)
    assert (error.status, error.code, error.param, error.retryable) == expected
    assert upstream_error[2] in error.message


def test_errors_for_the_operator_include_the_remedy() -> None:
    assert "GEMINI_API_KEY" in refuse(401, "UNAUTHENTICATED", "x").message
    assert "base_url" in refuse(404, "NOT_FOUND", "x").message


def test_when_to_come_back() -> None:
    assert refuse(429, "RESOURCE_EXHAUSTED", "x", {"@type": "Help"}, RETRY).retry_after == 34.5
    assert refuse(503, "UNAVAILABLE", "x", RETRY).retry_after == 34.5
    assert refuse(429, "RESOURCE_EXHAUSTED", "x", RETRY, **{"retry-after": "7"}).retry_after == 7
    for odd in ("soon", 5, None, "1h", "-1s"):
        assert refuse(429, "RESOURCE_EXHAUSTED", "x", {"retryDelay": odd}).retry_after is None


@pytest.mark.parametrize(
    ("raw_body", "expected_message"),
    [
        (b"<html><b>Bad gateway</b></html>", "Bad gateway"),
        (b'{"error":"odd"}', "odd"),
        (b'[{"error":{"message":"first"}}]', "first"),
        (b'{"message":"flat"}', "flat"),
        (b'["list"]', "list"),
        (b"[]", "[]"),
        (b'{"a":1}', '"a":1'),
        (b'{"error":{"code":"x","status":7,"details":{"a":1}}}', '"code":"x"'),
        (b"", "status 502"),
    ],
)
def test_other_shapes(raw_body: bytes, expected_message: str) -> None:
    assert expected_message in ERRORS.refusal(ENDPOINT, 502, {}, raw_body).message


def test_secrets_are_not_repeated() -> None:
    assert "Canary" not in refuse(400, "INVALID_ARGUMENT", f"key {ENDPOINT.api_key}").message


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 503, "message": "x", "status": "UNAVAILABLE"}, 503),
        ({"status": "RESOURCE_EXHAUSTED", "message": "x"}, 429),
        ({"code": 14, "status": "UNAVAILABLE", "message": "x"}, 503),
        ({"code": 400, "message": "x"}, 400),
        ({"status": "LATER", "message": "x"}, 502),
        ("words", 502),
        ({}, 502),
    ],
)
def test_errors_without_a_status(error: Any, status: int) -> None:
    assert ERRORS.failure(ENDPOINT, error).status == status
