"""The circuit breaker: opening, trials, closing."""

import pytest

from antiphon.errors import BackendBroken, BackendError, BackendPaused, BackendRefused, BackendTimeout
from antiphon.errors import BackendUnreachable as Unreachable
from antiphon.service.routing.circuits import (
    MAX_CIRCUITS,
    MAX_PAUSE_SECONDS,
    MAX_TENANTS_PER_CIRCUIT,
    Circuits,
    HealthPolicy,
    Key,
)

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


def fail(circuits: Circuits, times: int, error: BackendError | None = None, tenant: str = "acme") -> None:
    for _ in range(times):
        circuits.failed(KEY, error or Unreachable("The upstream 'gpu' cannot be reached."), tenant)


def unsent() -> BackendError:
    """The error of a connection that could not be opened."""
    error = Unreachable("The host of the upstream 'gpu' is not known.")
    error.unsent = True
    return error


def refusal(circuits: Circuits, tenant: str = "acme") -> BackendPaused:
    with pytest.raises(BackendPaused) as caught:
        circuits.admit(KEY, tenant)
    return caught.value


def test_it_opens_after_so_many_failures_in_a_row(circuits: Circuits) -> None:
    fail(circuits, 2)
    circuits.admit(KEY, "acme")
    assert circuits.find(KEY).phase == "closed"
    fail(circuits, 1)
    assert circuits.find(KEY).phase == "open"
    with pytest.raises(BackendPaused):
        circuits.check(KEY, "acme")


def test_an_answer_between_begins_the_count_again(circuits: Circuits) -> None:
    fail(circuits, 2)
    circuits.answered(KEY)
    assert not circuits.any_failing
    fail(circuits, 2)
    circuits.admit(KEY, "acme")


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
    circuits.check(KEY, "acme")
    circuits.admit(KEY, "acme")
    assert circuits.find(KEY).phase == "trial"
    error = refusal(circuits)
    assert error.retry_after == 1.0
    assert "an attempt is running" in error.message
    circuits.answered(KEY)
    circuits.admit(KEY, "acme")
    circuits.admit(KEY, "acme")


def test_a_trial_that_fails_opens_it_again_at_once(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3)
    clock.now += 30
    circuits.admit(KEY, "acme")
    clock.now += 5
    fail(circuits, 1)
    error = refusal(circuits)
    assert error.retry_after == 30.0
    assert "after 4 failures in a row" in error.message
    assert "since 35 s" in error.message


def test_a_trial_with_a_disconnected_client_is_inconclusive(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3)
    clock.now += 30
    circuits.admit(KEY, "acme")
    circuits.abandoned(KEY, "acme")
    circuits.admit(KEY, "acme")
    refusal(circuits)


def test_a_cancelled_turn_that_is_not_the_trial_has_no_effect(circuits: Circuits) -> None:
    fail(circuits, 3)
    circuits.abandoned(KEY, "acme")
    refusal(circuits)


def test_a_trial_that_never_ends_does_not_block_others(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3)
    clock.now += 30
    circuits.admit(KEY, "acme")
    clock.now += 30
    circuits.admit(KEY, "acme")


def test_late_failures_do_not_make_the_pause_longer(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3)
    clock.now += 20
    fail(circuits, 50)
    assert refusal(circuits).retry_after == 10.0


def test_a_refusal_of_the_request_is_a_sign_of_health(circuits: Circuits) -> None:
    fail(circuits, 2)
    fail(circuits, 1, BackendRefused("no", status=400))
    fail(circuits, 2)
    circuits.admit(KEY, "acme")


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
    circuits.admit(KEY, "acme")


def test_a_shorter_retry_after_does_not_shorten_the_pause(circuits: Circuits, clock: Clock) -> None:
    for wait in (60.0, 5.0):
        fail(circuits, 1, BackendRefused("too fast", status=429, retry_after=wait))
    assert refusal(circuits).retry_after == 60.0


def test_only_a_429_with_retry_after_opens_it_at_once(circuits: Circuits) -> None:
    fail(circuits, 1, BackendRefused("overloaded", status=503, retry_after=60.0))
    circuits.admit(KEY, "acme")


