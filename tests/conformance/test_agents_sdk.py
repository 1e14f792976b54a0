"""The Agents SDK runs its loop over us."""

import openai
import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("streamed", [False, True])
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
