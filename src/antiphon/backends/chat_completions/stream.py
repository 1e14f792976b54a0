"""`StreamReader`: upstream payloads in, chunks out. Sans-IO.

Compound deltas are split into atoms: reasoning, then text, refusal, annotations, then calls. `Finished` is
held until the stream ends, so that it is the last chunk, after the usage, regardless of their order upstream.

A stream is complete if it has a finish reason or ends with ``[DONE]``. Otherwise it has failed.
"""

from collections.abc import Iterable
from typing import cast

import msgspec

from antiphon.backends.chat_completions.errors import ERRORS
from antiphon.backends.chat_completions.stream_calls import CallTracker
from antiphon.backends.chat_completions.wire import (
    CallWire,
    ChoiceWire,
    CompletionWire,
    DeltaWire,
    LogprobsWire,
    PieceWire,
    TokenWire,
    UsageWire,
    decode_completion,
)
from antiphon.backends.registry import Endpoint
from antiphon.backends.stream_reader import DECODE_ERRORS, PayloadReader
from antiphon.errors import BackendBroken, BackendError, BackendRefused
from antiphon.protocol.content import JsonObject, Logprob, TopLogprob
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    AnnotationAdded,
    Chunk,
    Finished,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from antiphon.turn.think import ThinkSplitter

_REASONS: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral: the context is full
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Zhipu
}
"""All other reasons mean that the model was done."""
_FAULTS = frozenset({"error", "abort", "insufficient_system_resource"})
"""Reasons of Mistral and OpenRouter, of vLLM, and of DeepSeek that mean that it was not."""


class StreamReader(PayloadReader):
    """Reads one answer."""

    decode = staticmethod(decode_completion)
    noun = "completion"

    def __init__(self, endpoint: Endpoint) -> None:
        quirks = endpoint.quirks
        super().__init__(endpoint)
        self._calls = CallTracker()
        self._think = (
            ThinkSplitter(quirks.think_tags, inside=quirks.think_open) if quirks.think_tags else None
        )
        self._logprobs: list[Logprob] = []
        self._usage: Usage | None = None
        self._reason: str | None = None

    @property
    def finishing(self) -> bool:
        """Whether the answer is complete, though the stream has not ended."""
        return self._reason is not None and not self.over

    def feed(self, payloads: Iterable[bytes]) -> list[Chunk]:
        """The chunks in these payloads."""
        chunks: list[Chunk] = []
        for payload in payloads:
            try:
                wire = decode_completion(payload)
            except DECODE_ERRORS:
                self.undecodable(payload, chunks)
                continue
            if wire.choices and self._think is None:
                # The hot path: one delta with nothing but text.
                choice = wire.choices[0]
                delta = choice.delta
                if (
                    delta is not None
                    and type(delta.content) is str
                    and choice.finish_reason is None
                    and choice.logprobs is None
                    and wire.usage is None
                    and delta.tool_calls is None
                    and delta.reasoning is None
                    and delta.reasoning_content is None
                    and delta.refusal is None
                    and delta.annotations is None
                    and delta.function_call is None
                    and not choice.index
                    and wire.error is None
                    and not self.over
                ):
                    if delta.content:
                        chunks.append(TextDelta(delta.content))
                    continue
            self._take(wire, payload, chunks)
        return chunks

    def read_body(self, body: bytes) -> list[Chunk]:
        """The chunks of a completion that came in one piece."""
        chunks: list[Chunk] = []
        try:
            wire = decode_completion(body)
        except DECODE_ERRORS:
            self.unreadable(body, chunks)
            return chunks
        answered = False
        for choice in wire.choices or ():
            if choice.message is not None:
                answered = True
                for position, call in enumerate(choice.message.tool_calls or ()):
                    call.index = position
        self._take(wire, body, chunks)
        if self.over:
            return chunks
        if answered:
            self.finish(chunks)
        else:
            self.unreadable(body, chunks)
        return chunks

    def _take(self, wire: CompletionWire, payload: bytes, chunks: list[Chunk]) -> None:
        if self.over:
            return
        if wire.usage is not None:
            # Some servers report with every chunk; the last report counts.
            self._usage = read_usage(wire.usage) or self._usage
        for choice in wire.choices or ():
            if choice.index == 0 and not self.over:
                self._choice(choice, wire.error, chunks)
        error = wire.error or (None if wire.choices or wire.usage else _bare_error(payload))
        if error is not None and not self.over:
            self.fail(ERRORS.failure(self._endpoint, error), chunks)

    def _choice(self, choice: ChoiceWire, error: object, chunks: list[Chunk]) -> None:
        delta = choice.delta or choice.message
        if delta is not None:
            self._read_delta(delta, choice.logprobs, chunks)
        error = choice.error or error
        if error is not None:
            self.fail(ERRORS.failure(self._endpoint, error), chunks)
        elif choice.finish_reason in _FAULTS:
            message = f"The upstream '{self._endpoint.name}' ended its answer with '{choice.finish_reason}'."
            self.fail(BackendRefused(message, status=502), chunks)
        elif choice.finish_reason:
            self._reason = choice.finish_reason

    def _read_delta(self, delta: DeltaWire, logprobs: LogprobsWire | None, chunks: list[Chunk]) -> None:
        # Servers that renamed the field send both names for a while: one of them is enough.
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning:
            chunks.append(ReasoningDelta(reasoning))
        if logprobs is not None:
            self._logprobs.extend(map(read_logprob, logprobs.content or ()))
        if isinstance(delta.content, str):
            self._text(delta.content, chunks)
        elif delta.content:
            self._pieces(delta.content, chunks)
        if delta.refusal:
            self._flush(chunks)
            chunks.append(RefusalDelta(delta.refusal))
        if delta.annotations:
            citations = map(read_citation, delta.annotations)
            chunks.extend(AnnotationAdded(citation) for citation in citations if citation)
        calls = delta.tool_calls or (
            [CallWire(function=delta.function_call)] if delta.function_call else None
        )
        if calls:
            self._flush(chunks)
            self._calls.take(calls, chunks)

    def _pieces(self, pieces: list[PieceWire], chunks: list[Chunk]) -> None:
        for piece in pieces:
            if piece.thinking:
                inner = (
                    [PieceWire(text=piece.thinking)] if isinstance(piece.thinking, str) else piece.thinking
                )
                chunks.extend(ReasoningDelta(thought.text) for thought in inner if thought.text)
            elif piece.text:
                self._text(piece.text, chunks)

    def _text(self, text: str, chunks: list[Chunk]) -> None:
        if self._think is None:
            self._append_text([TextDelta(text)] if text else [], chunks)
        elif text:
            self._append_text(self._think.feed(text), chunks)
            if not self._think.undecided:
                self._logprobs.clear()  # they were for a tag, or for reasoning
            if self._think.settled:
                self._think = None

    def _append_text(self, deltas: list[TextDelta | ReasoningDelta], chunks: list[Chunk]) -> None:
        """Append text and reasoning; logprobs go with the text that they were sent for."""
        for delta in deltas:
            if isinstance(delta, TextDelta) and self._logprobs:
                chunks.append(TextDelta(delta.text, tuple(self._logprobs)))
            else:
                chunks.append(delta)
            self._logprobs.clear()

    def _flush(self, chunks: list[Chunk]) -> None:
        """Append the text that was held because it might have been part of a tag."""
        if self._think is not None:
            self._append_text(self._think.finish(), chunks)

    def finish(self, chunks: list[Chunk]) -> None:
        if self._calls.any and self._calls.nameless:
            message = f"The upstream '{self._endpoint.name}' called a tool without naming it."
            self.fail(BackendBroken(message), chunks)
            return
        self._flush(chunks)
        self.report_usage(chunks)
        reason = _REASONS.get(self._reason or "stop")
        chunks.append(Finished(reason or ("tool_calls" if self._calls.any else "stop")))
        self.over = self.complete = True

    def fail(self, error: BackendError, chunks: list[Chunk]) -> None:
        self._flush(chunks)
        super().fail(error, chunks)

    def usage(self) -> Usage | None:
        """The usage that was reported last."""
        return self._usage


