"""State without a server: a chain, a branch, a conversation. The model repeats its input."""

import asyncio
from collections.abc import Iterable

from antiphon import Antiphon, Route, ScriptedBackend, load_settings
from antiphon.backends.scripted import Step
from antiphon.protocol.items import Message
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest


def recite(turn: TurnRequest) -> Iterable[Step]:
    """Repeat all messages of the user."""
    heard = [item.content for item in turn.items if isinstance(item, Message) and item.role == "user"]
    yield [TextDelta(" → ".join(str(content) for content in heard)), Finished("stop")]


async def main() -> None:
    """Every turn sends one sentence; the store has the history. `sqlite:PATH` would make it persistent."""
    settings = load_settings(overrides={"store": {"url": "memory:"}})
    routes = [Route("m", ScriptedBackend(recite))]
    async with Antiphon(settings, routes=routes) as antiphon, antiphon.openai_client() as client:
        first = await client.responses.create(model="m", input="I am Ada.")
        second = await client.responses.create(model="m", input="I like tea.", previous_response_id=first.id)
        print("chain:       ", second.output_text)

        branch = await client.responses.create(model="m", input="I like rum.", previous_response_id=first.id)
        print("branch:      ", branch.output_text)

        conversation = await client.conversations.create()
        for line in ("Good morning.", "Where were we?"):
            answer = await client.responses.create(model="m", input=line, conversation=conversation.id)
        print("conversation:", answer.output_text)
        items = await client.conversations.items.list(conversation.id, order="asc")
        print("it holds:    ", [item.role async for item in items if item.type == "message"])

        await antiphon.delete(first.id)
        third = await client.responses.create(model="m", input="More?", previous_response_id=second.id)
        print("after delete:", third.output_text)


asyncio.run(main())
