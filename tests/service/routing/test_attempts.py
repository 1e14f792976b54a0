"""The next attempt after a backend has failed before its first delta."""

import logging

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import (
    BackendBroken,
    BackendBusy,
    BackendError,
    BackendPaused,
    BackendRefused,
    BackendTimeout,
    BackendUnreachable,
    Unsupported,
)
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.parse_create import parse_create
from antiphon.service.routing.attempts import Attempt
from antiphon.service.routing.router import Route

REQUEST = parse_create(b'{"model": "m", "input": "x"}')
ROUTES = [
    Route("m", ScriptedBackend.saying("a")),
    Route("n", ScriptedBackend.saying("b"), instead_of="m"),
    Route("o", ScriptedBackend.saying("c"), instead_of="m"),
]


@pytest.mark.parametrize(
    "error",
    [
        BackendUnreachable(),
        BackendTimeout(),
        BackendBroken(),
        BackendBusy("full", retry_after=1.0),
        BackendPaused("open", retry_after=1.0),
        BackendRefused("overloaded", status=503),
        BackendRefused("too fast", status=429),
    ],
)
def test_a_failure_of_the_backend_moves_on_to_the_next(error: BackendError) -> None:
    following = Attempt(ROUTES, REQUEST.items).after(error, REQUEST)
    assert following is not None
    assert following.route.model == "n"
    assert following.cause is error
    assert following.items == REQUEST.items


@pytest.mark.parametrize(
    "error",
    [
        BackendRefused("no", status=400),
        BackendRefused("unknown", status=404, code="model_not_found"),
        BackendRefused("too long", status=400, code="context_length_exceeded"),
    ],
)
def test_a_refusal_of_the_request_is_reported(error: BackendError) -> None:
    assert Attempt(ROUTES, REQUEST.items).after(error, REQUEST) is None


def test_after_the_last_route_there_is_no_attempt() -> None:
    assert Attempt(ROUTES[:1], REQUEST.items).after(BackendUnreachable(), REQUEST) is None


def test_the_response_names_the_fallback() -> None:
    attempt = Attempt(ROUTES, REQUEST.items)
    assert attempt.downgrades == ()
    following = attempt.after(BackendUnreachable(), REQUEST)
    assert following is not None
    assert rendered(following.downgrades) == ["model: 'n' answers because 'm' could not"]


def test_when_all_are_paused_the_error_lists_all_with_the_earliest_retry() -> None:
    attempt: Attempt | None = Attempt(ROUTES, REQUEST.items)
    errors = [
        BackendPaused(f"{name} is left alone.", retry_after=wait)
        for name, wait in zip("abc", (9.0, 3.0, 7.0), strict=True)
    ]
    for error in errors:
        assert attempt is not None
        attempt = attempt.after(error, REQUEST)
    assert attempt is None
    assert errors[-1].message == "a is left alone. b is left alone. c is left alone."
    assert errors[-1].retry_after == 3.0


def test_only_real_failures_are_logged_as_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        Attempt(ROUTES, REQUEST.items).after(BackendPaused("open", retry_after=1.0), REQUEST)
        assert not caplog.records
        Attempt(ROUTES, REQUEST.items).after(BackendUnreachable("gone"), REQUEST)
    assert "gone" in caplog.text


def test_the_refusal_of_the_first_backend_is_raised() -> None:
    refusal = Unsupported("no images")
    with pytest.raises(Unsupported) as caught:
        Attempt(ROUTES, REQUEST.items).unfit(refusal)
    assert caught.value is refusal


def test_a_stand_in_that_cannot_serve_the_request_is_passed_over() -> None:
    failed = BackendUnreachable("gone")
    second = Attempt(ROUTES, REQUEST.items).after(failed, REQUEST)
    assert second is not None
    third = second.unfit(Unsupported("no images"))
    assert (third.route.model, third.cause) == ("o", failed)
    with pytest.raises(BackendUnreachable, match="gone"):
        third.unfit(Unsupported("no images"))
