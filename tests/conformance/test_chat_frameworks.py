"""Chat-completions frameworks with tools over two rounds: the Agents SDK, LangChain, pydantic-ai."""

from typing import Any

import openai
import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]

QUIETLY = RunConfig(tracing_disabled=True)
WEATHER = {"Paris": "sun", "Rome": "rain"}
ANSWER = "It is sun and rain."


def get_weather(city: str) -> str:
    """The weather in a city."""
    return WEATHER[city]


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_agents_sdk(client: openai.AsyncOpenAI, streamed: bool) -> None:
    model = OpenAIChatCompletionsModel(model="tools", openai_client=client)
    agent = Agent(name="a", model=model, tools=[function_tool(get_weather)])
    if streamed:
        run = Runner.run_streamed(agent, "Weather?", run_config=QUIETLY)
        async for _ in run.stream_events():
            pass
        assert run.final_output == ANSWER
    else:
        assert (await Runner.run(agent, "Weather?", run_config=QUIETLY)).final_output == ANSWER


@pytest.mark.parametrize("streamed", [True, False])
async def test_langchain(client: openai.AsyncOpenAI, streamed: bool) -> None:
    shared: Any = {"async_client": client.chat.completions, "root_async_client": client, "api_key": "none"}
    chat: Any = ChatOpenAI(model="tools", streaming=streamed, stream_usage=True, **shared)
    bound = chat.bind_tools([get_weather])
    history: list[Any] = [HumanMessage("Weather?")]
    first = await bound.ainvoke(history)
    assert [call["args"] for call in first.tool_calls] == [{"city": "Paris"}, {"city": "Rome"}]
    outputs = [ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"]) for call in first.tool_calls]
    last = await bound.ainvoke([*history, first, *outputs])
    assert last.content == ANSWER
    assert last.usage_metadata["total_tokens"] == 12


async def test_pydantic_ai(client: openai.AsyncOpenAI) -> None:
    provider = OpenAIProvider(openai_client=client)
    agent: Any = PydanticAgent(OpenAIChatModel("tools", provider=provider), tools=[get_weather])
    assert (await agent.run("Weather?")).output == ANSWER
