"""A background response: follow it, lose the connection, reconnect, and receive the rest."""

import asyncio
from collections.abc import AsyncGenerator

from antiphon import Antiphon, Route, ScriptedBackend, load_settings
from antiphon.backends.scripted import Step
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest

TEXT = "the answer goes on while nobody listens to it"


async def speak(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
    """One word after another."""
    for word in TEXT.split():
        yield [TextDelta(word + " ")]
        await asyncio.sleep(0.02)
    yield [Finished("stop")]


async def main() -> None:
    """With a persistent store, the process may even end in between."""
    settings = load_settings(overrides={"store": {"url": "memory:"}})
    routes = [Route("m", ScriptedBackend(speak))]
    async with Antiphon(settings, routes=routes) as antiphon, antiphon.openai_client() as client:
        response_id, cursor = "", 0
        stream = await client.responses.create(model="m", input="Go on.", background=True, stream=True)
        async for event in stream:
            cursor = event.sequence_number
            if event.type == "response.created":
                response_id = event.response.id
            if event.type == "response.output_text.delta":
                print(event.delta, end="", flush=True)
                break
        await stream.close()
        print("… [gone]")

        async for event in await client.responses.retrieve(response_id, stream=True, starting_after=cursor):
            if event.type == "response.output_text.delta":
                print(event.delta, end="", flush=True)
        print()
        whole = await client.responses.retrieve(response_id)
        print(f"{whole.status}: {whole.output_text}")


asyncio.run(main())
