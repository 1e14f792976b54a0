"""The verdicts of `bench.hostile`."""

from dataclasses import replace

import pytest
from bench.hostile.rounds import AttackRound, failed, markdown
from bench.hostile.samples import Lag, Sample, lag_of

QUIET = Lag(healthz_ms=2, answer_ms=5, control_ms=1, model_ms=2, failures=0, requests=100)
HELD = AttackRound("a", 7, {"400": 7}, {"cancel seconds": 0.2}, QUIET, QUIET, 60, 80, None)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"during": replace(QUIET, healthz_ms=52)}, "healthz 52 ms"),
        ({"during": replace(QUIET, answer_ms=1500)}, "answer 1,500 ms"),
        ({"during": replace(QUIET, answer_ms=float("nan"))}, "answer nan ms"),
        ({"during": replace(QUIET, failures=3)}, "3 of 100 probes failed"),
        ({"memory_peak_mb": 401}, "401 MB"),
        ({"notes": {"cancel seconds": 1.5}}, "cancel seconds: 1.5"),
        ({"notes": {"other tenant not answered": 1}}, "other tenant not answered: 1"),
        ({"ended": "server died (-9)"}, "server died (-9)"),
    ],
)
def test_a_bound_that_does_not_hold_is_the_verdict(change: dict[str, object], fault: str) -> None:
    done = replace(HELD, **change)  # pyright: ignore[reportArgumentType]
    assert done.faults == [fault]
    assert failed([HELD, done])
    assert fault in markdown([done])


def test_the_lag_of_the_machine_is_not_that_of_the_server() -> None:
    busy = Lag(healthz_ms=300, answer_ms=330, control_ms=290, model_ms=285, failures=0, requests=100)
    assert replace(HELD, during=busy).faults == []


def test_the_lag_of_the_model_counts_for_answers_only() -> None:
    slow_model = Lag(healthz_ms=53, answer_ms=130, control_ms=2, model_ms=90, failures=0, requests=100)
    assert replace(HELD, during=slow_model).faults == ["healthz 53 ms"]


def test_an_attack_that_changes_nothing_is_held() -> None:
    assert HELD.verdict == "held"
    assert not failed([HELD])


def test_the_percentile_counts_each_kind_by_itself() -> None:
    samples = [Sample("healthz", n, 0.001 * n, 200) for n in range(1, 101)]
    samples.append(Sample("answer", 1, 3, 0))
    lag = lag_of(samples)
    assert lag.healthz_ms == pytest.approx(99)
    assert (lag.answer_ms, lag.failures, lag.requests) == (3000, 1, 101)
