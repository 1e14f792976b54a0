"""From items to a system prompt and messages.

Rules of the dialect that items do not have: the conversation begins and ends with the user; consecutive items
of one role are one message; the outputs of calls begin the message after them, and every call has one; no
text is blank.
"""

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

from antiphon.backends.anthropic_messages.caching import hoisted
from antiphon.backends.anthropic_messages.content import blocks_of, text_block, texts_of
from antiphon.backends.anthropic_messages.models import Traits
from antiphon.backends.anthropic_messages.thinking import thinking_blocks
from antiphon.backends.placeholders import NO_OUTPUT, MessageForm, begin_and_end_with_user
from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from antiphon.protocol.stored_items import item_type
from antiphon.turn.context import TurnRequest
from antiphon.turn.provider_state import OpenedReasoning

_FORM = MessageForm("assistant", "content", text_block)
_NOT_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


class Conversation(NamedTuple):
    """The items in the form of the dialect."""

    system: list[JsonObject]
    messages: list[JsonObject]

    @property
    def thoughtful(self) -> bool:
        """Whether a thought is sent back."""
        return any(block["type"] in _THOUGHTS for message in self.messages for block in message["content"])

    @property
    def continues_without_thought(self) -> bool:
        """Whether the model continues after calls that did not begin with a thought."""
        if len(self.messages) < 2 or self.messages[-1]["content"][0]["type"] != "tool_result":
            return False
        return self.messages[-2]["content"][0]["type"] not in _THOUGHTS


@dataclass(slots=True)
class _Message:
    """Consecutive content of one role; with calls of tools, their outputs too."""

    role: Literal["user", "assistant", "system"]
    blocks: list[JsonObject] = field(default_factory=list[JsonObject])
    outputs: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])

    @property
    def empty(self) -> bool:
        """Whether it contains nothing that the API accepts on its own."""
        return all(block["type"] in _THOUGHTS for block in self.blocks)

    def answer(self, call_id: str, blocks: list[JsonObject]) -> bool:
        """Add the output of one of its calls; returns whether it is the first one. A later output is added to
        it."""
        result = self.outputs.get(call_id)
        first = result is None
        if result is None:
            result = self.outputs[call_id] = {"type": "tool_result", "tool_use_id": call_id}
        result |= hoisted(blocks)
        if blocks:
            result.setdefault("content", []).extend(blocks)
        return first


class _Callers(NamedTuple):
    """Calls with one id in one message, in the order in which they wait for outputs. The last one stays: it
    gets all further outputs."""

    message: _Message
    waiting: deque[str]

    def next(self) -> str:
        """The call that the next output belongs to."""
        return self.waiting.popleft() if len(self.waiting) > 1 else self.waiting[0]


def read_conversation(
    turn: TurnRequest, traits: Traits, origin: str, downgrades: Downgrades, *, thinking: bool
) -> Conversation:
    """The complete conversation. Thoughts are sent back only if `thinking`."""
    transcript = _Transcript(turn, traits, origin, downgrades, thinking=thinking)
    if turn.params.instructions:
        transcript.system.extend(texts_of(turn.params.instructions, "instructions"))
    for index, item in enumerate(turn.items):
        transcript.add(item, turn.param(index))
    return transcript.conversation()


