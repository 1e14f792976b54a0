"""`StreamReader`: events of a stream, or a complete message, in; chunks out. Sans-IO.

A message is a list of blocks, and so is a stream of one: a block begins, grows and ends before the next one
begins. `Finished` is held until the message ends, so that it is the last chunk, after the usage.

A stream is complete after a stop reason or `message_stop`. Everything else is a failure.
"""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from antiphon.backends.anthropic_messages.errors import ERRORS
from antiphon.backends.anthropic_messages.thinking import origin_of, redacted_state, thinking_state
from antiphon.backends.anthropic_messages.wire import (
    BlockWire,
    DeltaWire,
    EventWire,
    UsageWire,
    decode_event,
    decode_message,
)
from antiphon.backends.registry import Endpoint
from antiphon.backends.stream_reader import DECODE_ERRORS, PayloadReader
from antiphon.protocol.content import JsonObject
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Chunk,
    Finished,
    FinishReason,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
)

_REASONS: dict[str, FinishReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",  # a long turn was interrupted: there would be more
    "refusal": "content_filter",
}
"""All other reasons mean that the model was done."""


class _Block:
    """An open block."""

    __slots__ = ("call", "citations", "pieces", "signature", "start", "wire")

    def __init__(self, wire: BlockWire, start: int) -> None:
        self.wire = wire
        self.call = -1
        self.start = start
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.citations: list[Any] = []


class StreamReader(PayloadReader):
    """Reads one answer. `summarised`: thinking is emitted as summaries, which most models send."""

    decode = staticmethod(decode_event)
    noun = "message"

    def __init__(self, endpoint: Endpoint, *, summarised: bool = False) -> None:
        super().__init__(endpoint)
        self._origin = origin_of(endpoint)
        self._summarised = summarised
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._bare: int | None = None
        """A call that ended without arguments: it has none, if another block follows it."""
        self._thoughts = 0
        self._written = 0
        self._usage: UsageWire | None = None
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
                wire = decode_event(payload)
            except DECODE_ERRORS:
                self.undecodable(payload, chunks)
                continue
            delta = wire.delta
            if delta is not None and delta.type == "text_delta" and not self.over:
                # The hot path.
                text = delta.text
                if text:
                    self._written += len(text)
                    chunks.append(TextDelta(text))
                continue
            self._take(wire, chunks)
        return chunks

    def read_body(self, body: bytes) -> list[Chunk]:
        """The chunks of a message that came in one piece."""
        chunks: list[Chunk] = []
        try:
            wire = decode_message(body)
        except DECODE_ERRORS:
            self.unreadable(body, chunks)
            return chunks
        self._usage = wire.usage
        if wire.error is not None:
            self.fail(ERRORS.failure(self._endpoint, wire.error), chunks)
        elif wire.content is None:
            self.unreadable(body, chunks)
        else:
            for index, block in enumerate(wire.content):
                self._begin(index, block, chunks)
                self._end_block(index, chunks)
            self._stop(wire.stop_reason or "end_turn", wire.stop_details, chunks)
            self.finish(chunks)
        return chunks

    def _take(self, wire: EventWire, chunks: list[Chunk]) -> None:
        if self.over:
            return
        match wire.type:
            case "content_block_delta" if wire.delta is not None:
                self._grow(wire.index, wire.delta, chunks)
            case "content_block_start" if wire.content_block is not None:
                self._begin(wire.index, wire.content_block, chunks)
            case "content_block_stop":
                self._end_block(wire.index, chunks)
            case "message_stop":
                self.finish(chunks)
            case _:
                self._take_rest(wire, chunks)

    def _take_rest(self, wire: EventWire, chunks: list[Chunk]) -> None:
        """Events about the message itself, or an error; pings and unknown types are ignored."""
        self._usage = merge_usage(self._usage, wire.message.usage if wire.message else wire.usage)
        if wire.delta is not None and wire.delta.stop_reason:
            self._stop(wire.delta.stop_reason, wire.delta.stop_details, chunks)
        if wire.error is not None:
            self.fail(ERRORS.failure(self._endpoint, wire.error), chunks)

    def _begin(self, index: int, wire: BlockWire, chunks: list[Chunk]) -> None:
        self._end_block(index, chunks)
        if self._bare is not None:
            chunks.append(CallDelta(self._bare, "{}"))
            self._bare = None
        block = self._blocks[index] = _Block(wire, self._written)
        match wire.type:
            case "text":
                block.citations.extend(wire.citations or ())
                if wire.text:
                    self._written += len(wire.text)
                    chunks.append(TextDelta(wire.text))
            case "tool_use":
                block.call = self._calls
                self._calls += 1
                self._written = 0
                chunks.append(CallStarted(block.call, wire.id or "", wire.name or ""))
            case "thinking":
                self._written = 0
                if wire.signature:
                    block.signature.append(wire.signature)
                self._think(block, wire.thinking, chunks)
            case "redacted_thinking":
                self._written = 0
                chunks.append(ProviderStateAdded(redacted_state(self._origin, wire.data or "")))
            case _:
                pass  # the server's own tools: the text contains their results

    def _grow(self, index: int, delta: DeltaWire, chunks: list[Chunk]) -> None:
        block = self._blocks.get(index)
        if block is None:
            return
        if delta.partial_json and block.call >= 0:
            block.pieces.append(delta.partial_json)
            chunks.append(CallDelta(block.call, delta.partial_json))
        elif block.wire.type == "thinking":
            self._think(block, delta.thinking, chunks)
            if delta.signature:
                block.signature.append(delta.signature)
        elif delta.citation is not None:
            block.citations.append(delta.citation)

    def _think(self, block: _Block, text: str | None, chunks: list[Chunk]) -> None:
        if not text:
            return
        block.pieces.append(text)
        if self._summarised:
            chunks.append(ReasoningSummaryDelta(text, self._thoughts))
        else:
            chunks.append(ReasoningDelta(text))

    def _end_block(self, index: int, chunks: list[Chunk]) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        if block.call >= 0:
            # A block also ends where the answer was cut off, so the call may be incomplete.
            given = cast("object", block.wire.input)
            if given and not block.pieces:
                chunks.append(CallDelta(block.call, msgspec.json.encode(given).decode()))
            elif not block.pieces:
                self._bare = block.call
        elif block.wire.type == "thinking":
            self._thoughts += 1
            text, signature = "".join(block.pieces), "".join(block.signature)
            if text or signature:
                state = thinking_state(self._origin, text, signature, in_item=not self._summarised)
                chunks.append(ProviderStateAdded(state))
        else:
            for citation in block.citations:
                found = read_citation(citation, block.start, self._written)
                if found is not None:
                    chunks.append(AnnotationAdded(found))

    def _stop(self, reason: str, details: object, chunks: list[Chunk]) -> None:
        self._reason = reason
        if reason == "refusal" and isinstance(details, dict):
            explanation = cast("dict[str, object]", details).get("explanation")
            if isinstance(explanation, str) and explanation:
                chunks.append(RefusalDelta(explanation))

    def finish(self, chunks: list[Chunk]) -> None:
        for index in [*self._blocks]:
            self._end_block(index, chunks)
        self.report_usage(chunks)
        reason = _REASONS.get(self._reason or "end_turn")
        chunks.append(Finished(reason or ("tool_calls" if self._calls else "stop")))
        self.over = self.complete = True

    def usage(self) -> Usage | None:
        """The usage that was reported last."""
        return read_usage(self._usage)


