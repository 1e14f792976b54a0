"""Translate the messages of one turn into chunks. Sans-IO.

A turn is one or more calls of the model, with tools between them. Codex runs its own tools, and requests the
output of the client's. When a call of the model has ended and codex has requested all of the client's tools
in it, nothing more arrives until their outputs are sent: the reader is `waiting`.
"""

from collections.abc import Callable, Mapping

from msgspec import Raw, Struct

from antiphon.backends.codex_app_server.errors import cut_off, turn_failure
from antiphon.backends.codex_app_server.repeated_text import RepeatedText, answers_differ
from antiphon.backends.codex_app_server.rpc import decode
from antiphon.backends.codex_app_server.wire import (
    Delta,
    ItemCompleted,
    ModelCallCompleted,
    ModelItemCompleted,
    Tokens,
    ToolCall,
    TurnCompleted,
    TurnTrouble,
)
from antiphon.errors import BackendBroken, BackendError, BackendRefused
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Finished,
    FinishReason,
    ReasoningDelta,
    ReasoningSummaryDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnTool

_PLAIN = (None, "functions")
"""The namespace of tools that have none, as codex shows it to its models; all others are codex's own."""


class Call(Struct, frozen=True):
    """A call of a client's tool as the model wrote it, with codex's name of the tool."""

    call_id: str
    name: str
    arguments: str


