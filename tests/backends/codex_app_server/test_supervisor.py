"""A child that fails repeatedly is not restarted in a loop, and callers do not queue for its failure."""

import asyncio
from pathlib import Path

import pytest

from antiphon.backends.codex_app_server.supervisor import Supervisor, pause_after
from antiphon.errors import BackendBroken, BackendUnreachable, Unavailable
from tests.backends.codex_app_server.child_support import child_options

AGES = 10_000.0


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())


def test_pauses_between_starts_grow_to_a_limit() -> None:
    assert [pause_after(failures, 0.5, 5.0) for failures in range(8)] == [0, 0, 0.5, 1, 2, 4, 5, 5]


async def test_during_the_pause_every_call_gets_the_last_error_at_once(tmp_path: Path) -> None:
    supervisor = Supervisor(child_options(tmp_path, "dies_at_start"), pause=AGES, longest_pause=AGES)
    for _ in range(2):
        with pytest.raises(BackendBroken):
            await supervisor.child()
    with pytest.raises(BackendUnreachable, match=r"status 3: no licence.* started again in") as caught:
        await supervisor.child()
    await supervisor.aclose()
    assert (caught.value.code, caught.value.status, caught.value.retryable) == (
        "upstream_protocol_error",
        502,
        True,
    )
    assert caught.value.retry_after is not None
    assert caught.value.retry_after > 0.9 * AGES
    assert starts(tmp_path) == 2


async def test_waiting_calls_share_the_outcome_of_one_start(tmp_path: Path) -> None:
    supervisor = Supervisor(child_options(tmp_path, "dies_at_start", "answer"), pause=AGES)
    outcomes = await asyncio.gather(*(supervisor.child() for _ in range(8)), return_exceptions=True)
    assert starts(tmp_path) == 1
    assert all(isinstance(outcome, BackendBroken) and outcome.retryable for outcome in outcomes)
    children = await asyncio.gather(*(supervisor.child() for _ in range(8)))
    assert len(set(children)) == 1
    await supervisor.aclose()


async def test_cancelling_a_waiting_call_does_not_cancel_the_start(tmp_path: Path) -> None:
    supervisor = Supervisor(child_options(tmp_path, "answer"))
    impatient = asyncio.create_task(supervisor.child())
    patient = asyncio.create_task(supervisor.child())
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).alive
    assert impatient.cancelled()
    assert starts(tmp_path) == 1
    await supervisor.aclose()


async def test_a_child_that_has_worked_is_replaced_at_once(tmp_path: Path) -> None:
    supervisor = Supervisor(child_options(tmp_path, "answer"), pause=AGES, longest_pause=AGES)
    for _ in range(4):
        child = await supervisor.child()
        supervisor.worked()
        child.give_up(BackendBroken("gone"))
    await supervisor.aclose()
    assert starts(tmp_path) == 4


async def test_children_that_die_before_they_worked_are_not_replaced_for_ever(tmp_path: Path) -> None:
    supervisor = Supervisor(child_options(tmp_path, "answer"), pause=AGES, longest_pause=AGES)
    for _ in range(2):
        (await supervisor.child()).give_up(BackendBroken("gone"))
    with pytest.raises(BackendUnreachable, match="gone"):
        await supervisor.child()
    await supervisor.aclose()


async def test_closing_during_a_start(tmp_path: Path) -> None:
    supervisor = Supervisor(child_options(tmp_path, "mute"))
    waiting = asyncio.create_task(supervisor.child())
    await asyncio.sleep(0)
    await supervisor.aclose()
    with pytest.raises(Unavailable):
        await waiting
