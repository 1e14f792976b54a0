"""An answer that must be JSON: found among fences and friendly words, and held against its schema.

A model that nothing holds to a format often writes the right thing with something around it. What is around
it is taken off; what is inside is never changed.
"""

import json
import re
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec
from msgspec import Struct

from antiphon.protocol.requests import TextFormat

_FENCE = re.compile(r"```[a-zA-Z0-9]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_MOST_CANDIDATES = 32
_LONGEST_WHY = 200


class Answer(Struct, frozen=True):
    """What to tell: JSON that fits, as the model wrote it."""

    text: str


class Fault(Struct, frozen=True):
    """Why it does not fit, in one sentence, and where in the value."""

    why: str
    path: str = ""


def read_json_answer(text: str, form: TextFormat) -> Answer | Fault:
    """The JSON in an answer, if it is what the format asks for."""
    if form.type == "text":
        return Answer(text)
    whole = _decoded(text)
    if whole is not None:
        fault = _misfit(whole.value, form)
        return Answer(text) if fault is None else fault
    found = _inside(text)
    faults = [_misfit(value.value, form) for value in found]
    fitting = {value.text: value for value, fault in zip(found, faults, strict=True) if fault is None}
    if len(fitting) == 1:
        return Answer(next(iter(fitting)))
    if fitting:
        return Fault(f"The answer holds {len(fitting)} JSON values; it must be one.")
    return next((fault for fault in faults if fault), Fault(_why_not_json(text)))


class _Decoded(Struct, frozen=True):
    value: Any
    text: str


def _decoded(text: str) -> _Decoded | None:
    try:
        return _Decoded(msgspec.json.decode(text), text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _inside(text: str) -> list[_Decoded]:
    """The JSON values in a text that is more than one: those in fences, else those among the words."""
    fenced = [value for value in map(_decoded, _fences(text)) if value is not None]
    return fenced or _among_words(text)


def _fences(text: str) -> list[str]:
    return [match[1].strip() for match in _FENCE.finditer(text)][:_MOST_CANDIDATES]


def _among_words(text: str) -> list[_Decoded]:
    """Objects and arrays. A number or a quoted word in a sentence is no answer."""
    found: list[_Decoded] = []
    position = 0
    for _ in range(_MOST_CANDIDATES):
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
    """Where the value that begins at `start` ends; `start` if it is none."""
    try:
        return _SCANNER.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return start


_SCANNER = json.JSONDecoder()


def _misfit(value: object, form: TextFormat) -> Fault | None:
    if form.type == "json_object":
        return None if isinstance(value, dict) else Fault("The answer is not a JSON object.")
    validator = _validator(msgspec.json.encode(form.schema))
    if validator is None or validator.is_valid(value):
        return None
    error = next(validator.iter_errors(value))
    path = _path(error.instance_path)
    where = f"At '{path}': " if path else ""
    return Fault(f"{where}{_short(error.message)}.", path)


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> jsonschema_rs.Validator | None:
    """None for a schema that refers to what we do not fetch: it cannot be held against anything."""
    try:
        return jsonschema_rs.validator_for(schema.decode(), offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return None


def _path(steps: list[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def _short(message: str) -> str:
    line = " ".join(message.split()).rstrip(".")
    return line if len(line) <= _LONGEST_WHY else f"{line[:_LONGEST_WHY]}…"


def _why_not_json(text: str) -> str:
    if not _OPENING.search(text):
        return "The answer holds no JSON."
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        reason = str(error) if isinstance(error, msgspec.DecodeError) else "it cannot be read"
        return f"The answer is not JSON: {_short(reason)}."
    return "The answer is not JSON."