def _bare_error(payload: bytes) -> object:
    """An error without the member `error`: ``{"object": "error", "message": …}`` (vLLM, Mistral)."""
    members = msgspec.json.decode(payload, type=dict[str, object])
    return members if "message" in members or "detail" in members else None


def read_usage(wire: UsageWire) -> Usage | None:
    """The usage, or None where the upstream sent the object but no counts."""
    if wire.prompt_tokens is None and wire.completion_tokens is None:
        return None
    spent, got = wire.prompt_tokens or 0, wire.completion_tokens or 0
    prompt, completion = wire.prompt_tokens_details, wire.completion_tokens_details
    cached = prompt.cached_tokens if prompt else wire.prompt_cache_hit_tokens
    reasoning = completion.reasoning_tokens if completion else None
    return Usage(
        input_tokens=spent,
        input_tokens_details=InputTokensDetails(cached or 0),
        output_tokens=got,
        output_tokens_details=OutputTokensDetails(reasoning or 0),
        total_tokens=spent + got if wire.total_tokens is None else wire.total_tokens,
    )


def read_logprob(wire: TokenWire) -> Logprob:
    """The log probability of a token."""
    best = [TopLogprob(other.token, other.bytes, other.logprob) for other in wire.top_logprobs or ()]
    return Logprob(wire.token, wire.bytes, wire.logprob, best)


def read_citation(wire: JsonObject) -> JsonObject | None:
    """``{"type": "url_citation", "url_citation": {…}}``, flat as in the Responses API. Other annotations are
    not citations (OpenRouter returns its parsed files in one), and are omitted."""
    inner: object = wire.get("url_citation", wire)
    if wire.get("type") != "url_citation" or not isinstance(inner, dict):
        return None
    members = cast("JsonObject", inner)
    return {
        "type": "url_citation",
        "url": members.get("url") or "",
        "title": members.get("title") or "",
        "start_index": members.get("start_index") or 0,
        "end_index": members.get("end_index") or 0,
    }