def merge_usage(earlier: UsageWire | None, later: UsageWire | None) -> UsageWire | None:
    """A stream reports input tokens at its beginning and output tokens at its end; later values win."""
    if earlier is None or later is None:
        return later or earlier
    return UsageWire(
        *(
            getattr(earlier, name) if getattr(later, name) is None else getattr(later, name)
            for name in UsageWire.__struct_fields__
        )
    )


def read_usage(wire: UsageWire | None) -> Usage | None:
    """The usage, or None where no count came. The prompt's tokens are those read from a cache, too."""
    if wire is None or (wire.input_tokens is None and wire.output_tokens is None):
        return None
    cached, written = wire.cache_read_input_tokens or 0, wire.cache_creation_input_tokens
    spent, got = (wire.input_tokens or 0) + cached + (written or 0), wire.output_tokens or 0
    details = wire.output_tokens_details
    return Usage(
        input_tokens=spent,
        input_tokens_details=InputTokensDetails(cached, written or 0),
        output_tokens=got,
        output_tokens_details=OutputTokensDetails((details and details.thinking_tokens) or 0),
        total_tokens=spent + got,
    )


def read_citation(wire: object, start: int, end: int) -> JsonObject | None:
    """A citation of the text between `start` and `end`: of a page of the web, or of a document.

    Of a document the place inside it is lost: the Responses API has no field for it.
    """
    if not isinstance(wire, dict):
        return None
    members = cast("JsonObject", wire)
    match members.get("type"):
        case "web_search_result_location":
            return _of_page(members.get("url"), members.get("title"), start, end)
        case "search_result_location":
            return _of_page(members.get("source"), members.get("title"), start, end)
        case "page_location" | "char_location" | "content_block_location":
            title, file_id = members.get("document_title"), members.get("file_id")
            return {"type": "file_citation", "file_id": file_id or "", "filename": title or "", "index": end}
        case _:
            return None


def _of_page(url: object, title: object, start: int, end: int) -> JsonObject:
    return {
        "type": "url_citation",
        "url": url or "",
        "title": title or "",
        "start_index": start,
        "end_index": end,
    }
