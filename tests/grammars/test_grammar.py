import importlib.util
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.extras import install_command
from antiphon.grammars.grammar import (
    MAX_DEFINITION_CHARACTERS,
    MAX_TEXT_BYTES,
    compile_grammar,
)
from antiphon.grammars.lark import InvalidGrammar
from antiphon.protocol.definitions import Definitions, examine
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tools import TextFormatGrammar


def check_grammar(form: TextFormatGrammar, path: str) -> None:
    """Raise what a request with this format is answered with."""
    definitions = Definitions()
    definitions.grammar(form, path)
    for definition in definitions.unchecked:
        found = examine(definition)
        if found is not None:
            raise found.error(definition)


PATCH = r"""
// Files are added, deleted or changed.
start: begin change_of_file+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
change_of_file: added | deleted | changed
added: "*** Add File: " path LF ("+" /(.*)/ LF -> line)+
deleted: "*** Delete File: " path LF
changed: "*** Update File: " path LF ("*** Move to: " path LF)? hunk*
hunk: ("@@" | "@@ " /(.+)/) LF line_of_hunk+
line_of_hunk: ("+" | "-" | " ") /(.*)/ LF
path: /(.+)/

%import common.LF
"""
MAX_SECONDS = 2.0
"""Seconds that the worst definition may take on a busy machine."""


def lark(definition: str) -> TextFormatGrammar:
    return TextFormatGrammar("grammar", "lark", definition)


def regex(definition: str) -> TextFormatGrammar:
    return TextFormatGrammar("grammar", "regex", definition)


def rejection(form: TextFormatGrammar) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        check_grammar(form, "tools[0].format")
    return caught.value


@pytest.mark.requirement("PROTOCOL/tools-grammar-refused")
@pytest.mark.parametrize(
    ("definition", "why", "line"),
    [
        ("start: x\nx: foo", 'unknown name: "foo"', 2),
        ('start: "a', "not closed", 1),
        ("start: 'a'", "not closed", 1),
        ("start: /a(/", "unclosed group", 1),
        ('x: "a"', "no start rule", 0),
        ("start: A\nA: B\nB: A", "circular", 3),
        ("start: start", "no text can follow it", 0),
        ('start: "a"\n\n\nstart: "b"', "duplicate rule", 4),
        ('start: "a" )', "expecting rule", 1),
        ("start: /(?=a)b/", "look-around", 1),
        ('start: x{"a"}\nx{y}: y y', "not supported", 2),
        ("%import elsewhere.X\nstart: X", "Unknown common", 1),
        ("%declare X\nstart: X", "'%declare' is not accepted here", 1),
        ('start: %json {"type": "object"}', "'%json' is not accepted here", 1),
        ('start: A & B\nA: "a"\nB: "a"', "intersections", 1),
        ("start: A\nA: ~/a/", "negations", 2),
        ('start: "a"~', "negations", 1),
        ('start: "a"~2..', "no number after '..'", 1),
        ('start: "a"~2..\n', "no number after '..'", 1),
        ("start: /a\nb/ A\nA: B & C", "intersections", 3),
        ("start: <think>", "tokens of a model", 1),
        ("start: @other", "references", 1),
        ("start[lazy]: /.*/", "attributes", 1),
        ('start[stop="x"]: /.*/', "has no meaning here", 1),
        ("start::_: /a/", "parameters", 1),
        ("start: ((((((((((((((((((((((((((((((((((" + '"a"', "nested", 1),
        ("start: ü", "has no meaning here", 1),
        ("", "Empty grammar", 0),
        ("x" * (MAX_DEFINITION_CHARACTERS + 1), "at most 32768", 0),
    ],
)  # fmt: skip
def test_an_invalid_lark_grammar_is_rejected(definition: str, why: str, line: int) -> None:
    error = rejection(lark(definition))
    assert (error.status, error.code, error.param) == (400, "invalid_grammar", "tools[0].format.definition")
    assert why in error.message
    assert (f" in line {line}." in error.message) == (line > 0)
    assert "\n" not in error.message


