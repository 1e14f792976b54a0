"""The events of a run as chunks of a chat completion.

Text deltas, the hot path, are cached bytes around the escaped text, as in `antiphon.protocol.sse`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from antiphon.caller import Caller
from antiphon.protocol.content import JsonObject, Logprob
from antiphon.protocol.downgrade import Downgrade, rendered
from antiphon.protocol.events import (
    CustomToolCallInputDelta,
    ErrorEvent,
    Event,
    FunctionCallArgumentsDelta,
    Keepalive,
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
from antiphon.protocol.items import CustomToolCall, FunctionCall, Message
from antiphon.protocol.profile import DONE
from antiphon.protocol.response import Response
from antiphon.protocol.sse import COMMENT
from antiphon.server.compat.api import CompatRequest, Renderer
from antiphon.server.compat.chat_completions.answer import (
    RENDERED,
    Logprobs,
    chat_annotation,
    chat_completion,
    chat_downgrades,
    chat_finish,
    chat_usage,
    completion_id,
    joined_length,
)
from antiphon.server.compat.chat_completions.request import NAMES, read_chat
from antiphon.server.compat.content import BLANK_LINE, omitted_items

_encode = msgspec.json.encode


class ChatCompletionsApi:
    """Reads chat requests."""

    def read(self, body: bytes, caller: Caller) -> tuple[CompatRequest, Renderer]:
        """The request, and the renderer of its answer."""
        question, wire = read_chat(body)
        wants_usage = wire.stream_options is not None and wire.stream_options.include_usage is True
        return question, ChatRenderer(question.downgrades, usage=wants_usage, legacy=bool(wire.functions))


class ChatRenderer:
    """Renders one answer. `usage`: the stream ends with it; `legacy`: calls become `function_call`."""

    def __init__(self, own: Sequence[Downgrade], *, usage: bool = False, legacy: bool = False) -> None:
        self._own = own
        self._engine: Sequence[Downgrade] = ()
        self._wants_usage = usage
        self._legacy = legacy
        self._head = self._tail = self._text_head = b""
        self._item_id = ""
        self._offset = 0
        """Characters of the content before the open message."""
        self._thought: tuple[str, str, int] | None = None
        self._spoken: set[str] = set()
        self._calls: dict[str, int] = {}

    def render_response(self, response: Response, stop: str | None) -> bytes:
        """The complete JSON answer."""
        return chat_completion(response, legacy=self._legacy, downgrades=self._downgrades(response))

    def downgraded(self, downgrades: Sequence[Downgrade]) -> None:
        """The end lists them."""
        self._engine = downgrades

    def stopped(self, stop: str) -> None:
        """This API has no member for the sequence."""

    def private_sides(self, sides: Mapping[str, str]) -> None:
        """Calls of hosted tools are not shown here."""

    def failed(self, status: int, request_id: str) -> None:
        """The error object has no member for either."""

    def render(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events, ready for one write."""
        pieces: list[bytes] = []
        for event in events:
            if type(event) is OutputTextDelta and not event.logprobs:
                if event.item_id is not self._item_id:
                    pieces.append(self._separated("content", event.item_id))
                    self._item_id = event.item_id
                pieces.append(self._text_head + _encode(event.delta) + self._tail)
            else:
                render = _RENDER.get(type(event))
                if render is not None:
                    pieces.append(render(self, event))
        return b"".join(pieces)

    def begin(self, event: ResponseCreated) -> bytes:
        """The first chunk has the role."""
        response = event.response
        common = {
            "id": completion_id(response),
            "object": "chat.completion.chunk",
            "created": response.created_at,
            "model": response.model,
            "service_tier": response.service_tier,
            "system_fingerprint": None,
        }
        self._head = b"data: " + _encode(common)[:-1] + b',"choices":['
        usage = b',"usage":null' if self._wants_usage else b""
        self._tail = b'},"logprobs":null,"finish_reason":null}]%b}\n\n' % usage
        self._text_head = self._head + b'{"index":0,"delta":{"content":'
        return self._delta({"role": "assistant", "content": "", "refusal": None})

    def likely(self, event: OutputTextDelta) -> bytes:
        """Text with logprobs."""
        gap = b""
        if event.item_id is not self._item_id:
            gap = self._separated("content", event.item_id)
            self._item_id = event.item_id
        return gap + self._delta({"content": event.delta}, event.logprobs)

    def refuse(self, event: RefusalDelta) -> bytes:
        """A piece of a refusal."""
        return self._separated("refusal", event.item_id) + self._delta({"refusal": event.delta})

    def think(self, event: ReasoningTextDelta) -> bytes:
        """A piece of raw reasoning."""
        return self._thinking(event.delta, (event.item_id, "raw", event.content_index))

    def sum_up(self, event: ReasoningSummaryTextDelta) -> bytes:
        """A piece of a summary: all that some models show of their reasoning."""
        return self._thinking(event.delta, (event.item_id, "summary", event.summary_index))

    def add(self, event: OutputItemAdded) -> bytes:
        """A call begins; other items begin with their first delta."""
        item = event.item
        if not isinstance(item, FunctionCall | CustomToolCall) or item.id in self._calls:
            return b""
        assert isinstance(item.id, str)
        index = self._calls[item.id] = len(self._calls)
        if self._legacy:
            called = {"name": item.name, "arguments": ""}
            return self._delta({"function_call": called}) if index == 0 else b""
        call: JsonObject = {"index": index, "id": item.call_id}
        if isinstance(item, CustomToolCall):
            call |= {"type": "custom", "custom": {"name": item.name, "input": ""}}
        else:
            call |= {"type": "function", "function": {"name": item.name, "arguments": ""}}
        return self._delta({"tool_calls": [call]})

    def argue(self, event: FunctionCallArgumentsDelta) -> bytes:
        """A piece of a call's arguments."""
        index, piece = self._calls[event.item_id], _encode(event.delta)
        if not self._legacy:
            call = b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]' % (index, piece)
        elif index == 0:
            call = b'{"function_call":{"arguments":%b}' % piece
        else:
            return b""
        return b'%b{"index":0,"delta":%b%b' % (self._head, call, self._tail)

    def put_in(self, event: CustomToolCallInputDelta) -> bytes:
        """A piece of a custom call's input."""
        call = {"index": self._calls[event.item_id], "custom": {"input": event.delta}}
        return self._delta({"tool_calls": [call]})

    def cite(self, event: OutputTextAnnotationAdded) -> bytes:
        """A citation."""
        annotation = chat_annotation(event.annotation, self._offset)
        return b"" if annotation is None else self._delta({"annotations": [annotation]})

    def close(self, event: OutputItemDone) -> bytes:
        """An item is complete. Clients see that by what follows."""
        if isinstance(event.item, Message):
            self._offset += joined_length(event.item)
        return b""

    def end(self, event: ResponseCompleted | ResponseIncomplete) -> bytes:
        """The finish reason, the usage if it was requested and is known, and `[DONE]`."""
        response, legacy = event.response, self._legacy
        reason = chat_finish(response, legacy=legacy)
        choice: JsonObject = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}
        members = b',"usage":null' if self._wants_usage else b""
        downgrades = self._downgrades(response)
        if downgrades:
            members += b',"downgrades":' + _encode(downgrades)
        last = b"%b%b]%b}\n\n" % (self._head, _encode(choice), members)
        usage = chat_usage(response.usage)
        if self._wants_usage and usage is not None:
            last += b'%b],"usage":%b}\n\n' % (self._head, _encode(usage))
        return last + DONE

    def fail(self, event: ErrorEvent) -> bytes:
        """The error object, without `[DONE]`."""
        return b'data: {"error":%b}\n\n' % _encode(event.error)

    def stay(self, _event: Keepalive) -> bytes:
        """A comment."""
        return COMMENT

    def _downgrades(self, response: Response) -> list[str]:
        own = [*self._own, *chat_downgrades(response, legacy=self._legacy)]
        engine = rendered(self._engine, NAMES.params)
        return [*rendered(own), *engine, *rendered(omitted_items(response.output, RENDERED))]

    def _delta(self, delta: JsonObject, logprobs: list[Logprob] | None = None) -> bytes:
        if not logprobs:
            return b'%b{"index":0,"delta":%b%b' % (self._head, _encode(delta)[:-1], self._tail)
        known = b'},"logprobs":%b,' % _encode(Logprobs(logprobs))
        tail = self._tail.replace(b'},"logprobs":null,', known, 1)
        return b'%b{"index":0,"delta":%b%b' % (self._head, _encode(delta)[:-1], tail)

    def _separated(self, member: str, item_id: str) -> bytes:
        """The gap between the texts of two items in the same member."""
        place = f"{member} {item_id}"
        if place in self._spoken:
            return b""
        first = not any(spoken.startswith(member) for spoken in self._spoken)
        self._spoken.add(place)
        return b"" if first else self._delta({member: BLANK_LINE})

    def _thinking(self, text: str, place: tuple[str, str, int]) -> bytes:
        gap = BLANK_LINE if self._thought is not None and self._thought != place else ""
        self._thought = place
        return self._delta({"reasoning_content": gap + text, "reasoning": gap + text})


_RENDER: Mapping[type[Event], Callable[[ChatRenderer, Any], bytes]] = {
    ResponseCreated: ChatRenderer.begin,
    OutputTextDelta: ChatRenderer.likely,
    RefusalDelta: ChatRenderer.refuse,
    ReasoningTextDelta: ChatRenderer.think,
    ReasoningSummaryTextDelta: ChatRenderer.sum_up,
    OutputItemAdded: ChatRenderer.add,
    FunctionCallArgumentsDelta: ChatRenderer.argue,
    CustomToolCallInputDelta: ChatRenderer.put_in,
    OutputTextAnnotationAdded: ChatRenderer.cite,
    OutputItemDone: ChatRenderer.close,
    ResponseCompleted: ChatRenderer.end,
    ResponseIncomplete: ChatRenderer.end,
    ErrorEvent: ChatRenderer.fail,
    Keepalive: ChatRenderer.stay,
}
