"""Every attack of `bench.hostile`, for a moment each, on a real server: the other tenant is answered.

The bounds are generous; `python -m bench.hostile` measures the real ones.
"""

from collections.abc import Generator

import pytest
from bench.hostile.attacks import ATTACKS
from bench.hostile.rounds import QUIET_SECONDS, run_round
from bench.hostile.samples import Probe, probing
from bench.hostile.target import Target, attacked_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hostile")]

ATTACK_SECONDS = 1.5
MAX_TEST_LAG_MS = 2000.0
MAX_TEST_MEMORY_MB = 600.0


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Generator[Target, None, None]:
    with attacked_server(tmp_path_factory.mktemp("hostile")) as attacked:
        yield attacked


@pytest.fixture(scope="module")
def probe(target: Target) -> Generator[Probe, None, None]:
    with probing(target) as running:
        running.quiet(QUIET_SECONDS)
        yield running


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_does_not_stop_the_other_tenant(name: str, target: Target, probe: Probe) -> None:
    done = run_round(target, probe, name, [name], ATTACK_SECONDS)
    assert done.requests, "the attacker sent nothing"
    assert done.ended is None
    assert done.during.requests > 0
    assert done.during.failures == 0
    assert done.memory_peak_mb < MAX_TEST_MEMORY_MB
    assert max(done.during.healthz_ms, done.during.answer_ms) < MAX_TEST_LAG_MS
    counted = {what: number for what, number in done.notes.items() if not what.endswith("seconds")}
    assert counted == {}


def test_an_attack_without_a_docstring_cannot_be_listed() -> None:
    assert [name for name, attack in ATTACKS.items() if not (attack.run.__doc__ or "").strip()] == []
