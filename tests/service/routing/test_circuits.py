"""The circuit breaker: opening, trials, closing."""

import pytest

from antiphon.errors import BackendBroken, BackendError, BackendPaused, BackendRefused, BackendTimeout
from antiphon.errors import BackendUnreachable as Unreachable
from antiphon.service.routing.circuits import MAX_CIRCUITS, MAX_PAUSE_SECONDS, Circuits, HealthPolicy, Key

KEY = Key("gpu", "m")


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuits(clock: Clock) -> Circuits:
    return Circuits(HealthPolicy(failures=3, pause=30.0), clock)


def fail(circuits: Circuits, times: int, error: BackendError | None = None) -> None:
    for _ in range(times):
        circuits.failed(KEY, error or Unreachable("The upstream 'gpu' cannot be reached."))


def refusal(circuits: Circuits) -> BackendPaused:
    with pytest.raises(BackendPaused) as caught:
        circuits.admit(KEY)
    return caught.value


def test_it_opens_after_so_many_failures_in_a_row(circuits: Circuits) -> None:
    fail(circuits, 2)
    circuits.admit(KEY)
    assert circuits.find(KEY).phase == "closed"
    fail(circuits, 1)
    assert circuits.find(KEY).phase == "open"
    with pytest.raises(BackendPaused):
        circuits.check(KEY)


def test_an_answer_between_begins_the_count_again(circuits: Circuits) -> None:
    fail(circuits, 2)
    circuits.answered(KEY)
    assert not circuits.any_failing
    fail(circuits, 2)
    circuits.admit(KEY)


def test_the_error_names_the_upstream_and_the_next_attempt(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3)
    clock.now += 12
    error = refusal(circuits)
    assert (error.status, error.code, error.retry_after) == (503, "upstream_paused", 18.0)
    assert error.message == (
        "The upstream 'gpu' is paused for the model 'm' after 3 failures in a row, since 12 s; next attempt in "
        "18 s. Its last error: no connection."
    )
    assert error.to_wire()["type"] == "server_error"
    assert error.retryable


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BackendRefused("Bad: 'my secret prompt'", status=500, code="my secret prompt"), "status 500"),
        (BackendBroken("It sent 'my secret prompt'"), "an invalid answer"),
        (BackendTimeout("my secret prompt"), "a deadline passed"),
    ],
)
def test_the_error_does_not_quote_what_the_upstream_sent_to_somebody_else(
    circuits: Circuits, error: BackendError, kind: str
) -> None:
    fail(circuits, 3, error)
    message = refusal(circuits).message
    assert "secret" not in message
    assert message.endswith(f"Its last error: {kind}.")


def test_after_the_pause_one_trial_is_admitted_and_others_are_rejected(
    circuits: Circuits, clock: Clock
) -> None:
    fail(circuits, 3)
    clock.now += 30
    circuits.check(KEY)
    circuits.admit(KEY)
    assert circuits.find(KEY).phase == "trial"
    error = refusal(circuits)
    assert error.retry_after == 1.0
    assert "an attempt is running" in error.message
    circuits.answered(KEY)
    circuits.admit(KEY)
    circuits.admit(KEY)


def test_a_trial_that_fails_opens_it_again_at_once(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3)
    clock.now += 30
    circuits.admit(KEY)
    clock.now += 5
    fail(circuits, 1)
    error = refusal(circuits)
    assert error.retry_after == 30.0
    assert "after 4 failures in a row" in error.message
    assert "since 35 s" in error.message


def test_a_trial_with_a_disconnected_client_is_inconclusive(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3)
    clock.now += 30
    circuits.admit(KEY)
    circuits.abandoned(KEY)
    circuits.admit(KEY)
    refusal(circuits)


def test_a_cancelled_turn_that_is_not_the_trial_has_no_effect(circuits: Circuits) -> None:
    fail(circuits, 3)
    circuits.abandoned(KEY)
    refusal(circuits)


