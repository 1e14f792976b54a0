"""Upstream errors of any shape become ours, with the upstream's message and the right status."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from antiphon.backends.chat_completions.errors import ERRORS
from antiphon.backends.registry import default_endpoint
from antiphon.backends.request_faults import refuses_images
from antiphon.errors import BackendRefused
from antiphon.http.client import retry_after
from antiphon.service.routing.circuits import is_backend_fault

ENDPOINT = replace(default_endpoint("groq"), api_key="the-configured-key", name="up")


def refuse(status: int, body: Any, headers: Mapping[str, str] | None = None) -> BackendRefused:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return ERRORS.refusal(ENDPOINT, status, headers or {}, data)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "bad", "type": "t", "param": None, "code": None}}, "bad"),
        ({"error": "bad"}, "bad"),
        ({"object": "error", "message": "bad", "code": 400}, "bad"),
        ({"object": "error", "message": {"detail": [{"loc": ["body", "n"], "msg": "bad"}]}}, "body.n: bad"),
        ({"message": "bad"}, "bad"),
        ({"detail": "bad"}, "bad"),
        ({"detail": [{"loc": ["body", "x"], "msg": "missing"}, {"msg": "worse"}]}, "body.x: missing; worse"),
        ({"detail": {"reason": 7}}, '{"reason":7}'),
        ({"error": {"message": "Provider", "metadata": {"raw": "its words"}}}, "Provider: its words"),
        (b"<html><title>Bad</title></html>", "Bad"),
        (b"plain words", "plain words"),
        ("a string", "a string"),
        (17, "17"),
        (b"", "The upstream 'up' refused the request with status 400."),
        ({"error": {}}, "The upstream 'up' refused the request with status 400."),
    ],
)
def test_the_message_is_found_in_every_shape(body: Any, message: str) -> None:
    error = refuse(400, body)
    assert (error.status, error.message) == (400, message)


@pytest.mark.parametrize(
    ("status", "outward", "retryable"),
    [
        (400, 400, False),
        (404, 404, False),
        (405, 502, False),
        (408, 408, True),
        (409, 409, True),
        (413, 413, False),
        (422, 422, False),
        (429, 429, True),
        (500, 502, True),
        (501, 502, False),
        (502, 502, True),
        (503, 503, True),
        (504, 502, True),
        (529, 503, True),
    ],
)
def test_statuses_are_mapped_to_the_same_meaning(status: int, outward: int, retryable: bool) -> None:
    error = refuse(status, {"error": {"message": "why"}})
    assert (error.status, error.retryable) == (outward, retryable)
    assert "why" in error.message


@pytest.mark.parametrize("status", [401, 402, 403])
def test_rejected_credentials_are_the_operators_and_not_the_callers(status: int) -> None:
    error = refuse(status, {"error": {"message": "Invalid API Key"}})
    assert (error.status, error.code) == (502, "upstream_auth_error")
    assert "GROQ_API_KEY" in error.message
    assert "Invalid API Key" in error.message


def test_secrets_are_redacted() -> None:
    body = {"error": {"message": "key the-configured-key, Bearer abcdef, sk-live-12345678 are wrong"}}
    assert refuse(400, body).message == "key [redacted], Bearer [redacted], [redacted] are wrong"


def test_messages_are_short() -> None:
    assert len(refuse(400, {"error": {"message": "x " * 5000}}).message) <= 500


@pytest.mark.parametrize(
    "upstream_message",
    [
        "This model's maximum context length is 8192 tokens, but you requested 9000.",
        "the request exceeds the available context size, try increasing it",
        "Your input exceeds the context window of this model.",
        "Trying to keep the first 9 tokens when context the overflows. Loaded with context length of only 4096",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "Please reduce the length of the messages or completion.",
        "`inputs` tokens + `max_new_tokens` must be <= 4097",
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        "prompt is too long: 9 tokens > 8 maximum",
        "This model's maximum prompt length is 131072",
    ],
)
@pytest.mark.parametrize("status", [400, 413, 500])
def test_a_full_context_is_reported_as_context_length_exceeded(upstream_message: str, status: int) -> None:
    error = refuse(status, {"error": {"message": upstream_message}})
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "input")


@pytest.mark.parametrize(
    "error",
    [
        {"message": "model 'x' not found"},
        {
            "message": "The model `x` does not exist or you do not have access to it.",
            "code": "model_not_found",
        },
        {"message": "Unknown model: x"},
    ],
)
def test_an_unknown_model_is_reported_as_model_not_found(error: dict[str, Any]) -> None:
    found = refuse(404, {"error": error})
    assert (found.status, found.code, found.param) == (404, "model_not_found", "model")


@pytest.mark.parametrize("body", [b"", b"404 page not found", {"detail": "Not Found"}])
def test_a_wrong_path_error_includes_a_hint(body: Any) -> None:
    assert "base_url" in refuse(404, body).message


def test_errors_name_the_callers_parameter() -> None:
    assert refuse(400, {"error": {"message": "m", "param": "messages[1].content"}}).param == "input"
    assert refuse(400, {"error": {"message": "m", "param": "max_tokens"}}).param == "max_output_tokens"
    assert refuse(400, {"error": {"message": "m", "param": "logit_bias"}}).param is None


def test_valid_error_codes_are_preserved() -> None:
    assert refuse(400, {"error": {"message": "m", "code": "invalid_image"}}).code == "invalid_image"
    assert refuse(400, {"error": {"message": "m", "code": 3001}}).code == "upstream_error"
    assert refuse(429, {"error": {"message": "m"}}).code == "rate_limit_exceeded"
    assert refuse(429, {"error": {"message": "m", "code": "insufficient_quota"}}).code == "insufficient_quota"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "9" * 400}, 86_400.0),
        ({"retry-after-ms": "inf"}, 86_400.0),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT", "date": "Sun, 06 Nov 1994 08:49:30 GMT"}, 7.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT", "date": "Sun, 06 Nov 1994 09:00:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read_in_seconds_or_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds
    assert refuse(429, {}, headers).retry_after == seconds


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "m", "code": 429}, 429),
        ({"message": "m", "code": "502"}, 502),
        ({"message": "m", "type": "BadRequestError", "code": 400}, 400),
        ({"message": "m", "type": "overloaded_error"}, 503),
        ({"message": "m", "code": "rate_limit_exceeded"}, 429),
        ({"message": "m", "type": "server_error"}, 502),
        ({"message": "maximum context length"}, 400),
        ("m", 502),
    ],
)
def test_an_error_in_a_stream_has_the_matching_status(error: Any, status: int) -> None:
    assert ERRORS.failure(ENDPOINT, error).status == status


@pytest.mark.parametrize(
    "message",
    [
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        "this model is missing data required for image input",
        "This model does not support images",
        "audio input is not supported",
        "tiny is not a multimodal model",
        "At most 0 image(s) may be provided in one prompt.",
        "At most 1 image(s) may be provided in one prompt. Set `--limit-mm-per-prompt` to increase this limit.",
        "Image count 3 exceeds limit 2 per request.",
        "Multimodal inputs are not supported when --language-model-only is set",
        "Multimodal data provided, but model does not support multimodal requests.",
        "Failed to compile json grammar: bad",
        "Failed to transform json schema into a grammar: bad",
        "The provided JSON schema contains features not supported by xgrammar.",
        "Invalid grammar specification.",
        'invalid format: "xml"; expected "json" or a valid JSON Schema object',
        "Only user, assistant and tool roles are supported, got developer.",
        "Only text and image blocks are supported in message content!",
        "System message must be at the beginning.",
        "tools param requires --jinja flag",
        "Failed to initialize samplers: failed to parse grammar",
        "JSON schema conversion failed:\nUnrecognized schema: {}",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "System role not supported",
    ],
)
def test_a_500_that_the_request_caused_is_a_400(message: str) -> None:
    error = refuse(500, {"error": {"message": message}})
    assert (error.status, error.code, error.retryable) == (400, "unsupported_value", False)
    assert not is_backend_fault(error)
    assert refuse(503, {"error": {"message": message}}).retryable


@pytest.mark.parametrize(
    "message",
    [
        "Failed to load image or audio file",
        "Failed to load image: cannot identify image file",
        "Invalid uri-encoded base64 value",
        "Invalid base64 value",
        "invalid base64 image data: illegal base64 data at input byte 4",
        "image: unknown format",
        "illegal base64 data at input byte 4",
    ],
)
def test_a_500_at_a_broken_picture_is_a_400(message: str) -> None:
    error = refuse(500, {"error": {"message": message}})
    assert (error.status, error.code, error.param) == (400, "invalid_value", "input")
    assert not is_backend_fault(error)


def test_an_input_that_is_too_large_is_too_long() -> None:
    error = refuse(500, {"error": {"message": "input is too large to process. increase the physical batch"}})
    assert (error.status, error.code) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    "message",
    [
        "the image worker has crashed",
        "failed to load model",
        "CUDA out of memory while it processed an image",
        "grammar worker exited",
        "failed to initialize grammar backend process",
        "unsupported GPU",
        "",
    ],
)
def test_a_500_of_the_server_itself_counts(message: str) -> None:
    assert is_backend_fault(refuse(500, {"error": {"message": message}}))


def test_a_fault_of_the_request_in_a_stream_is_a_400() -> None:
    error = ERRORS.failure(ENDPOINT, {"message": "image input is not supported"})
    assert (error.status, error.code) == (400, "unsupported_value")
    assert not is_backend_fault(error)


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("image input is not supported - hint: provide the mmproj", True),
        ("tiny is not a multimodal model", True),
        ("No endpoints found that support image input", True),
        ("this model does not support images", True),
        ("unsupported image format: bmp", False),
        ("This model does not support image type bmp", False),
        ("failed to decode image", False),
        ("At most 0 image(s) may be provided in one prompt.", True),
        ("At most 4 image(s) may be provided in one prompt.", False),
        ("Image count 1 exceeds limit 0 per request.", True),
        ("Image count 11 exceeds limit 10 per request.", False),
        ("Multimodal inputs are not supported when --language-model-only is set", True),
        ("Model does not support images. Please use a model that does.", True),
        ('"tiny" does not support vision', True),
        ('"tiny" does not support image generation', False),
    ],
)
def test_a_model_without_images_is_told_from_a_wrong_image(message: str, refused: bool) -> None:
    assert refuses_images(message) is refused
