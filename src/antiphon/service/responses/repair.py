"""Repair of an answer that violates a constraint (turn/constraint_check.py).

The model is asked again with a message that describes the violation. If its server can enforce a schema or a
grammar, a repair turn is used instead: it asks for the call as text, and that text is parsed as the call.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from antiphon.backends.features import Features
from antiphon.errors import BackendBroken
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
)
from antiphon.protocol.requests import TextFormat, TextOptions
from antiphon.protocol.response import Usage
from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.calls_as_json import call_prompt, call_schema, read_call
from antiphon.turn.checks import CheckSteps, GrammarCheck
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished
from antiphon.turn.constraints import Constraint, HeldCall, Violation
from antiphon.turn.context import TurnRequest, TurnTool
from antiphon.turn.function_forms.calls import INPUT
from antiphon.turn.function_forms.reading import read_text
from antiphon.turn.json_answer import Fault

_CONSTRAINED: Mapping[Constraint, str] = {
    "format": "text.format",
    "grammar": "tools",
    "tool_choice": "tool_choice",
}
"""The parameter that sets each constraint."""
_PENDING_OUTPUT = "This call is under way. Do not repeat it."


class RepairTurn(Protocol):
    """A turn that asks for a call as text."""

    def turn(self, turn: TurnRequest) -> TurnRequest:
        """The turn to run instead."""
        ...

    def read(self, text: str) -> CheckSteps[Sequence[Chunk] | None]:
        """Parse the answer as a call; None if it is not one."""
        ...


class CallAsJson:
    """Asks for a call as JSON of a schema, for servers that enforce schemas but no tool choice."""

    def __init__(self, tools: Sequence[TurnTool]) -> None:
        self._tools = tools

    def turn(self, turn: TurnRequest) -> TurnRequest:
        """The turn that asks for JSON with the name and arguments of one of the tools."""
        form = TextFormat(type="json_schema", name="call", schema=call_schema(self._tools), strict=True)
        ask = Message(role="user", content=call_prompt(self._tools))
        return replace(
            turn,
            items=(*turn.items, ask),
            tools=(),
            choice="none",
            params=replace(turn.params, text=TextOptions(form)),
        )

    def read(self, text: str) -> CheckSteps[Sequence[Chunk] | None]:
        """The call that the JSON describes."""
        yield from ()
        found = read_call(text, self._tools)
        return None if found is None else _call(found[0], found[1])


class InputByGrammar:
    """Asks for the input of one custom tool as text, for servers that enforce its grammar."""

    def __init__(self, tool: TurnTool, grammar: TextFormatGrammar) -> None:
        self._tool = tool
        self._grammar = grammar

    def turn(self, turn: TurnRequest) -> TurnRequest:
        """The turn that asks for the input and nothing else."""
        content = f"Write the input of the tool '{self._tool.name}' now: the input itself, and nothing else."
        ask = Message(role="user", content=content)
        return replace(
            turn,
            items=(*turn.items, ask),
            tools=(),
            choice="none",
            params=replace(turn.params, text=None),
            grammar=self._grammar,
        )

    def read(self, text: str) -> CheckSteps[Sequence[Chunk] | None]:
        """The call with this input. It is checked here, too, because some servers ignore a grammar."""
        (found,) = yield [GrammarCheck(text, self._grammar)]
        if isinstance(found, Fault):
            return None
        return _call(self._tool, msgspec.json.encode({INPUT: text}).decode())


def _call(tool: TurnTool, arguments: str) -> Sequence[Chunk]:
    return [CallStarted(0, "", tool.name), CallDelta(0, arguments), CallFinished(0), Finished("tool_calls")]


def repair_turn(violation: Violation, turn: TurnRequest, features: Features) -> RepairTurn | None:
    """The repair turn for a violation; None if the backend enforces neither a schema nor a grammar for it."""
    must_call = turn.tools and turn.choice not in ("auto", "none")
    if (
        violation.constraint == "tool_choice"
        and must_call
        and features["structured_output"].level == "native"
    ):
        return CallAsJson(turn.tools)
    if (
        violation.constraint == "grammar"
        and features["constrained_text"].level == "native"
        and violation.alone
    ):
        call = violation.calls[0]
        return InputByGrammar(call.tool, call.grammar)
    return None


def correction(violation: Violation, turn: TurnRequest, tries: int) -> list[Item]:
    """Items that show the model its own answer and the violation."""
    if violation.constraint == "grammar":
        return [
            item
            for number, call in enumerate(violation.calls)
            for item in _rejected(call, f"{tries}_{number}")
        ]
    answer: list[Item] = [Message(role="assistant", content=violation.text)] if violation.text else []
    if violation.constraint == "tool_choice":
        ask = _wanted_call(turn)
    else:
        why = sentence(violation.reason)
        ask = f"That is not what was asked for: {why} Answer again, with the JSON and nothing else."
    return [*answer, Message(role="user", content=ask)]


def _wanted_call(turn: TurnRequest) -> str:
    names = ", ".join(tool.name for tool in turn.tools)
    match turn.choice:
        case "none":
            return "You must not call a tool now. Answer in words."
        case "auto":
            return f"You may call these tools, and no others: {names}. Or answer in words."
        case _:
            return f"You must call one of these tools now, and write nothing else: {names}."


def pending_outputs(output: Sequence[Item]) -> list[Item]:
    """Outputs for calls that were sent to the client, for the model only: their results are still unknown."""
    outputs: list[Item] = []
    for item in output:
        match item:
            case FunctionCall():
                outputs.append(FunctionCallOutput(call_id=item.call_id, output=_PENDING_OUTPUT))
            case CustomToolCall():
                outputs.append(CustomToolCallOutput(call_id=item.call_id, output=_PENDING_OUTPUT))
            case _:
                pass
    return outputs


def _rejected(call: HeldCall, suffix: str) -> list[Item]:
    call_id = call.call_id or f"call_rejected_{suffix}"
    text = read_text(call.arguments)
    namespace = call.tool.namespace or msgspec.UNSET
    fault = sentence(call.fault)
    why = f"The input was not accepted: {fault} Call the tool again with input that follows its grammar."
    return [
        CustomToolCall(call_id=call_id, name=call.tool.origin, input=text, namespace=namespace),
        CustomToolCallOutput(call_id=call_id, output=why),
    ]


def gave_up(violation: Violation, model: str, tries: int) -> BackendBroken:
    """The failure after the last repair."""
    expected = (
        "keep to 'tool_choice'"
        if violation.constraint == "tool_choice"
        else "answer in the form that 'text.format' asks for"
    )
    return BackendBroken(
        f"The model '{model}' did not {expected}: {sentence(violation.reason)} It was asked {tries} times. "
        "Ask for less, or use another model.",
        code="model_did_not_comply",
    )


def broken_promise(violation: Violation, model: str) -> BackendBroken:
    """The failure of an answer that was sent while its server was trusted to keep to the strict schema."""
    return BackendBroken(
        f"The answer of the model '{model}' violates the strict schema of 'text.format': "
        f"{sentence(violation.reason)} It was streamed, because the model's server is trusted "
        "to enforce schemas. Do not use the text that was sent. Ask again; or set 'strict_schemas' of the "
        "upstream to 'checked'.",
        code="model_did_not_comply",
    )


def repaired(violation: Violation, usage: Usage | None) -> Downgrade:
    """The downgrade of a response whose model was asked again after an answer with this usage."""
    text = f"the model was asked again, because its answer was wrong: {violation.reason}"
    if violation.early and usage is None:
        text = f"{text} That answer was ended early, before its tokens were reported; 'usage' is without them"
    return Downgrade("repaired", text, (_CONSTRAINED[violation.constraint],))


def passed_anyway(violation: Violation) -> Downgrade:
    """The downgrade of a call that is sent although its input violates the grammar. The tool can report the
    error to the model."""
    tool = violation.calls[0].tool.origin
    text = f"the input of the custom tool '{tool}' violates its grammar: {violation.reason}"
    return Downgrade("constraint_violated", text, ("tools",))


def sentence(why: str) -> str:
    """The text with one full stop at its end."""
    return why.rstrip(".") + "."
