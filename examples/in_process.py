"""The service and the official SDK in one process, on the embedded model: no port, no key, no network."""

import asyncio

from antiphon import Antiphon


async def main() -> None:
    """Ask twice; the second response continues the first."""
    async with Antiphon() as antiphon, antiphon.openai_client() as client:
        first = await client.responses.create(model="local", input="What is the capital of France?")
        print(first.output_text)

        stream = await client.responses.create(
            model="local",
            input="Write one sentence about it.",
            previous_response_id=first.id,
            max_output_tokens=60,
            stream=True,
        )
        async for event in stream:
            if event.type == "response.output_text.delta":
                print(event.delta, end="", flush=True)
        print()


asyncio.run(main())
