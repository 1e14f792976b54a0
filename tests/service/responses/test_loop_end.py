"""The ends of a loop with hosted tools: the time and the tokens of the whole response."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import AntiphonError
from antiphon.protocol.items import Message
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.service.hosted_tools.calls import HostedLimits
from antiphon.service.hosted_tools.web_search import WebSearch
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import HEARTBEAT, Chunk, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from antiphon.web.port import WebQuery, WebResult
from tests.service.conftest import MakeCreator
from tests.service.responses.searches import USAGE, call, create, outputs, stream
from tests.service.responses.test_web_search import GREEN

TOOL = {"type": "web_search"}
SEARCH: list[Chunk] = [
    TextDelta("I look. "),
    *call("why blue", name="web_search"),
    USAGE,
    Finished("tool_calls"),
]
ANSWER: list[Chunk] = [TextDelta("Blue."), USAGE, Finished("stop")]


class SlowWeb:
    """A search engine that takes its time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.queries: list[str] = []
        self.cancelled = False

    async def search(self, query: WebQuery) -> Sequence[WebResult]:
        self.queries.append(query.text)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return [GREEN]

    def close(self) -> None:
        pass


def made(make: MakeCreator, backend: ScriptedBackend, web: SlowWeb, **limits: float) -> Creator:
    return make(backend, served_tools=(WebSearch(web),), hosted=HostedLimits(**limits))  # pyright: ignore[reportArgumentType] -- numbers


@pytest.mark.requirement("HOSTED/loop-end")
async def test_a_budget_of_tokens_ends_the_loop_after_a_round(make_creator: MakeCreator) -> None:
    backend, web = ScriptedBackend([SEARCH], [SEARCH], [ANSWER], [ANSWER]), SlowWeb()
    creator = made(make_creator, backend, web, response_tokens=10)
    events = await stream(creator, tools=[TOOL])
    response = events[-1]["response"]
    assert (events[-1]["type"], response["status"]) == ("response.incomplete", "incomplete")
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert "limit of an answer is 10 tokens with hosted tools" in str(response["downgrades"])
    assert [item["type"] for item in response["output"]] == ["message", "web_search_call"] * 2
    assert response["usage"]["total_tokens"] == 10
    assert len(web.queries) == 2
    continued = await create(creator, tools=[TOOL], previous_response_id=response["id"], input="Go on.")
    assert (continued.status, len(outputs(backend))) == ("completed", 2)


@pytest.mark.requirement("HOSTED/loop-end")
async def test_the_time_of_the_response_ends_a_call(make_creator: MakeCreator) -> None:
    backend, web = ScriptedBackend([SEARCH], [ANSWER]), SlowWeb(60.0)
    creator = made(make_creator, backend, web, response_seconds=0.3)
    async with asyncio.timeout(5):
        events = await stream(creator, tools=[TOOL])
    response = events[-1]["response"]
    assert response["status"] == "incomplete"
    assert "0.3 s with hosted tools" in str(response["downgrades"])
    said, searched = response["output"]
    assert said["content"][0]["text"] == "I look. "
    assert searched["status"] == "failed"
    assert web.cancelled
    assert response["usage"]["total_tokens"] == 5
    assert len(backend.turns) == 1


@pytest.mark.requirement("HOSTED/loop-end")
@pytest.mark.parametrize("beats", [False, True])
async def test_the_time_of_the_response_ends_a_model_that_goes_on(
    make_creator: MakeCreator, beats: bool
) -> None:
    closed = 0

    async def steps(turn: TurnRequest) -> AsyncGenerator[Step, None]:
        nonlocal closed
        try:
            if not outputs(backend, -1):
                yield SEARCH
                return
            yield [TextDelta("More ")]
            while True:
                await asyncio.sleep(0.02)
                yield HEARTBEAT if beats else [TextDelta("and more ")]
        finally:
            closed += 1

    backend = ScriptedBackend(steps)
    creator = made(make_creator, backend, SlowWeb(), response_seconds=0.5)
    async with asyncio.timeout(5):
        response = await create(creator, tools=[TOOL])
    assert response.status == "incomplete"
    last = response.output[-1]
    assert isinstance(last, Message)
    assert "More " in str(last.content)
    assert isinstance(response.output[1], WebSearchCall)
    assert closed == 2


async def test_responses_without_hosted_tools_have_no_such_limit(make_creator: MakeCreator) -> None:
    creator = made(make_creator, ScriptedBackend([ANSWER]), SlowWeb(), response_seconds=1e-9)
    response = await create(creator, tools=[])
    assert response.status == "completed"


async def test_a_failure_is_no_end_of_the_loop(make_creator: MakeCreator) -> None:
    async def steps(_: TurnRequest) -> AsyncGenerator[Step, None]:
        raise AntiphonError("A fault.")
        yield SEARCH

    creator = made(make_creator, ScriptedBackend(steps), SlowWeb(), response_tokens=1)
    with pytest.raises(AntiphonError, match="A fault"):
        await create(creator, tools=[TOOL])
