"""The Agents SDK runs its loop on our server, and stores its sessions there."""

import json
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    OpenAIConversationsSession,
    OpenAIResponsesCompactionSession,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
)

from tests.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.requirement("PROTOCOL/tools-agents-loop")
async def test_an_agent_calls_its_tools(client: openai.AsyncOpenAI, streamed: bool) -> None:
    model = OpenAIResponsesModel("tools", client)
    agent = Agent(name="a", instructions="Help.", model=model, tools=[get_weather])
    config = RunConfig(tracing_disabled=True)
    if streamed:
        run = Runner.run_streamed(agent, "Weather?", run_config=config, max_turns=4)
        async for _ in run.stream_events():
            pass
        final = run.final_output
    else:
        final = (await Runner.run(agent, "Weather?", run_config=config, max_turns=4)).final_output
    assert final == "It is sunny in Paris and sunny in Rome."


QUIETLY = RunConfig(tracing_disabled=True)


@pytest.mark.parametrize("session_kind", ["here", "there"])
@pytest.mark.requirement("PROTOCOL/conversations-agents-session")
async def test_a_session_remembers(client: openai.AsyncOpenAI, session_kind: str) -> None:
    session: Any = (
        OpenAIConversationsSession(openai_client=client) if session_kind == "here" else SQLiteSession("talk")
    )
    agent = Agent(name="a", model=OpenAIResponsesModel("transcript", client))
    await Runner.run(agent, "one", session=session, run_config=QUIETLY)
    second = await Runner.run(agent, "two", session=session, run_config=QUIETLY)
    assert json.loads(second.final_output) == ["one", '["one"]', "two"]
    assert len(await session.get_items()) == 4
    popped = await session.pop_item()
    assert popped is not None
    assert popped.get("role") == "assistant"
    await session.clear_session()
    assert await session.get_items() == []


@pytest.mark.requirement("PROTOCOL/conversations-agents-session")
async def test_tools_in_a_session_that_is_a_conversation(client: openai.AsyncOpenAI) -> None:
    session: Any = OpenAIConversationsSession(openai_client=client)
    agent = Agent(name="a", model=OpenAIResponsesModel("tools", client), tools=[get_weather])
    first = await Runner.run(agent, "Weather?", session=session, run_config=QUIETLY)
    assert first.final_output == "It is sunny in Paris and sunny in Rome."
    item_types = [item.get("type", "message") for item in await session.get_items()]
    assert item_types == ["message", *["function_call"] * 2, *["function_call_output"] * 2, "message"]
    other = Agent(name="b", model=OpenAIResponsesModel("transcript", client))
    again = await Runner.run(other, "And now?", session=session, run_config=QUIETLY)
    assert json.loads(again.final_output)[-4:] == [
        "sunny in Paris",
        "sunny in Rome",
        "It is sunny in Paris and sunny in Rome.",
        "And now?",
    ]


@pytest.mark.requirement("PROTOCOL/compaction-agents-session")
async def test_a_long_session_is_compacted(client: openai.AsyncOpenAI, upstream: Upstream) -> None:
    # The SDK compacts only with models named like OpenAI's; an alias suffices.
    session = OpenAIResponsesCompactionSession(
        "talk",
        SQLiteSession("talk"),
        client=client,
        model="gpt-any",
        should_trigger_compaction=lambda _: False,
    )
    agent = Agent(name="a", model=OpenAIResponsesModel("gpt-any", client))
    for content in ("one", "two"):
        await Runner.run(agent, content, session=session, run_config=QUIETLY)
    await session.run_compaction({"force": True})
    item_types = [item.get("type", "message") for item in await session.get_items()]
    assert item_types.count("compaction") == 1
    assert len(item_types) < 4
    more = await Runner.run(agent, "three", session=session, run_config=QUIETLY)
    assert more.final_output == "You said: three"
    assert len(upstream.requests[-1]["messages"]) > 1


@pytest.mark.requirement("PROTOCOL/state-agents-chain")
async def test_the_rounds_of_a_run_are_a_chain(client: openai.AsyncOpenAI, upstream: Upstream) -> None:
    """Only new items are sent; the model receives the complete history."""
    agent = Agent(name="a", model=OpenAIResponsesModel("tools", client), tools=[get_weather])
    run = await Runner.run(agent, "Weather?", auto_previous_response_id=True, run_config=QUIETLY)
    assert run.final_output == "It is sunny in Paris and sunny in Rome."
    assert [message["role"] for message in upstream.requests[-1]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert run.last_response_id
    last = await client.responses.retrieve(run.last_response_id)
    assert last.previous_response_id == run.raw_responses[0].response_id
