"""Stop sequences: any split of the text yields the same result, and no part of a sequence is emitted."""

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.protocol.content import Logprob
from antiphon.protocol.items import Message
from antiphon.protocol.parse_create import create_from
from antiphon.service.responses.stages.stop_sequences import StopSequenceStage
from antiphon.service.routing.router import Route, Router
from antiphon.turn.chunks import (
    HEARTBEAT,
    CallStarted,
    Chunk,
    Finished,
    StopSequenceFound,
    TextDelta,
    UsageReported,
)
from tests.service.conftest import MakeCreator
from tests.turn.chunk_strategies import USAGE


def passed(batches: Sequence[Sequence[Chunk]], sequences: Sequence[str]) -> list[Chunk]:
    stage = StopSequenceStage(sequences)
    return [chunk for batch in batches for chunk in stage.feed(batch)]


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def found(chunks: Sequence[Chunk]) -> str | None:
    return next((chunk.sequence for chunk in chunks if isinstance(chunk, StopSequenceFound)), None)


def expected(text: str, sequences: Sequence[str]) -> tuple[str, str | None]:
    """The text and the matched sequence, computed letter by letter."""
    for end in range(len(text) + 1):
        for sequence in sorted(sequences, key=len, reverse=True):
            if text[:end].endswith(sequence):
                return text[: end - len(sequence)], sequence
    return text, None


SEQUENCES = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=3)


@given(st.lists(st.text("abc", min_size=1, max_size=4), max_size=6), SEQUENCES)
@example(["a", "b"], ["b", "ab"])
def test_the_answer_ends_before_the_first_sequence(texts: list[str], sequences: list[str]) -> None:
    chunks = passed([*([TextDelta(delta_text)] for delta_text in texts), [Finished("stop")]], sequences)
    assert (text_of(chunks), found(chunks)) == expected("".join(texts), sequences)
    assert isinstance(chunks[-1], StopSequenceFound | Finished)


def test_after_a_find_only_the_usage_passes() -> None:
    batch: list[Chunk] = [
        TextDelta("a STOP b"),
        CallStarted(0, "c", "f"),
        UsageReported(USAGE),
        Finished("stop"),
    ]
    assert passed([batch], ["STOP"]) == [TextDelta("a "), StopSequenceFound("STOP"), UsageReported(USAGE)]


def test_many_sequences_are_matched_quickly() -> None:
    """Each delta is compared with the beginnings of the sequences, not with all of them."""

    class Counted(str):
        compared = 0

        def startswith(self, *args: object) -> bool:
            Counted.compared += 1
            return str(self).startswith(*args)  # pyright: ignore[reportArgumentType]

    sequences = [Counted("a" * 40 + chr(256 + number)) for number in range(64)]
    passed([[TextDelta("xa" * 10)]] * 20, sequences)
    assert 0 < Counted.compared <= 20 * 41


def test_logprobs_pass_with_the_text_of_their_tokens() -> None:
    tokens = [TextDelta(token, (Logprob(token, None, -1.0),)) for token in ("a", "b ", "ST", "OP")]
    chunks = passed([[token] for token in tokens], ["STOP"])
    logprobs = [
        logprob.token for chunk in chunks if isinstance(chunk, TextDelta) for logprob in chunk.logprobs
    ]
    assert (text_of(chunks), logprobs) == ("ab ", ["a", "b "])


async def test_a_run_ends_at_the_sequence_as_completed(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend([[TextDelta("one ST")], HEARTBEAT, [TextDelta("OP two")], [Finished("length")]])
    request = replace(create_from(model="m", input="hi", stream=True), stop=("STOP",))
    run = make_creator(backend).start(request, Caller.of("t"))
    response = await run.result()
    (message,) = response.output
    assert isinstance(message, Message)
    assert (response.status, run.stop_sequence) == ("completed", "STOP")
    assert "one " in str(message.content)
    assert "two" not in str(message.content)


async def test_a_sequence_before_a_violation_in_one_batch_completes_the_answer(
    make_creator: MakeCreator,
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    form = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    backend = ScriptedBackend([[TextDelta('{"n')], [TextDelta("STOP"), TextDelta('": 1')]])
    request = replace(create_from(model="m", input="hi", stream=True, text={"format": form}), stop=("STOP",))
    router = Router([Route("m", backend, strict_schemas="trusted")], chance=lambda: 0.5)
    run = make_creator(router=router).start(request, Caller.of("t"))
    assert ((await run.result()).status, run.stop_sequence, len(backend.turns)) == ("completed", "STOP", 1)
