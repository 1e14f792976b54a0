"""A model that writes its calls as text, in three profiles."""

import asyncio

from antiphon import Antiphon, Route, ScriptedBackend
from antiphon.turn.chunks import Finished, TextDelta

CALL = (
    '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"},}</tool_call>'  # with a comma too many
)


async def main() -> None:
    """The text is split inside the call; the call is found, and each profile emits it in its own order."""
    words = [[TextDelta(piece)] for piece in ("Let me look.", CALL[:7], CALL[7:40], CALL[40:])]
    backend = ScriptedBackend([*words, [Finished("stop")]])
    routes = [Route("m", backend, text_calls="auto")]
    async with Antiphon(routes=routes) as antiphon, antiphon.openai_client() as client:
        for profile in ("openai", "maestro", "proxy"):
            print(profile)
            async with client.responses.stream(
                model="m",
                input="How is the weather in Paris?",
                tools=[{"type": "function", "name": "get_weather", "parameters": {}, "strict": False}],
                extra_headers={"x-antiphon-profile": profile},
            ) as stream:
                async for event in stream:
                    print("  ", event.sequence_number, event.type)
                final = await stream.get_final_response()
            print("  ", final.id, [item.type for item in final.output])


asyncio.run(main())
