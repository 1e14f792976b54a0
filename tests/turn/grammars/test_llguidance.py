"""Lark for engines with an older llguidance. The newer one is the judge: nothing may mean anything else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.protocol.grammar import compile_grammar
from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.grammars.llguidance import with_llguidance
from tests.turn.grammars.test_gbnf import CALCULATOR, PATCH

HEAD = "%llguidance {}\n"
TEXTS = ["", "a", "ab", "aabb", "A", "1+2", "1 + 2", "x", "é", "\\x41", "*** Begin Patch\n*** Delete File: x\n*** End Patch"]  # fmt: skip


def sent(form: TextFormatGrammar) -> str:
    text = with_llguidance(form)
    assert text is not None
    assert text.startswith(HEAD)
    return text.removeprefix(HEAD)


def same(form: TextFormatGrammar, text: str) -> None:
    again = TextFormatGrammar("grammar", "lark", sent(form))
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
def test_a_grammar_means_the_same(definition: str, text: str) -> None:
    same(TextFormatGrammar("grammar", "lark", definition), text)


def test_what_older_ones_do_not_know_is_gone() -> None:
    text = sent(TextFormatGrammar("grammar", "lark", 'start: "a"~2 "b"~1..3 "\\x41"'))
    assert text == 'start : "a" {2} "b" {1,3} "\\u0041"'


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "b", "/", "\\/", "[/]", "\\\\", "(/|a)", "\n", '"', ".*"]), max_size=5
    ).map("".join),
    st.text('ab/\\\n"', max_size=5),
)
def test_an_expression_means_the_same(expression: str, text: str) -> None:
    same(TextFormatGrammar("grammar", "regex", expression), text)


def test_plain_text_is_no_grammar() -> None:
    assert with_llguidance(TextFormatGrammar("text")) is None
