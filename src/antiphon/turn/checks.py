"""Checks of what a model wrote, as values: the core asks for them, and the caller decides where they run.

A check can be expensive, because both the text and the schema or grammar come from outside. A function that
needs checks is a generator: it yields them together, is sent the results, and returns its own.
"""

from collections.abc import Generator, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from antiphon.grammars.grammar import compile_grammar
from antiphon.grammars.lark import InvalidGrammar
from antiphon.protocol.definitions import known_cost
from antiphon.protocol.requests import TextFormat
from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.json_answer import Answer, Fault, is_json, read_json_answer

MAX_CHEAP_CHARACTERS = 65_536
MAX_SEARCHED_CHARACTERS = 4096
"""Of a text in which JSON has to be searched for, or whose values are compared with those of an `enum`."""
MAX_CHEAP_COST = 500_000
"""Characters, multiplied by how many subschemas apply to one value. One takes about 10 ns."""
MAX_CHEAP_SCHEMA_BYTES = 16_384
"""The validators of such schemas are small enough to be cached."""


class JsonCheck(Struct, frozen=True, tag="json"):
    """Extract the JSON of an answer, and check it against its format."""

    text: str
    form: TextFormat


class GrammarCheck(Struct, frozen=True, tag="grammar"):
    """Check the input of a custom tool against its grammar."""

    text: str
    grammar: TextFormatGrammar


Check = JsonCheck | GrammarCheck
T = TypeVar("T")
CheckSteps = Generator[Sequence[Check], Sequence[Answer | Fault], T]
_CHECKS = msgspec.msgpack.Decoder(list[Check])


def is_cheap(check: Check) -> bool:
    """Whether a check certainly takes only a few milliseconds."""
    if isinstance(check, GrammarCheck) or len(check.text) > MAX_CHEAP_CHARACTERS:
        return False
    if len(check.text) > MAX_SEARCHED_CHARACTERS and not is_json(check.text):
        return False
    if check.form.type != "json_schema":
        return True
    encoded = msgspec.json.encode(check.form.schema)
    cost = known_cost(encoded) if len(encoded) <= MAX_CHEAP_SCHEMA_BYTES else None
    if (
        cost is None
        or cost.pattern_copies
        or (b'"enum":[' in encoded and len(check.text) > MAX_SEARCHED_CHARACTERS)
    ):
        return False
    return cost.checks_per_value * len(check.text) <= MAX_CHEAP_COST


def run_check(check: Check) -> Answer | Fault:
    """Run a check, however long that takes."""
    if isinstance(check, JsonCheck):
        return read_json_answer(check.text, check.form)
    try:
        fault = compile_grammar(check.grammar).check(check.text)
    except InvalidGrammar as error:  # it was accepted by an earlier version
        return Fault(f"The grammar is not accepted: {error.why}.")
    return Answer(check.text) if fault is None else Fault(fault)


def run_encoded_checks(encoded: bytes) -> bytes:
    """The same for a list, as one job of a child process."""
    return msgspec.msgpack.encode([run_check(check) for check in _CHECKS.decode(encoded)])