def test_the_pause_is_bounded(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 1, BackendRefused("quota", status=429, retry_after=86_400.0))
    assert refusal(circuits).retry_after == MAX_PAUSE_SECONDS


def test_a_429_without_retry_after_counts_as_a_failure(circuits: Circuits) -> None:
    fail(circuits, 2, BackendRefused("too fast", status=429))
    circuits.admit(KEY, "acme")
    fail(circuits, 1, BackendRefused("too fast", status=429))
    assert refusal(circuits).status == 503


def test_models_of_one_backend_and_backends_of_one_name_are_apart(circuits: Circuits) -> None:
    fail(circuits, 3)
    circuits.admit(Key("gpu", "other"), "acme")
    circuits.admit(Key("gpu", "m", number=2), "acme")


def test_it_can_be_turned_off(clock: Clock) -> None:
    circuits = Circuits(HealthPolicy(failures=0), clock)
    fail(circuits, 100)
    fail(circuits, 1, BackendRefused("too fast", status=429, retry_after=60.0))
    circuits.admit(KEY, "acme")
    assert not circuits.any_failing


def test_names_that_clients_invent_do_not_fill_the_memory(circuits: Circuits) -> None:
    for number in range(MAX_CIRCUITS + 10):
        circuits.failed(Key("gpu", str(number)), Unreachable(), "acme")
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


BROKEN = BackendRefused("It said: out of memory", status=502)


def test_one_tenant_does_not_pause_a_backend_for_the_others(circuits: Circuits, clock: Clock) -> None:
    for _ in range(20):
        fail(circuits, 10, BROKEN)
        refusal(circuits)
        circuits.admit(KEY, "umbra")
        circuits.admit(KEY, "umbra")
        clock.now += 30
        circuits.admit(KEY, "acme")


def test_it_is_paused_for_all_when_it_fails_for_two_tenants(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3, BROKEN)
    fail(circuits, 2, BROKEN, "umbra")
    circuits.admit(KEY, "umbra")
    circuits.admit(KEY, "ceres")
    clock.now += 10
    fail(circuits, 1, BROKEN, "umbra")
    error = refusal(circuits, "ceres")
    assert error.retry_after == 30.0
    assert "after 6 failures in a row" in error.message
    assert circuits.find(KEY).phase == "open"


def test_an_answer_to_anybody_shows_that_the_failures_of_one_tenant_are_its_own(circuits: Circuits) -> None:
    fail(circuits, 3, BROKEN)
    circuits.answered(KEY)
    fail(circuits, 3, BROKEN, "umbra")
    circuits.admit(KEY, "ceres")


def test_connections_that_fail_count_for_all_tenants_together(circuits: Circuits) -> None:
    for tenant in ("acme", "umbra", "ceres"):
        circuits.admit(KEY, tenant)
        fail(circuits, 1, unsent(), tenant)
    assert "Its last error: no connection." in refusal(circuits, "somebody else").message


def test_a_tenant_cannot_extend_the_pause_for_all(circuits: Circuits, clock: Clock) -> None:
    """It wins every race for the trial, and fails."""
    fail(circuits, 3, unsent())
    clock.now += 30
    circuits.admit(KEY, "umbra")
    fail(circuits, 1, BROKEN, "umbra")
    refusal(circuits, "umbra")
    circuits.admit(KEY, "ceres")
    circuits.answered(KEY)
    circuits.admit(KEY, "umbra")


def test_failures_before_a_pause_for_all_do_not_count_after_it(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3, BROKEN)
    fail(circuits, 3, unsent(), "ceres")
    clock.now += 30
    circuits.admit(KEY, "umbra")
    fail(circuits, 1, BROKEN, "umbra")
    circuits.admit(KEY, "somebody else")


def test_a_trial_that_hangs_blocks_its_own_tenant_only(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3, unsent())
    clock.now += 30
    circuits.admit(KEY, "umbra")
    refusal(circuits, "umbra")
    circuits.admit(KEY, "ceres")
    refusal(circuits, "ceres")


