"""What a command hears of an answer, whether it comes from this process or from a server.

Read from plain JSON with few demands: a foreign server may say more than we know, and that is fine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.errors import BackendBroken
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import TERMINAL_TYPES


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of the answer, or of a refusal."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Began:
    """A new part; what follows does not continue the text before it."""


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
class Ended:
    """The whole answer. `body` is the response object as it came."""

    body: JsonObject
    view: _Body

    @classmethod
    def of(cls, body: JsonObject) -> "Ended":
        """Read a response object."""
        try:
            return cls(body, msgspec.convert(body, _Body))
        except msgspec.ValidationError as error:
            raise BackendBroken(f"The answer is not a response object: {error}.") from None

    @property
    def text(self) -> str:
        """Everything that was said."""
        return "\n".join(
            part.text or part.refusal
            for item in self.view.output
            if item.type == "message"
            for part in item.content or ()
        )

    @property
    def failure(self) -> str | None:
        """Why it failed, if it did."""
        if self.view.status not in ("failed", "cancelled"):
            return None
        return (self.view.error and self.view.error.message) or f"The answer is {self.view.status}."

    @property
    def cut(self) -> str | None:
        """Why it stopped early, if it did."""
        if self.view.status != "incomplete":
            return None
        return self.view.incomplete_details.reason if self.view.incomplete_details else "unknown"

    @property
    def notes(self) -> Sequence[str]:
        """What of the question was emulated or left out."""
        return self.view.downgrades


Heard = Said | Thought | Began | Ended

_SAID = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHT = frozenset({"response.reasoning_text.delta", "response.reasoning_summary_text.delta"})
_BEGAN = frozenset({"response.content_part.added", "response.reasoning_summary_part.added"})


def hear(event: JsonObject) -> Heard | None:
    """What an event means here; None if nothing."""
    kind: Any = event.get("type")
    if kind in _SAID:
        return Said(str(event.get("delta", "")))
    if kind in _THOUGHT:
        return Thought(str(event.get("delta", "")))
    if kind in _BEGAN:
        return Began()
    if kind in TERMINAL_TYPES:
        return Ended.of(event.get("response") or {})
    return None