def test_a_trial_that_never_ends_does_not_block_others(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3)
    clock.now += 30
    circuits.admit(KEY)
    clock.now += 30
    circuits.admit(KEY)


def test_late_failures_do_not_make_the_pause_longer(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3)
    clock.now += 20
    fail(circuits, 50)
    assert refusal(circuits).retry_after == 10.0


def test_a_refusal_of_the_request_is_a_sign_of_health(circuits: Circuits) -> None:
    fail(circuits, 2)
    fail(circuits, 1, BackendRefused("no", status=400))
    fail(circuits, 2)
    circuits.admit(KEY)


@pytest.mark.parametrize("error", [BackendTimeout(), BackendBroken(), BackendRefused("x", status=502)])
def test_errors_of_the_upstream_count(circuits: Circuits, error: BackendError) -> None:
    fail(circuits, 3, error)
    refusal(circuits)


def test_a_retry_after_sets_the_pause(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 1, BackendRefused("too fast", status=429, retry_after=60.0))
    clock.now += 1
    error = refusal(circuits)
    assert (error.status, error.code, error.retry_after) == (429, "rate_limit_exceeded", 59.0)
    assert error.to_wire()["type"] == "rate_limit_error"
    assert "at its own request" in error.message
    clock.now += 59
    circuits.admit(KEY)


def test_a_shorter_retry_after_does_not_shorten_the_pause(circuits: Circuits, clock: Clock) -> None:
    for wait in (60.0, 5.0):
        fail(circuits, 1, BackendRefused("too fast", status=429, retry_after=wait))
    assert refusal(circuits).retry_after == 60.0


def test_only_a_429_with_retry_after_opens_it_at_once(circuits: Circuits) -> None:
    fail(circuits, 1, BackendRefused("overloaded", status=503, retry_after=60.0))
    circuits.admit(KEY)


def test_the_pause_is_bounded(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 1, BackendRefused("quota", status=429, retry_after=86_400.0))
    assert refusal(circuits).retry_after == MAX_PAUSE_SECONDS


def test_a_429_without_retry_after_counts_as_a_failure(circuits: Circuits) -> None:
    fail(circuits, 2, BackendRefused("too fast", status=429))
    circuits.admit(KEY)
    fail(circuits, 1, BackendRefused("too fast", status=429))
    assert refusal(circuits).status == 503


def test_models_of_one_backend_and_backends_of_one_name_are_apart(circuits: Circuits) -> None:
    fail(circuits, 3)
    circuits.admit(Key("gpu", "other"))
    circuits.admit(Key("gpu", "m", number=2))


def test_it_can_be_turned_off(clock: Clock) -> None:
    circuits = Circuits(HealthPolicy(failures=0), clock)
    fail(circuits, 100)
    fail(circuits, 1, BackendRefused("too fast", status=429, retry_after=60.0))
    circuits.admit(KEY)
    assert not circuits.any_failing


def test_names_that_clients_invent_do_not_fill_the_memory(circuits: Circuits) -> None:
    for number in range(MAX_CIRCUITS + 10):
        circuits.failed(Key("gpu", str(number)), Unreachable())
    assert len(circuits.all()) == MAX_CIRCUITS
    assert circuits.find(Key("gpu", "0")).failures == 0


def test_two_paused_upstreams_are_reported_together(circuits: Circuits) -> None:
    limited = BackendPaused("One waits.", retry_after=20.0, limited=True)
    failed = BackendPaused("Two failed.", retry_after=40.0)
    limited.join(failed)
    assert (limited.message, limited.status, limited.retry_after) == ("Two failed. One waits.", 503, 20.0)
    both = BackendPaused("B", retry_after=5.0, limited=True)
    both.join(BackendPaused("A", retry_after=3.0, limited=True))
    assert (both.message, both.status, both.retry_after) == ("A B", 429, 3.0)
