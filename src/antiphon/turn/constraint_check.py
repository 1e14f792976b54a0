"""Whether an answer is what the request wants for certain: a call, JSON of a schema, input by a grammar.

What nothing holds the model to is held back here until it is known to be right, and then said as if it had
come so. What is wrong is not said: the verdict tells why, and the model can be asked again.

Rule 1: what might still turn out wrong waits, and everything behind it waits too, so that the order stays.
Rule 2: reasoning, and calls that only had to be made, are said at once. What was said stays said.
Rule 3: an answer that was cut short, broke off or is a refusal is not judged: it is said as it is.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from antiphon.grammars.grammar import compile_grammar
from antiphon.protocol.downgrade import PARAM, Downgrade, Downgrades
from antiphon.protocol.ids import Clock
from antiphon.protocol.requests import TextFormat
from antiphon.protocol.response import Usage
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    HostedItemDone,
    ItemBegun,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.constraints import Constraint, HeldCall, Violation
from antiphon.turn.context import TurnRequest
from antiphon.turn.function_forms.reading import read_text
from antiphon.turn.json_answer import Fault, read_json_answer

PATIENCE = 0.25
"""Seconds that grammars may take in all to judge one answer: everybody else waits meanwhile."""
ASIDE = "commentary"
"""The phase of a message that is not the answer."""


class Ending(Struct, frozen=True):
    """The end of a turn. What is right in it is in `right`. If something is `unmet`, the model should be
    asked again; `rest` is said only if that is given up. `downgrades`: what the response lists about it."""

    right: Sequence[Chunk] = ()
    rest: Sequence[Chunk] = ()
    unmet: Violation | None = None
    spent: Usage | None = None
    downgrades: tuple[Downgrade, ...] = ()


class Checker:
    """Checks one turn."""

    def __init__(self, turn: TurnRequest, demands: frozenset[Constraint], clock: Clock) -> None:
        self._turn = turn
        self._form = _json_format(turn)
        self._tools = {tool.name: tool for tool in turn.tools}
        self._demands = demands
        self._clock = clock
        self._needs_call = "tool_choice" in demands
        self._json: Literal["held", "peeked", "live"] | None = None
        """What becomes of the text of the answer if it must be JSON: it waits for its end, or for its first
        character, which tells prose from JSON; or it is said as it comes, and judged afterwards."""
        self._await_json()
        self._held: list[Chunk] = []
        self._live_text: list[str] = []
        self._calls: dict[int, HeldCall] = {}
        self._ruled_out: dict[int, str] = {}
        self._begun: ItemBegun | None = None
        self._said = False
        self._refused = False
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
        usage = () if self._usage is None else (self._usage,)
        if finished is None:
            return Ending(self._release())
        if finished.reason not in ("stop", "tool_calls") or self._refused:
            return Ending([*self._release(), *usage, finished])
        unmet = self._judge()
        if unmet is None:
            return Ending([*self._release(), *usage, finished], downgrades=tuple(self._downgrades()))
        wrong = self._wrong_calls(unmet)
        right = [] if unmet.demand != "grammar" else [c for c in self._held if not _of(c, wrong)]
        rest = [*(chunk for chunk in self._held if _of(chunk, wrong)), *usage, finished]
        return Ending(right, rest, unmet, self._usage.usage if self._usage else None)

    def _take(self, chunk: Chunk, told: list[Chunk]) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            self._item(begun, chunk, told)
        match chunk:
            case TextDelta():
                self._text(chunk, told)
            case CallStarted() | CallDelta() | CallFinished():
                self._call(chunk, told)
            case ItemBegun():
                self._begun = chunk
            case HostedItemDone():
                self._needs_call = False
                self._pass(chunk, told)
            case UsageReported():
                self._usage = chunk
            case Finished():
                self._finished = chunk
            case RefusalDelta():
                self._refused = True
                told += [*self._release(), chunk]
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
            told.append(chunk)

    def _text(self, chunk: TextDelta, told: list[Chunk]) -> None:
        if self._refused or (not self._needs_call and self._json in (None, "live")):
            if self._json == "live":
                self._live_text.append(chunk.text)
            self._said = True
            self._pass(chunk, told)
            return
        self._held.append(chunk)
        if self._json == "peeked" and not self._needs_call and (begun := self._held_text().lstrip()):
            self._json = "live" if begun[0] in "{[" else "held"
            if self._json == "live":
                self._live_text.append(self._held_text())
                told += self._release()

    def _item(self, begun: ItemBegun, first: Chunk, told: list[Chunk]) -> None:
        """Another item, and the first thing in it. If it is a message, the one before was not the answer."""
        judged = self._form is not None and not self._needs_call and not self._calls
        if judged and isinstance(first, TextDelta):
            told += self._release()
            self._live_text.clear()
            if begun.phase == ASIDE:
                self._json = None
            else:
                self._await_json()
                self._held.append(begun)  # it is said with the message that it begins
                return
        self._pass(begun, told)

    def _await_json(self) -> None:
        if self._form is not None:
            self._json = "held" if "format" in self._demands else "peeked"

    def _call(self, chunk: CallStarted | CallDelta | CallFinished, told: list[Chunk]) -> None:
        index = chunk.index
        if isinstance(chunk, CallStarted):
            self._begin_call(chunk, told)
        if index in self._ruled_out:
            return
        if index in self._calls:
            if isinstance(chunk, CallDelta):
                self._calls[index].pieces.append(chunk.arguments)
            self._held.append(chunk)
        else:
            self._pass(chunk, told)

    def _begin_call(self, chunk: CallStarted, told: list[Chunk]) -> None:
        tool = self._tools.get(chunk.name)
        self._calls.pop(chunk.index, None)
        self._ruled_out.pop(chunk.index, None)
        if chunk.name in self._turn.forbidden or (tool is None and "tool_choice" in self._demands):
            self._ruled_out[chunk.index] = chunk.name
        elif tool is not None and tool.grammar is not None and "grammar" in self._demands:
            self._calls[chunk.index] = HeldCall(chunk.call_id, tool)
        else:
            self._said, self._needs_call, self._json = True, False, None  # words before a call are no answer
            if not self._calls:
                told += self._release()

    def _release(self) -> list[Chunk]:
        """What waited may be said."""
        held, self._held = self._held, []
        self._said = self._said or any(isinstance(chunk, TextDelta | CallStarted) for chunk in held)
        return held

    def _held_text(self) -> str:
        return "".join(chunk.text for chunk in self._held if isinstance(chunk, TextDelta))

    def _judge(self) -> Violation | None:
        """What is wrong with an answer that ran to its end."""
        if self._needs_call and not self._calls:
            return Violation("tool_choice", self._no_call(), self._held_text())
        if self._ruled_out and not (self._said or self._calls or self._held_text().strip()):
            return Violation("tool_choice", self._no_call())
        if self._form is not None and self._json in ("held", "peeked") and not self._calls:
            return self._judge_json(self._form)
        end = self._clock() + PATIENCE
        faulty = [call for call in self._calls.values() if _fault(call, lambda: self._clock() > end)]
        if not faulty:
            return None
        alone = len(self._calls) == 1 and not self._said
        return Violation("grammar", faulty[0].fault, calls=tuple(faulty), alone=alone)

    def _no_call(self) -> str:
        named = next(iter(self._ruled_out.values()), "")
        return f"the tool '{named}' must not be called now" if named else "no tool was called"

    def _judge_json(self, form: TextFormat) -> Violation | None:
        text = self._held_text()
        answer = read_json_answer(text, form)
        if isinstance(answer, Fault):
            return Violation("format", answer.why, text)
        if answer.text != text:
            # Fences and friendly words around it: what was asked for is what stands between them.
            others = [chunk for chunk in self._held if not isinstance(chunk, TextDelta)]
            begun = [chunk for chunk in others if isinstance(chunk, ItemBegun)]
            behind = [chunk for chunk in others if not isinstance(chunk, ItemBegun)]
            self._held = [*begun, TextDelta(answer.text), *behind]
        return None

    def _downgrades(self) -> Downgrades:
        """What was said though it is not quite right, and what was left out."""
        found = Downgrades()
        for name in self._ruled_out.values():
            text = f"a call of '{name}' was left out: '{PARAM}' rules it out"
            found.add("output_omitted", text, "tool_choice")
        if self._json == "live" and self._form is not None:
            answer = read_json_answer("".join(self._live_text), self._form)
            if isinstance(answer, Fault):
                found.add(
                    "constraint_violated",
                    f"the model's server did not hold it to the format: {answer.why}",
                    "text.format",
                )
        return found

    def _wrong_calls(self, unmet: Violation) -> set[int]:
        return {index for index, call in self._calls.items() if call in unmet.calls}


def constraints_of(turn: TurnRequest, unenforced: frozenset[Constraint]) -> frozenset[Constraint]:
    """What must be checked. That a tool is called is checked everywhere: if it is true, it costs nothing."""
    demands: set[Constraint] = set()
    if (turn.tools or turn.hosted) and turn.choice not in ("auto", "none"):
        demands.add("tool_choice")
    if "format" in unenforced and _json_format(turn) is not None:
        demands.add("format")
    if "grammar" in unenforced and any(tool.grammar is not None for tool in turn.tools):
        demands.add("grammar")
    return frozenset(demands)


def checker(turn: TurnRequest, unenforced: frozenset[Constraint], clock: Clock) -> Checker | None:
    """What checks this turn; None if nothing can be wrong with it."""
    demands = constraints_of(turn, unenforced)
    wanted = demands or turn.forbidden or _json_format(turn) is not None
    return Checker(turn, demands, clock) if wanted else None


def _json_format(turn: TurnRequest) -> TextFormat | None:
    form = turn.params.text.format if turn.params.text is not None else None
    return form if form is not None and form.type != "text" else None


def _of(chunk: Chunk, calls: set[int]) -> bool:
    return isinstance(chunk, CallStarted | CallDelta | CallFinished) and chunk.index in calls


def _fault(call: HeldCall, late: Callable[[], bool]) -> str:
    assert call.tool.grammar is not None
    call.fault = compile_grammar(call.tool.grammar).check(read_text(call.arguments), late) or ""
    return call.fault