@pytest.mark.requirement("PROTOCOL/tools-grammar-refused")
@pytest.mark.parametrize(
    ("definition", "why"),
    [("[", "unclosed character class"), ("(a", "unclosed group"), ("a**{", "repetition"), (r"(a)\1", "backreferences"),
     ("(?=a)", "look-around"), (r"\bfoo", "not supported"), ("a" * (MAX_DEFINITION_CHARACTERS + 1), "characters")],
)  # fmt: skip
def test_an_invalid_regular_expression_is_rejected(definition: str, why: str) -> None:
    error = rejection(regex(definition))
    assert (error.code, error.param) == ("invalid_grammar", "tools[0].format.definition")
    assert why in error.message
    assert " in line" not in error.message


@pytest.mark.parametrize("missing", ["syntax", "definition"])
def test_a_grammar_needs_both_members(missing: str) -> None:
    both = {"syntax": "regex", "definition": "a"}
    del both[missing]
    tool = {"type": "custom", "name": "t", "format": {"type": "grammar", **both}}
    with pytest.raises(InvalidRequest) as caught:
        create_from(model="m", input="hi", tools=[tool])
    assert caught.value.param == f"tools[0].format.{missing}"
    assert caught.value.code == "missing_required_parameter"


@pytest.mark.requirement("PROTOCOL/tools-grammar-refused")
def test_a_request_with_an_invalid_grammar_is_rejected() -> None:
    broken = {
        "type": "custom",
        "name": "t",
        "format": {"type": "grammar", "syntax": "lark", "definition": "x"},
    }
    tools = [{"type": "function", "name": "f"}, {"type": "namespace", "name": "n", "tools": [broken]}]
    (definition,) = create_from(model="m", input="hi", tools=tools).unchecked
    found = examine(definition)
    assert found is not None
    error = found.error(definition)
    assert (error.param, error.code) == ("tools[1].tools[0].format.definition", "invalid_grammar")


def test_without_the_library_a_grammar_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> None:
        assert name == "llguidance"

    monkeypatch.setattr(importlib.util, "find_spec", not_installed)
    error = rejection(regex("a"))
    assert (error.param, error.code) == ("tools[0].format.type", "unsupported_grammar")
    assert install_command("grammars") in error.message
    check_grammar(TextFormatGrammar("text"), "tools[0].format")


def test_the_text_format_accepts_any_text() -> None:
    form = TextFormatGrammar("text")
    check_grammar(form, "tools[0].format")
    assert compile_grammar(form).check("anything") is None


def test_a_grammar_is_compiled_once() -> None:
    assert compile_grammar(lark(PATCH)) is compile_grammar(lark(PATCH))


PATCHED = "*** Begin Patch\n*** Update File: a.py\n@@ def f\n-old é\n+new\n*** End Patch\n"


@pytest.mark.requirement("PROTOCOL/tools-grammar-lark")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (PATCHED, None),
        (PATCHED[:-1], None),
        (PATCHED + "x", "At line 7, column 1 of the input, 'x' does not fit: nothing may follow."),
        ("hello", "At line 1, column 1 of the input, 'h' does not fit: '*** Begin Patch\\n*** ' must come here."),
        (PATCHED[:-9], "The input ends too early: 'nd Patch' must come here."),
        ("", "The input ends too early: '*** Begin Patch\\n*** ' must come here."),
        (
            PATCHED.replace("+new", "?new"),
            "At line 5, column 1 of the input, '?' does not fit: one of ' ', '*', '+', '-', '@' must come here.",
        ),
        (
            PATCHED.replace("Update", "Üpdate"),
            "At line 2, column 5 of the input, 'Ü' does not fit: one of 'A', 'D', 'U' must come here.",
        ),
        ("*** Begin Patch\n\ud800", "At line 2, column 1 of the input, '\\ud800' does not fit: '*** ' must come here."),
    ],
)  # fmt: skip
def test_a_text_and_a_lark_grammar(text: str, why: str | None) -> None:
    assert compile_grammar(lark(PATCH)).check(text) == why


def test_a_mismatch_is_located_in_every_line() -> None:
    grammar = compile_grammar(lark(PATCH))
    long = "*** Begin Patch\n*** Add File: a\n" + "+some line\n" * 40
    for lines in range(40):
        broken = long[: 32 + 11 * lines] + "!" + long[33 + 11 * lines :]
        assert (grammar.check(broken) or "").startswith(f"At line {lines + 3}, column 1 of")


