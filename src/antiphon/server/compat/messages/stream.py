"""The events of a run as a stream of content blocks.

An item becomes one block, or none if it is empty; blocks follow one another and are numbered without a
gap. Text deltas, the hot path, are cached bytes around the escaped text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UnsetType

from antiphon.caller import Caller
from antiphon.errors import AntiphonError
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrade, rendered
from antiphon.protocol.events import (
    CodeInterpreterCallCodeDone,
    ErrorEvent,
    Event,
    FunctionCallArgumentsDelta,
    Keepalive,
    McpCallArgumentsDone,
    OutputItemAdded,
    OutputItemDone,
    OutputTextAnnotationAdded,
    OutputTextDelta,
    ReasoningSummaryTextDelta,
    ReasoningTextDelta,
    RefusalDelta,
    ResponseCompleted,
    ResponseCreated,
    ResponseIncomplete,
)
from antiphon.protocol.items import FunctionCall, OutputItem, Reasoning
from antiphon.protocol.response import Response
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.server.compat.api import CompatRequest, Renderer
from antiphon.server.compat.content import BLANK_LINE, omitted_items
from antiphon.server.compat.messages.answer import (
    RENDERED,
    AnswerMessage,
    Shown,
    message_container,
    message_downgrades,
    message_id,
    message_usage,
    stop_reason,
    whole_message,
)
from antiphon.server.compat.messages.request import NAMES, read_messages
from antiphon.server.compat.messages.server_blocks import (
    CitedPages,
    ServerCall,
    arguments_object,
    result_block,
    use_block,
    use_input,
    with_private_side,
)
from antiphon.server.error_shapes import anthropic_error
from antiphon.turn.sealing import Sealer, SealKey

_encode = msgspec.json.encode
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":'
_ARGUMENTS = b',"delta":{"type":"input_json_delta","partial_json":'
_TEXT: JsonObject = {"type": "text", "text": ""}
_THOUGHT: JsonObject = {"type": "thinking", "thinking": "", "signature": ""}


class MessagesApi:
    """Reads the requests of this API. `seal_key` recognises thoughts that were sealed here."""

    def __init__(self, seal_key: SealKey) -> None:
        self._seal_key = seal_key

    def read(self, body: bytes, caller: Caller) -> tuple[CompatRequest, Renderer]:
        """The request, and the renderer of its answer."""
        sealer = self._seal_key.sealer(caller.tenant)
        question, wire = read_messages(body, sealer)
        thoughts = wire.thinking is None or wire.thinking.display != "omitted"
        pages = CitedPages(question.request.items)
        return question, MessagesRenderer(question.downgrades, sealer, pages, thoughts=thoughts)


class MessagesRenderer:
    """Renders one answer. `thoughts`: whether the text of reasoning is shown."""

    def __init__(
        self, own: Sequence[Downgrade], sealer: Sealer, pages: CitedPages, *, thoughts: bool = True
    ) -> None:
        """`pages`: those that earlier turns have found."""
        self._own = own
        self._private: dict[str, str] = {}
        self._shown = Shown(sealer=sealer, pages=pages, private=self._private, thoughts=thoughts)
        self._engine: Sequence[Downgrade] = ()
        self._stop: str | None = None
        self._status = AntiphonError.status
        self._request_id = ""
        self._index = -1
        self._open: tuple[str, int] | None = None
        """The part in the open block: the id of its item, and its index there."""
        self._thought: tuple[Literal["raw", "summary"], int] | None = None
        self._text_head = b""

    def render_response(self, response: Response, stop: str | None) -> bytes:
        """The complete JSON answer."""
        for item in response.output:
            self._find_pages(item)
        return whole_message(response, stop, downgrades=self._downgrades(response), shown=self._shown)

    def downgraded(self, downgrades: Sequence[Downgrade]) -> None:
        """The end lists them."""
        self._engine = downgrades

    def stopped(self, stop: str) -> None:
        """The stream ends because this sequence was found."""
        self._stop = stop

    def private_sides(self, sides: Mapping[str, str]) -> None:
        """They become the results of hosted calls."""
        self._private |= sides

    def failed(self, status: int, request_id: str) -> None:
        """The stream ends because something broke."""
        self._status, self._request_id = status, request_id

    def render(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events, ready for one write."""
        pieces: list[bytes] = []
        for event in events:
            if type(event) is OutputTextDelta:
                if self._open != (event.item_id, event.content_index):
                    pieces.append(self._begin_text(event))
                pieces.append(self._text_head + _encode(event.delta) + b"}}\n\n")
            else:
                render = _RENDER.get(type(event))
                if render is not None:
                    pieces.append(render(self, event))
        return b"".join(pieces)

    def begin(self, event: ResponseCreated) -> bytes:
        """The message without content; the usage follows at the end."""
        empty = AnswerMessage(id=message_id(event.response), model=event.response.model)
        return _event("message_start", {"message": empty}) + _PING

    def refuse(self, event: RefusalDelta) -> bytes:
        """A refusal delta, as text; the stop reason identifies it."""
        begun = b"" if self._open == (event.item_id, event.content_index) else self._begin_text(event)
        return begun + self._text_head + _encode(event.delta) + b"}}\n\n"

    def think(self, event: ReasoningTextDelta) -> bytes:
        """A piece of raw reasoning."""
        return self._thinking(event.item_id, event.delta, ("raw", event.content_index))

    def sum_up(self, event: ReasoningSummaryTextDelta) -> bytes:
        """A piece of a summary."""
        return self._thinking(event.item_id, event.delta, ("summary", event.summary_index))

    def add(self, event: OutputItemAdded) -> bytes:
        """A call begins; other items begin with their first delta."""
        item = event.item
        if isinstance(item, ServerCall):
            return self._begin(str(item.id), 0, use_block(item))
        if not isinstance(item, FunctionCall):
            return b""
        call: JsonObject = {"type": "tool_use", "id": item.call_id, "name": item.name, "input": {}}
        return self._begin(str(item.id), 0, call)

    def argue(self, event: FunctionCallArgumentsDelta) -> bytes:
        """A piece of a call's arguments."""
        return b"%b%d%b%b}}\n\n" % (_DELTA, self._index, _ARGUMENTS, _encode(event.delta))

    def server_code(self, event: CodeInterpreterCallCodeDone) -> bytes:
        """The code of a run, before it runs."""
        return self._use(event.item_id, {"code": event.code})

    def server_arguments(self, event: McpCallArgumentsDone) -> bytes:
        """The arguments of a call of an MCP tool, before it runs."""
        return self._use(event.item_id, arguments_object(event.arguments))

    def cite(self, event: OutputTextAnnotationAdded) -> bytes:
        """A citation, in the block of its text."""
        citation = self._shown.pages.citation(event.annotation, self._shown.sealer)
        if citation is None or self._open != (event.item_id, event.content_index):
            return b""
        return self._delta({"type": "citations_delta", "citation": citation})

    def close(self, event: OutputItemDone) -> bytes:
        """An item is complete. The envelope of reasoning is its signature; without text it has only that."""
        item = event.item
        if isinstance(item, ServerCall):
            return self._server_result(item)
        if not isinstance(item, Reasoning):
            return self._end_block()
        envelope = item.encrypted_content
        if self._open is not None:
            signed = self._delta({"type": "signature_delta", "signature": envelope}) if envelope else b""
            return signed + self._end_block()
        if not envelope:
            return b""
        block = {"type": "redacted_thinking", "data": envelope}
        return self._begin(str(item.id), 0, block) + self._end_block()

    def end(self, event: ResponseCompleted | ResponseIncomplete) -> bytes:
        """The reason and the cost."""
        response = event.response
        delta: JsonObject = {"stop_reason": stop_reason(response, self._stop), "stop_sequence": self._stop}
        container = message_container(response)
        if not isinstance(container, UnsetType):
            delta["container"] = container
        members: JsonObject = {"delta": delta, "usage": message_usage(response)}
        downgrades = self._downgrades(response)
        if downgrades:
            members["downgrades"] = downgrades
        return self._end_block() + _event("message_delta", members) + _event("message_stop", {})

    def fail(self, event: ErrorEvent) -> bytes:
        """Something broke; nothing follows."""
        error = event.error
        wire = anthropic_error(self._status, error.message, error.param)
        return _event("error", {"error": wire, "request_id": self._request_id})

    def stay(self, _event: Keepalive) -> bytes:
        """A ping."""
        return _PING

    def _downgrades(self, response: Response) -> list[str]:
        own = [*self._own, *message_downgrades(response, self._shown)]
        engine = rendered(self._engine, NAMES.params)
        return [*rendered(own), *engine, *rendered(omitted_items(response.output, RENDERED))]

    def _find_pages(self, item: OutputItem) -> None:
        if isinstance(item, WebSearchCall):
            found = with_private_side(item, self._private)
            assert isinstance(found, WebSearchCall)
            self._shown.pages.add(found)

    def _use(self, item_id: str, members: JsonObject) -> bytes:
        """The complete input of a hosted call; its block ends."""
        if self._open != (item_id, 0):
            return b""
        piece = _encode(members).decode()
        return self._delta({"type": "input_json_delta", "partial_json": piece}) + self._end_block()

    def _server_result(self, item: ServerCall) -> bytes:
        """The input of a hosted call, unless it was sent before, and its result."""
        self._find_pages(item)
        call = with_private_side(item, self._private)
        used = self._use(str(item.id), use_input(call))
        block = result_block(call, self._shown.sealer)
        return used + self._begin(f"result {item.id}", 0, block) + self._end_block()

    def _thinking(self, item_id: str, text: str, part: tuple[Literal["raw", "summary"], int]) -> bytes:
        begun = b"" if self._open == (item_id, 0) else self._begin(item_id, 0, _THOUGHT)
        gap = BLANK_LINE if not begun and self._thought != part else ""
        self._thought = part
        if not self._shown.thoughts:
            return begun
        return begun + self._delta({"type": "thinking_delta", "thinking": gap + text})

    def _begin_text(self, event: OutputTextDelta | RefusalDelta) -> bytes:
        begun = self._begin(event.item_id, event.content_index, _TEXT)
        self._text_head = b'%b%d,"delta":{"type":"text_delta","text":' % (_DELTA, self._index)
        return begun

    def _begin(self, item_id: str, part: int, block: JsonObject) -> bytes:
        ended = self._end_block()
        self._index += 1
        self._open = (item_id, part)
        return ended + _event("content_block_start", {"index": self._index, "content_block": block})

    def _end_block(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return _event("content_block_stop", {"index": self._index})

    def _delta(self, delta: JsonObject) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": delta})


def _event(kind: str, members: JsonObject) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode({"type": kind, **members}))


_RENDER: Mapping[type[Event], Callable[[MessagesRenderer, Any], bytes]] = {
    ResponseCreated: MessagesRenderer.begin,
    RefusalDelta: MessagesRenderer.refuse,
    ReasoningTextDelta: MessagesRenderer.think,
    ReasoningSummaryTextDelta: MessagesRenderer.sum_up,
    OutputItemAdded: MessagesRenderer.add,
    FunctionCallArgumentsDelta: MessagesRenderer.argue,
    OutputItemDone: MessagesRenderer.close,
    OutputTextAnnotationAdded: MessagesRenderer.cite,
    CodeInterpreterCallCodeDone: MessagesRenderer.server_code,
    McpCallArgumentsDone: MessagesRenderer.server_arguments,
    ResponseCompleted: MessagesRenderer.end,
    ResponseIncomplete: MessagesRenderer.end,
    ErrorEvent: MessagesRenderer.fail,
    Keepalive: MessagesRenderer.stay,
}
