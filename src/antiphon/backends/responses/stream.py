"""`StreamReader`: an upstream's events in, chunks out. Sans-IO.

The order of events is not trusted. An item need not be announced, a part need not be begun, and text that was
not sent in deltas is taken from the end of the part, of the item, or of the response. Sequence numbers are
ignored.

A stream is complete if its response is completed or incomplete, or after ``[DONE]``.
"""

import logging
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Raw

from antiphon.backends.registry import Endpoint
from antiphon.backends.responses.errors import ERRORS
from antiphon.backends.responses.messages import origin_of
from antiphon.backends.responses.stream_calls import (
    COMPLETE_CALLS,
    STREAMED_CALLS,
    CallWriter,
    search_arguments,
)
from antiphon.backends.responses.stream_items import TextKind, UpstreamItem, UpstreamItems
from antiphon.backends.responses.stream_text import TextWriter
from antiphon.backends.responses.tools import Names
from antiphon.backends.responses.wire import (
    EventWire,
    ItemWire,
    ResponseWire,
    UsageWire,
    decode_event,
    decode_item,
    decode_response,
)
from antiphon.backends.stream_reader import DECODE_ERRORS, DONE
from antiphon.errors import BackendBroken, BackendError, BackendRefused
from antiphon.http.redact import excerpt
from antiphon.protocol.content import JsonObject
from antiphon.protocol.parse_tools import read_tools
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.protocol.tool_items import HostedItem
from antiphon.turn.chunks import (
    Chunk,
    Failed,
    Finished,
    FinishReason,
    HostedItemDone,
    TextDelta,
    ToolsFound,
    UsageReported,
)

logger = logging.getLogger(__name__)

_TEXT_DELTA = "response.output_text.delta"
_HOSTED_ITEMS: dict[str, type[HostedItem]] = {
    str(kind.__struct_config__.tag): kind for kind in HostedItem.__args__
}
_TEXT_EVENTS: dict[str, tuple[str, TextKind]] = {
    "output_text": ("message", "text"),
    "refusal": ("message", "refusal"),
    "reasoning_text": ("reasoning", "raw"),
    "reasoning": ("reasoning", "raw"),  # Open Responses
    "reasoning_summary_text": ("reasoning", "summary"),
    "reasoning_summary": ("reasoning", "summary"),
    "function_call_arguments": ("function_call", "arguments"),
    "custom_tool_call_input": ("custom_tool_call", "arguments"),
}
"""Events about text: the type of their item, and the kind of text."""
_IN_MESSAGES = ("output_text", "refusal")


