"""Extract the JSON of an answer, and check it against its schema.

A model whose server enforces no format often puts the right JSON into a code fence or between sentences. The
text around the JSON is removed; the JSON itself is never changed.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec
from msgspec import Struct

from antiphon.protocol.requests import TextFormat
from antiphon.protocol.schema_bounds import MAX_CHECKS_PER_VALUE, TooComplex, schema_cost

_FENCE = re.compile(r"```[a-zA-Z0-9]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_MAX_CANDIDATES = 32
_MAX_REASON_CHARACTERS = 200
_MAX_DESCRIPTION_COST = 1_000_000
"""Characters of an answer, multiplied by how many subschemas apply to one value."""


class Answer(Struct, frozen=True, tag=True):
    """JSON that fits the format, as the model wrote it."""

    text: str


class Fault(Struct, frozen=True, tag=True):
    """The reason why the answer does not fit, as one sentence, and the path within the value."""

    why: str
    path: str = ""


def read_json_answer(text: str, form: TextFormat) -> Answer | Fault:
    """Extract the JSON of an answer and check it against the format."""
    if form.type == "text":
        return Answer(text)
    answer = _decoded(text)
    if answer is not None:
        fault = _mismatch(answer, form)
        return Answer(text) if fault is None else fault
    found = _embedded(text)
    faults = [_mismatch(value, form) for value in found]
    fitting = {value.text: value for value, fault in zip(found, faults, strict=True) if fault is None}
    if len(fitting) == 1:
        return Answer(next(iter(fitting)))
    if fitting:
        return Fault(f"The answer holds {len(fitting)} JSON values; it must be one.")
    return next((fault for fault in faults if fault), Fault(_why_not_json(text)))


def is_json(text: str) -> bool:
    """Whether the whole text is JSON."""
    return _decoded(text) is not None


class _Decoded(Struct, frozen=True):
    value: Any
    text: str


def _decoded(text: str) -> _Decoded | None:
    try:
        return _Decoded(msgspec.json.decode(text), text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _embedded(text: str) -> list[_Decoded]:
    """The JSON values in a longer text: those in code fences, otherwise those between sentences."""
    fenced = [value for value in map(_decoded, _fences(text)) if value is not None]
    return fenced or _between_sentences(text)


def _fences(text: str) -> list[str]:
    return [match[1].strip() for match in _FENCE.finditer(text)][:_MAX_CANDIDATES]


def _between_sentences(text: str) -> list[_Decoded]:
    """The objects and arrays in a text. A number or a quoted word in a sentence is not an answer."""
    found: list[_Decoded] = []
    position = 0
    for _ in range(_MAX_CANDIDATES):
        opening = _OPENING.search(text, position)
        if opening is None:
            break
        position = _end_of_value(text, opening.start())
        value = _decoded(text[opening.start() : position])
        if value is None:
            position = opening.end()
        else:
            found.append(value)
    return found


def _end_of_value(text: str, start: int) -> int:
    """The end of the value that begins at `start`; `start` if no value begins there."""
    try:
        return _SCANNER.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return start


_SCANNER = json.JSONDecoder()


def _mismatch(found: _Decoded, form: TextFormat) -> Fault | None:
    value = found.value
    if form.type == "json_object":
        return None if isinstance(value, dict) else Fault("The answer is not a JSON object.")
    validator, checks_per_value = _compiled(msgspec.json.encode(form.schema))
    if validator is None or validator.is_valid(value):
        return None
    if (
        checks_per_value * len(found.text) > _MAX_DESCRIPTION_COST
    ):  # the library describes every alternative that did not fit
        return Fault("The answer does not fit its schema.")
    error = next(validator.iter_errors(value))
    path = render_path(error.instance_path)
    where = f"At '{path}': " if path else ""
    return Fault(f"{where}{shorten(error.message)}.", path)


@lru_cache(maxsize=32)
def _compiled(schema: bytes) -> tuple[jsonschema_rs.Validator | None, int]:
    """The validator, and how many subschemas apply to one value at most. There is no validator for a schema
    with references to other documents, which are not fetched."""
    try:
        checks_per_value = schema_cost(schema).checks_per_value
    except TooComplex:  # it was accepted by an earlier version
        checks_per_value = MAX_CHECKS_PER_VALUE
    try:
        return jsonschema_rs.validator_for(schema.decode(), offline=True), checks_per_value
    except (ValueError, jsonschema_rs.ReferencingError):
        return None, checks_per_value


def render_path(steps: Sequence[str | int]) -> str:
    """The place of a value in a document: `a[0].b`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def shorten(message: str) -> str:
    """A message as one line without a full stop, of bounded length."""
    line = " ".join(message.split()).rstrip(".")
    return line if len(line) <= _MAX_REASON_CHARACTERS else f"{line[:_MAX_REASON_CHARACTERS]}…"


def _why_not_json(text: str) -> str:
    if not _OPENING.search(text):
        return "The answer holds no JSON."
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        reason = str(error) if isinstance(error, msgspec.DecodeError) else "it cannot be read"
        return f"The answer is not JSON: {shorten(reason)}."
    return "The answer is not JSON."
