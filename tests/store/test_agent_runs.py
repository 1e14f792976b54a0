"""Agent runs: only the latest claim may write; the log has no gaps and outlives the run's end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from antiphon.errors import AntiphonError, NotFound, Unsupported
from antiphon.store import upkeep
from antiphon.store.agent_runs import AgentRun, AgentRunStore, RunClaim, RunEvent
from antiphon.store.base import AGENT_RUN_JOB, Fenced
from antiphon.store.none import no_stores
from antiphon.store.ports import Stores
from antiphon.store.sql_stores import SqlAgentRuns
from tests.store.conftest import Clock, CountRows, Opened

REQUEST = '{"instruction":"ü\\u0000"}'.encode()


def run(name: str = "1", *, created_at: int = 1, expires_at: int | None = None) -> AgentRun:
    """The run `run_NAME` before it is claimed."""
    return AgentRun(
        id=f"run_{name}",
        status="queued",
        title=f"The task {name} ü",
        created_at=created_at,
        expires_at=expires_at,
    )


def events(*numbers: int) -> list[RunEvent]:
    return [RunEvent(number, f'{{"sequence_number":{number},"text":"ü"}}'.encode()) for number in numbers]


async def submit(runs: AgentRunStore, name: str = "1", owner: str = "nobody") -> None:
    await runs.submit("t", run(name), REQUEST, owner)


async def claimed(runs: AgentRunStore, name: str = "1") -> RunClaim:
    claim = await runs.claim("t", f"run_{name}")
    assert claim is not None
    return claim


async def numbers(runs: AgentRunStore, after: int = -1) -> list[int]:
    rows, _ = await runs.events("t", "run_1", after)
    return [row.number for row in rows]


async def test_a_submitted_run_waits_with_everything_it_needs(agent_runs: AgentRunStore) -> None:
    waiting = run(expires_at=5000)
    await agent_runs.submit("t", waiting, REQUEST, "nobody")
    assert await agent_runs.run("t", "run_1") == waiting
    claim = await claimed(agent_runs)
    assert claim == RunClaim(token=1, attempt=0, run=waiting, request=REQUEST, events=[])


async def test_submitting_is_idempotent(agent_runs: AgentRunStore, count_rows: CountRows) -> None:
    await submit(agent_runs)
    await claimed(agent_runs)
    await submit(agent_runs)
    assert await count_rows("agent_runs") == 1
    assert (await claimed(agent_runs)).token == 2


async def test_the_log_grows_and_the_run_is_in_progress(agent_runs: AgentRunStore) -> None:
    await submit(agent_runs)
    token = (await claimed(agent_runs)).token
    assert (await agent_runs.run("t", "run_1")).status == "queued"
    await agent_runs.append("t", "run_1", token, events(0))
    await agent_runs.append("t", "run_1", token, events(1, 2))
    assert (await agent_runs.run("t", "run_1")).status == "in_progress"
    assert await agent_runs.events("t", "run_1") == (events(0, 1, 2), False)
    assert await agent_runs.events("t", "run_1", 1) == (events(2), False)
    assert await numbers(agent_runs, 2) == await numbers(agent_runs, 99) == []
    assert (await claimed(agent_runs)).events == events(0, 1, 2)


async def test_the_end_is_stored_with_its_last_events(agent_runs: AgentRunStore, clock: Clock) -> None:
    await submit(agent_runs)
    token = (await claimed(agent_runs)).token
    clock.now = 1234.5
    await agent_runs.finish("t", "run_1", token, "completed", events(0, 1))
    ended = await agent_runs.run("t", "run_1")
    assert (ended.status, ended.ended_at, ended.attempts) == ("completed", 1234, 0)
    assert await agent_runs.events("t", "run_1") == (events(0, 1), True)
    assert await agent_runs.claim("t", "run_1") is None


async def test_older_claims_are_fenced(agent_runs: AgentRunStore) -> None:
    await submit(agent_runs)
    old = (await claimed(agent_runs)).token
    new = (await claimed(agent_runs)).token
    assert new > old
    for token in (old, new + 1):
        with pytest.raises(Fenced):
            await agent_runs.append("t", "run_1", token, events(0))
        with pytest.raises(Fenced):
            await agent_runs.finish("t", "run_1", token, "failed", events(0))
    assert await numbers(agent_runs) == []
    await agent_runs.finish("t", "run_1", new, "completed", events(0))
    with pytest.raises(Fenced):
        await agent_runs.append("t", "run_1", new, events(1))
    with pytest.raises(Fenced):
        await agent_runs.finish("t", "run_1", new, "failed", events(1))
    with pytest.raises(Fenced):
        await agent_runs.append("t", "run_x", 1, events(0))
    assert (await agent_runs.run("t", "run_1")).status == "completed"


async def test_of_many_claims_only_the_last_one_counts(agent_runs: AgentRunStore) -> None:
    await submit(agent_runs)
    claims = await asyncio.gather(*(agent_runs.claim("t", "run_1") for _ in range(8)))
    tokens = [claim.token for claim in claims if claim is not None]
    assert sorted(tokens) == list(range(1, 9))
    results = await asyncio.gather(
        *(agent_runs.finish("t", "run_1", token, "completed", events(0)) for token in tokens),
        return_exceptions=True,
    )
    assert [isinstance(result, Fenced) for result in results].count(False) == 1


async def test_appending_the_same_events_again_is_harmless(agent_runs: AgentRunStore) -> None:
    await submit(agent_runs)
    token = (await claimed(agent_runs)).token
    for _ in range(2):
        await agent_runs.append("t", "run_1", token, events(0, 1))
    assert await numbers(agent_runs) == [0, 1]


async def test_a_gap_in_the_log_is_rejected(agent_runs: AgentRunStore) -> None:
    await submit(agent_runs)
    token = (await claimed(agent_runs)).token
    with pytest.raises(AntiphonError, match="ends before event 0") as refused:
        await agent_runs.append("t", "run_1", token, events(1))
    assert refused.value.code == "event_log_gap"
    with pytest.raises(AntiphonError, match="ends before event 0"):
        await agent_runs.finish("t", "run_1", token, "completed", events(7))
    assert (await agent_runs.run("t", "run_1")).status == "queued"


async def test_runs_are_listed_newest_first(agent_runs: AgentRunStore) -> None:
    for name, created_at in (("a", 1), ("c", 2), ("b", 2)):
        await agent_runs.submit("t", run(name, created_at=created_at), REQUEST, "o")
    await agent_runs.submit("u", run("d"), REQUEST, "o")

    async def listed(limit: int, after: str | None = None) -> list[str]:
        return [each.id for each in await agent_runs.list_runs("t", limit=limit, after=after)]

    assert await listed(10) == ["run_c", "run_b", "run_a"]
    assert await listed(1, "run_c") == ["run_b"]
    assert await listed(10, "run_a") == []
    with pytest.raises(NotFound):
        await listed(10, "run_d")


async def test_a_deleted_run_is_gone_with_its_log(agent_runs: AgentRunStore, count_rows: CountRows) -> None:
    for name in ("1", "2"):
        await submit(agent_runs, name)
        await agent_runs.append("t", f"run_{name}", (await claimed(agent_runs, name=name)).token, events(0))
    await agent_runs.delete("t", "run_1")
    with pytest.raises(Fenced):
        await agent_runs.append("t", "run_1", 1, events(1))
    with pytest.raises(NotFound):
        await agent_runs.delete("t", "run_1")
    assert await count_rows("agent_runs") == await count_rows("agent_events") == 1


async def test_an_expired_run_is_gone_and_swept(
    store: Stores, agent_runs: AgentRunStore, clock: Clock, count_rows: CountRows
) -> None:
    await agent_runs.submit("t", run(expires_at=1010), REQUEST, "nobody")
    await agent_runs.append("t", "run_1", (await claimed(agent_runs)).token, events(0))
    await submit(agent_runs, "2")
    assert await store.upkeep.sweep() == 0
    clock.now = 1010.0
    assert await agent_runs.claim("t", "run_1") is None
    assert [job.id for job in await store.jobs.held("nobody")] == ["run_1", "run_2"]
    assert [each.id for each in await agent_runs.list_runs("t", limit=10)] == ["run_2"]
    with pytest.raises(NotFound):
        await agent_runs.events("t", "run_1")
    assert [await store.upkeep.sweep(), await store.upkeep.sweep()] == [1, 0]
    assert (await count_rows("agent_runs"), await count_rows("agent_events")) == (1, 0)


async def test_the_log_of_an_ended_run_lives_as_long_as_the_run(
    opened: Opened, agent_runs: AgentRunStore, store: Stores, clock: Clock
) -> None:
    await submit(agent_runs)
    await agent_runs.finish("t", "run_1", (await claimed(agent_runs)).token, "completed", events(0))
    await opened.database.write(upkeep.sweep(-1.0, int(clock.now)))
    assert await numbers(agent_runs) == [0]


async def test_a_bounded_store_forgets_the_oldest_ended_runs(
    opened: Opened, clock: Clock, count_rows: CountRows
) -> None:
    runs = SqlAgentRuns(opened.database, clock, limit=2)
    await submit(runs, "waiting")
    for name in ("a", "b", "c"):
        await submit(runs, name)
        token = (await claimed(runs, name=name)).token
        await runs.finish("t", f"run_{name}", token, "completed", events(0))
    assert [each.id for each in await runs.list_runs("t", limit=9)] == ["run_waiting", "run_c", "run_b"]
    assert await count_rows("agent_events") == 2


CALLS: dict[str, Callable[[AgentRunStore, str], Awaitable[object]]] = {
    "run": lambda runs, known: runs.run("b", known),
    "events": lambda runs, known: runs.events("b", known),
    "delete": lambda runs, known: runs.delete("b", known),
    "list_after": lambda runs, known: runs.list_runs("b", limit=1, after=known),
    "claim": lambda runs, known: runs.claim("b", known),
    "append": lambda runs, known: runs.append("b", known, 1, events(0)),
    "finish": lambda runs, known: runs.finish("b", known, 1, "failed", events(0)),
}


async def outcome(runs: AgentRunStore, call: str, name: str) -> str:
    try:
        return repr(await CALLS[call](runs, name)).replace(name, "…")
    except (AntiphonError, Fenced) as error:
        return f"{type(error)} {error}".replace(name, "…")


@pytest.mark.parametrize("call", CALLS)
async def test_foreign_is_the_same_as_unknown(agent_runs: AgentRunStore, call: str) -> None:
    await submit(agent_runs)
    await claimed(agent_runs)
    assert await outcome(agent_runs, call, "run_1") == await outcome(agent_runs, call, "run_x")
    assert await agent_runs.events("t", "run_1") == ([], False)


async def test_without_a_store_runs_are_rejected_and_not_found() -> None:
    none = no_stores().agent_runs
    with pytest.raises(Unsupported, match="--store sqlite:") as refused:
        await none.submit("t", run(), REQUEST, "o")
    assert (refused.value.status, refused.value.code) == (400, "unsupported_parameter")
    assert await none.claim("t", "run_1") is None
    assert await none.list_runs("t", limit=1) == ()
    for call in ("run", "events", "delete"):
        with pytest.raises(NotFound, match="run_1"):
            await CALLS[call](none, "run_1")
    for call in ("append", "finish"):
        with pytest.raises(Fenced):
            await CALLS[call](none, "run_1")


async def test_attempts_are_counted_from_the_last_progress(store: Stores, agent_runs: AgentRunStore) -> None:
    await submit(agent_runs)

    async def takes_over(owner: str) -> RunClaim:
        """The process that held the job has died."""
        job = await store.jobs.claim_one(owner, AGENT_RUN_JOB, "t", "run_1", 0.0)
        assert job is not None
        claim = await agent_runs.claim("t", "run_1", job)
        assert claim is not None
        return claim

    assert (await takes_over("o1")).attempt == 2, "the submitter is gone"
    claim = await takes_over("o2")
    assert claim.attempt == 3
    await agent_runs.append("t", "run_1", claim.token, events(0))
    assert (await agent_runs.run("t", "run_1")).attempts == 1
    assert (await takes_over("o3")).attempt == 2


async def test_cancelling_a_run_does_not_count_as_an_attempt(
    store: Stores, agent_runs: AgentRunStore
) -> None:
    await submit(agent_runs, owner="o1")
    [job] = await store.jobs.held("o1")
    await agent_runs.claim("t", "run_1", job)
    claim = await claimed(agent_runs)
    await agent_runs.finish("t", "run_1", claim.token, "cancelled", events(0))
    assert (await agent_runs.run("t", "run_1")).attempts == 1
