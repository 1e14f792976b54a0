"""Feed text to the recovery in any split, and collect the emitted chunks."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from antiphon.protocol.content import JsonObject
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished, FinishReason, TextDelta
from antiphon.turn.text_calls.dialects import dialects_named
from antiphon.turn.text_calls.recovery import CallRecovery

TOOLS: dict[str, JsonObject | None] = {
    "look": None,
    "mcp.look-up": None,
    "patch": {"type": "object", "properties": {"input": {"type": "string"}}},
    "weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "units": {"type": ["string", "null"]},
        },
    },
}


class Result(NamedTuple):
    """The complete text, and the calls by name and arguments."""

    text: str
    calls: list[tuple[str, str]]


def recovery(dialect: str = "auto") -> CallRecovery:
    return CallRecovery(dialects_named(dialect), TOOLS)


def feed_all(pieces: Iterable[str], dialect: str = "auto", reason: FinishReason = "stop") -> list[Chunk]:
    """All chunks for these deltas, which are fed one by one."""
    text_recovery = recovery(dialect)
    chunks: list[Chunk] = []
    for piece in pieces:
        chunks.extend(text_recovery.feed([TextDelta(piece)]))
    chunks.extend(text_recovery.feed([Finished(reason)]))
    assert not text_recovery.holding
    return chunks


def result_of(chunks: Sequence[Chunk]) -> Result:
    """The text and the calls of these chunks."""
    names = {chunk.index: chunk.name for chunk in chunks if isinstance(chunk, CallStarted)}
    arguments = dict.fromkeys(names, "")
    for chunk in chunks:
        if isinstance(chunk, CallDelta):
            arguments[chunk.index] += chunk.arguments
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    return Result(text, [(name, arguments[index]) for index, name in names.items()])


def feed_text(text: str, dialect: str = "auto") -> Result:
    return result_of(feed_all([text], dialect))
