"""Checks whether an answer satisfies its constraints: a call, JSON of a schema, input of a grammar.

If the backend does not enforce a constraint, the answer is withheld here until it is known to satisfy it. An
answer that violates one is not passed on: the verdict contains the reason, and the model can be asked again.

Rule 1: a chunk that may still violate a constraint is held, and so are all chunks after it, in their order.
Rule 2: reasoning passes at once, and so does a call that only `tool_choice` requires. Nothing is taken back.
JSON that a server enforces passes while it streams.
Rule 3: an answer that was cut short, failed or is a refusal passes without a check.
Rule 4: JSON of a strict schema is checked while it arrives (json_prefix/), whether it passes or is held. The
first violation rejects the answer; the rest is not read. What cannot be decided then is checked at the end.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, UnsetType

from antiphon.protocol.downgrade import PARAM, Downgrade, Downgrades
from antiphon.protocol.requests import TextFormat
from antiphon.protocol.response import Usage
from antiphon.turn.checks import CheckSteps, GrammarCheck, JsonCheck
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    HostedItemBegun,
    HostedItemDone,
    ItemBegun,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.constraints import Constraint, HeldCall, Violation
from antiphon.turn.context import TurnRequest
from antiphon.turn.function_forms.reading import read_text
from antiphon.turn.json_answer import Fault
from antiphon.turn.json_prefix.watch import AnswerWatch

COMMENTARY = "commentary"
"""The phase of a message that is not the answer."""
_TEXT_AROUND_JSON = "There is other text around the JSON."


class Verdict(Struct, frozen=True):
    """The end of a turn. `passed` satisfies the constraints. With a `violation` the model is asked again, and
    `withheld` is passed on only after the last attempt. `usage` is that of the turn."""

    passed: Sequence[Chunk] = ()
    withheld: Sequence[Chunk] = ()
    violation: Violation | None = None
    usage: Usage | None = None
    downgrades: tuple[Downgrade, ...] = ()


class ConstraintCheck:
    """The check of one turn."""

    def __init__(self, turn: TurnRequest, constraints: frozenset[Constraint]) -> None:
        self._turn = turn
        self._form = _json_format(turn)
        self._tools = {tool.name: tool for tool in turn.tools}
        self._constraints = constraints
        self._needs_call = "tool_choice" in constraints
        self._json: Literal["held", "peeked", "live"] | None = None
        """For an answer that must be JSON. `held`: hold the text until its end. `peeked`: hold it until its
        first character shows whether it is JSON. `live`: pass it at once, and check it at the end."""
        self._may_call = bool(turn.hosted or (turn.tools and turn.choice != "none"))
        self._watch: AnswerWatch | None = None
        self._early: Violation | None = None
        self._expect_json()
        self._held: list[Chunk] = []
        self._live_text: list[str] = []
        self._calls: dict[int, HeldCall] = {}
        self._ruled_out: dict[int, str] = {}
        self._item_begun: ItemBegun | None = None
        self._passed_any = False
        self._refused = False
        self._usage: UsageReported | None = None
        self._finished: Finished | None = None
        self._downgrades = Downgrades()

    @property
    def is_rejected(self) -> bool:
        """Whether the answer violates a constraint already, so that the rest of it need not be read."""
        return self._early is not None

    def feed(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Take chunks, and return those that pass now."""
        if self._json == "held" and self._watch is not None and any(map(_is_end, chunks)):
            self._watch = None  # the check at the end comes at once
        passed: list[Chunk] = []
        for chunk in chunks:
            if self._early is None or type(chunk) is UsageReported:
                self._take(chunk, passed)
        return passed

    def end(self) -> CheckSteps[Verdict]:
        """The verdict, after the last chunk."""
        finished = self._finished
        usage = () if self._usage is None else (self._usage,)
        if self._early is not None:
            return Verdict(violation=self._early, usage=self._usage.usage if self._usage else None)
        if finished is None:
            return Verdict(self._release())
        if finished.reason not in ("stop", "tool_calls") or self._refused:
            return Verdict([*self._release(), *usage, finished])
        violation = yield from self._judge()
        if violation is None:
            return Verdict([*self._release(), *usage, finished], downgrades=tuple(self._downgrades))
        if violation.sent:
            return Verdict(self._release(), (), violation, self._usage.usage if self._usage else None)
        wrong = self._wrong_calls(violation)
        right = [] if violation.constraint != "grammar" else [c for c in self._held if not _of(c, wrong)]
        rest = [*(chunk for chunk in self._held if _of(chunk, wrong)), *usage, finished]
        return Verdict(right, rest, violation, self._usage.usage if self._usage else None)

    def _take(self, chunk: Chunk, passed: list[Chunk]) -> None:
        begun, self._item_begun = self._item_begun, None
        if begun is not None:
            self._item(begun, chunk, passed)
        match chunk:
            case TextDelta():
                self._text(chunk, passed)
            case CallStarted() | CallDelta() | CallFinished():
                self._call(chunk, passed)
            case ItemBegun():
                self._item_begun = chunk
            case HostedItemBegun() | HostedItemDone():
                self._hosted(chunk, passed)
            case UsageReported():
                self._usage = chunk
            case Finished():
                self._finished = chunk
            case RefusalDelta():
                self._refused = True
                passed += [*self._release(), chunk]
            case Failed():
                self._finished = None
                passed += [*self._release(), *([self._usage] if self._usage else []), chunk]
            case _:
                self._pass(chunk, passed)

    def _hosted(self, chunk: HostedItemBegun | HostedItemDone, passed: list[Chunk]) -> None:
        """A hosted tool is the call that was demanded; text before it is not the answer."""
        if self._needs_call and self._json is None:
            passed += self._release()
        self._needs_call = False
        self._pass(chunk, passed)

    def _pass(self, chunk: Chunk, passed: list[Chunk]) -> None:
        """Pass a chunk on, unless an earlier chunk is held."""
        if self._held:
            self._held.append(chunk)
        else:
            passed.append(chunk)

    def _text(self, chunk: TextDelta, passed: list[Chunk]) -> None:
        if self._refused or (not self._needs_call and self._json in (None, "live")):
            if self._json == "live":
                self._live_text.append(chunk.text)
                if self._reject_early(chunk.text, sent=True):
                    return
            self._passed_any = True
            self._pass(chunk, passed)
            return
        self._held.append(chunk)
        if self._json == "peeked" and not self._needs_call and (begun := self._held_text().lstrip()):
            self._json = "live" if begun[0] in "{[" else "held"
            if self._json == "live":
                self._live_text.append(self._held_text())
        if not self._reject_early(chunk.text, sent=False) and self._json == "live":
            passed += self._release()

    def _reject_early(self, text: str, *, sent: bool) -> bool:
        """Whether the answer violates its strict schema with this piece. `sent`: a part of it has passed."""
        if self._watch is None or self._json is None or self._refused:
            return False
        fault = self._watch.feed(text)
        if fault is None or (fault.may_be_prose and (self._json != "live" or self._may_call)):
            return False  # text around the JSON is removed at the end, and text before a call is no answer
        answer = "".join(self._live_text) if self._json == "live" else self._held_text()
        self._early = Violation("format", fault.why, answer, sent=sent, early=True)
        return True

    def _item(self, begun: ItemBegun, first: Chunk, passed: list[Chunk]) -> None:
        """A new item with its first chunk. If it is a message, the message before it was not the answer."""
        judged = self._form is not None and not self._needs_call and not self._calls
        if judged and isinstance(first, TextDelta):
            passed += self._release()
            self._live_text.clear()
            if begun.phase == COMMENTARY:
                self._json = None
            else:
                self._expect_json()
                self._held.append(begun)  # it passes together with its message
                return
        self._pass(begun, passed)

    def _expect_json(self) -> None:
        form = self._form
        if form is None:
            return
        self._json = "held" if "format" in self._constraints else "peeked"
        is_answer = not self._needs_call and not (self._json == "held" and self._may_call)
        if form.is_strict and is_answer and not isinstance(form.schema, UnsetType):
            self._watch = AnswerWatch(form.schema)

    def _call(self, chunk: CallStarted | CallDelta | CallFinished, passed: list[Chunk]) -> None:
        index = chunk.index
        if isinstance(chunk, CallStarted):
            self._begin_call(chunk, passed)
        if index in self._ruled_out:
            return
        if index in self._calls:
            if isinstance(chunk, CallDelta):
                self._calls[index].pieces.append(chunk.arguments)
            self._held.append(chunk)
        else:
            self._pass(chunk, passed)

    def _begin_call(self, chunk: CallStarted, passed: list[Chunk]) -> None:
        tool = self._tools.get(chunk.name)
        self._calls.pop(chunk.index, None)
        self._ruled_out.pop(chunk.index, None)
        if chunk.name in self._turn.forbidden or (tool is None and "tool_choice" in self._constraints):
            self._ruled_out[chunk.index] = chunk.name
        elif tool is not None and tool.grammar is not None and "grammar" in self._constraints:
            self._calls[chunk.index] = HeldCall(chunk.call_id, tool, tool.grammar)
        else:
            # Text before a call is not the answer.
            self._passed_any, self._needs_call, self._json = True, False, None
            if not self._calls:
                passed += self._release()

    def _release(self) -> list[Chunk]:
        """Pass on the held chunks."""
        held, self._held = self._held, []
        self._passed_any |= any(isinstance(chunk, TextDelta | CallStarted) for chunk in held)
        return held

    def _held_text(self) -> str:
        return "".join(chunk.text for chunk in self._held if isinstance(chunk, TextDelta))

    def _judge(self) -> CheckSteps[Violation | None]:
        """The violation of an answer that ended normally, if there is one."""
        if self._needs_call and not self._calls:
            return Violation("tool_choice", self._no_call(), self._held_text())
        if self._ruled_out and not (self._passed_any or self._calls or self._held_text().strip()):
            return Violation("tool_choice", self._no_call())
        if self._form is not None and self._json in ("held", "peeked") and not self._calls:
            self._list_omitted_calls()
            return (yield from self._judge_json(self._form))
        faulty = yield from self._faulty_calls()
        if not faulty:
            self._list_omitted_calls()
            return (yield from self._judge_sent_json())
        alone = len(self._calls) == 1 and not self._passed_any
        return Violation("grammar", faulty[0].fault, calls=tuple(faulty), alone=alone)

    def _faulty_calls(self) -> CheckSteps[list[HeldCall]]:
        """The calls whose input violates its grammar."""
        calls = [*self._calls.values()]
        if not calls:
            return []
        found = yield [GrammarCheck(read_text(call.arguments), call.grammar) for call in calls]
        for call, result in zip(calls, found, strict=True):
            call.fault = result.why if isinstance(result, Fault) else ""
        return [call for call in calls if call.fault]

    def _no_call(self) -> str:
        named = next(iter(self._ruled_out.values()), "")
        return f"the tool '{named}' must not be called now" if named else "no tool was called"

    def _judge_json(self, form: TextFormat) -> CheckSteps[Violation | None]:
        text = self._held_text()
        (answer,) = yield [JsonCheck(text, form)]
        if isinstance(answer, Fault):
            return Violation("format", answer.why, text)
        if answer.text != text:
            # A fence or a sentence around the JSON: only the JSON passes.
            others = [chunk for chunk in self._held if not isinstance(chunk, TextDelta)]
            begun = [chunk for chunk in others if isinstance(chunk, ItemBegun)]
            after = [chunk for chunk in others if not isinstance(chunk, ItemBegun)]
            self._held = [*begun, TextDelta(answer.text), *after]
        return None

    def _judge_sent_json(self) -> CheckSteps[Violation | None]:
        """JSON that passed before it was checked: a violation if its schema is strict, otherwise reported."""
        if self._json != "live" or self._form is None:
            return None
        text = "".join(self._live_text)
        (answer,) = yield [JsonCheck(text, self._form)]
        if isinstance(answer, Fault):
            why = answer.why
        elif answer.text != text:
            why = _TEXT_AROUND_JSON
        else:
            return None
        if self._form.is_strict:
            return Violation("format", why, text, sent=True)
        self._downgrades.add(
            "constraint_violated", f"the model's server did not hold it to the format: {why}", "text.format"
        )
        return None

    def _list_omitted_calls(self) -> None:
        for name in self._ruled_out.values():
            text = f"a call of '{name}' was left out: '{PARAM}' rules it out"
            self._downgrades.add("output_omitted", text, "tool_choice")

    def _wrong_calls(self, violation: Violation) -> set[int]:
        return {index for index, call in self._calls.items() if call in violation.calls}


