"""The contract of the port `Backend`, for all backends. Tests of one backend's specifics are in its folder."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, get_args

import pytest

from antiphon.backends.features import FEATURES, Level
from antiphon.errors import BackendError
from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import (
    HEARTBEAT,
    CallDelta,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    ReasoningDelta,
    ReasoningSummaryDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest, build_turn
from tests.backends.contract.payloads import ARGUMENTS, INPUT_TOKENS, OUTPUT_TOKENS
from tests.backends.contract.rigs import BackendName, Rig, Rigs, Scenario

TIMEOUT_SECONDS = 30.0
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
REASONING = [name for name in BACKENDS if name != "local"]
PARALLEL_CALLS = [name for name in BACKENDS if name != "local"]
LOOK: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "description": "Looks.",
    "parameters": {"type": "object", "properties": {"at": {"type": "number"}}, "required": ["at"]},
}
WITH_TOOL: dict[str, Any] = {"tools": [LOOK], "tool_choice": "required"}

every_backend = pytest.mark.parametrize("name", BACKENDS)


@pytest.fixture
def rigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rigs:
    return Rigs(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
async def bounded() -> AsyncGenerator[None, None]:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        yield


def turn(rig: Rig, **params: Any) -> TurnRequest:
    request = create_from(**{"model": rig.model, "input": "hi", "stream": True, **params})
    return build_turn(request, model=rig.model)


async def run(rig: Rig, **params: Any) -> list[Chunk]:
    """All chunks of a turn, without heartbeats. No batch is empty."""
    chunks: list[Chunk] = []
    async for batch in rig.backend.prepare(turn(rig, **params)).chunks():
        assert batch
        chunks += () if is_heartbeat(batch) else batch
    return chunks


def is_heartbeat(batch: Sequence[Chunk]) -> bool:
    return batch is HEARTBEAT


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def end_of(chunks: Sequence[Chunk]) -> Chunk:
    """The last chunk, ignoring a usage report after it."""
    return [chunk for chunk in chunks if not isinstance(chunk, UsageReported)][-1]


@every_backend
@pytest.mark.parametrize("stream", [True, False])
async def test_text_arrives_in_order_and_ends_with_stop(rigs: Rigs, name: BackendName, stream: bool) -> None:
    async with rigs.open(name, "text") as rig:
        chunks = await run(rig, stream=stream)
    assert text_of(chunks) == "Hello"
    assert end_of(chunks) == Finished("stop")
    assert sum(isinstance(chunk, Finished) for chunk in chunks) == 1


@every_backend
async def test_usage_is_reported(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "text") as rig:
        chunks = await run(rig)
    usage = [chunk.usage for chunk in chunks if isinstance(chunk, UsageReported)][-1]
    assert (usage.input_tokens, usage.output_tokens) == (INPUT_TOKENS, OUTPUT_TOKENS)
    assert usage.total_tokens == INPUT_TOKENS + OUTPUT_TOKENS


@pytest.mark.parametrize("name", REASONING)
async def test_reasoning_is_emitted_before_the_text_and_separately(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "reasoning") as rig:
        chunks = await run(rig)
    kinds = [type(chunk) for chunk in chunks if not isinstance(chunk, UsageReported | Finished)]
    reasoning_chunks = [
        chunk for chunk in chunks if isinstance(chunk, ReasoningDelta | ReasoningSummaryDelta)
    ]
    assert "".join(chunk.text for chunk in reasoning_chunks) == "Hmm"
    assert text_of(chunks) == "Hello"
    assert kinds.index(type(reasoning_chunks[0])) < kinds.index(TextDelta)


@every_backend
async def test_a_call_has_the_tools_name_and_its_arguments(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "call") as rig:
        chunks = await run(rig, **WITH_TOOL)
    started = [chunk for chunk in chunks if isinstance(chunk, CallStarted)]
    assert [(chunk.index, chunk.name) for chunk in started] == [(0, "look")]
    arguments = "".join(chunk.arguments for chunk in chunks if isinstance(chunk, CallDelta))
    assert json.loads(arguments) == json.loads(ARGUMENTS)
    assert end_of(chunks) == Finished("tool_calls")


@pytest.mark.parametrize("name", PARALLEL_CALLS)
async def test_parallel_calls_have_different_indexes_and_ids(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "parallel_calls") as rig:
        chunks = await run(rig, tools=[LOOK])
    started = [chunk for chunk in chunks if isinstance(chunk, CallStarted)]
    assert [chunk.index for chunk in started] == [0, 1]
    assert len({chunk.call_id for chunk in started}) == 2
    for call in started:
        pieces = [chunk for chunk in chunks if isinstance(chunk, CallDelta) and chunk.index == call.index]
        assert json.loads("".join(piece.arguments for piece in pieces)) == json.loads(ARGUMENTS)


@every_backend
async def test_an_answer_at_its_token_limit_ends_with_length(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "length") as rig:
        chunks = await run(rig)
    assert text_of(chunks) == "Hel"
    assert end_of(chunks) == Finished("length")


@every_backend
@pytest.mark.parametrize("scenario", ["refuses", "fails_at_once"])
async def test_an_error_before_the_first_chunk_is_raised(
    rigs: Rigs, name: BackendName, scenario: Scenario
) -> None:
    received: list[Sequence[Chunk]] = []
    async with rigs.open(name, scenario) as rig:
        with pytest.raises(BackendError):
            async for batch in rig.backend.prepare(turn(rig)).chunks():
                received.append(batch)
    assert all(map(is_heartbeat, received))


@every_backend
async def test_an_error_after_the_first_chunk_is_a_chunk(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "breaks") as rig:
        chunks = await run(rig)
    assert text_of(chunks) == "Hel"
    assert isinstance(end_of(chunks), Failed)


@every_backend
async def test_closing_a_turn_ends_the_upstream_work(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "endless") as rig:
        async with aclosing(rig.backend.prepare(turn(rig)).chunks()) as batches:
            async for batch in batches:
                if not is_heartbeat(batch):
                    break
        await rig.cancelled()


@every_backend
async def test_cancelling_the_task_of_a_turn_ends_the_upstream_work(rigs: Rigs, name: BackendName) -> None:
    begun = asyncio.Event()

    async def read(rig: Rig) -> None:
        async with aclosing(rig.backend.prepare(turn(rig)).chunks()) as batches:
            async for batch in batches:
                if not is_heartbeat(batch):
                    begun.set()

    async with rigs.open(name, "endless") as rig:
        task = asyncio.create_task(read(rig))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await rig.cancelled()


@every_backend
async def test_heartbeats_are_sent_while_the_upstream_is_silent(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "silent") as rig:
        batches = [batch async for batch in rig.backend.prepare(turn(rig)).chunks()]
    first = next(index for index, batch in enumerate(batches) if not is_heartbeat(batch))
    assert first >= 2
    assert text_of([chunk for batch in batches for chunk in batch]) == "Hello"


@every_backend
async def test_preparing_a_turn_does_no_io(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "text") as rig:
        prepared = [rig.backend.prepare(turn(rig)) for _ in range(3)]
        await asyncio.sleep(0.02)
        assert rig.started() == 0
        for one in prepared:
            assert text_of([chunk async for batch in one.chunks() for chunk in batch]) == "Hello"
        assert rig.started() >= 1


@every_backend
async def test_one_backend_serves_many_turns_at_once(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "text") as rig:
        answers = await asyncio.gather(*(run(rig) for _ in range(4)))
    assert [text_of(chunks) for chunks in answers] == ["Hello"] * 4


@every_backend
async def test_features_are_complete_and_give_reasons(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "text") as rig:
        features = rig.backend.features(rig.model)
    assert set(features) == set(FEATURES)
    for support in features.values():
        assert support.level in get_args(Level)
        assert support.level == "native" or support.why


@every_backend
async def test_features_agree_with_behaviour(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "text") as rig:
        features = rig.backend.features(rig.model)
        prepared = rig.backend.prepare(turn(rig, **WITH_TOOL))
        form = {"type": "json_schema", "name": "n", "schema": _schema()}
        formatted = rig.backend.prepare(turn(rig, text={"format": form}))
    assert (features["reasoning"].level != "unsupported") == (name in REASONING)
    assert (features["parallel_tool_calls"].level != "unsupported") == (name in PARALLEL_CALLS)
    assert features["function_tools"].level != "unsupported"
    if features["tool_choice_required"].level == "native":
        assert "tool_choice" not in prepared.unenforced
    if features["structured_output"].level == "native":
        assert "format" not in formatted.unenforced


def _schema() -> dict[str, Any]:
    properties = {"n": {"type": "integer"}}
    return {"type": "object", "properties": properties, "required": ["n"], "additionalProperties": False}


@every_backend
async def test_a_backend_has_a_name_and_takes_functions(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "text") as rig:
        assert rig.backend.name
        assert "function" in rig.backend.natives


@every_backend
async def test_models_are_listed_with_a_window_or_none(rigs: Rigs, name: BackendName) -> None:
    async with rigs.open(name, "text") as rig:
        models = await rig.backend.models()
        assert models
        assert all(model.id and model.owned_by for model in models)
        window = await rig.backend.context_window(models[0].id)
        assert window is None or window > 0