class StreamReader:
    """Reads one answer."""

    def __init__(self, endpoint: Endpoint, names: Names) -> None:
        self._endpoint = endpoint
        self._chunks: list[Chunk] = []
        self._items = UpstreamItems()
        self._text_writer = TextWriter(self._chunks, origin_of(endpoint))
        self._call_writer = CallWriter(self._chunks, names)
        self._searched: JsonObject = {}
        self._usage: Usage | None = None
        self._fault: BackendError | None = None
        """An error that was received, while the end of the response, with its usage, may follow."""
        self._hot: list[str] | None = None
        """The text that the last event went on with, and where it is."""
        self._hot_id: str | None = None
        self._hot_place: int | None = None
        self._hot_part: int | None = None
        self._handlers: dict[str, Callable[[EventWire], None]] = {
            "response.output_item.added": self._added,
            "response.output_item.done": self._item_done,
            "response.content_part.done": self._part_done,
            "response.reasoning_summary_part.done": self._part_done,
            "response.output_text.annotation.added": self._annotated,
            "response.completed": self._ended,
            "response.incomplete": self._ended,
            "response.failed": self._ended,
            "error": self._error,
        }
        self.over = False
        """Whether the last chunk was returned."""
        self.complete = False
        """Whether the answer ended without an error."""

    @property
    def finishing(self) -> bool:
        """Whether an error was received, but not yet the end of the response."""
        return self._fault is not None and not self.over

    def feed(self, payloads: Iterable[bytes]) -> list[Chunk]:
        """The chunks in these payloads."""
        append = self._chunks.append
        for payload in payloads:
            try:
                wire = decode_event(payload)
            except DECODE_ERRORS:
                self._undecodable(payload)
                continue
            hot = self._hot
            if (
                hot is not None
                and wire.type == _TEXT_DELTA
                and wire.item_id == self._hot_id
                and wire.output_index == self._hot_place
                and wire.content_index == self._hot_part
                and not wire.logprobs
            ):
                # The hot path: more text where the text was.
                delta = wire.delta
                if type(delta) is str and delta:
                    hot.append(delta)
                    append(TextDelta(delta))
            elif not self.over:
                self._hot = None
                self._take(wire, payload)
        return self._take_chunks()

    def end(self, rest: Iterable[bytes] = ()) -> list[Chunk]:
        """The last chunks, when the stream has ended. `rest` came without a blank line, and may be half."""
        chunks = self.feed(filter(_is_whole, rest))
        broken = BackendBroken(f"The upstream '{self._endpoint.name}' broke off its answer.")
        return chunks + self.lost(broken)

    def lost(self, error: BackendError) -> list[Chunk]:
        """The last chunks, when no more can be read: a failure, unless the last event was there."""
        if not self.over:
            self._fail(self._fault or error)
        return self._take_chunks()

    def read_body(self, body: bytes) -> list[Chunk]:
        """The chunks of a response that came in one piece."""
        try:
            response = decode_response(body)
        except DECODE_ERRORS:
            response = ResponseWire()
        if response.status is None and response.output is None and response.error is None:
            self._broken(body)
        else:
            self._conclude(response, body)
        return self._take_chunks()

    def _take_chunks(self) -> list[Chunk]:
        chunks = self._chunks.copy()
        self._chunks.clear()
        return chunks

    def _undecodable(self, payload: bytes) -> None:
        """A payload that is not an event: the end marker, or a fault."""
        if self.over:
            return
        if self._fault is not None:
            self._fail(self._fault)
        elif payload.strip() == DONE:
            self._finish("stop")
        else:
            self._broken(payload)

    def _broken(self, body: bytes) -> None:
        text = excerpt(body, self._endpoint.secrets)
        message = f"The upstream '{self._endpoint.name}' sent something that is no response: {text}"
        self._fail(BackendBroken(message))

    def _take(self, wire: EventWire, payload: bytes) -> None:
        try:
            handler = self._handlers.get(wire.type)
            if handler is not None:
                handler(wire)
            elif wire.type:
                self._take_text(wire)
            elif wire.error is not None or wire.message is not None:
                self._error(wire)
            else:
                self._broken(payload)
        except DECODE_ERRORS:
            self._broken(payload)

    def _error(self, wire: EventWire) -> None:
        """The error: nested, as servers send it, or flat, as in some types. The usage may follow it."""
        flat = {"message": wire.message, "code": wire.code, "param": wire.param}
        self._fault = ERRORS.failure(self._endpoint, wire.error or flat)

    def _take_text(self, wire: EventWire) -> None:
        """A delta or the end of a text; unknown event types are ignored."""
        stem, _, step = wire.type.removeprefix("response.").rpartition(".")
        if stem not in _TEXT_EVENTS or step not in ("delta", "done"):
            return
        kind, text_kind = _TEXT_EVENTS[stem]
        item = self._items.about(wire, kind)
        if item is None:
            return
        if step == "delta":
            self._grow(item, text_kind, wire)
        elif text_kind == "arguments":
            self._call_writer.settle(item, wire.input if wire.arguments is None else wire.arguments)
        else:
            complete = wire.refusal if text_kind == "refusal" else wire.text
            self._text_writer.settle(item, text_kind, _part_of(wire, text_kind), complete, wire.logprobs)

    def _grow(self, item: UpstreamItem, kind: TextKind, wire: EventWire) -> None:
        text = wire.delta
        if not isinstance(text, str) or not text:
            return
        if kind == "arguments":
            self._call_writer.extend(item, text)
            return
        part = _part_of(wire, kind)
        received = item.text(kind, part)
        received.pieces.append(text)
        self._text_writer.emit(item, kind, part, text, wire.logprobs)
        if kind == "text":
            self._hot, self._hot_part = received.pieces, wire.content_index
            self._hot_id, self._hot_place = wire.item_id, wire.output_index

    def _annotated(self, wire: EventWire) -> None:
        item = self._items.about(wire, "message")
        if item is not None and wire.annotation is not None:
            self._text_writer.cite(item, wire.content_index or 0, wire.annotation)

    def _part_done(self, wire: EventWire) -> None:
        part = wire.part
        if part is None:
            return
        item = self._items.about(wire, "message" if part.type in _IN_MESSAGES else "reasoning")
        if item is None:
            return
        if part.type == "summary_text":
            self._text_writer.settle(item, "summary", wire.summary_index or 0, part.text)
        else:
            self._text_writer.settle_part(item, wire.content_index or 0, part)

    def _added(self, wire: EventWire) -> None:
        begun = decode_item(wire.item)
        item = self._items.announced(begun, wire.output_index)
        if item is not None:
            item.wire = begun
            if item.kind in STREAMED_CALLS:
                self._call_writer.start(item, begun)

    def _item_done(self, wire: EventWire) -> None:
        complete = decode_item(wire.item)
        item = self._items.ended(complete, wire.output_index)
        if item is not None:
            self._end_item(item, complete, wire.item)

    def _end_item(self, item: UpstreamItem, complete: ItemWire, raw: Raw) -> None:
        if not item.wire.type:
            item.wire = complete
        if item.kind == "message":
            self._text_writer.end_message(item, complete)
        elif item.kind == "reasoning":
            self._text_writer.end_reasoning(item, complete)
        elif item.kind in STREAMED_CALLS:
            self._call_writer.end_streamed(item, complete)
        else:
            self._emit_complete(complete, raw)
        item.done = True

    def _emit_complete(self, complete: ItemWire, raw: Raw) -> None:
        """Items that have no deltas."""
        if complete.type == "tool_search_call" and not complete.call_id:
            self._searched = search_arguments(complete.arguments)
        elif complete.type == "tool_search_output":
            self._chunks.append(ToolsFound(self._searched, read_tools(complete.tools or ())))
        elif complete.type in COMPLETE_CALLS:
            kind, form = COMPLETE_CALLS[complete.type]
            self._call_writer.emit_complete(kind, msgspec.json.decode(raw, type=form))
        elif complete.type in _HOSTED_ITEMS:
            try:
                self._chunks.append(
                    HostedItemDone(msgspec.json.decode(raw, type=_HOSTED_ITEMS[complete.type]))
                )
            except msgspec.ValidationError:
                self._leave_out(complete)  # the text after it contains the result
        else:
            # A compaction is not needed: every turn sends the complete history. Other types are unknown.
            self._leave_out(complete)

    def _leave_out(self, item: ItemWire) -> None:
        name = self._endpoint.name
        logger.warning("%s: an item of type '%s' is left out of the answer", name, item.type[:64])

    def _ended(self, wire: EventWire) -> None:
        response = decode_response(wire.response)
        response.status = response.status or wire.type.removeprefix("response.")
        self._conclude(response, bytes(wire.response))

    def _conclude(self, response: ResponseWire, body: bytes) -> None:
        """The response at its end: emit everything that was not emitted yet."""
        self._usage = read_usage(response.usage) or self._usage
        try:
            self._emit_missing(response.output or [])
        except DECODE_ERRORS:
            self._broken(body)
            return
        status = response.status or "completed"
        if response.error is not None or status == "failed":
            self._fail(self._fault or ERRORS.failure(self._endpoint, response.error))
        elif status == "completed":
            self._finish("stop")
        elif status == "incomplete":
            reason = response.incomplete_details.reason if response.incomplete_details else None
            # All other reasons are bounds that were reached.
            self._finish("content_filter" if reason == "content_filter" else "length")
        else:
            message = f"The upstream '{self._endpoint.name}' ended its answer as '{status[:64]}'."
            self._fail(BackendRefused(message, status=502))

    def _emit_missing(self, output: list[Raw]) -> None:
        completes = [decode_item(raw) for raw in output]
        for item, complete, raw in zip(self._items.match(completes), completes, output, strict=True):
            if not item.done:
                self._end_item(item, complete, raw)

    def _finish(self, reason: FinishReason) -> None:
        for item in self._items.all:
            if item.kind in STREAMED_CALLS and not item.done:
                self._call_writer.end(item, cut=reason != "stop")
            if item.call >= 0 and not item.name:
                message = f"The upstream '{self._endpoint.name}' called a tool without naming it."
                self._fail(BackendBroken(message))
                return
        self._close()
        self._chunks.append(
            Finished("tool_calls" if reason == "stop" and self._call_writer.count else reason)
        )
        self.complete = True

    def _fail(self, error: BackendError) -> None:
        self._close()
        self._chunks.append(Failed(error))

    def _close(self) -> None:
        """Report the usage; only the end may follow."""
        self.over, self._hot = True, None
        if self._usage is not None:
            self._chunks.append(UsageReported(self._usage))


def _part_of(wire: EventWire, kind: TextKind) -> int:
    return (wire.summary_index if kind == "summary" else wire.content_index) or 0


def _is_whole(payload: bytes) -> bool:
    try:
        decode_event(payload)
    except DECODE_ERRORS:
        return payload.strip() == DONE
    return True


def read_usage(wire: UsageWire | None) -> Usage | None:
    """The usage, or None where no count came."""
    if wire is None or (wire.input_tokens is None and wire.output_tokens is None):
        return None
    spent, got = wire.input_tokens or 0, wire.output_tokens or 0
    before, after = wire.input_tokens_details, wire.output_tokens_details
    return Usage(
        input_tokens=spent,
        input_tokens_details=InputTokensDetails(
            (before and before.cached_tokens) or 0, (before and before.cache_write_tokens) or 0
        ),
        output_tokens=got,
        output_tokens_details=OutputTokensDetails((after and after.reasoning_tokens) or 0),
        total_tokens=spent + got if wire.total_tokens is None else wire.total_tokens,
    )