def constraints_of(turn: TurnRequest, unenforced: frozenset[Constraint]) -> frozenset[Constraint]:
    """The constraints to check. A tool choice is checked for every backend, because that is cheap."""
    constraints: set[Constraint] = set()
    if (turn.tools or turn.hosted) and turn.choice not in ("auto", "none"):
        constraints.add("tool_choice")
    if "format" in unenforced and _json_format(turn) is not None:
        constraints.add("format")
    if "grammar" in unenforced and any(tool.grammar is not None for tool in turn.tools):
        constraints.add("grammar")
    return frozenset(constraints)


def constraint_check(turn: TurnRequest, unenforced: frozenset[Constraint]) -> ConstraintCheck | None:
    """The check of this turn; None if it has no constraints."""
    constraints = constraints_of(turn, unenforced)
    needed = constraints or turn.forbidden or _json_format(turn) is not None
    return ConstraintCheck(turn, constraints) if needed else None


def _json_format(turn: TurnRequest) -> TextFormat | None:
    form = turn.params.text.format if turn.params.text is not None else None
    return form if form is not None and form.type != "text" else None


def _of(chunk: Chunk, calls: set[int]) -> bool:
    return isinstance(chunk, CallStarted | CallDelta | CallFinished) and chunk.index in calls


def _is_end(chunk: Chunk) -> bool:
    return type(chunk) is Finished