@pytest.mark.requirement("PROTOCOL/tools-grammar-regex")
@pytest.mark.parametrize(
    ("definition", "text", "why"),
    [
        ("[0-9]{3}", "123", None),
        ("[0-9]{3}", "12", "The input ends too early: the grammar expects something else."),
        ("a{2}", "aaa", "At line 1, column 3 of the input, 'a' does not fit: nothing may follow."),
        ("a{64}", "a" * 65, "At line 1, column 65 of the input, 'a' does not fit: nothing may follow."),
        ("a|bc", "bd", "At line 1, column 2 of the input, 'd' does not fit: 'c' must come here."),
        ("a/b\n\\/", "a/b\n/", None),
        ("", "", None),
    ],
)
def test_a_text_and_a_regular_expression(definition: str, text: str, why: str | None) -> None:
    assert compile_grammar(regex(definition)).check(text) == why


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gets_a_verdict_of_one_line(text: str) -> None:
    why = compile_grammar(lark(PATCH)).check(text)
    assert why is not None
    assert "\n" not in why


HOSTILE_GRAMMARS = {
    "ambiguous": ('start: s\ns: s s | "a" |', "a" * 5000),
    "more ambiguous": ('start: s\ns: t t t t t | "a" |\nt: s s s | "a" | "a" "a"', "a" * 5000),
    "deep rules": (
        "start: a0\n" + "\n".join(f"a{i}: a{i + 1} a{i + 1} | a{i + 1}" for i in range(900)) + '\na900: "a"?',
        "a" * 500,
    ),
    "nothing, often": (
        "start: a0\n" + "\n".join(f"a{i}: a{i + 1} a{i + 1}" for i in range(60)) + "\na60: |",
        "a",
    ),
    "many words": (
        "start: (" + "|".join(f"A{i}" for i in range(800)) + ")*\n" + "\n".join(f"A{i}: /\\w*{i}.*[^b]{i}/" for i in range(800)),
        "a1b2" * 500,
    ),
    "optional": ("start: " + '"a"? ' * 3000, "a" * 2500),
    "counted": ("start: a{1,1000}\na: b{1,1000}\nb: c{1,1000}\nc: /x/{1,1000}", "x" * 5000),
    "intersection": ("start: A\nA: /.*a.{100}/ & /.*b.{99}/ & ~/.*c.{101}/", "a"),
}  # fmt: skip
HOSTILE_EXPRESSIONS = {
    "way back": ("(a+)+$", "a" * 5000 + "!"),
    "states": (".*a.{1000}", "ab" * 5000),
    "more states": ("(a|b|c|ab|bc){10,}.*a.{100}.*b.{100}", "abcba" * 2000),
    "counted": ("((((a{1,1000}){1,1000}){1,1000}){1,1000}){1,1000}", "a" * 5000),
    "letters": (r"(\w+\s*){1,1000}!", "é " * 5000),
    "large": (r"\p{L}{1,1000}\p{N}{1,1000}" * 500, "a" * 1000),
    "deep": ("(" * 15000 + "a" + ")" * 15000, "a"),
}


def judged(form: TextFormatGrammar, text: str) -> str | None:
    try:
        return compile_grammar(form).check(text)
    except InvalidGrammar as error:
        return error.why


@pytest.mark.parametrize("name", HOSTILE_GRAMMARS)
def test_a_hostile_grammar_is_rejected_quickly(name: str) -> None:
    began = time.monotonic()
    judged(lark(HOSTILE_GRAMMARS[name][0]), HOSTILE_GRAMMARS[name][1])
    assert time.monotonic() - began < MAX_SECONDS


@pytest.mark.parametrize("name", HOSTILE_EXPRESSIONS)
def test_a_hostile_expression_is_rejected_quickly(name: str) -> None:
    began = time.monotonic()
    judged(regex(HOSTILE_EXPRESSIONS[name][0]), HOSTILE_EXPRESSIONS[name][1])
    assert time.monotonic() - began < MAX_SECONDS


def test_an_input_that_is_too_hard_to_check_is_reported() -> None:
    assert (
        judged(regex(".*a.{1000}"), "ab" * 5000) == "The input is too hard to be checked against its grammar."
    )


def test_an_input_that_is_too_long_is_reported() -> None:
    assert "too long" in (compile_grammar(regex("a*")).check("a" * (MAX_TEXT_BYTES + 1)) or "")
