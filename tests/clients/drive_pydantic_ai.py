"""`pydantic-ai`: its agent on a Responses model."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import openai
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.driver import Act, Program

program = Program()


class Person(BaseModel):
    name: str
    year: int


class Known(BaseModel):
    """A form that a very small model fills in quickly."""

    name: Literal["Ada", "Charles"]
    year: Literal[1791, 1815]


@asynccontextmanager
async def model(base_url: str, name: str) -> AsyncGenerator[OpenAIResponsesModel, None]:
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=30) as client:
        yield OpenAIResponsesModel(name, provider=OpenAIProvider(openai_client=client))


async def streamed(agent: Agent[None, Any], prompt: str) -> tuple[Any, list[str]]:
    """The output, with each text delta."""
    async with agent.run_stream(prompt) as run:
        deltas = [delta async for delta in run.stream_text(delta=True, debounce_by=None)]
        return await run.get_output(), deltas


@program.can("text")
async def text(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "echo") as echo:
        agent = Agent(echo, instructions="Be brief.")
        return {"text": (await agent.run("hello")).output}


@program.can("streaming")
async def streaming(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "echo") as echo:
        output, deltas = await streamed(Agent(echo, instructions="Be brief."), "hello")
        return {"text": output, "deltas": deltas}


def calling(stream: bool) -> Act:
    async def tools(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        called: list[Any] = []

        def write_line(text: str) -> str:
            """Writes a line."""
            called.append(["write_line", {"text": text}])
            return "written"

        def read_lines() -> str:
            """Reads all lines."""
            called.append(["read_lines", {}])
            return "one"

        async with model(base_url, "agent") as answering:
            agent = Agent(answering, tools=[write_line, read_lines])
            output = (await streamed(agent, "hello"))[0] if stream else (await agent.run("hello")).output
            return {"text": output, "called": called}

    return tools


program.can("tools")(calling(stream=False))
program.can("tools while streaming")(calling(stream=True))


@program.can("a forced tool")
async def forced(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    """Its default way to structured output: a forced tool call."""
    async with model(base_url, "forced") as answering:
        ran = await Agent(answering, output_type=Person).run("hello")
        return {"called": [["final_result", ran.output.model_dump()]]}


@program.can("structured output")
async def structured(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "json") as answering:
        ran = await Agent(answering, output_type=NativeOutput(Person)).run("Who?")
        return {"parsed": ran.output.model_dump()}


@program.can("structured output while streaming")
async def structured_streamed(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "json") as answering:
        agent = Agent(answering, output_type=NativeOutput(Person))
        async with agent.run_stream("Who?") as run:
            return {"parsed": (await run.get_output()).model_dump()}


def two_turns(name: str, **settings: Any) -> Act:
    async def act(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        async with model(base_url, name) as answering:
            chosen = OpenAIResponsesModelSettings(**settings)
            agent = Agent(answering, model_settings=chosen)
            first = await agent.run("hello")
            second = await agent.run("again", message_history=first.all_messages())
            return {"text": second.output, "id": second.response.provider_response_id}

    return act


program.can("a second turn")(two_turns("transcript"))
program.can("a second turn, nothing stored")(two_turns("transcript", openai_store=False))
program.can("previous_response_id")(two_turns("transcript", openai_previous_response_id="auto"))
program.can("reasoning")(two_turns("reasoning"))
program.can("reasoning, nothing stored")(two_turns("reasoning", openai_store=False))


@program.can("conversation")
async def conversation(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "transcript") as answering:
        created_conversation = await answering.client.conversations.create()
        agent = Agent(answering)
        settings = OpenAIResponsesModelSettings(openai_conversation_id=created_conversation.id)
        first = await agent.run("hello", model_settings=settings)
        second = await agent.run("again", model_settings=settings, message_history=first.all_messages())
        return {"text": second.output, "id": second.response.provider_response_id}


@program.can("images")
async def images(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    _, _, data = params["picture"].partition("base64,")
    async with model(base_url, "echo") as echo:
        picture = BinaryContent(base64.b64decode(data), media_type="image/png")
        return {"text": (await Agent(echo).run(["What is this?", picture])).output}


def failing(name: str, stream: bool = False, **settings: Any) -> Act:
    async def act(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        async with model(base_url, name) as answering:
            agent = Agent(answering, model_settings=OpenAIResponsesModelSettings(**settings))
            try:
                await (streamed(agent, "hello") if stream else agent.run("hello"))
            except AgentRunError as error:
                return {"error": str(error), "status": getattr(error, "status_code", None)}
        return {}

    return act


program.can("unknown model")(failing("no-such-model"))
program.can("bad request")(failing("echo", temperature=9))
program.can("upstream refuses")(failing("refuses", stream=True))
program.can("upstream breaks off")(failing("breaks"))
program.can("upstream breaks off while streaming")(failing("breaks", stream=True))


@program.can("WebSocket")
async def websocket(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "transcript") as answering, answering:
        settings = OpenAIResponsesModelSettings(openai_transport="websocket", openai_store=False)
        agent = Agent(answering, model_settings=settings)
        first = await agent.run("hello")
        second = await agent.run("again", message_history=first.all_messages())
        return {"text": second.output, "id": second.response.provider_response_id}


@program.can("embedded model")
async def embedded(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "local") as local:
        cool = OpenAIResponsesModelSettings(temperature=0)
        answer, _deltas = await streamed(Agent(local, model_settings=cool), "What is the capital of France?")
        person_known = await Agent(local, output_type=NativeOutput(Known)).run("Who was Ada?")
        return {"text": answer, "parsed": person_known.output.model_dump()}


if __name__ == "__main__":
    program.run()
