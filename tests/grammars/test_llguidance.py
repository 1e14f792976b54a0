"""Grammars rendered for engines with an older llguidance: the newer library must accept the same texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.grammars.grammar import compile_grammar
from antiphon.grammars.llguidance import render_llguidance
from antiphon.protocol.tools import TextFormatGrammar
from tests.grammars.test_grammar import PATCH

CALCULATOR = """
?start: sum
?sum: product | sum "+" product -> add | sum "-" product -> sub
?product: atom | product "*" atom
?atom: NUMBER | "-" atom | "(" sum ")"
%import common.NUMBER
%ignore / +/
"""
HEAD = "%llguidance {}\n"
TEXTS = ["", "a", "ab", "aabb", "A", "1+2", "1 + 2", "x", "é", "\\x41", "*** Begin Patch\n*** Delete File: x\n*** End Patch"]  # fmt: skip


def rendered(form: TextFormatGrammar) -> str:
    text = render_llguidance(form)
    assert text is not None
    assert text.startswith(HEAD)
    return text.removeprefix(HEAD)


def check_same_verdict(form: TextFormatGrammar, text: str) -> None:
    again = TextFormatGrammar("grammar", "lark", rendered(form))
    assert compile_grammar(again).check(text) == compile_grammar(form).check(text)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "definition",
    [
        PATCH,
        CALCULATOR,
        'start: "a"~2 "b"~1..3\n  | x ~ 0..1\nx: "\\x41" // ~2\n',
        'start: "\\\\x41" | "é"i | /~2..3/ | y\ny: ("a" "b")~2 -> z',
        "start: /a\n|b/",
    ],
)
def test_a_rendered_grammar_accepts_the_same_texts(definition: str, text: str) -> None:
    check_same_verdict(TextFormatGrammar("grammar", "lark", definition), text)


def test_constructs_unknown_to_older_versions_are_rewritten() -> None:
    text = rendered(TextFormatGrammar("grammar", "lark", 'start: "a"~2 "b"~1..3 "\\x41"'))
    assert text == 'start : "a" {2} "b" {1,3} "\\u0041"'


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "b", "/", "\\/", "[/]", "\\\\", "(/|a)", "\n", '"', ".*"]), max_size=5
    ).map("".join),
    st.text('ab/\\\n"', max_size=5),
)
def test_a_rendered_expression_accepts_the_same_texts(expression: str, text: str) -> None:
    check_same_verdict(TextFormatGrammar("grammar", "regex", expression), text)


@pytest.mark.parametrize("definition", ['start: "a"~', 'start: "a"~2..', 'start: "a"~2..\n'])
def test_an_incomplete_repetition_is_left_to_the_engine(definition: str) -> None:
    assert rendered(TextFormatGrammar("grammar", "lark", definition)) == definition


def test_the_text_format_has_no_grammar() -> None:
    assert render_llguidance(TextFormatGrammar("text")) is None