class StreamReader:
    """Reads the messages of codex about the turn `turn_id`. `tools` are the client's, by codex's names."""

    def __init__(self, turn_id: str, tools: Mapping[str, TurnTool]) -> None:
        self.ended = False
        self.waiting = False
        self.broken_off = False
        self.error: BackendError | None = None
        self._turn_id = turn_id
        self._tools = tools
        self._calls: dict[str, Call] = {}
        self._asked: set[str] = set()
        self._model_done = False
        self._response_text = RepeatedText()
        self._thoughts: set[str] = set()
        self._parts: dict[tuple[str, int], int] = {}
        self._cost: Tokens | None = None
        self._readers: dict[str, Callable[[Raw], list[Chunk]]] = {
            "error": self._trouble,
            "item/agentMessage/delta": self._text,
            "item/reasoning/summaryTextDelta": self._summary,
            "item/reasoning/textDelta": self._thought,
            "item/completed": self._item,
            "rawResponseItem/completed": self._model_item,
            "rawResponse/completed": self._model_call,
            "turn/completed": self._completed,
        }

    @property
    def over(self) -> bool:
        """Whether nothing more is to be read."""
        return self.ended or self.broken_off or self.error is not None

    @property
    def text(self) -> str:
        """The emitted text of this response."""
        return self._response_text.text

    @property
    def calls(self) -> list[Call]:
        """The calls of this response whose outputs codex waits for, or will."""
        return list(self._calls.values())

    @property
    def was_asked(self) -> bool:
        """Whether codex waits for the output of a call already."""
        return bool(self._asked)

    def notified(self, method: str, params: Raw) -> list[Chunk]:
        """The chunks of a notification; most have none."""
        read = self._readers.get(method)
        if read is None or self.over:
            return []
        try:
            return read(params)
        except BackendRefused as error:
            self.error = error
            return []

    def asked(self, params: Raw) -> list[Chunk]:
        """Codex asks for a tool."""
        request = decode(params, ToolCall)
        if request.call_id not in self._calls:
            raise BackendBroken("codex asked for a tool without showing the call. Use codex 0.166 or newer.")
        self._asked.add(request.call_id)
        return self._all_asked()

    def resume(self) -> None:
        """The outputs of all calls were given; from here on it is another response, with its own cost."""
        self.waiting = False
        self._calls.clear()
        self._asked.clear()
        self._cost = None
        self._response_text = RepeatedText()

    def break_off(self) -> list[Chunk]:
        """The model has sent nothing more after its calls: the response ends with them.

        When its stream breaks, codex reports it only after it got the outputs of the calls before, for which
        it asked already: waiting for the end of the stream would be waiting for ever.
        """
        if self._response_text.owing:
            self.error = answers_differ()
            return []
        self.broken_off = True
        return self._emit_calls()

    def lost(self, error: BackendError) -> None:
        """The child has ended."""
        if not self.over:
            self.error = error

    def _trouble(self, params: Raw) -> list[Chunk]:
        trouble = decode(params, TurnTrouble)
        if trouble.will_retry and trouble.turn_id == self._turn_id:
            self._response_text.interrupted()
        return []

    def _text(self, params: Raw) -> list[Chunk]:
        delta = decode(params, Delta)
        return _text_chunks(self._response_text.delta(delta.item_id, delta.delta))

    def _summary(self, params: Raw) -> list[Chunk]:
        delta = decode(params, Delta)
        self._thoughts.add(delta.item_id)
        return self._think(ReasoningSummaryDelta(delta.delta, self._part(delta.item_id, delta.summary_index)))

    def _thought(self, params: Raw) -> list[Chunk]:
        delta = decode(params, Delta)
        self._thoughts.add(delta.item_id)
        return self._think(ReasoningDelta(delta.delta))

    def _think(self, *thoughts: Chunk) -> list[Chunk]:
        """Reasoning before a repeated message would split it in two, so it is omitted."""
        return [] if self._response_text.repeating else list(thoughts)

    def _part(self, item_id: str, index: int) -> int:
        """The summary parts of all reasoning are counted through: those of two items are not one."""
        return self._parts.setdefault((item_id, index), len(self._parts))

    def _item(self, params: Raw) -> list[Chunk]:
        """Emit the part of a complete item that its deltas did not contain."""
        item = decode(params, ItemCompleted).item
        if item.type == "agentMessage":
            return _text_chunks(self._response_text.completed(item.id, item.text or ""))
        if item.type == "reasoning" and item.id not in self._thoughts:
            parts = [self._part(item.id, index) for index in range(len(item.summary))]
            return self._think(*map(ReasoningSummaryDelta, item.summary, parts))
        return []

    def _model_item(self, params: Raw) -> list[Chunk]:
        done = decode(params, ModelItemCompleted)
        item = done.item
        # The injected history is reported as well, as that of another turn.
        if done.turn_id != self._turn_id or item.call_id is None:
            return []
        if item.type == "function_call" and item.namespace in _PLAIN and (name := item.name) in self._tools:
            self._calls[item.call_id] = Call(item.call_id, name, item.arguments or "{}")
            self._model_done = False
        elif item.type == "function_call_output":
            # Codex answered a call by itself: its arguments were no JSON, for example.
            self._calls.pop(item.call_id, None)
            self._asked.discard(item.call_id)
        return self._all_asked()

    def _model_call(self, params: Raw) -> list[Chunk]:
        done = decode(params, ModelCallCompleted)
        if done.turn_id != self._turn_id:
            return []
        self._cost = added(self._cost, done.usage)
        self._model_done = True
        self._response_text.settled()
        return self._all_asked()

    def _all_asked(self) -> list[Chunk]:
        if not self._model_done or not self._calls or self._asked != self._calls.keys():
            return []
        self.waiting = True
        return self._emit_calls()

    def _emit_calls(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        for index, call in enumerate(self._calls.values()):
            chunks += [
                CallStarted(index, call.call_id, self._tools[call.name].name),
                CallDelta(index, call.arguments),
                CallFinished(index),
            ]
        return [*chunks, *self._end("tool_calls")]

    def _completed(self, params: Raw) -> list[Chunk]:
        turn = decode(params, TurnCompleted).turn
        self.ended = True
        if turn.status == "completed":
            return self._end("stop")
        if turn.error is None:
            self.error = BackendBroken(f"codex ended the turn as '{turn.status}' without a reason.")
            return []
        reason = cut_off(turn.error)
        if reason is not None:
            return self._end(reason)
        self.error = turn_failure(turn.error)
        return []

    def _end(self, reason: FinishReason) -> list[Chunk]:
        usage = [] if self._cost is None else [UsageReported(usage_of(self._cost))]
        return [*usage, Finished(reason)]


def _text_chunks(text: str) -> list[Chunk]:
    return [TextDelta(text)] if text else []


def added(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    """The usage of two calls, as far as it was reported."""
    if one is None or other is None:
        return one or other
    return Tokens(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        total_tokens=one.total_tokens + other.total_tokens,
        cached_input_tokens=one.cached_input_tokens + other.cached_input_tokens,
        reasoning_output_tokens=one.reasoning_output_tokens + other.reasoning_output_tokens,
    )


def usage_of(cost: Tokens) -> Usage:
    """The usage as a `Usage`."""
    return Usage(
        input_tokens=cost.input_tokens,
        input_tokens_details=InputTokensDetails(cost.cached_input_tokens),
        output_tokens=cost.output_tokens,
        output_tokens_details=OutputTokensDetails(cost.reasoning_output_tokens),
        total_tokens=cost.total_tokens,
    )