class _Transcript:
    """The conversation so far."""

    def __init__(
        self, turn: TurnRequest, traits: Traits, origin: str, downgrades: Downgrades, *, thinking: bool
    ) -> None:
        self._turn = turn
        self._traits = traits
        self._origin = origin
        self._downgrades = downgrades
        self._thinking = thinking
        self._messages: list[_Message] = []
        self._callers: dict[str, _Callers] = {}
        self._ids: set[str] = set()
        self._numbers: dict[str, int] = {}
        """By the id of calls that share it, the number that the last of them got."""
        self.system: list[JsonObject] = []

    def conversation(self) -> Conversation:
        """The collected conversation."""
        messages: list[JsonObject] = []
        shown = [message for message in self._messages if not message.empty or message.outputs]
        for index, message in enumerate(shown):
            followed = index + 1 < len(shown) and shown[index + 1].role != "assistant"
            if message.role == "system":
                self._append_late_system(
                    messages, message.blocks, heeded=self._traits.late_system and not followed
                )
            else:
                _join(messages, message.role, message.blocks)
            results = self._results(message)
            if results:
                _join(messages, "user", results)
        begin_and_end_with_user(messages, self.system, _FORM, self._downgrades)
        return Conversation(self.system, messages)

    def add(self, item: Item, path: str) -> None:
        """One more item."""
        match item:
            case Message():
                self._message(item, f"{path}.content")
            case Reasoning():
                self._thinks(item)
            case FunctionCall():
                self._call(item)
            case FunctionCallOutput():
                self._output(item, path)
            case _:
                kind = item_type(item)
                message = f"This model cannot read an item of type '{kind}'. Remove it from 'input'."
                raise Unsupported(message, param=path, code="unsupported_item")

    def _message(self, item: Message, path: str) -> None:
        if item.role == "user":
            self._open_message("user").blocks += blocks_of(item.content, path, self._downgrades)
        elif item.role == "assistant":
            self._open_message("assistant").blocks += texts_of(item.content, path)
        elif self._messages:
            self._open_message("system").blocks += texts_of(item.content, path)
        else:
            self.system += texts_of(item.content, path)

    def _thinks(self, item: Reasoning) -> None:
        if not isinstance(item, OpenedReasoning) or not item.states_from(self._origin):
            self._downgrades.add(
                "input_omitted",
                "reasoning in the input is left out: this model's server did not make it",
                "input",
            )
        elif not self._thinking:
            self._downgrades.add(
                "input_omitted", "reasoning in the input is left out: thinking is off in this turn", "input"
            )
        elif blocks := thinking_blocks(item, self._origin, signed=self._traits.signs):
            self._open_message("assistant").blocks += blocks
        else:
            self._downgrades.add(
                "input_omitted",
                "reasoning in the input is left out: it is not as this model's server made it",
                "input",
            )

    def _call(self, item: FunctionCall) -> None:
        name = self._turn.flat_name(item.name, item.namespace)
        message, call_id = self._open_message("assistant"), self._new_id(item.call_id)
        message.blocks.append(
            {
                "type": "tool_use",
                "id": call_id,
                "name": _NOT_AN_ID.sub("_", name)[:128],
                "input": self._input(item.arguments),
            }
        )
        callers = self._callers.get(item.call_id)
        if callers is None or callers.message is not message:
            callers = self._callers[item.call_id] = _Callers(message, deque())
        callers.waiting.append(call_id)

    def _new_id(self, call_id: str) -> str:
        """An id of the form that the API takes, and that no other call has."""
        plain = _NOT_AN_ID.sub("_", call_id) or "call"
        made, number = plain, self._numbers.get(plain, 1)
        while made in self._ids:
            number += 1
            made = f"{plain}_{number}"
        self._numbers[plain] = number
        self._ids.add(made)
        return made

    def _input(self, arguments: str) -> JsonObject:
        """The arguments, which must be an object here."""
        try:
            return msgspec.json.decode(arguments or "{}", type=JsonObject)
        except (msgspec.DecodeError, RecursionError):
            self._downgrades.add(
                "input_rewritten",
                "arguments of a call that are not a JSON object are sent inside one",
                "input",
            )
            return {"arguments": arguments}

    def _output(self, item: FunctionCallOutput, path: str) -> None:
        if item.call_id not in self._callers:
            message = f"No tool call found for the output with call_id '{item.call_id}'."
            raise InvalidRequest(message, param=path, code="invalid_value")
        callers = self._callers[item.call_id]
        blocks = blocks_of(item.output, f"{path}.output", self._downgrades)  # pyright: ignore[reportArgumentType] -- its parts are parts of messages
        if not callers.message.answer(callers.next(), blocks):
            self._downgrades.add("input_rewritten", "several outputs of one call are sent as one", "input")

    def _open_message(self, role: Literal["user", "assistant", "system"]) -> _Message:
        """The message to extend: the last one, unless its role differs or outputs came in between."""
        last = self._messages[-1] if self._messages else None
        if last is None or last.role != role or last.outputs:
            last = _Message(role)
            self._messages.append(last)
        return last

    def _results(self, message: _Message) -> list[JsonObject]:
        """The outputs of its calls, in their order. The API rejects a conversation without one of them."""
        results: list[JsonObject] = []
        for block in message.blocks:
            if block["type"] != "tool_use":
                continue
            result = message.outputs.get(block["id"])
            if result is None:
                self._downgrades.add(
                    "input_rewritten", "calls without an output are sent with a placeholder", "input"
                )
                missing = [text_block(NO_OUTPUT)]
                result = {"type": "tool_result", "tool_use_id": block["id"], "content": missing}
            results.append(_plain(result))
        return results

    def _append_late_system(
        self, messages: list[JsonObject], blocks: list[JsonObject], *, heeded: bool
    ) -> None:
        """A system message in the course of the conversation: in its own role only right before the model."""
        if heeded and messages and messages[-1]["role"] == "user":
            messages.append({"role": "system", "content": blocks})
            return
        self._downgrades.add(
            "input_rewritten", "system messages after the beginning are sent as user messages", "input"
        )
        text = "\n\n".join(block["text"] for block in blocks)
        _join(messages, "user", [text_block(f"<system>\n{text}\n</system>")])


def _plain(result: JsonObject) -> JsonObject:
    """An output that is one text is sent as that."""
    content = result.get("content", ())
    if len(content) == 1 and content[0]["type"] == "text":
        return {**result, "content": content[0]["text"]}
    return result


def _join(messages: list[JsonObject], role: str, blocks: list[JsonObject]) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    elif blocks:
        messages.append({"role": role, "content": [*blocks]})
