"""From the messages about one turn to chunks. Sans-IO.

A turn is one or more calls of the model; tools run between them. Codex runs its own tools itself, and asks us
for those of the client. When a call of the model has ended and codex has asked for all tools in it that are
the client's, nothing more can come until their outputs do: the reader is `waiting`.
"""

from collections.abc import Callable, Collection

from msgspec import Raw

from antiphon.backends.codex_app_server.errors import cut_off, turn_failure
from antiphon.backends.codex_app_server.rpc import decode
from antiphon.backends.codex_app_server.wire import (
    Delta,
    ItemCompleted,
    ModelCallCompleted,
    ModelItemCompleted,
    Tokens,
    ToolCall,
    TurnCompleted,
)
from antiphon.errors import BackendBroken, BackendError
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


class _Call:
    """A call of a client's tool, as the model wrote it."""

    def __init__(self, name: str, arguments: str) -> None:
        self.name = name
        self.arguments = arguments
        self.asked = False


class TurnReader:
    """Reads what codex says about the turn `turn_id`. `tools` are the client's."""

    def __init__(self, turn_id: str, tools: Collection[str]) -> None:
        self.over = False
        self.waiting = False
        self.error: BackendError | None = None
        self._turn_id = turn_id
        self._tools = frozenset(tools)
        self._calls: dict[str, _Call] = {}
        self._model_done = False
        self._told: set[str] = set()
        self._speaking = ""
        self._cost: Tokens | None = None
        self._readers: dict[str, Callable[[Raw], list[Chunk]]] = {
            "item/agentMessage/delta": self._text,
            "item/reasoning/summaryTextDelta": self._summary,
            "item/reasoning/textDelta": self._thought,
            "item/completed": self._item,
            "rawResponseItem/completed": self._model_item,
            "rawResponse/completed": self._model_call,
            "turn/completed": self._completed,
        }

    @property
    def open_calls(self) -> frozenset[str]:
        """The ids of the calls whose outputs codex waits for."""
        return frozenset(self._calls)

    def notified(self, method: str, params: Raw) -> list[Chunk]:
        """What a notification says; most say nothing."""
        read = self._readers.get(method)
        return [] if read is None or self.over else read(params)

    def asked(self, params: Raw) -> list[Chunk]:
        """Codex asks for a tool."""
        request = decode(params, ToolCall)
        call = self._calls.get(request.call_id)
        if call is None:
            raise BackendBroken("codex asked for a tool without showing the call. Use codex 0.166 or newer.")
        call.asked = True
        return self._all_asked()

    def resume(self) -> None:
        """The outputs of all calls were given; from here on it is another response, with its own cost."""
        self.waiting = False
        self._calls.clear()
        self._cost = None
        self._speaking = ""

    def lost(self, error: BackendError) -> None:
        """Nothing more will be said."""
        if not self.over:
            self.over, self.error = True, error

    def _text(self, params: Raw) -> list[Chunk]:
        delta = decode(params, Delta)
        self._told.add(delta.item_id)
        return self._say(delta.item_id, delta.delta)

    def _say(self, item_id: str, text: str) -> list[Chunk]:
        """Several messages of codex are one of ours: a blank line stands between them."""
        another = self._speaking not in ("", item_id)
        self._speaking = item_id
        return [TextDelta(f"\n\n{text}" if another else text)]

    def _summary(self, params: Raw) -> list[Chunk]:
        delta = decode(params, Delta)
        self._told.add(delta.item_id)
        return [ReasoningSummaryDelta(delta.delta, delta.summary_index)]

    def _thought(self, params: Raw) -> list[Chunk]:
        delta = decode(params, Delta)
        self._told.add(delta.item_id)
        return [ReasoningDelta(delta.delta)]

    def _item(self, params: Raw) -> list[Chunk]:
        """A whole item says only what its deltas did not."""
        item = decode(params, ItemCompleted).item
        if item.id in self._told:
            return []
        if item.type == "agentMessage" and item.text:
            return self._say(item.id, item.text)
        if item.type == "reasoning":
            return [ReasoningSummaryDelta(text, part) for part, text in enumerate(item.summary)]
        return []

    def _model_item(self, params: Raw) -> list[Chunk]:
        done = decode(params, ModelItemCompleted)
        item = done.item
        # The history that we gave is told as well, as that of another turn.
        if done.turn_id != self._turn_id or item.call_id is None:
            return []
        if item.type == "function_call" and item.name in self._tools:
            self._calls[item.call_id] = _Call(item.name or "", item.arguments or "")
            self._model_done = False
        elif item.type == "function_call_output":
            # Codex answered a call by itself: its arguments were no JSON, for example.
            self._calls.pop(item.call_id, None)
        return self._all_asked()

    def _model_call(self, params: Raw) -> list[Chunk]:
        done = decode(params, ModelCallCompleted)
        if done.turn_id != self._turn_id:
            return []
        self._cost = _sum(self._cost, done.usage)
        self._model_done = True
        return self._all_asked()

    def _all_asked(self) -> list[Chunk]:
        calls = self._calls
        if not self._model_done or not calls or not all(call.asked for call in calls.values()):
            return []
        self.waiting = True
        chunks: list[Chunk] = []
        for index, (call_id, call) in enumerate(calls.items()):
            chunks += [
                CallStarted(index, call_id, call.name),
                CallDelta(index, call.arguments or "{}"),
                CallFinished(index),
            ]
        return [*chunks, *self._end("tool_calls")]

    def _completed(self, params: Raw) -> list[Chunk]:
        turn = decode(params, TurnCompleted).turn
        self.over = True
        if turn.status == "completed":
            return self._end("stop")
        if turn.error is None:
            self.error = BackendBroken(f"codex ended the turn as '{turn.status}' and did not say why.")
            return []
        reason = cut_off(turn.error)
        if reason is not None:
            return self._end(reason)
        self.error = turn_failure(turn.error)
        return []

    def _end(self, reason: FinishReason) -> list[Chunk]:
        usage = [] if self._cost is None else [UsageReported(_usage(self._cost))]
        return [*usage, Finished(reason)]


def _sum(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    if one is None or other is None:
        return one or other
    return Tokens(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        total_tokens=one.total_tokens + other.total_tokens,
        cached_input_tokens=one.cached_input_tokens + other.cached_input_tokens,
        reasoning_output_tokens=one.reasoning_output_tokens + other.reasoning_output_tokens,
    )


def _usage(cost: Tokens) -> Usage:
    return Usage(
        input_tokens=cost.input_tokens,
        input_tokens_details=InputTokensDetails(cost.cached_input_tokens),
        output_tokens=cost.output_tokens,
        output_tokens_details=OutputTokensDetails(cost.reasoning_output_tokens),
        total_tokens=cost.total_tokens,
    )
