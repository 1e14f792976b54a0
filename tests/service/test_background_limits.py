"""The limits of a background response hold over all of its attempts: rounds, time, tokens; so does its usage."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.jobs.worker import Worker
from antiphon.protocol.ids import IdSource
from antiphon.service.background import Background
from antiphon.service.hosted_tools.calls import HostedLimits
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.turn.chunks import Chunk, Finished, TextDelta
from tests.service.conftest import MakeCreator
from tests.service.passages import ScriptedPassages
from tests.service.responses.searches import ANSWER, SEARCH, USAGE, call
from tests.service.test_background import Stalling
from tests.service.test_background_file_search import CALLER, backend_of, resumed, submit

MANY: list[Chunk] = [
    *(chunk for index in range(8) for chunk in call(f"why {index}", index=index)),
    USAGE,
    Finished("tool_calls"),
]
Make = Callable[..., Background]


@pytest.fixture
def passages() -> ScriptedPassages:
    return ScriptedPassages()


@pytest.fixture
async def make(make_creator: MakeCreator, passages: ScriptedPassages) -> AsyncGenerator[Make, None]:
    """Builds background services that share one store."""
    services: list[Background] = []
    numbers = count(1)
    ids = IdSource(lambda: 1000.0, lambda size: next(numbers).to_bytes(size, "big"))

    def one(*scripts: Any, now: float = 1000.0, **limits: Any) -> Background:
        backend = ScriptedBackend(*scripts)
        creator = make_creator(
            backend,
            served_tools=(FileSearch(passages),),
            hosted=HostedLimits(**limits),
            clock=lambda: now,
            ids=ids,
        )
        jobs = Worker(creator.store.jobs, creator.store.signals, owner=f"process {len(services)}")
        services.append(Background(creator, jobs))
        return services[-1]

    yield one
    for background in services:
        await background.jobs.aclose()


async def interrupted(background: Background, stalling: Stalling) -> str:
    """A response whose process ends while the model stalls."""
    response_id = await submit(background)
    await end_attempt(background, stalling)
    return response_id


async def interrupted_again(background: Background, stalling: Stalling) -> None:
    """Another attempt, whose process ends, too."""
    background.jobs.adopt()
    await end_attempt(background, stalling)


async def end_attempt(background: Background, stalling: Stalling) -> None:
    async with asyncio.timeout(10):
        await stalling.steps_sent.wait()
    with suppress(Exception):
        await background.jobs.aclose()


@pytest.mark.requirement("HOSTED/loop-resume")
async def test_parallel_calls_of_an_earlier_attempt_are_one_round(make: Make) -> None:
    stalling = Stalling([TextDelta("It is")])
    first = make([MANY], [MANY], stalling, max_rounds=3)  # the first turn is prepared twice: it is checked
    response_id = await interrupted(first, stalling)
    stalling = Stalling([TextDelta("It is")])
    await interrupted_again(make([SEARCH], stalling, max_rounds=3), stalling)

    last = make([SEARCH], [ANSWER], max_rounds=3)
    events = await resumed(last, response_id)
    assert [bool(turn.tools) for turn in backend_of(last).turns] == [True, False]
    assert "after 3 rounds with hosted tools" in str(events[-1]["response"]["downgrades"])


@pytest.mark.requirement("HOSTED/loop-resume")
async def test_usage_is_the_sum_of_all_attempts(make: Make) -> None:
    stalling = Stalling([TextDelta("It is")])
    response_id = await interrupted(make([SEARCH], [SEARCH], [SEARCH], stalling), stalling)
    stalling = Stalling([TextDelta("It is")])
    await interrupted_again(make([SEARCH], stalling), stalling)
    events = await resumed(make([ANSWER]), response_id)
    assert events[-1]["response"]["usage"]["total_tokens"] == 4 * 5


async def test_the_usage_of_a_round_counts_though_its_calls_were_cut_off(
    make: Make, passages: ScriptedPassages
) -> None:
    passages.gate = asyncio.Event()
    first = make([SEARCH])
    response_id = await submit(first)
    async with asyncio.timeout(10):
        await passages.searched.wait()
    with suppress(Exception):
        await first.jobs.aclose()
    passages.gate.set()
    events = await resumed(make([SEARCH], [ANSWER]), response_id)
    assert events[-1]["response"]["usage"]["total_tokens"] == 3 * 5


async def test_a_response_that_is_cancelled_between_attempts_has_its_usage(make: Make) -> None:
    stalling = Stalling([TextDelta("It is")])
    response_id = await interrupted(make([SEARCH], [SEARCH], stalling), stalling)
    response = await make([ANSWER]).cancel(CALLER, response_id)
    assert response.usage is not None
    assert (response.status, response.usage.total_tokens) == ("cancelled", 5)


@pytest.mark.requirement("HOSTED/loop-end")
async def test_the_budget_of_tokens_holds_over_all_attempts(make: Make) -> None:
    stalling = Stalling([TextDelta("It is")])
    response_id = await interrupted(make([SEARCH], [SEARCH], stalling, response_tokens=10), stalling)
    last = make([SEARCH], [ANSWER], response_tokens=10)
    response = (await resumed(last, response_id))[-1]["response"]
    assert response["status"] == "incomplete"
    assert "10 tokens with hosted tools" in str(response["downgrades"])
    assert len(backend_of(last).turns) == 1


@pytest.mark.requirement("HOSTED/loop-end")
@pytest.mark.parametrize(
    ("later", "status"), [(99.0, "completed"), (101.0, "incomplete"), (-500.0, "completed")]
)
async def test_the_time_counts_from_the_first_attempt(make: Make, later: float, status: str) -> None:
    stalling = Stalling([TextDelta("It is")])
    first = make([SEARCH], [SEARCH], stalling, response_seconds=100.0)
    response_id = await interrupted(first, stalling)
    last = make([SEARCH], [ANSWER], response_seconds=100.0, now=1000.0 + later)
    response = (await resumed(last, response_id))[-1]["response"]
    assert response["status"] == status
