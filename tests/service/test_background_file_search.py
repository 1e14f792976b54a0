"""Searches in the background: a finished one is not run again by the next attempt, a cut-off one is."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.jobs.worker import Worker
from antiphon.protocol.items import FunctionCallOutput
from antiphon.protocol.parse_create import parse_create
from antiphon.service.background import Background
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.store.base import Page
from antiphon.store.ports import Stores
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator
from tests.service.passages import ScriptedPassages
from tests.service.responses.searches import ANSWER, SEARCH, TOOL, outputs
from tests.service.test_background import followed
from tests.turn.order import check_order

CALLER = Caller.of("t")
Make = Callable[..., Background]


@pytest.fixture
def passages() -> ScriptedPassages:
    return ScriptedPassages()


@pytest.fixture
async def make(make_creator: MakeCreator, passages: ScriptedPassages) -> AsyncGenerator[Make, None]:
    """Builds background services that share one store."""
    services: list[Background] = []

    def one(*scripts: Any) -> Background:
        creator = make_creator(ScriptedBackend(*scripts), served_tools=(FileSearch(passages),))
        jobs = Worker(creator.store.jobs, creator.store.signals, owner=f"process {len(services)}")
        services.append(Background(creator, jobs))
        return services[-1]

    yield one
    for background in services:
        await background.jobs.aclose()


async def submit(background: Background, **params: Any) -> str:
    body = msgspec.json.encode(
        {"model": "m", "input": "Why is the sky blue?", "background": True, "tools": [TOOL], **params}
    )
    return (await background.submit(parse_create(body), body, CALLER)).id


def backend_of(background: Background) -> ScriptedBackend:
    backend = background.creator.router.routes("m")[0].backend
    assert isinstance(backend, ScriptedBackend)
    return backend


async def resumed(background: Background, response_id: str) -> list[dict[str, Any]]:
    background.jobs.adopt()
    async with asyncio.timeout(10):
        events = await followed(background, response_id)
    check_order(events)
    return events


async def die(background: Background) -> None:
    """End the process as if nothing could be stored any more."""
    with suppress(Exception):
        await background.jobs.aclose()


@pytest.mark.requirement("HOSTED/loop-resume")
async def test_a_finished_search_is_not_run_again(
    make: Make, passages: ScriptedPassages, store: Stores
) -> None:
    second_round = asyncio.Event()

    async def stalls(_turn: TurnRequest, /) -> AsyncGenerator[Step, None]:
        yield [TextDelta("It is")]
        second_round.set()
        await asyncio.Event().wait()

    first = make(
        [SEARCH], [SEARCH], stalls
    )  # the first turn is prepared twice: it is checked when it is submitted
    response_id = await submit(first)
    async with asyncio.timeout(10):
        await second_round.wait()
    await die(first)

    second = make([ANSWER])
    events = await resumed(second, response_id)
    response = events[-1]["response"]
    kinds = [item["type"] for item in response["output"]]
    assert (response["status"], kinds) == ("completed", ["file_search_call", "message", "message"])
    assert len(passages.queries) == 1
    backend = backend_of(second)
    assert "[1] sky.pdf, page 3\nThe sky is blue." in outputs(backend)[0]
    assert backend.turns[0].choice == "auto"
    assert response["output"][2]["content"][0]["annotations"][0]["filename"] == "sky.pdf"
    assert b"The sky is blue." not in msgspec.json.encode(events)

    listed = await store.responses.input_items("t", response_id, Page())
    assert b"The sky is blue." not in msgspec.json.encode(listed)


async def test_the_next_turn_sees_what_an_earlier_attempt_found(
    make: Make, passages: ScriptedPassages, store: Stores
) -> None:
    started = asyncio.Event()

    async def stalls(_turn: TurnRequest, /) -> AsyncGenerator[Step, None]:
        yield [TextDelta("It is")]
        started.set()
        await asyncio.Event().wait()

    first = make(
        [SEARCH], [SEARCH], stalls
    )  # the first turn is prepared twice: it is checked when it is submitted
    response_id = await submit(first)
    async with asyncio.timeout(10):
        await started.wait()
    await die(first)
    await resumed(make([ANSWER]), response_id)
    last = make([[TextDelta("Yes."), Finished("stop")]])
    body = msgspec.json.encode({"model": "m", "input": "Really?", "previous_response_id": response_id})
    await last.creator.start(parse_create(body), CALLER).result()
    shown = [item for item in backend_of(last).turns[0].items if isinstance(item, FunctionCallOutput)]
    assert "The sky is blue." in str(shown[0].output)
    assert len(passages.queries) == 1


@pytest.mark.requirement("HOSTED/loop-resume")
async def test_a_cut_off_search_is_run_again(make: Make, passages: ScriptedPassages) -> None:
    passages.gate = asyncio.Event()
    first = make([SEARCH])
    response_id = await submit(first)
    async with asyncio.timeout(10):
        await passages.searched.wait()
        await asyncio.sleep(0.1)  # the events are stored in batches
    await die(first)
    passages.gate.set()

    events = await resumed(make([SEARCH], [ANSWER]), response_id)
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["status"] for item in items] == ["incomplete", "completed", "completed"]
    assert len(passages.queries) == 2


async def test_the_limit_of_calls_counts_those_of_earlier_attempts(
    make: Make, passages: ScriptedPassages
) -> None:
    started = asyncio.Event()

    async def stalls(_turn: TurnRequest, /) -> AsyncGenerator[Step, None]:
        yield [TextDelta("It is")]
        started.set()
        await asyncio.Event().wait()

    first = make(
        [SEARCH], [SEARCH], stalls
    )  # the first turn is prepared twice: it is checked when it is submitted
    response_id = await submit(first, max_tool_calls=1, tool_choice="required")
    async with asyncio.timeout(10):
        await started.wait()
    await die(first)
    second = make([ANSWER])
    await resumed(second, response_id)
    (turn,) = backend_of(second).turns
    assert (turn.tools, turn.choice) == ((), "none")
    assert len(passages.queries) == 1
