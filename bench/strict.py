"""What the check of a strict schema costs: `python -m bench.strict`. CPU time, the best of several runs.

Three answers, each in pieces as models stream them: an object of short members, the same as a long list, and
one long text. The check while it arrives is that of `turn/json_prefix/`, the check at the end that of
`turn/json_answer.py`.
"""

import json
from collections.abc import Callable, Mapping
from time import thread_time
from typing import Any

from antiphon.protocol.requests import TextFormat
from antiphon.turn.json_answer import read_json_answer
from antiphon.turn.json_prefix.watch import AnswerWatch

RUNS = 25
PIECE_CHARACTERS = 4
ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer", "minimum": 0},
        "unit": {"enum": ["kg", "g", "l"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["name", "count", "unit", "note"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "items": {"type": "array", "items": ITEM}},
    "required": ["title", "items"],
    "additionalProperties": False,
}
FORM = TextFormat(type="json_schema", name="list", schema=SCHEMA, strict=True)


def main() -> None:
    """Print a table."""
    print("| answer | characters | pieces | while it arrives | per piece | at the end |")
    print("|---|---|---|---|---|---|")
    for name, text in answers().items():
        pieces = [text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)]
        arriving = best(lambda pieces=pieces: watch(pieces))
        ending = best(lambda text=text: read_json_answer(text, FORM))
        row = (name, len(text), len(pieces), f"{arriving:.0f} µs", f"{arriving / len(pieces):.2f} µs")
        print(f"| {' | '.join(map(str, row))} | {ending:.0f} µs |")


def answers() -> Mapping[str, str]:
    """The answers, by their names."""
    item = {"name": "a thing", "count": 3, "unit": "kg", "note": None}
    return {
        "an object": json.dumps({"title": "Shopping", "items": [item] * 3}),
        "a long list": json.dumps({"title": "Shopping", "items": [item] * 150}),
        "a long text": json.dumps({"title": "The words of a sentence. " * 400, "items": []}),
    }


def watch(pieces: list[str]) -> None:
    """Check an answer while it arrives."""
    watching = AnswerWatch(SCHEMA)
    for piece in pieces:
        if watching.feed(piece) is not None:
            raise AssertionError("the answer fits its schema")


def best(work: Callable[[], object]) -> float:
    """The least CPU time in microseconds."""
    times: list[float] = []
    for _ in range(RUNS):
        start = thread_time()
        work()
        times.append(thread_time() - start)
    return min(times) * 1e6


if __name__ == "__main__":
    main()
