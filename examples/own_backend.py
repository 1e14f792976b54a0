"""A custom backend: any object that yields chunks. This one returns the input in capital letters."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from antiphon import Antiphon, Route
from antiphon.backends.base import ModelInfo
from antiphon.backends.features import FEATURES, NATIVE, Features, Support
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.items import Message
from antiphon.turn.chunks import Chunk, Finished, TextDelta
from antiphon.turn.constraints import Constraint
from antiphon.turn.context import FUNCTIONS, TurnRequest


class Shout:
    """One turn of the shouting model."""

    downgrades: tuple[Downgrade, ...] = ()
    unenforced: frozenset[Constraint] = frozenset()

    def __init__(self, words: list[str]) -> None:
        self._words = words

    async def chunks(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """Yield the words, one batch each."""
        for word in self._words:
            yield [TextDelta(word.upper() + " ")]
        yield [Finished("stop")]


class ShoutingBackend:
    """Implements the `Backend` port."""

    name = "shout"
    natives = FUNCTIONS

    def features(self, model: str) -> Features:
        """The supported features."""
        nothing = Support("unsupported", "this example does not support it")
        return {**dict.fromkeys(FEATURES, nothing), "streaming": NATIVE}

    async def context_window(self, model: str) -> int | None:
        """There is no limit."""
        return None

    def prepare(self, turn: TurnRequest) -> Shout:
        """Translate the turn; only the last message is used."""
        last = turn.items[-1]
        text = last.content if isinstance(last, Message) else ""
        return Shout(text.split() if isinstance(text, str) else [])

    async def models(self) -> Sequence[ModelInfo]:
        """One model."""
        return [ModelInfo("shout")]

    async def aclose(self) -> None:
        """There is nothing to close."""


async def main() -> None:
    """Run a turn; the machine turns the chunks into a complete Responses stream."""
    async with Antiphon(routes=[Route("shout", ShoutingBackend())]) as antiphon:
        async for event in antiphon.stream(model="shout", input="is anybody there?"):
            print(event.sequence_number, type(event).__name__)


asyncio.run(main())
