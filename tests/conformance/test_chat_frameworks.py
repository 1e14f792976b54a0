"""Chat-completions frameworks with tools over two rounds: the Agents SDK, LangChain, pydantic-ai."""

import base64
from typing import Any

import openai
import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.documents.pdf_file import pdf_file

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


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("form", ["base64", "file_id"])
async def test_langchain_sends_a_pdf_to_a_plain_upstream(
    client: openai.AsyncOpenAI, api: str, form: str
) -> None:
    """The upstream takes no files: it is sent the text, and its model `echo` repeats it."""
    data = pdf_file("Owls hunt at night.")
    block: dict[str, str] = {"type": "file", "mime_type": "application/pdf", "filename": "owls.pdf"}
    if form == "base64":
        block["base64"] = base64.b64encode(data).decode()
    else:
        block = {
            "type": "file",
            "file_id": (await client.files.create(file=("owls.pdf", data), purpose="user_data")).id,
        }
    shared: Any = {"async_client": client.chat.completions, "root_async_client": client, "api_key": "none"}
    chat: Any = ChatOpenAI(model="echo", use_responses_api=api == "responses", **shared)
    answer = await chat.ainvoke([HumanMessage([{"type": "text", "text": "What is this?"}, block])])
    assert "Owls hunt at night." in answer.text
    assert "owls.pdf" in answer.text


async def test_pydantic_ai(client: openai.AsyncOpenAI) -> None:
    provider = OpenAIProvider(openai_client=client)
    agent: Any = PydanticAgent(OpenAIChatModel("tools", provider=provider), tools=[get_weather])
    assert (await agent.run("Weather?")).output == ANSWER
