"""Answers as the commands read and print them, from the service in this process or from a server.

Parsing is tolerant: another server may send members and events that this module does not know.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.cli.model_text import text_writer
from antiphon.cli.terminal import errors, output, printable, shorten, spinner
from antiphon.errors import BackendBroken
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import TERMINAL_TYPES

INCOMPLETE_REASONS = {
    "max_output_tokens": "the limit of output tokens",
    "content_filter": "the content filter",
}


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text, or of a refusal."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class PartStarted:
    """A new content part: the next delta does not continue the text before it."""


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A call of a tool, complete."""

    name: str
    arguments: str


class _Usage(Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0


class _Error(Struct, frozen=True):
    message: str = ""
    code: str | None = None


class _Incomplete(Struct, frozen=True):
    reason: str = "unknown"


class _Part(Struct, frozen=True):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(Struct, frozen=True):
    type: str = ""
    content: list[_Part] | None = None
    summary: list[_Part] | None = None


class _Body(Struct, frozen=True):
    id: str
    status: str = "completed"
    model: str = ""
    output: list[_Item] = []
    usage: _Usage | None = None
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None
    downgrades: list[str] = []


@dataclass(frozen=True, slots=True)
class Answer:
    """The complete answer. `body` is the response object as it was received."""

    body: JsonObject
    view: _Body

    @classmethod
    def of(cls, body: JsonObject) -> "Answer":
        """Parse a response object."""
        try:
            return cls(body, msgspec.convert(body, _Body))
        except msgspec.ValidationError as error:
            raise BackendBroken(f"The answer is not a response object: {error}.") from None

    @property
    def text(self) -> str:
        """The text of all messages."""
        return "\n".join(
            part.text or part.refusal
            for item in self.view.output
            if item.type == "message"
            for part in item.content or ()
        )

    @property
    def failure(self) -> str | None:
        """Why the response failed; None if it did not."""
        if self.view.status not in ("failed", "cancelled"):
            return None
        return (self.view.error and self.view.error.message) or f"The answer is {self.view.status}."

    @property
    def incomplete(self) -> str | None:
        """Why the response is incomplete; None if it is not."""
        if self.view.status != "incomplete":
            return None
        return self.view.incomplete_details.reason if self.view.incomplete_details else "unknown"

    @property
    def downgrades(self) -> Sequence[str]:
        """The downgrades of a response."""
        return self.view.downgrades


AnswerPart = TextDelta | ReasoningDelta | PartStarted | ToolCalled | Answer

_ENDING = "the answer was "
"""The beginning of a downgrade that explains why this answer ended early."""
_TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING_DELTAS = frozenset({"response.reasoning_text.delta", "response.reasoning_summary_text.delta"})
_PART_STARTS = frozenset({"response.content_part.added", "response.reasoning_summary_part.added"})


def read_event(event: JsonObject) -> AnswerPart | None:
    """The part of an answer that an event carries, if any."""
    kind: Any = event.get("type")
    if kind in _TEXT_DELTAS:
        return TextDelta(str(event.get("delta", "")))
    if kind in _REASONING_DELTAS:
        return ReasoningDelta(str(event.get("delta", "")))
    if kind in _PART_STARTS:
        return PartStarted()
    if kind == "response.output_item.done":
        return _read_call(event.get("item") or {})
    if kind in TERMINAL_TYPES:
        return Answer.of(event.get("response") or {})
    return None


def _read_call(item: JsonObject) -> ToolCalled | None:
    """The call that an item is, of any kind of tool."""
    kind = str(item.get("type", ""))
    if not kind.endswith("_call"):
        return None
    arguments: Any = item.get("arguments") or item.get("input") or item.get("action") or ""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCalled(str(item.get("name") or kind.removesuffix("_call")), text)


class AnswerPrinter:
    """Prints one answer as it arrives, and a spinner until it starts. Reasoning and tool calls are printed on
    a terminal only."""

    def __init__(self, model: str) -> None:
        self._out = output()
        self._terminal = self._out.is_terminal
        self._text = text_writer(self._out)
        self._waiting = ExitStack()
        self._waiting.enter_context(spinner(f"waiting for {model}"))

    def print(self, part: AnswerPart) -> None:
        match part:
            case TextDelta():
                self._waiting.close()
                self._text.write(part.text)
            case ReasoningDelta():
                if self._terminal:
                    self._waiting.close()
                    self._text.write(part.text, "reasoning")
            case ToolCalled():
                self._print_call(part)
            case PartStarted():
                self._text.end()
            case Answer():
                self.close()

    def close(self) -> None:
        """Stop the spinner and end the current line."""
        self._waiting.close()
        self._text.end()

    def _print_call(self, call: ToolCalled) -> None:
        self.close()
        if self._terminal:
            line = printable(shorten(f"{call.name} {call.arguments}"))
            self._out.print(f"→ {line}", style="cyan dim", markup=False, soft_wrap=True)


async def print_stream(parts: AsyncGenerator[AnswerPart, None], model: str) -> Answer:
    """Print the parts of an answer as they arrive, and return the answer."""
    printer = AnswerPrinter(model)
    answer: Answer | None = None
    try:
        async with aclosing(parts):
            async for part in parts:
                printer.print(part)
                if isinstance(part, Answer):
                    answer = part
    finally:
        printer.close()
    if answer is None:
        raise BackendBroken("The stream ended without a terminal event.")
    return answer


def print_notes(answer: Answer, known: Collection[str] = ()) -> None:
    """Print on standard error the downgrades that are not known yet, and why the answer is incomplete."""
    console = errors()
    endings = [note for note in answer.downgrades if note.startswith(_ENDING)]
    for note in answer.downgrades:
        if note not in known or note in endings:
            console.print(f"Note: {note}", style="yellow", markup=False, soft_wrap=True)
    if answer.incomplete and not endings:
        reason = INCOMPLETE_REASONS.get(answer.incomplete, answer.incomplete)
        console.print(f"The answer was cut off by {reason}.", style="yellow", markup=False, soft_wrap=True)
