"""One rig per backend: the backend itself, on a fake upstream that plays a scenario.

A scenario describes the model's behaviour in every turn and is the same for all backends. The specifics of a
backend (its wire format, its child process, its engine) are here, so that the contract is written once.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any, Literal

import pytest

from antiphon.backends.anthropic_messages.client import AnthropicMessagesBackend
from antiphon.backends.base import Backend
from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.backends.gemini.client import GeminiBackend
from antiphon.backends.http_backend import HttpBackend
from antiphon.backends.local.backend import LocalBackend
from antiphon.backends.registry import Endpoint, default_endpoint
from antiphon.backends.responses.client import ResponsesBackend
from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendBroken, BackendRefused
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    HEARTBEAT,
    CallDelta,
    CallStarted,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest
from tests.backends.codex_app_server.child_support import staged
from tests.backends.contract.payloads import (
    ARGUMENTS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    SSE_HEAD,
    WRITERS,
    Writer,
    event,
)
from tests.backends.local.fake_llama import FakeLlama, ending, piece
from tests.http.raw_upstream import Wire, chunked, complete_response, raw_upstream

Scenario = Literal[
    "text",
    "reasoning",
    "call",
    "parallel_calls",
    "length",
    "refuses",
    "fails_at_once",
    "breaks",
    "silent",
    "endless",
]
BackendName = Literal[
    "chat_completions",
    "anthropic_messages",
    "gemini",
    "responses",
    "local",
    "codex_app_server",
    "scripted",
]
HEARTBEAT_SECONDS = 0.1
SILENCE_SECONDS = 0.6
"""The pause of the scenario `silent`, before its answer."""


@dataclass
class Rig:
    """A backend on its fake upstream."""

    backend: Backend
    started: Callable[[], int]
    """The number of turns that reached the upstream."""
    cancelled: Callable[[], Awaitable[object]]
    """Waits until the upstream notices the cancellation of a turn."""
    model: str = "m"


class Rigs:
    """Opens the rig of a backend."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch

    def open(self, name: BackendName, scenario: Scenario) -> AbstractAsyncContextManager[Rig]:
        match name:
            case "local":
                return self._local(scenario)
            case "codex_app_server":
                return self._codex(scenario)
            case "scripted":
                return self._scripted(scenario)
            case _:
                return _http(name, scenario)

    @asynccontextmanager
    async def _local(self, scenario: Scenario) -> AsyncGenerator[Rig, None]:
        llama = FakeLlama(lambda body: _llama_answer(scenario, body)).install(self._monkeypatch)
        weights = self._folder / "tiny.gguf"
        weights.touch()
        backend = LocalBackend(str(weights), self._folder, heartbeat=HEARTBEAT_SECONDS)

        async def cancelled() -> None:
            assert await asyncio.to_thread(llama.stopped.wait, 5.0)

        try:
            yield Rig(backend, lambda: len(llama.bodies), cancelled)
        finally:
            await backend.aclose()

    @asynccontextmanager
    async def _codex(self, scenario: Scenario) -> AsyncGenerator[Rig, None]:
        scenarios: dict[Scenario, str] = {
            "text": "answer",
            "reasoning": "reasons",
            "call": "calls",
            "parallel_calls": "tools",
            "length": "is_cut_off",
            "refuses": "refuses",
            "fails_at_once": "dies_before_it_speaks",
            "breaks": "dies_in_turn",
            "silent": "is_slow",
            "endless": "silent",
        }
        async with staged(self._folder, scenarios[scenario], heartbeat=HEARTBEAT_SECONDS) as stage:

            async def cancelled() -> None:
                while "interrupted t1" not in stage.notes:  # noqa: ASYNC110 -- another process writes the file
                    await asyncio.sleep(0.01)

            yield Rig(stage.backend, lambda: len(stage.pids), cancelled)

    @asynccontextmanager
    async def _scripted(self, scenario: Scenario) -> AsyncGenerator[Rig, None]:
        started = 0
        given_up = asyncio.Event()

        async def run_script(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
            nonlocal started
            started += 1
            try:
                for step in _SCRIPTS[scenario]:
                    yield step
                if scenario == "endless":
                    await asyncio.sleep(3600)
            finally:
                given_up.set()

        backend = ScriptedBackend(run_script)
        yield Rig(backend, lambda: started, given_up.wait)
        await backend.aclose()


_HTTP: dict[str, tuple[str, str, Callable[[Endpoint], HttpBackend]]] = {
    "chat_completions": ("plain", "m", ChatCompletionsBackend),
    "anthropic_messages": ("anthropic", "claude-sonnet-5", AnthropicMessagesBackend),
    "gemini": ("gemini", "gemini-3-flash-preview", GeminiBackend),
    "responses": ("responses", "m", ResponsesBackend),
}
"""The kind of endpoint, a model, and the backend."""


@asynccontextmanager
async def _http(name: str, scenario: Scenario) -> AsyncGenerator[Rig, None]:
    kind, model, make = _HTTP[name]

    async def serve(wire: Wire) -> None:
        writer = WRITERS[name]()
        if wire.head.startswith("GET"):
            await wire.send(complete_response(200, json.dumps(writer.models).encode()))
        else:
            await _answer(wire, writer, scenario)

    async with raw_upstream(serve) as upstream:
        endpoint = default_endpoint(kind, upstream.url)
        backend = make(replace(endpoint, heartbeat=HEARTBEAT_SECONDS, retries=0, api_key="sk-contract"))

        def started() -> int:
            return sum(wire.head.startswith("POST") for wire in upstream.wires)

        try:
            yield Rig(backend, started, upstream.cut_off.wait, model)
        finally:
            await backend.aclose()


async def _answer(wire: Wire, writer: Writer, scenario: Scenario) -> None:
    if scenario == "refuses":
        await wire.send(complete_response(500, json.dumps(writer.error).encode()))
        return
    await wire.send(SSE_HEAD)
    if scenario == "silent":
        await asyncio.sleep(SILENCE_SECONDS)
    for payload in _payloads(writer, scenario):
        await wire.send(event(payload))
    if scenario == "breaks":
        wire.abort()
    elif scenario == "endless":
        await wire.until_cut_off()
    else:
        await wire.send(chunked(b""))


def _payloads(writer: Writer, scenario: Scenario) -> Iterable[dict[str, Any] | str]:
    match scenario:
        case "call":
            return [*writer.call(0), *writer.end("tool_calls")]
        case "parallel_calls":
            return [*writer.call(0), *writer.call(1), *writer.end("tool_calls")]
        case "reasoning":
            return [*writer.reasoning("Hmm"), *writer.text("Hello"), *writer.end("stop")]
        case "length":
            return [*writer.text("Hel"), *writer.end("length")]
        case "fails_at_once":
            return [writer.error]
        case "breaks" | "endless":
            return writer.text("Hel")
        case _:
            return [*writer.text("Hel"), *writer.text("lo"), *writer.end("stop")]


def _llama_answer(scenario: Scenario, body: dict[str, Any]) -> Iterable[bytes]:
    """The llama.cpp payloads for a body. Runs in a thread of the engine, so it may block."""
    end = ending(prompt=INPUT_TOKENS, completion=OUTPUT_TOKENS)
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    match scenario:
        case "refuses":
            raise ValueError("no such sampler")
        case "fails_at_once":
            raise RuntimeError("out of memory")
        case "call":
            yield from (piece(ARGUMENTS if "properties" in schema else '"look"'), *end)
        case "length":
            yield from (piece("Hel"), *ending("length", prompt=INPUT_TOKENS, completion=OUTPUT_TOKENS))
        case "breaks":
            yield piece("Hel")
            raise RuntimeError("out of memory")
        case "endless":
            while True:
                yield piece("Hel")
                Event().wait(0.01)
        case _:
            if scenario == "silent":
                Event().wait(SILENCE_SECONDS)
            yield from (piece("Hel"), piece("lo"), *end)


_USAGE = UsageReported(
    Usage(
        INPUT_TOKENS,
        InputTokensDetails(),
        OUTPUT_TOKENS,
        OutputTokensDetails(),
        INPUT_TOKENS + OUTPUT_TOKENS,
    )
)


_CALLS = [[CallStarted(index, f"c{index}", "look"), CallDelta(index, ARGUMENTS)] for index in (0, 1)]
_SCRIPTS: dict[Scenario, list[Step]] = {
    "text": [[TextDelta("Hel")], [TextDelta("lo")], [_USAGE, Finished("stop")]],
    "reasoning": [[ReasoningDelta("Hmm")], [TextDelta("Hello")], [_USAGE, Finished("stop")]],
    "call": [_CALLS[0], [_USAGE, Finished("tool_calls")]],
    "parallel_calls": [*_CALLS, [_USAGE, Finished("tool_calls")]],
    "length": [[TextDelta("Hel")], [_USAGE, Finished("length")]],
    "refuses": [BackendRefused("The server is overloaded.", status=503)],
    "fails_at_once": [BackendBroken()],
    "breaks": [[TextDelta("Hel")], [Failed(BackendBroken())]],
    "silent": [HEARTBEAT, HEARTBEAT, [TextDelta("Hel")], [TextDelta("lo")], [_USAGE, Finished("stop")]],
    "endless": [[TextDelta("Hel")]],
}
