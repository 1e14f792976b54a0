"""Properties of the parsers that any bytes must satisfy; each raises `AssertionError` if one does not.

`coverage_guided.py` searches for bytes that break them; `test_oracles.py` tries a few on every run.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast, get_args

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.grammars.grammar import compile_grammar
from antiphon.grammars.lark import InvalidGrammar, Token, lark_tokens
from antiphon.grammars.llguidance import render_llguidance
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.profile import MAESTRO, OPENAI, PROXY
from antiphon.protocol.sse import SseReader
from antiphon.settings import TextCalls
from tests.turn.text_calls.feeding import feed_all, result_of

Oracle = Callable[[bytes], None]
MAX_GRAMMAR_CHARACTERS = 200
DIALECTS = sorted(set(get_args(TextCalls)) - {"off"})
PREFIX = "%llguidance {}\n"


def check_sse(data: bytes) -> None:
    """The payloads do not depend on how the bytes are split, and are those of the standard."""
    sizes, stream = data[:3], data[3:]
    expected = _standard_payloads(stream)
    for pieces in ([stream], _split(stream, sizes), [bytes((byte,)) for byte in stream]):
        reader = SseReader()
        found = [payload for piece in pieces for payload in reader.feed(piece)] + reader.finish()
        assert found == expected, (pieces, found, expected)


def _split(data: bytes, sizes: bytes) -> list[bytes]:
    """Pieces of these sizes, again and again."""
    pieces: list[bytes] = []
    while data:
        for size in sizes or b"\x01":
            pieces.append(data[: size + 1])
            data = data[size + 1 :]
    return pieces


def _standard_payloads(stream: bytes) -> list[bytes]:
    """Line by line, as the standard describes it; the last event needs no empty line here."""
    payloads: list[bytes] = []
    lines: list[bytes] = []
    for line in [*re.split(rb"\r\n|\r|\n", stream), b""]:
        if line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
        elif not line and lines:
            payloads.append(b"\n".join(lines))
            lines = []
    return payloads


def check_gate(data: bytes) -> None:
    """A body is a request or one error; only JSON objects in UTF-8 are requests, and their values arrive."""
    plain = _plain_json(data)
    for profile in (OPENAI, MAESTRO, PROXY):
        try:
            request = parse_create(data, profile)
        except AntiphonError as error:
            assert error.message, data
            assert 400 <= error.status < 500, (data, error)
            continue
        assert isinstance(plain, dict), data
        assert request.params.model == cast("dict[str, Any]", plain)["model"], data


def _plain_json(data: bytes) -> object:
    """What Python's own parser reads; None if it is not JSON, or not text."""

    def reject(constant: str) -> None:
        raise ValueError(constant)

    try:
        return json.loads(data.decode(), parse_constant=reject)
    except (ValueError, RecursionError):
        return None


def check_text_calls(data: bytes) -> None:
    """Text and calls do not depend on how the text is split, whatever the dialect."""
    if len(data) < 2:
        return
    dialect = DIALECTS[data[0] % len(DIALECTS)]
    text, size = data[2:].decode("utf-8", "ignore"), data[1] % 16 + 1
    whole = result_of(feed_all([text], dialect))
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert result_of(feed_all(pieces, dialect)) == whole, (dialect, size, text)
    assert whole.calls or whole.text == text, "without a call the text is unchanged"
    for _, arguments in whole.calls:
        assert isinstance(json.loads(arguments), dict), (dialect, text, arguments)


class GrammarText(Struct, frozen=True):
    """A format with a grammar."""

    syntax: Literal["lark", "regex"]
    definition: str
    type: str = "grammar"


def check_grammars(data: bytes) -> None:
    """A definition is a grammar or one error; its rendered form has the same tokens."""
    syntax = "lark" if data[:1] < b"\x80" else "regex"
    definition, _, text = data[1:].decode("utf-8", "ignore")[:MAX_GRAMMAR_CHARACTERS].partition("\x00")
    form = GrammarText(syntax, definition)
    rendered = render_llguidance(form)
    assert rendered is not None
    if syntax == "lark":
        _check_lark(definition, rendered.removeprefix(PREFIX))
    try:
        grammar = compile_grammar(form)
    except InvalidGrammar as error:
        assert error.why, definition
        return
    why = grammar.check(text)
    assert why is None or why, (definition, text)


def _check_lark(definition: str, rendered: str) -> None:
    try:
        tokens = lark_tokens(definition)
    except InvalidGrammar:
        return
    place = 0
    for token in tokens:
        found = definition.find(token.text, place)
        assert found >= 0, "tokens are in order"
        place = found + len(token.text)
    assert list(_named(lark_tokens(rendered))) == list(_named(tokens)), (definition, rendered)


def _named(tokens: list[Token]) -> Iterator[str]:
    """What rendering does not change."""
    return (token.text for token in tokens if token.kind in ("rule", "terminal", "regex", "directive"))


ORACLES: dict[str, Oracle] = {
    "sse": check_sse,
    "gate": check_gate,
    "text_calls": check_text_calls,
    "grammars": check_grammars,
}
