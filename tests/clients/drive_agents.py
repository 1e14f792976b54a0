"""The OpenAI Agents SDK, running its loop against the server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import openai
from agents import (
    Agent,
    ModelSettings,
    OpenAIResponsesModel,
    OpenAIResponsesWSModel,
    RunConfig,
    Runner,
    function_tool,
)
from agents.exceptions import AgentsException
from pydantic import BaseModel

from tests.clients.driver import Act, Program

program = Program()
QUIETLY = RunConfig(tracing_disabled=True)
SEALED = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])


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
        yield OpenAIResponsesModel(name, client)


async def run(agent: Agent[Any], prompt: Any, **options: Any) -> Any:
    return await Runner.run(agent, prompt, run_config=QUIETLY, **options)


async def run_streamed(agent: Agent[Any], prompt: Any) -> tuple[Any, list[str]]:
    """The run, with each text delta."""
    running = Runner.run_streamed(agent, prompt, run_config=QUIETLY)
    deltas: list[str] = []
    async for event in running.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            deltas.append(event.data.delta)
    return running, deltas


@program.can("text")
async def text(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "echo") as echo:
        agent = Agent(name="a", instructions="Be brief.", model=echo)
        return {"text": (await run(agent, "hello")).final_output}


@program.can("streaming")
async def streaming(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "echo") as echo:
        agent = Agent(name="a", instructions="Be brief.", model=echo)
        running, deltas = await run_streamed(agent, "hello")
        return {"text": running.final_output, "deltas": deltas}


def calling(stream: bool) -> Act:
    async def tools(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        called: list[Any] = []

        @function_tool
        def write_line(text: str) -> str:
            """Writes a line."""
            called.append(["write_line", {"text": text}])
            return "written"

        @function_tool
        def read_lines() -> str:
            """Reads all lines."""
            called.append(["read_lines", {}])
            return "one"

        async with model(base_url, "agent") as answering:
            agent = Agent(name="a", model=answering, tools=[write_line, read_lines])
            ran = (await run_streamed(agent, "hello"))[0] if stream else await run(agent, "hello")
            return {"text": ran.final_output, "called": called}

    return tools


program.can("tools")(calling(stream=False))
program.can("tools while streaming")(calling(stream=True))


@program.can("a forced tool")
async def forced(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    called: list[Any] = []

    @function_tool
    def person(name: str, year: int) -> str:
        """Notes a person."""
        called.append(["person", {"name": name, "year": year}])
        return "noted"

    async with model(base_url, "forced") as answering:
        settings = ModelSettings(tool_choice="required")
        agent = Agent(name="a", model=answering, tools=[person], model_settings=settings)
        await run(agent, "hello")
        return {"called": called}


def structured(stream: bool) -> Act:
    async def act(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        async with model(base_url, "json") as answering:
            agent = Agent(name="a", model=answering, output_type=Person)
            ran = (await run_streamed(agent, "Who?"))[0] if stream else await run(agent, "Who?")
            return {"parsed": ran.final_output.model_dump()}

    return act


program.can("structured output")(structured(stream=False))
program.can("structured output while streaming")(structured(stream=True))


def two_turns(name: str, settings: ModelSettings | None = None) -> Act:
    """The second run gets the complete output of the first."""

    async def act(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        async with model(base_url, name) as answering:
            agent = Agent(name="a", model=answering, model_settings=settings or ModelSettings())
            first = await run(agent, "hello")
            second = await run(agent, [*first.to_input_list(), {"role": "user", "content": "again"}])
            return {"text": second.final_output, "id": second.last_response_id}

    return act


program.can("a second turn")(two_turns("transcript"))
program.can("a second turn, nothing stored")(two_turns("transcript", ModelSettings(store=False)))
program.can("reasoning")(two_turns("reasoning"))
program.can("reasoning, nothing stored")(two_turns("reasoning", SEALED))


@program.can("previous_response_id")
async def previous(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "transcript") as answering:
        agent = Agent(name="a", model=answering)
        first = await run(agent, "hello", auto_previous_response_id=True)
        second = await run(agent, "again", previous_response_id=first.last_response_id)
        return {"text": second.final_output, "id": second.last_response_id}


@program.can("conversation")
async def conversation(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with (
        openai.AsyncOpenAI(base_url=base_url, api_key="none") as client,
        model(base_url, "transcript") as answering,
    ):
        created_conversation = await client.conversations.create()
        agent = Agent(name="a", model=answering)
        await run(agent, "hello", conversation_id=created_conversation.id)
        second = await run(agent, "again", conversation_id=created_conversation.id)
        return {"text": second.final_output, "id": second.last_response_id}


@program.can("images")
async def images(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": params["picture"], "detail": "auto"},
    ]
    async with model(base_url, "echo") as echo:
        ran = await run(Agent(name="a", model=echo), [{"role": "user", "content": content}])
        return {"text": ran.final_output}


def failing(name: str, stream: bool = False, **settings: Any) -> Act:
    async def act(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        async with model(base_url, name) as answering:
            agent = Agent(name="a", model=answering, model_settings=ModelSettings(**settings))
            try:
                await (run_streamed(agent, "hello") if stream else run(agent, "hello"))
            except (openai.APIError, AgentsException) as error:
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
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        answering = OpenAIResponsesWSModel("transcript", client)
        try:
            agent = Agent(name="a", model=answering, model_settings=ModelSettings(store=False))
            first = await run(agent, "hello")
            second = await run(agent, "again", previous_response_id=first.last_response_id)
            return {"text": second.final_output, "id": second.last_response_id}
        finally:
            await answering.close()


@program.can("embedded model")
async def embedded(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    async with model(base_url, "local") as local:
        cool = ModelSettings(temperature=0)
        speaker = Agent(name="a", model=local, model_settings=cool)
        answer, _deltas = await run_streamed(speaker, "What is the capital of France?")
        person_known = await run(Agent(name="a", model=local, output_type=Known), "Who was Ada?")
        return {"text": answer.final_output, "parsed": person_known.final_output.model_dump()}


if __name__ == "__main__":
    program.run()
