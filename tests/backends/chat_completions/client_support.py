"""Shared by the tests of the client: a backend on a raw upstream, and functions that run one turn."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.backends.registry import Endpoint, default_endpoint
from antiphon.errors import (
    BackendError,
)
from antiphon.http.target import Deadlines
from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import Chunk, Failed
from antiphon.turn.context import TurnRequest, build_turn
from tests.http.raw_upstream import (
    RawUpstream,
    Script,
    Wire,
    raw_upstream,
)

LIMITS: dict[str, Any] = {
    "deadlines": Deadlines(connect=0.3, first_byte=0.3, between=0.3, answer=0.3, total=2.0),
    "backoff": 0.001,
    "heartbeat": 5.0,
    "api_key": "sk-canary-0123456789",
}
COMPLETION = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}


def turn(*, stream: bool = True, text: str = "hi") -> TurnRequest:
    return build_turn(create_from(model="m", input=text, stream=stream), model="m")


@asynccontextmanager
async def backend_for(upstream: RawUpstream, **changes: Any) -> AsyncGenerator[ChatCompletionsBackend, None]:
    endpoint: Endpoint = replace(default_endpoint("plain", upstream.url), **{**LIMITS, **changes})
    backend = ChatCompletionsBackend(endpoint, chance=lambda: 0.5)
    yield backend
    await backend.aclose()


async def collect(backend: ChatCompletionsBackend, *, stream: bool = True) -> list[Sequence[Chunk]]:
    return [batch async for batch in backend.prepare(turn(stream=stream)).chunks()]


async def run_turn(*scripts: Script, stream: bool = True, **changes: Any) -> list[Chunk]:
    """All chunks of one turn."""
    async with raw_upstream(*scripts) as upstream, backend_for(upstream, **changes) as backend:
        return [chunk for batch in await collect(backend, stream=stream) for chunk in batch]


async def fail(*scripts: Script, stream: bool = True, **changes: Any) -> BackendError:
    """The error that a turn raises before its first chunk."""
    with pytest.raises(BackendError) as caught:
        await run_turn(*scripts, stream=stream, **changes)
    assert "canary" not in caught.value.message
    return caught.value


def failure_of(chunks: list[Chunk]) -> BackendError:
    last = chunks[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, BackendError)
    return last.error


async def hang(wire: Wire) -> None:
    await wire.until_cut_off()
