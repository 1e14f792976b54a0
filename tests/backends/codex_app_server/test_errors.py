"""Codex's errors mapped to ours."""

from typing import Any

import pytest

from antiphon.backends.codex_app_server.errors import request_refusal, turn_failure
from antiphon.backends.codex_app_server.wire import RpcError, TurnError
from antiphon.known_secrets import KNOWN_SECRETS


@pytest.mark.parametrize(
    ("info", "status", "code"),
    [
        ("contextWindowExceeded", 400, "context_length_exceeded"),
        ("usageLimitExceeded", 429, "rate_limit_exceeded"),
        ("rateLimitExceeded", 429, "rate_limit_exceeded"),
        ("serverOverloaded", 503, "server_overloaded"),
        ("modelNotFound", 404, "model_not_found"),
        ("unauthorized", 401, "unauthorized"),
        ("badRequest", 400, "bad_request"),
        ("sandboxError", 400, "sandbox_error"),
        ("internalServerError", 500, "server_error"),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, 401, "unauthorized"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, 429, "rate_limit_exceeded"),
        ({"responseStreamDisconnected": {"httpStatusCode": None}}, 502, "stream_disconnected"),
        ({"httpConnectionFailed": {"httpStatusCode": 402}}, 429, "insufficient_quota"),
        ({"httpConnectionFailed": {"httpStatusCode": 403}}, 403, "forbidden"),
        ({"httpConnectionFailed": {"httpStatusCode": 413}}, 400, "request_too_large"),
        ({"httpConnectionFailed": {"httpStatusCode": 422}}, 400, "bad_request"),
        ({"httpConnectionFailed": {"httpStatusCode": 504}}, 502, "connection_failed"),
        ({"httpConnectionFailed": {}}, 502, "connection_failed"),
        ("other", 500, "server_error"),
        ("somethingNew", 500, "server_error"),
        ({"somethingNew": None}, 500, "server_error"),
        ({}, 500, "server_error"),
        (None, 500, "server_error"),
    ],
)
def test_each_kind_has_its_status_and_code(info: Any, status: int, code: str) -> None:
    error = turn_failure(TurnError("it broke", info))
    assert (error.status, error.code) == (status, code)
    assert error.message.startswith("codex failed: it broke")


@pytest.mark.parametrize("info", ["unauthorized", {"httpConnectionFailed": {"httpStatusCode": 403}}])
def test_a_missing_login_error_includes_the_remedy(info: Any) -> None:
    assert "codex login" in turn_failure(TurnError("no", info)).message


@pytest.mark.parametrize("info", ["other", None, {"somethingNew": None}])
def test_a_broken_stream_is_recognized_by_its_message(info: Any) -> None:
    error = turn_failure(TurnError("stream disconnected before completion: Transport error", info))
    assert (error.status, error.code) == (502, "stream_disconnected")


def test_errors_of_codexs_own_upstream_are_passed_on() -> None:
    body = '{"error":{"message":"Too long.","type":"x","param":"input","code":"context_length_exceeded"}}'
    error = turn_failure(TurnError(body, "other"))
    assert (error.message, error.status, error.code, error.param) == (
        "Too long.",
        400,
        "context_length_exceeded",
        "input",
    )


def test_secrets_in_messages_are_redacted() -> None:
    error = turn_failure(TurnError("refused", "other", "sent Bearer sk-secret-0123456789"))
    assert "secret" not in error.message


def test_secrets_of_the_server_in_codes_are_redacted() -> None:
    KNOWN_SECRETS.add("canary-of-codex-000001")
    body = '{"error":{"message":"no","param":"canary-of-codex-000001","code":"canary-of-codex-000001"}}'
    error = turn_failure(TurnError(body, "other"))
    assert (error.code, error.param) == ("[redacted]", "[redacted]")


@pytest.mark.parametrize(("code", "status"), [(-32600, 400), (-32602, 400), (-32603, 502)])
def test_a_rejected_request_names_the_method(code: int, status: int) -> None:
    error = request_refusal("thread/start", RpcError(code, "no such thing"))
    assert error.status == status
    assert error.message == "codex refused 'thread/start': no such thing"