def test_trials_of_two_tenants_that_fail_pause_it_for_all_again(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3, BROKEN)
    fail(circuits, 3, BROKEN, "umbra")
    clock.now += 30
    for tenant in ("acme", "umbra"):
        circuits.admit(KEY, tenant)
        fail(circuits, 1, BROKEN, tenant)
    assert refusal(circuits, "ceres").retry_after == 30.0


def test_a_trial_without_a_connection_pauses_it_for_all_again(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 3, unsent())
    clock.now += 30
    circuits.admit(KEY, "umbra")
    fail(circuits, 1, unsent(), "umbra")
    assert refusal(circuits, "ceres").retry_after == 30.0


def test_a_refused_request_closes_the_circuit_of_its_own_tenant_only(
    circuits: Circuits, clock: Clock
) -> None:
    for tenant in ("acme", "umbra"):
        fail(circuits, 3, BROKEN, tenant)
    clock.now += 30
    circuits.admit(KEY, "acme")
    fail(circuits, 1, BackendRefused("no", status=400))
    circuits.admit(KEY, "umbra")
    refusal(circuits, "umbra")
    fail(circuits, 1, BackendRefused("no", status=400), "umbra")
    circuits.admit(KEY, "acme")
    circuits.abandoned(KEY, "acme")


def test_a_rate_limit_of_one_tenant_does_not_pause_the_others(circuits: Circuits) -> None:
    fail(circuits, 9, BackendRefused("your request is too large", status=429, retry_after=3600.0))
    assert refusal(circuits).status == 429
    circuits.admit(KEY, "umbra")


def test_rate_limits_of_two_tenants_pause_it_for_the_shorter_time(circuits: Circuits) -> None:
    fail(circuits, 1, BackendRefused("too fast", status=429, retry_after=20.0))
    fail(circuits, 1, BackendRefused("too fast", status=429, retry_after=3600.0), "umbra")
    error = refusal(circuits, "ceres")
    assert (error.status, error.retry_after) == (429, 20.0)
    assert refusal(circuits, "umbra").retry_after == 20.0


def test_tenants_do_not_fill_the_memory(circuits: Circuits) -> None:
    fail(circuits, 3, unsent(), "first")
    for number in range(2 * MAX_TENANTS_PER_CIRCUIT):
        fail(circuits, 1, BROKEN, str(number))
    assert len(circuits._failing[KEY].tenants) == MAX_TENANTS_PER_CIRCUIT  # pyright: ignore[reportPrivateUsage] -- there is no other way to see it


def test_invented_names_do_not_end_the_pause_for_all(circuits: Circuits) -> None:
    fail(circuits, 3, unsent())
    for number in range(MAX_CIRCUITS + 10):
        circuits.failed(Key("gpu", str(number)), BROKEN, "umbra")
    refusal(circuits, "ceres")


def test_many_tenants_that_fail_in_turn_pause_the_backend_for_all(circuits: Circuits) -> None:
    for number in range(MAX_TENANTS_PER_CIRCUIT):
        fail(circuits, 1, BackendBroken("x"), tenant=f"t{number}")
    circuits.check(KEY, "another")
    fail(circuits, 1, BackendBroken("x"), tenant="one more")
    refusal(circuits, "another")


def test_invented_names_do_not_end_the_pause_of_a_tenant(circuits: Circuits) -> None:
    fail(circuits, 3)
    for number in range(MAX_CIRCUITS + 5):
        circuits.failed(Key("gpu", f"invented {number}"), BackendBroken("x"), "hostile")
    refusal(circuits)


def test_a_refusal_does_not_end_a_pause_that_the_backend_asked_for(circuits: Circuits, clock: Clock) -> None:
    fail(circuits, 1, BackendRefused("slow down", status=429, retry_after=600.0))
    circuits.failed(KEY, BackendRefused("no", status=400), "acme")
    refusal(circuits)
    clock.now += 601
    circuits.admit(KEY, "acme")
