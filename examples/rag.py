"""Questions about the documents of this repository: the model sees the best chunks, which become sources.

The model is a script that only says what it was shown. A real one answers from it.
"""

import asyncio
import re
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path

from antiphon import Antiphon, Route, ScriptedBackend, load_settings
from antiphon.backends.scripted import Step
from antiphon.orchestrator import (
    AgentExecuteRequest,
    ConversationContext,
    InProcessResponsesClient,
    execute,
)
from antiphon.retrieval.folders import FolderRetriever
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest

ROOT = Path(__file__).parents[1]
CONTEXT = ConversationContext(model_name="m", system="Answer from the context only.")
QUESTIONS = ("How do I cancel a background response?", "How do I revoke a key?")


def librarian(turn: TurnRequest) -> Iterable[Step]:
    """Name the chunks in the `[CONTEXT]` block."""
    shown = re.findall(r"Path: (\S+)", repr(turn.items).replace("\\n", "\n"))
    yield [TextDelta(f"I was shown {len(shown)} chunks, the best one from {shown[0]}."), Finished("stop")]


async def main() -> None:
    """Ask, and print the sources of the answer. The first question reads the files."""
    settings = load_settings(overrides={"store": {"url": "memory:"}})
    routes = [Route("m", ScriptedBackend(librarian))]
    async with (
        Antiphon(settings, routes=routes) as antiphon,
        aclosing(FolderRetriever([ROOT / "docs"], root=ROOT)) as retriever,
    ):
        client = InProcessResponsesClient(antiphon)
        for question in QUESTIONS:
            request = AgentExecuteRequest(instruction=question)
            answer = await execute(request, client=client, context=CONTEXT, retriever=retriever)
            print(question, "→", answer.text)
            for source in answer.sources[:3]:
                print(f"  {source.path}:{source.start}-{source.end}", source.symbol or "")


asyncio.run(main())
