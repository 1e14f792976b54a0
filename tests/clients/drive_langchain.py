"""`langchain-openai`: its chat model over the Responses API."""

from typing import Any, Literal

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from tests.clients.driver import Act, Program

program = Program()
HELLO = [SystemMessage("Be brief."), HumanMessage("hello")]


class Person(BaseModel):
    """A person."""

    name: str
    year: int


class Known(BaseModel):
    """A form that a very small model fills in quickly."""

    name: Literal["Ada", "Charles"]
    year: Literal[1791, 1815]


@tool
def write_line(text: str) -> str:
    """Writes a line."""
    return "written"


@tool
def read_lines() -> str:
    """Reads all lines."""
    return "one"


TOOLS: dict[str, Any] = {"write_line": write_line, "read_lines": read_lines}


def chat(base_url: str, name: str, **options: Any) -> Any:
    return ChatOpenAI(
        model=name,
        base_url=base_url,
        api_key=SecretStr("none"),
        max_retries=0,
        use_responses_api=True,
        output_version="responses/v1",
        **options,
    )


async def streamed(model: Any, prompt: Any) -> Any:
    """The sum of all chunks."""
    total: Any = None
    async for chunk in model.astream(prompt):
        total = chunk if total is None else total + chunk
    return total


@program.can("text")
async def text(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    model = chat(base_url, "echo")
    return {"text": (await model.ainvoke(HELLO)).text}


@program.can("streaming")
async def streaming(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    model = chat(base_url, "echo")
    deltas = [chunk.text async for chunk in model.astream(HELLO)]
    return {"text": "".join(deltas), "deltas": [delta for delta in deltas if delta]}


def calling(stream: bool) -> Act:
    async def tools(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        called: list[Any] = []
        history: list[Any] = [HumanMessage("hello")]
        model = chat(base_url, "agent")
        armed = model.bind_tools(list(TOOLS.values()))
        while True:
            answer: AIMessage = await (streamed(armed, history) if stream else armed.ainvoke(history))
            history.append(answer)
            if not answer.tool_calls:
                return {"text": answer.text, "called": called}
            for call in answer.tool_calls:
                called.append([call["name"], call["args"]])
                output = await TOOLS[call["name"]].ainvoke(call["args"])
                history.append(ToolMessage(output, tool_call_id=call["id"]))

    return tools


program.can("tools")(calling(stream=False))
program.can("tools while streaming")(calling(stream=True))


@program.can("a forced tool")
async def forced(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    model = chat(base_url, "forced")
    answer = await model.bind_tools([Person], tool_choice="any").ainvoke("hello")
    return {"called": [[call["name"], call["args"]] for call in answer.tool_calls]}


@program.can("structured output")
async def structured(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    model = chat(base_url, "json")
    parsed = await model.with_structured_output(Person, method="json_schema").ainvoke("Who?")
    return {"parsed": parsed.model_dump()}


@program.can("structured output while streaming")
async def structured_streamed(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    model = chat(base_url, "json")
    form = model.with_structured_output(Person, method="json_schema")
    parsed = [part async for part in form.astream("Who?")]
    return {"parsed": parsed[-1].model_dump()}


def two_turns(name: str, **options: Any) -> Act:
    async def act(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        model = chat(base_url, name, **options)
        first = await model.ainvoke([HumanMessage("hello")])
        second = await model.ainvoke([HumanMessage("hello"), first, HumanMessage("again")])
        return {"text": second.text, "id": second.response_metadata["id"]}

    return act


program.can("a second turn")(two_turns("transcript"))
program.can("a second turn, nothing stored")(two_turns("transcript", store=False))
program.can("previous_response_id")(two_turns("transcript", use_previous_response_id=True))
program.can("reasoning")(two_turns("reasoning"))
program.can("reasoning, nothing stored")(
    two_turns("reasoning", store=False, include=["reasoning.encrypted_content"])
)


@program.can("conversation")
async def conversation(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    model = chat(base_url, "transcript")
    created_conversation = await model.root_async_client.conversations.create()
    await model.ainvoke("hello", conversation=created_conversation.id)
    second = await model.ainvoke("again", conversation=created_conversation.id)
    return {"text": second.text, "id": second.response_metadata["id"]}


@program.can("images")
async def images(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    _, _, data = params["picture"].partition("base64,")
    content: list[Any] = [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "base64": data, "mime_type": "image/png"},
    ]
    model = chat(base_url, "echo")
    return {"text": (await model.ainvoke([HumanMessage(content)])).text}


def failing(name: str, stream: bool = False, **options: Any) -> Act:
    async def act(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
        model = chat(base_url, name, **options)
        try:
            await (streamed(model, "hello") if stream else model.ainvoke("hello"))
        except openai.APIError as error:
            return {"error": error.message, "status": getattr(error, "status_code", None)}
        return {}

    return act


program.can("unknown model")(failing("no-such-model"))
program.can("bad request")(failing("echo", temperature=9))
program.can("upstream refuses")(failing("refuses", stream=True))
program.can("upstream breaks off")(failing("breaks"))
program.can("upstream breaks off while streaming")(failing("breaks", stream=True))


@program.can("embedded model")
async def embedded(base_url: str, params: dict[str, Any]) -> dict[str, Any]:
    model = chat(base_url, "local", temperature=0)
    message = await streamed(model, "What is the capital of France?")
    parsed = await model.with_structured_output(Known, method="json_schema").ainvoke("Who was Ada?")
    return {"text": message.text, "parsed": parsed.model_dump()}


if __name__ == "__main__":
    program.run()
