"""Test your client against a scripted model, which controls every event."""

import asyncio

from antiphon import Antiphon, Route, ScriptedBackend
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta


async def main() -> None:
    """First turn: a tool call. Second turn: an answer."""
    call = [CallStarted(0, "call_1", "get_weather"), CallDelta(0, '{"city":"Paris"}'), Finished("tool_calls")]
    answer = [TextDelta("It is sunny."), Finished("stop")]
    backend = ScriptedBackend([call], [answer])
    async with Antiphon(routes=[Route("m", backend)]) as antiphon, antiphon.openai_client() as client:
        first = await client.responses.create(
            model="m",
            input="How is the weather in Paris?",
            tools=[
                {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": False}
            ],
        )
        call_id = next(item.call_id for item in first.output if item.type == "function_call")
        second = await client.responses.create(
            model="m",
            previous_response_id=first.id,
            input=[{"type": "function_call_output", "call_id": call_id, "output": "sunny"}],
        )
        print(second.output_text)
        print(f"the model was asked {len(backend.turns)} times")


asyncio.run(main())
