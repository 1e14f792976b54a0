"""The official `openai` package, major version 2 and later."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import openai
from openai.types.responses import Response
from pydantic import BaseModel

from tests.clients.driver import Act, Program

program = Program()


class Person(BaseModel):
    name: str
    year: int


class Known(BaseModel):
    """A form that a very small model fills in quickly."""

    name: Literal["Ada", "Charles"]
    year: Literal[1791, 1815]


def function(name: str, /, **properties: str) -> Any:
    return {
        "type": "function",
        "name": name,
        "description": f"{name}.",
        "parameters": {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in properties.items()},
            "required": list(properties),
            "additionalProperties": False,
        },
        "strict": True,
    }


TOOLS = [function("write_line", text="string"), function("read_lines")]
OUTPUTS = {"write_line": "written", "read_lines": "one"}
CAPITAL = "What is the capital of France?"
HELLO: Any = {"role": "user", "content": "hello"}
AGAIN: Any = {"role": "user", "content": "again"}


@asynccontextmanager
async def sdk(base_url: str) -> AsyncGenerator[openai.AsyncOpenAI, None]:
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=30) as client:
        yield client


@program.can("text")
async def text(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    async with sdk(base_url) as client:
        response = await client.responses.create(model="echo", instructions="Be brief.", input="hello")
        return {"text": response.output_text}


@program.can("streaming")
async def streaming(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    async with sdk(base_url) as client:
        deltas: list[str] = []
        async with client.responses.stream(model="echo", instructions="Be brief.", input="hello") as stream:
            async for event in stream:
                if event.type == "response.output_text.delta":
                    deltas.append(event.delta)
            return {"text": (await stream.get_final_response()).output_text, "deltas": deltas}


async def created(client: openai.AsyncOpenAI, **params: Any) -> Response:
    return cast("Response", await client.responses.create(**params))


async def streamed(client: openai.AsyncOpenAI, **params: Any) -> Any:
    async with client.responses.stream(**params) as stream:
        return await stream.get_final_response()


def calling(stream: bool) -> Act:
    async def tools(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
        called: list[Any] = []
        async with sdk(base_url) as client:
            history: Any = [HELLO]
            while True:
                params: Any = {"model": "agent", "input": history, "tools": TOOLS}
                response = await (streamed(client, **params) if stream else created(client, **params))
                history = [*history, *response.output]
                calls = [item for item in response.output if item.type == "function_call"]
                if not calls:
                    return {"text": response.output_text, "called": called}
                for call in calls:
                    called.append([call.name, json.loads(call.arguments)])
                    history.append(
                        {
                            "type": "function_call_output",
                            "call_id": call.call_id,
                            "output": OUTPUTS[call.name],
                        }
                    )

    return tools


program.can("tools")(calling(stream=False))
program.can("tools while streaming")(calling(stream=True))


@program.can("a forced tool")
async def forced(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    async with sdk(base_url) as client:
        response = await client.responses.create(
            model="forced",
            input="hello",
            tools=[function("person", name="string", year="integer")],
            tool_choice="required",
        )
        calls = [item for item in response.output if item.type == "function_call"]
        return {"called": [[call.name, json.loads(call.arguments)] for call in calls]}


@program.can("structured output")
async def structured(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    async with sdk(base_url) as client:
        response = await client.responses.parse(model="json", input="Who?", text_format=Person)
        assert response.output_parsed
        return {"parsed": response.output_parsed.model_dump()}


@program.can("structured output while streaming")
async def structured_streamed(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    async with sdk(base_url) as client:
        response = await streamed(client, model="json", input="Who?", text_format=Person)
        return {"parsed": response.output_parsed.model_dump()}


def two_turns(model: str, **params: Any) -> Act:
    """The complete history is sent again."""

    async def act(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
        async with sdk(base_url) as client:
            first = await created(client, model=model, input=[HELLO], **params)
            second = await created(client, model=model, input=[HELLO, *first.output, AGAIN], **params)
            return {"text": second.output_text, "id": second.id}

    return act


SEALED: Any = {"store": False, "include": ["reasoning.encrypted_content"]}
program.can("a second turn")(two_turns("transcript"))
program.can("a second turn, nothing stored")(two_turns("transcript", store=False))
program.can("reasoning")(two_turns("reasoning"))
program.can("reasoning, nothing stored")(two_turns("reasoning", **SEALED))


@program.can("previous_response_id")
async def previous(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    async with sdk(base_url) as client:
        first = await client.responses.create(model="transcript", input="hello")
        second = await client.responses.create(
            model="transcript", input="again", previous_response_id=first.id
        )
        return {"text": second.output_text, "id": second.id}


@program.can("conversation")
async def conversation(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    async with sdk(base_url) as client:
        created_conversation = await client.conversations.create()
        await client.responses.create(model="transcript", input="hello", conversation=created_conversation.id)
        second = await client.responses.create(
            model="transcript", input="again", conversation=created_conversation.id
        )
        return {"text": second.output_text, "id": second.id}


@program.can("images")
async def images(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": options["picture"], "detail": "auto"},
    ]
    message: Any = {"role": "user", "content": content}
    async with sdk(base_url) as client:
        response = await client.responses.create(model="echo", input=[message])
        return {"text": response.output_text}


def failing(stream: bool = False, **params: Any) -> Act:
    async def act(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
        async with sdk(base_url) as client:
            try:
                await (streamed if stream else created)(client, input="hello", **params)
            except openai.APIError as error:
                return {"error": error.message, "status": getattr(error, "status_code", None)}
        return {}

    return act


program.can("unknown model")(failing(model="no-such-model"))
program.can("bad request")(failing(model="echo", temperature=9))
program.can("upstream refuses")(failing(model="refuses", stream=True))
program.can("upstream breaks off")(failing(model="breaks"))
program.can("upstream breaks off while streaming")(failing(model="breaks", stream=True))


@program.can("WebSocket")
async def websocket(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    async with sdk(base_url) as client, client.responses.connect() as connection:
        response: Any = None
        for text_sent in ("hello", "again"):
            previous = {"previous_response_id": response.id} if response else {}
            await connection.response.create(model="transcript", input=text_sent, store=False, **previous)
            async for event in connection:
                if event.type == "response.completed":
                    response = event.response
                    break
        return {"text": response.output_text, "id": response.id}


@program.can("embedded model")
async def embedded(base_url: str, options: dict[str, Any]) -> dict[str, Any]:
    async with sdk(base_url) as client:
        answer = await streamed(client, model="local", input=CAPITAL, temperature=0)
        person_known = await client.responses.parse(model="local", input="Who was Ada?", text_format=Known)
        assert person_known.output_parsed
        return {"text": answer.output_text, "parsed": person_known.output_parsed.model_dump()}


if __name__ == "__main__":
    program.run()
