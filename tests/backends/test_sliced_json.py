"""Bodies that are encoded in slices."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.backends.sliced_json import (
    LARGE_REQUEST_BYTES,
    MIN_PIECE_BYTES,
    SLICE_CHARACTERS,
    encode_sliced,
)
from antiphon.protocol.items import Message
from antiphon.protocol.long_texts import LONG_TEXT_CHARACTERS
from antiphon.turn.chunks import TextDelta
from tests.backends.chat_completions.client_support import COMPLETION, backend_for, turn
from tests.http.raw_upstream import Wire, complete_response, raw_upstream

LONG = 'A "quoted" \\ line\nand é, 日, 😀. ' * 50_000


async def turns_during(work: "asyncio.Task[Any]") -> int:
    """How often another task had its turn."""
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    return turns


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "messages": [{"role": "user", "content": LONG}], "stream": True},
        {"a": LONG, "b": [LONG, "short", None, 1.5, {"c": LONG}], "d": "x" * LONG_TEXT_CHARACTERS},
        {"texts": ["x" * (LONG_TEXT_CHARACTERS + 1)] * 100},
        {"items": [Message(role="user", content=LONG)]},
        {"model": "m", "messages": [{"role": "user", "content": "x" * 1000}] * 1234, "stream": True},
        {"items": [*[{"a": "b"}] * 150, "y" * (LONG_TEXT_CHARACTERS + 1), *["c"] * 350]},
        {"nothing": "long"},
        {},
    ],
)
async def test_the_pieces_are_the_encoded_body(body: dict[str, Any]) -> None:
    pieces = await encode_sliced(body)
    assert b"".join(pieces) == msgspec.json.encode(body)
    assert max(map(len, pieces)) <= MIN_PIECE_BYTES + 6 * SLICE_CHARACTERS
    assert all(len(piece) >= MIN_PIECE_BYTES for piece in pieces[:-1])


async def test_others_have_their_turn_between_the_slices() -> None:
    text = "x" * (40 * SLICE_CHARACTERS)
    work = asyncio.ensure_future(encode_sliced({"input": text}))
    assert await turns_during(work) >= 40


async def test_others_have_their_turn_between_portions_of_many_elements() -> None:
    messages = [{"role": "user", "content": "x" * 1000}] * 10_000
    work = asyncio.ensure_future(encode_sliced({"messages": messages}))
    assert await turns_during(work) >= 100


@pytest.mark.parametrize(("input_bytes", "is_large"), [(LARGE_REQUEST_BYTES + 1, True), (0, False)])
async def test_a_large_request_is_encoded_in_slices_and_arrives(input_bytes: int, is_large: bool) -> None:
    bodies: list[bytes] = []

    async def answer(wire: Wire) -> None:
        bodies.append(wire.body)
        await wire.send(complete_response(200, json.dumps(COMPLETION).encode()))

    asked = replace(turn(stream=False, text=LONG), input_bytes=input_bytes)
    async with raw_upstream(answer) as upstream, backend_for(upstream) as backend:
        prepared = backend.prepare(asked)
        with pytest.MonkeyPatch.context() as patch:
            steps: list[int] = []

            async def counted(body: dict[str, Any]) -> list[bytes]:
                pieces = await encode_sliced(body)
                steps.append(len(pieces))
                return pieces

            patch.setattr("antiphon.backends.streamed_turn.encode_sliced", counted)
            chunks = [chunk async for batch in prepared.chunks() for chunk in batch]
    assert any(isinstance(chunk, TextDelta) for chunk in chunks)
    assert json.loads(bodies[0])["messages"] == [{"role": "user", "content": LONG}]
    assert [number > 5 for number in steps] == ([True] if is_large else [])
