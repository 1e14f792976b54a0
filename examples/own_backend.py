"""A backend of your own: anything that can say chunks. This one shouts what it hears."""

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
        """Say the words, one batch each."""
        for word in self._words:
            yield [TextDelta(word.upper() + " ")]
        yield [Finished("stop")]


class ShoutingBackend:
    """Implements the `Backend` port."""

    name = "shout"
    natives = FUNCTIONS

    def features(self, model: str) -> Features:
        """It does little, and says so."""
        nothing = Support("unsupported", "it only shouts")
        return {**dict.fromkeys(FEATURES, nothing), "streaming": NATIVE}

    async def context_window(self, model: str) -> int | None:
        """It never forgets."""
        return None

    def prepare(self, turn: TurnRequest) -> Shout:
        """Translate the turn: the last message is all that matters."""
        last = turn.items[-1]
        heard = last.content if isinstance(last, Message) else ""
        return Shout(heard.split() if isinstance(heard, str) else [])

    async def models(self) -> Sequence[ModelInfo]:
        """One model."""
        return [ModelInfo("shout")]

    async def aclose(self) -> None:
        """Nothing to let go of."""


async def main() -> None:
    """The machine makes a complete Responses stream of what the backend says."""
    async with Antiphon(routes=[Route("shout", ShoutingBackend())]) as antiphon:
        async for event in antiphon.stream(model="shout", input="is anybody there?"):
            print(event.sequence_number, type(event).__name__)


asyncio.run(main())
