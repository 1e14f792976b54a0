"""Translate items into a system instruction and contents.

The dialect has rules that items do not follow: the conversation begins and ends with the user; consecutive
items of one role are one content; the outputs of calls follow them directly, one for each; no text is blank;
the first call of a content has a thought signature.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

from antiphon.backends.gemini.content import parts_of, text_part, texts_of
from antiphon.backends.gemini.models import Traits
from antiphon.backends.gemini.signatures import NO_SIGNATURE, signed, signed_text
from antiphon.backends.gemini.tools import Names, wire_name
from antiphon.backends.placeholders import NO_OUTPUT, MessageForm, begin_and_end_with_user
from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from antiphon.protocol.stored_items import item_type
from antiphon.turn.context import TurnRequest
from antiphon.turn.provider_state import OpenedReasoning

_FORM = MessageForm("model", "parts", text_part)
_NOT_AS_MADE = "reasoning in the input is left out: it is not as this model's server made it"


class Conversation(NamedTuple):
    """The items in the form of the dialect."""

    system: list[JsonObject]
    contents: list[JsonObject]


@dataclass(slots=True)
class _Call:
    """A call with its response, and the media of its output that a response cannot contain."""

    call_id: str
    name: str
    part: JsonObject
    response: JsonObject | None = None
    media: list[JsonObject] = field(default_factory=list[JsonObject])


@dataclass(slots=True)
class _Message:
    """Consecutive content of one role; calls include their outputs."""

    role: Literal["user", "model", "system"]
    parts: list[JsonObject] = field(default_factory=list[JsonObject])
    calls: list[_Call] = field(default_factory=list[_Call])

    @property
    def answered(self) -> bool:
        """Whether a call has an output."""
        return any(call.response is not None for call in self.calls)

    @property
    def empty(self) -> bool:
        """Whether it contains nothing that the API accepts on its own."""
        return not any(part.get("text") or "text" not in part for part in self.parts if "thought" not in part)


class _LastText(NamedTuple):
    """The last text of the model, and its message."""

    message: _Message
    start: int
    text: str


def read_conversation(
    turn: TurnRequest, traits: Traits, names: Names, origin: str, downgrades: Downgrades
) -> Conversation:
    transcript = _Transcript(turn, traits, names, origin, downgrades)
    if turn.params.instructions:
        transcript.instruct([turn.params.instructions])
    for index, item in enumerate(turn.items):
        transcript.add(item, turn.param(index))
    return transcript.conversation()


class _Transcript:
    """Collects the messages of a conversation."""

    def __init__(
        self, turn: TurnRequest, traits: Traits, names: Names, origin: str, downgrades: Downgrades
    ) -> None:
        self._turn = turn
        self._traits = traits
        self._names = names
        self._origin = origin
        self._downgrades = downgrades
        self._system: list[JsonObject] = []
        self._messages: list[_Message] = []
        self._calls: dict[str, _Call] = {}
        self._ids: set[str] = set()
        self._signature: str | None = None
        """The signature of the next call."""
        self._next_states: list[JsonObject] = []
        """Signatures of the next text."""
        self._last_text: _LastText | None = None

    def conversation(self) -> Conversation:
        """The collected conversation."""
        contents: list[JsonObject] = []
        for message in self._messages:
            if message.role == "system":
                self._downgrades.add(
                    "input_rewritten",
                    "system messages after the beginning are sent as user messages",
                    "input",
                )
                text = "\n\n".join(part["text"] for part in message.parts)
                _join(contents, "user", [text_part(f"<system>\n{text}\n</system>")] if text else [])
            elif not message.empty:
                if message.calls and self._traits.signs:
                    self._sign_first(message.calls[0].part)
                _join(contents, message.role, message.parts)
                _join(contents, "user", self._responses(message))
        begin_and_end_with_user(contents, self._system, _FORM, self._downgrades)
        return Conversation(self._system, contents)

    def instruct(self, texts: list[str]) -> None:
        """Add texts to the system instruction."""
        self._system += [text_part(text) for text in texts if text.strip()]

    def add(self, item: Item, path: str) -> None:
        """Add an item."""
        match item:
            case Message() if item.role == "assistant":
                self._add_answer(texts_of(item.content, f"{path}.content"))
            case Message():
                self._add_input(item, f"{path}.content")
            case Reasoning():
                self._add_reasoning(item)
            case FunctionCall():
                self._call(item)
            case FunctionCallOutput():
                self._output(item, path)
            case _:
                kind = item_type(item)
                message = f"This model cannot read an item of type '{kind}'. Remove it from 'input'."
                raise Unsupported(message, param=path, code="unsupported_item")

    def _add_input(self, item: Message, path: str) -> None:
        self._forget()
        if item.role == "user":
            self._open_message("user").parts += parts_of(item.content, path, self._downgrades)
            return
        texts = texts_of(item.content, path)
        if self._messages:
            self._open_message("system").parts += [text_part(text) for text in texts if text.strip()]
        else:
            self.instruct(texts)

    def _add_answer(self, texts: list[str]) -> None:
        message, states = self._open_message("model"), self._next_states
        self._next_states = []
        start = len(message.parts)
        self._last_text = _LastText(message, start, "".join(texts))
        message.parts += [text_part(text) for text in texts if text.strip()]
        if states:
            self._sign(self._last_text, states)

    def _add_reasoning(self, item: Reasoning) -> None:
        states = item.states_from(self._origin) if isinstance(item, OpenedReasoning) else []
        if not states:
            self._downgrades.add(
                "input_omitted",
                "reasoning in the input is left out: it has no signature of this model's server",
                "input",
            )
            return
        after = [state for state in states if state["on"] == "said"]
        if after:
            message = self._open_message("model")
            self._sign(self._last_text or _LastText(message, len(message.parts), ""), after)
        self._last_text = None
        for state in states:
            if state["on"] == "call":
                self._signature = state["signature"]
            elif state["on"] == "next":
                self._next_states.append(state)
            elif state["on"] == "thought":
                part: JsonObject = {"text": state["text"], "thought": True}
                self._open_message("model").parts.append(signed(part, state["signature"]))

    def _sign(self, last: _LastText, states: list[JsonObject]) -> None:
        """Split the text into its original parts, with their signatures."""
        parts = signed_text(last.text, states)
        if parts is None:
            self._downgrades.add("input_omitted", _NOT_AS_MADE, "input")
        else:
            last.message.parts[last.start :] = parts

    def _call(self, item: FunctionCall) -> None:
        name = self._turn.flat_name(item.name, item.namespace)
        name = self._names.get(name) or wire_name(name)
        call: JsonObject = {"name": name, "args": self._arguments(item.arguments)}
        call_id = self._new_id(item.call_id)
        if self._traits.ids:
            call["id"] = call_id
        made = _Call(call_id, name, signed({"functionCall": call}, self._signature))
        message = self._open_message("model")
        message.parts.append(made.part)
        message.calls.append(made)
        self._calls[item.call_id] = made
        self._forget()

    def _new_id(self, call_id: str) -> str:
        """A unique id for a call."""
        made, number = call_id, 1
        while made in self._ids:
            number += 1
            made = f"{call_id}_{number}"
        self._ids.add(made)
        return made

    def _arguments(self, arguments: str) -> JsonObject:
        """The arguments as an object, which the API requires."""
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
        self._forget()
        call = self._calls.get(item.call_id)
        if call is None:
            message = f"No tool call found for the output with call_id '{item.call_id}'."
            raise InvalidRequest(message, param=path, code="invalid_value")
        parts = parts_of(item.output, f"{path}.output", self._downgrades)  # pyright: ignore[reportArgumentType] -- its parts are parts of messages
        text = item.output if isinstance(item.output, str) else "\n".join(_texts(parts))
        response = self._response(call, text)
        inside: list[JsonObject] = []
        call.media = []
        for part in parts:
            if "inlineData" in part and self._traits.media_in_outputs:
                inside.append(part)
            elif "text" not in part:
                self._downgrades.add(
                    "input_rewritten",
                    "images and files in an output are sent after it, not inside it",
                    "input",
                )
                call.media.append(part)
        if inside:
            response["parts"] = inside
        call.response = {"functionResponse": response}

    def _response(self, call: _Call, text: str) -> JsonObject:
        identity: JsonObject = {"id": call.call_id} if self._traits.ids else {}
        return {**identity, "name": call.name, "response": {"output": text}}

    def _responses(self, message: _Message) -> list[JsonObject]:
        """The outputs of its calls, in their order. The API rejects a conversation without one of them."""
        responses: list[JsonObject] = []
        for call in message.calls:
            if call.response is None:
                self._downgrades.add(
                    "input_rewritten", "calls without an output are sent with a placeholder", "input"
                )
                call.response = {"functionResponse": self._response(call, NO_OUTPUT)}
            responses.append(call.response)
        return responses + [part for call in message.calls for part in call.media]

    def _sign_first(self, part: JsonObject) -> None:
        """The API rejects calls without a signature; it documents a value for calls of other models."""
        if "thoughtSignature" not in part:
            self._downgrades.add(
                "input_rewritten",
                "a call without the signature of this model's server is sent as one of another's",
                "input",
            )
            part["thoughtSignature"] = NO_SIGNATURE

    def _forget(self) -> None:
        """Drop the signatures and the last text that were held for the next item."""
        self._signature = self._last_text = None
        self._next_states = []

    def _open_message(self, role: Literal["user", "model", "system"]) -> _Message:
        """The message to extend: the last one, unless its role differs or it has outputs."""
        last = self._messages[-1] if self._messages else None
        if last is None or last.role != role or last.answered:
            last = _Message(role)
            self._messages.append(last)
        return last


def _texts(parts: list[JsonObject]) -> list[str]:
    return [part["text"] for part in parts if "text" in part]


def _join(contents: list[JsonObject], role: str, parts: list[JsonObject]) -> None:
    if contents and contents[-1]["role"] == role:
        contents[-1]["parts"] += parts
    elif parts:
        contents.append({"role": role, "parts": [*parts]})
