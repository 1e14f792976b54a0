"""Whether an answer is what the request wants for certain: a call, JSON of a schema, input by a grammar.

What nothing holds the model to is held back here until it is known to be right, and then said as if it had
come so. What is wrong is not said at all: the verdict tells why, and the model can be asked again.

Rule 1: what might still turn out wrong waits, and everything behind it waits too, so that the order stays.
Rule 2: reasoning, and calls that only had to be made, are said at once.
Rule 3: an answer that was cut short, or broke off, is not judged: it is said as it is.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from antiphon.protocol.grammar import compile_grammar
from antiphon.protocol.ids import Clock
from antiphon.protocol.json_answer import Fault, read_json_answer
from antiphon.protocol.requests import TextFormat
from antiphon.protocol.response import Usage
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest
from antiphon.turn.demands import Demand, HeldCall, Unmet
from antiphon.turn.guises.reading import read_text

PATIENCE = 0.25
"""Seconds that grammars may take in all to judge one answer: everybody else waits meanwhile."""


class Ending(Struct, frozen=True):
    """What is left to say at the end of a turn; or why to ask again instead, and what it cost."""

    chunks: Sequence[Chunk] = ()
    unmet: Unmet | None = None
    spent: Usage | None = None


class Checker:
    """Checks one turn."""

    def __init__(self, turn: TurnRequest, demands: frozenset[Demand], clock: Clock) -> None:
        self._form = turn.params.text.format if turn.params.text is not None else None
        self._tools = {tool.name: tool for tool in turn.tools}
        self._forbidden = turn.forbidden
        self._demands = demands
        self._clock = clock
        self._phase: Literal["waiting", "peeking", "open"] = "open"
        """Text waits for the end; or for its first character, which tells prose from JSON; or for nothing."""
        if "tool_choice" in demands or "format" in demands:
            self._phase = "waiting"
        elif wants_json(turn):
            self._phase = "peeking"
        self._held: list[Chunk] = []
        self._calls: dict[int, HeldCall] = {}
        self._called = False
        self._others = False
        self._said = False
        self._forbidden_call = ""
        self._usage: UsageReported | None = None
        self._finished: Finished | None = None

    def feed(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """What can be said of these."""
        told: list[Chunk] = []
        for chunk in chunks:
            self._take(chunk, told)
        return told

    def end(self) -> Ending:
        """The turn is over."""
        finished = self._finished
        if finished is None:
            return Ending(self._release())
        unmet = self._judge() if finished.reason in ("stop", "tool_calls") else None
        usage = () if self._usage is None else (self._usage,)
        last = [*self._release(), *usage, finished]
        return Ending(last, unmet, self._usage.usage if self._usage and unmet else None)

    def _take(self, chunk: Chunk, told: list[Chunk]) -> None:
        match chunk:
            case TextDelta():
                self._text(chunk, told)
            case RefusalDelta():
                self._phase = "open"  # whatever was demanded: the model will not
                told += [*self._release(), chunk]
            case CallStarted():
                self._call(chunk, told)
            case CallDelta():
                if chunk.index in self._calls:
                    self._calls[chunk.index].pieces.append(chunk.arguments)
                self._pass(chunk, told)
            case UsageReported():
                self._usage = chunk
            case Finished():
                self._finished = chunk
            case Failed():
                self._finished = None
                told += [*self._release(), *([self._usage] if self._usage else []), chunk]
            case _:
                self._pass(chunk, told)

    def _pass(self, chunk: Chunk, told: list[Chunk]) -> None:
        """Say it, unless something before it waits."""
        if self._held:
            self._held.append(chunk)
        else:
            self._said = self._said or isinstance(chunk, TextDelta | CallDelta | CallFinished)
            told.append(chunk)

    def _text(self, chunk: TextDelta, told: list[Chunk]) -> None:
        if self._phase == "open":
            self._pass(chunk, told)
            return
        self._held.append(chunk)
        if self._phase == "peeking" and (begun := self._held_text().lstrip()):
            self._phase = "open" if begun[0] in "{[" else "waiting"
            if self._phase == "open":
                told += self._release()

    def _call(self, chunk: CallStarted, told: list[Chunk]) -> None:
        tool = self._tools.get(chunk.name)
        if chunk.name in self._forbidden and not self._said and not self._called:
            self._forbidden_call = chunk.name
            self._held.append(chunk)
        elif "grammar" in self._demands and tool is not None and tool.grammar is not None:
            self._calls[chunk.index] = HeldCall(chunk.call_id, tool)
            self._held.append(chunk)
        else:
            if not self._calls and not self._forbidden_call:
                self._phase = "open"  # the text before a call is not the answer
                told += self._release()
            self._others = True
            self._pass(chunk, told)
        self._called = True

    def _release(self) -> list[Chunk]:
        """What waited may be said."""
        held, self._held = self._held, []
        self._said = self._said or bool(held)
        return held

    def _held_text(self) -> str:
        return "".join(chunk.text for chunk in self._held if isinstance(chunk, TextDelta))

    def _judge(self) -> Unmet | None:
        """What is wrong with an answer that ran to its end."""
        if self._forbidden_call:
            return Unmet("tool_choice", f"the tool '{self._forbidden_call}' must not be called now")
        if "tool_choice" in self._demands and not self._called and self._phase == "waiting":
            return Unmet("tool_choice", "no tool was called", self._held_text())
        if self._phase == "waiting" and not self._called and self._form is not None:
            return self._judge_json(self._form)
        end = self._clock() + PATIENCE
        faulty = [call for call in self._calls.values() if _fault(call, lambda: self._clock() > end)]
        if faulty:
            alone = len(faulty) == len(self._calls) == 1 and not self._others
            return Unmet("grammar", faulty[0].fault, calls=tuple(faulty), alone=alone)
        return None

    def _judge_json(self, form: TextFormat) -> Unmet | None:
        text = self._held_text()
        answer = read_json_answer(text, form)
        if isinstance(answer, Fault):
            return Unmet("format", answer.why, text)
        if answer.text != text:
            # Fences and friendly words around it: what was asked for is what stands between them.
            others = [chunk for chunk in self._held if not isinstance(chunk, TextDelta)]
            self._held = [TextDelta(answer.text), *others]
        return None


def demands_of(turn: TurnRequest, unenforced: frozenset[Demand]) -> frozenset[Demand]:
    """What must be checked. That a tool is called is checked everywhere: if it is true, it costs nothing."""
    demands: set[Demand] = set()
    if turn.tools and turn.choice not in ("auto", "none"):
        demands.add("tool_choice")
    if "format" in unenforced and wants_json(turn):
        demands.add("format")
    if "grammar" in unenforced and any(tool.grammar is not None for tool in turn.tools):
        demands.add("grammar")
    return frozenset(demands)


def wants_json(turn: TurnRequest) -> bool:
    """Whether the text of the answer has to be JSON."""
    form = turn.params.text.format if turn.params.text is not None else None
    return form is not None and form.type != "text"


def checker(turn: TurnRequest, unenforced: frozenset[Demand], clock: Clock) -> Checker | None:
    """What checks this turn; None if nothing can be wrong with it."""
    demands = demands_of(turn, unenforced)
    return Checker(turn, demands, clock) if demands or wants_json(turn) else None


def _fault(call: HeldCall, late: Callable[[], bool]) -> str:
    assert call.tool.grammar is not None
    call.fault = compile_grammar(call.tool.grammar).check(read_text(call.arguments), late) or ""
    return call.fault
