"""`StreamReader`: events of a stream, or a complete answer, in; chunks out. Sans-IO.

Both have the same form: parts of the answer, and a finish reason at the end. Calls arrive complete.
`Finished` is held until the stream ends, so that it is the last chunk, after the usage.

A signature is emitted before its part. The signature of a text that is already being emitted follows it
(`signatures.py`), unless the text was cut off, because then the text must be last.

A stream without a finish reason has failed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from antiphon.backends.gemini.errors import ERRORS
from antiphon.backends.gemini.signatures import call_state, origin_of, text_state, thought_state
from antiphon.backends.gemini.wire import (
    AnswerWire,
    BlobWire,
    CallWire,
    CandidateWire,
    FeedbackWire,
    LogprobsWire,
    PartWire,
    TokenWire,
    UsageWire,
    decode_answer,
    decode_answers,
)
from antiphon.backends.registry import Endpoint
from antiphon.backends.stream_reader import DECODE_ERRORS, PayloadReader
from antiphon.errors import BackendBroken, BackendRefused
from antiphon.http.redact import redact
from antiphon.protocol.content import JsonObject, Logprob, TopLogprob
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.protocol.tool_items import ImageGenerationCall
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Finished,
    FinishReason,
    HostedItemDone,
    ProviderStateAdded,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
)
from antiphon.turn.provider_state import ProviderState

_FILTERS = frozenset(
    {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"}
    | {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
)
_FAULTS = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"}
    | {"MISSING_THOUGHT_SIGNATURE", "NO_IMAGE", "IMAGE_OTHER", "OTHER"}
)
"""Finish reasons without an answer. All unlisted reasons mean that the model has finished."""


class StreamReader(PayloadReader):
    """Reads one answer. `names` maps the API's names of tools to the turn's."""

    decode = staticmethod(decode_answer)
    noun = "answer"

    def __init__(self, endpoint: Endpoint, names: Mapping[str, str] | None = None) -> None:
        super().__init__(endpoint)
        self._origin = origin_of(endpoint)
        self._names = names or {}
        self._calls = 0
        self._pieces: list[str] = []
        """The text of the current message."""
        self._held: list[ProviderState] = []
        """Its signatures."""
        self._grounding: object = None
        self._usage: UsageWire | None = None
        self._reason: FinishReason | None = None

    @property
    def finishing(self) -> bool:
        """Whether the answer is complete, though the stream has not ended."""
        return self._reason is not None and not self.over

    def feed(self, payloads: Iterable[bytes]) -> list[Chunk]:
        """The chunks in these payloads."""
        chunks: list[Chunk] = []
        for payload in payloads:
            try:
                wire = decode_answer(payload)
            except DECODE_ERRORS:
                self.undecodable(payload, chunks)
                continue
            candidates = wire.candidates
            if candidates and not self.over and wire.error is None:
                candidate = candidates[0]
                parts = candidate.content and candidate.content.parts
                if parts and candidate.finish_reason is None and len(parts) == 1:
                    part = parts[0]
                    text = part.text
                    if (
                        # The hot path: one part with nothing but text.
                        text
                        and part.thought is None
                        and part.thought_signature is None
                        and part.function_call is None
                        and candidate.logprobs_result is None
                        and candidate.grounding_metadata is None
                        and not candidate.index
                    ):
                        self._pieces.append(text)
                        self._usage = wire.usage_metadata or self._usage
                        chunks.append(TextDelta(text))
                        continue
            self._take(wire, chunks)
        return chunks

    def read_body(self, body: bytes) -> list[Chunk]:
        """The chunks of an answer in one piece, or of a stream that was sent as a list."""
        chunks: list[Chunk] = []
        try:
            wires = decode_answers(body) if body.lstrip()[:1] == b"[" else [decode_answer(body)]
        except DECODE_ERRORS:
            self.unreadable(body, chunks)
            return chunks
        for wire in wires:
            self._take(wire, chunks)
        if self.over:
            return chunks
        if self._reason is not None or any(wire.candidates for wire in wires):
            self.finish(chunks)
        else:
            self.unreadable(body, chunks)
        return chunks

    def _take(self, wire: AnswerWire, chunks: list[Chunk]) -> None:
        if self.over:
            return
        self._usage = wire.usage_metadata or self._usage
        for candidate in wire.candidates or ():
            if candidate.index == 0 and not self.over:
                self._candidate(candidate, chunks)
        if self.over:
            return
        if wire.error is not None:
            self.fail(ERRORS.failure(self._endpoint, wire.error), chunks)
        elif wire.prompt_feedback is not None and wire.prompt_feedback.block_reason:
            self._block(wire.prompt_feedback, chunks)

    def _candidate(self, wire: CandidateWire, chunks: list[Chunk]) -> None:
        logprobs = _read_logprobs(wire.logprobs_result)
        for part in (wire.content.parts if wire.content else None) or ():
            self._part(part, logprobs, chunks)
            if self.over:
                return
            if part.text and not part.thought:
                logprobs = ()
        self._grounding = wire.grounding_metadata or self._grounding
        reason = wire.finish_reason
        if reason in _FAULTS:
            reported = redact(wire.finish_message or "", self._endpoint.secrets)
            message = f"The upstream '{self._endpoint.name}' ended its answer with '{reason}'"
            error = BackendRefused(
                f"{message}. It said: {reported}" if reported else f"{message}.", status=502
            )
            self.fail(error, chunks)
        elif reason in _FILTERS:
            self._reason = "content_filter"
            if wire.finish_message:
                chunks.append(RefusalDelta(wire.finish_message))
        elif reason:
            self._reason = "length" if reason == "MAX_TOKENS" else "stop"

    def _block(self, wire: FeedbackWire, chunks: list[Chunk]) -> None:
        self._reason = "content_filter"
        if wire.block_reason_message:
            chunks.append(RefusalDelta(wire.block_reason_message))

    def _part(self, part: PartWire, logprobs: tuple[Logprob, ...], chunks: list[Chunk]) -> None:
        if part.function_call is not None:
            self._call(part.function_call, part.thought_signature, chunks)
        elif part.thought:
            self._end_text(chunks)
            if part.text:
                chunks.append(ReasoningSummaryDelta(part.text))
            if part.thought_signature:
                state = thought_state(self._origin, part.thought_signature, part.text or "")
                chunks.append(ProviderStateAdded(state))
        elif part.inline_data is not None:
            self._image(part.inline_data, chunks)
        elif part.text is not None or part.thought_signature:
            self._add_text(part.text or "", part.thought_signature, logprobs, chunks)

    def _add_text(
        self, text: str, signature: str | None, logprobs: tuple[Logprob, ...], chunks: list[Chunk]
    ) -> None:
        if signature and text and not self._pieces:
            state = text_state(self._origin, signature, "next", length=len(text))
            chunks.append(ProviderStateAdded(state))
        elif signature:
            start = sum(map(len, self._pieces))
            self._held.append(text_state(self._origin, signature, "said", start, len(text)))
        if text:
            self._pieces.append(text)
            chunks.append(TextDelta(text, logprobs))

    def _end_text(self, chunks: list[Chunk]) -> None:
        chunks.extend(map(ProviderStateAdded, self._held))
        self._held.clear()
        self._pieces.clear()

    def _call(self, call: CallWire, signature: str | None, chunks: list[Chunk]) -> None:
        if not call.name:
            message = f"The upstream '{self._endpoint.name}' called a tool without naming it."
            self.fail(BackendBroken(message), chunks)
            return
        self._end_text(chunks)
        if signature:
            chunks.append(ProviderStateAdded(call_state(self._origin, signature)))
        index = self._calls
        self._calls += 1
        arguments = msgspec.json.encode({} if call.args is None else call.args).decode()
        chunks.append(CallStarted(index, call.id or "", self._names.get(call.name, call.name)))
        chunks.append(CallDelta(index, arguments))
        chunks.append(CallFinished(index))

    def _image(self, blob: BlobWire, chunks: list[Chunk]) -> None:
        """Emit an image; some models send one without a request for it."""
        self._end_text(chunks)
        form = blob.mime_type.rpartition("/")[2]
        item = ImageGenerationCall(status="completed", result=blob.data, output_format=form)
        chunks.append(HostedItemDone(item))

    def finish(self, chunks: list[Chunk]) -> None:
        reason = self._reason or "stop"
        if self._grounding is not None and self._pieces:
            citations = read_citations(self._grounding, "".join(self._pieces))
            chunks.extend(map(AnnotationAdded, citations))
        if reason == "stop":
            self._end_text(chunks)
        self.report_usage(chunks)
        chunks.append(Finished("tool_calls" if reason == "stop" and self._calls else reason))
        self.over = self.complete = True

    def usage(self) -> Usage | None:
        """The usage that was reported last."""
        return read_usage(self._usage)


def _read_logprobs(wire: LogprobsWire | None) -> tuple[Logprob, ...]:
    if wire is None:
        return ()
    best: Sequence[Sequence[TokenWire]] = [tokens.candidates or () for tokens in wire.top_candidates or ()]
    return tuple(
        Logprob(
            token.token,
            list(token.token.encode()),
            token.log_probability,
            [
                TopLogprob(other.token, list(other.token.encode()), other.log_probability)
                for other in (best[place] if place < len(best) else ())
            ],
        )
        for place, token in enumerate(wire.chosen_candidates or ())
    )


def read_usage(wire: UsageWire | None) -> Usage | None:
    """The usage; None if there are no counts. Thoughts are part of the output here."""
    if wire is None or (wire.prompt_token_count is None and wire.candidates_token_count is None):
        return None
    thoughts = wire.thoughts_token_count or 0
    spent = (wire.prompt_token_count or 0) + (wire.tool_use_prompt_token_count or 0)
    got = (wire.candidates_token_count or 0) + thoughts
    return Usage(
        input_tokens=spent,
        input_tokens_details=InputTokensDetails(wire.cached_content_token_count or 0),
        output_tokens=got,
        output_tokens_details=OutputTokensDetails(thoughts),
        total_tokens=spent + got,
    )


def read_citations(grounding: object, text: str) -> list[JsonObject]:
    """The citations of a text. The API counts positions in bytes; the result counts characters."""
    sources = [
        _object(_object(chunk).get("web")) for chunk in _list(_object(grounding).get("groundingChunks"))
    ]
    written = text.encode()
    found: list[JsonObject] = []
    for support in map(_object, _list(_object(grounding).get("groundingSupports"))):
        segment = _object(support.get("segment"))
        start, end = (_characters(written, segment.get(name)) for name in ("startIndex", "endIndex"))
        for index in _list(support.get("groundingChunkIndices")):
            if isinstance(index, int) and 0 <= index < len(sources) and sources[index].get("uri"):
                found.append(_citation(sources[index], start, end))
    return found


def _citation(source: JsonObject, start: int, end: int) -> JsonObject:
    return {
        "type": "url_citation",
        "url": source["uri"],
        "title": source.get("title") or "",
        "start_index": start,
        "end_index": end,
    }


def _characters(written: bytes, count: object) -> int:
    return len(written[: count if isinstance(count, int) else 0].decode(errors="ignore"))


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
