"""`LocalBackend`: the embedded model as a backend."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec
from msgspec import Struct

from antiphon.backends.base import ModelInfo
from antiphon.backends.chat_completions.stream import StreamReader
from antiphon.backends.features import FUNCTIONS, NATIVE, Features, Support
from antiphon.backends.files import TEXT_OF_FILES
from antiphon.backends.local.engine import Engine
from antiphon.backends.local.engine_child import EngineOptions
from antiphon.backends.local.errors import SCHEMA_REFUSED
from antiphon.backends.local.messages import QUIRKS, Prompt, build_prompt
from antiphon.backends.local.repetition import RepetitionGuard
from antiphon.backends.local.tools import read_choice, takes_nothing
from antiphon.backends.local.weights import Sampling, Weights, find_weights
from antiphon.backends.registry import Endpoint
from antiphon.errors import BackendError, BackendRefused, Unavailable
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    HEARTBEAT,
    CallDelta,
    CallStarted,
    Chunk,
    DowngradesAdded,
    Failed,
    Finished,
    TextDelta,
    UsageReported,
)
from antiphon.turn.constraints import Constraint
from antiphon.turn.context import TurnRequest
from antiphon.weights.pinned import fetch

_CONSTRAINED = Support("emulated", "the model chooses a tool, and writes the arguments by their schema")
_NOT_THIS_MODEL = Support("unsupported", "the embedded model accepts text only")

FEATURES: Features = {
    "streaming": NATIVE,
    "usage": NATIVE,
    "function_tools": _CONSTRAINED,
    "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
    "grammars": NATIVE,
    "constrained_text": NATIVE,
    "parallel_tool_calls": Support("unsupported", "the model calls one tool at a time"),
    "single_tool_calls": NATIVE,
    "tool_choice_required": _CONSTRAINED,
    "tool_choice_named": _CONSTRAINED,
    "structured_output": NATIVE,
    "json_mode": NATIVE,
    "reasoning": Support("unsupported", "the embedded model does not reason"),
    "reasoning_effort": Support("unsupported", "the embedded model does not reason"),
    "reasoning_replay": Support("unsupported", "the embedded model does not reason"),
    "images": _NOT_THIS_MODEL,
    "files": Support("emulated", TEXT_OF_FILES),
    "audio": _NOT_THIS_MODEL,
    "logprobs": NATIVE,
    "prompt_caching": Support("unsupported", "its engine caches prompts by itself"),
}


logger = logging.getLogger(__name__)

_NAME = "local"
# The reader of the dialect requires an endpoint; nothing is ever sent to this address.
_ENDPOINT = Endpoint(name=_NAME, base_url="http://localhost", quirks=QUIRKS)
REPEATED = Downgrade("output_limit", "the answer was ended because the model repeated itself")
_NOTHING = Usage(0, InputTokensDetails(), 0, OutputTokensDetails(), 0)

Batches = AsyncGenerator[Sequence[Chunk], None]


class LocalBackend:
    """Runs turns on a model of the catalogue, or on a GGUF file, in a child process.

    The weights are fetched into `folder` and loaded by the first turn.
    """

    name = _NAME

    def __init__(
        self,
        model: str,
        folder: Path,
        *,
        context: int = 8192,
        max_output: int = 1024,
        parallel: int = 2,
        threads: int = 1,
        heartbeat: float = 10.0,
    ) -> None:
        self._weights = find_weights(model)
        self._folder = folder
        self._context = context
        self._max_output = max_output
        self._heartbeat = heartbeat
        self._label = ""
        self._closed = False
        options = EngineOptions(context=context, parallel=parallel, threads=threads)
        self._engine = Engine(self._locate, options, patience=heartbeat / 4)

    @property
    def model(self) -> str:
        """The model's name: its row's, or its file's without the ending."""
        return self._weights.name if isinstance(self._weights, Weights) else self._weights.stem

    @property
    def natives(self) -> frozenset[str]:
        """Functions only."""
        return FUNCTIONS

    def features(self, model: str) -> Features:
        """The constraints that the engine enforces, and the properties of the model."""
        return FEATURES

    async def context_window(self, model: str) -> int | None:
        """As it was configured."""
        return self._context

    def prepare(self, turn: TurnRequest) -> "LocalTurn":
        """Translate the turn."""
        sampling = self._weights.sampling if isinstance(self._weights, Weights) else Sampling()
        return LocalTurn(build_prompt(turn, sampling, self._max_output), self._engine, self._heartbeat)

    async def models(self) -> Sequence[ModelInfo]:
        """The one model; it need not be loaded."""
        return [ModelInfo(self.model)]

    async def count_tokens(self, text: str) -> int:
        """How many tokens a text is for this model."""
        return await self._engine.count_tokens(text)

    async def aclose(self) -> None:
        """Stop everything, a download too, and let the weights go."""
        self._closed = True
        await self._engine.aclose()

    def _locate(self) -> Path:
        if isinstance(self._weights, Path):
            return self._weights
        return fetch(self._weights, self._folder, self._report)

    def _report(self, _done: int, total: int, label: str) -> None:
        if self._closed:
            raise Unavailable
        if label != self._label:
            self._label = label
            logger.info("model %s (%d MB): %s", self.model, total // 1_000_000, label)


class LocalTurn:
    """One turn: an answer, or a choice and then an answer or a call."""

    def __init__(self, prompt: Prompt, engine: Engine, heartbeat: float) -> None:
        self.downgrades = prompt.downgrades
        # The engine silently ignores a grammar that it cannot read, so the result is checked.
        self.unenforced: frozenset[Constraint] = frozenset({"grammar"}) if prompt.grammars else frozenset()
        self._prompt = prompt
        self._engine = engine
        self._heartbeat = heartbeat
        self._spent = _NOTHING
        self._prompt_tokens = 0

    async def chunks(self) -> Batches:
        """Run it. Signs of life from the engine become heartbeats only as often as they are due."""
        begun = False
        clock = asyncio.get_running_loop().time
        sent_at = clock()
        try:
            async with aclosing(self._run()) as batches:
                async for batch in batches:
                    # The engine reports four times in a heartbeat; every fourth time is soon enough.
                    if batch:
                        begun, sent_at = True, clock()
                        yield batch
                    elif clock() - sent_at >= self._heartbeat * 0.75:
                        sent_at = clock()
                        yield HEARTBEAT
        except (BackendError, Unavailable) as error:
            if not begun:
                raise
            yield [Failed(error)]

    async def _run(self) -> Batches:
        functions = self._prompt.functions
        function = functions[0] if functions else None
        if len(functions) > 1 or self._prompt.answer:
            text: list[str] = []
            async with aclosing(self._read(self._prompt.choosing(), "tools")) as batches:
                async for batch in batches:
                    text += [chunk.text for chunk in batch if isinstance(chunk, TextDelta)]
                    yield []
            must = None if self._prompt.answer else function
            function = read_choice("".join(text), functions) or must
        async with aclosing(self._answer() if function is None else self._call(function)) as batches:
            async for batch in batches:
                yield batch

    async def _answer(self) -> Batches:
        """The answer as text. It ends where the model begins to repeat itself, unless it has a required form,
        whose keys may repeat."""
        guard = None if self._prompt.constrained else RepetitionGuard()
        body = self._prompt.answering(self._spent.output_tokens)
        tokens = self._prompt_tokens = 0
        async with aclosing(self._read(body, "text.format")) as batches:
            async for batch in batches:
                yield batch
                texts = [chunk.text for chunk in batch if isinstance(chunk, TextDelta)]
                tokens += len(texts)
                if guard is not None and texts and guard.read("".join(texts)):
                    break
            else:
                return
        # The engine reports no usage for an answer that it did not end. Each delta is one token.
        yield [DowngradesAdded((REPEATED,)), UsageReported(self._counted(tokens)), Finished("length")]

    def _counted(self, tokens: int) -> Usage:
        prompt = self._prompt_tokens
        usage = Usage(prompt, InputTokensDetails(), tokens, OutputTokensDetails(), prompt + tokens)
        return add_usage(self._spent, usage)

    async def _call(self, function: JsonObject) -> Batches:
        started = CallStarted(0, "", function["name"])
        if takes_nothing(function):
            yield [started, CallDelta(0, "{}"), UsageReported(self._spent), Finished("tool_calls")]
            return
        opening: list[Chunk] = [started]
        convert = _as_input() if function["name"] in self._prompt.grammars else _as_call
        async with aclosing(self._read(self._prompt.calling(function), "tools")) as batches:
            async for batch in batches:
                calling = [made for chunk in batch for made in convert(chunk)]
                yield [*opening, *calling] if calling else []
                if calling:
                    opening = []

    async def _read(self, body: bytes, schema: str) -> Batches:
        """One request to the engine. `schema`: the parameter that its schema comes from."""
        reader = StreamReader(_ENDPOINT)
        try:
            async with aclosing(self._engine.stream(body)) as stream:
                async for payloads in stream:
                    self._prompt_tokens = prompt_tokens(payloads) or self._prompt_tokens
                    yield self._checked(reader.feed(payloads))
        except BackendRefused as error:
            if error.code == SCHEMA_REFUSED:
                error.param = schema
            raise
        yield self._checked(reader.end())

    def _checked(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Usage is reported as the sum so far; a failure is raised, for `chunks` to place."""
        passed: list[Chunk] = []
        for chunk in chunks:
            match chunk:
                case UsageReported():
                    self._spent = add_usage(self._spent, chunk.usage)
                    passed.append(UsageReported(self._spent))
                case Failed():
                    raise chunk.error
                case _:
                    passed.append(chunk)
        return passed


class _Progress(Struct):
    total: int = 0


class _ProgressPayload(Struct):
    prompt_progress: _Progress


def prompt_tokens(payloads: Sequence[bytes]) -> int:
    """The length of the prompt, if one of the payloads reports how much of it is read."""
    reports = (payload for payload in payloads if b'"prompt_progress":' in payload)
    return max((_progress(payload) for payload in reports), default=0)


def _progress(payload: bytes) -> int:
    try:
        return msgspec.json.decode(payload, type=_ProgressPayload).prompt_progress.total
    except msgspec.DecodeError:
        return 0  # text of the model that looks like a report


def _as_call(chunk: Chunk) -> list[Chunk]:
    match chunk:
        case TextDelta():
            return [CallDelta(0, chunk.text)]
        case Finished(reason="stop"):
            return [Finished("tool_calls")]
        case _:
            return [chunk]


def _as_input() -> Callable[[Chunk], list[Chunk]]:
    """Text that was written by a grammar becomes the one argument of a call."""
    opening = '{"input":"'

    def convert(chunk: Chunk) -> list[Chunk]:
        nonlocal opening
        match chunk:
            case TextDelta():
                piece, opening = f"{opening}{msgspec.json.encode(chunk.text)[1:-1].decode()}", ""
                return [CallDelta(0, piece)]
            case Finished():
                return [CallDelta(0, f'{opening}"}}'), *_as_call(chunk)]
            case _:
                return [chunk]

    return convert


def add_usage(one: Usage, other: Usage) -> Usage:
    """The usage of two steps together."""
    cached = one.input_tokens_details.cached_tokens + other.input_tokens_details.cached_tokens
    reasoning = one.output_tokens_details.reasoning_tokens + other.output_tokens_details.reasoning_tokens
    return Usage(
        one.input_tokens + other.input_tokens,
        InputTokensDetails(cached),
        one.output_tokens + other.output_tokens,
        OutputTokensDetails(reasoning),
        one.total_tokens + other.total_tokens,
    )
