"""What is said in GBNF means the same. The judges: llguidance for the source, our own reader for GBNF."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.protocol.grammar import compile_grammar
from antiphon.protocol.lark_tokens import BadGrammar
from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.grammars.classes import NAMED, POSIX
from antiphon.turn.grammars.gbnf import gbnf
from antiphon.turn.grammars.lark import COMMON
from tests.turn.grammars.gbnf_reader import follows

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
CALCULATOR = """
?start: sum
?sum: product | sum "+" product -> add | sum "-" product -> sub
?product: atom | product "*" atom
?atom: NUMBER | "-" atom | "(" sum ")"
%import common.NUMBER
%ignore / +/
"""


def lark(definition: str) -> TextFormatGrammar:
    return TextFormatGrammar("grammar", "lark", definition)


def regex(definition: str) -> TextFormatGrammar:
    return TextFormatGrammar("grammar", "regex", definition)


def said(form: TextFormatGrammar) -> str:
    text = gbnf(form)
    assert text is not None
    return text


def takes(form: TextFormatGrammar, text: str) -> bool:
    return compile_grammar(form).check(text) is None


def test_a_patch() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@ def f\n-old\n+new\n*** Add File: b\n+x\n*** End Patch\n"
    )
    form, text = lark(PATCH), said(lark(PATCH))
    for example in (patch, patch[:-1], "*** Begin Patch\n*** Delete File: x\n*** End Patch"):
        assert takes(form, example)
        assert follows(text, example)
    for wrong in (
        "",
        patch[1:],
        patch + "\n",
        patch.replace("-old", "old"),
        "*** Begin Patch\n*** End Patch",
    ):
        assert not takes(form, wrong)
        assert not follows(text, wrong)


def test_a_rule_that_begins_with_itself_is_said_otherwise() -> None:
    text = said(lark(CALCULATOR))
    for example in ("1", "1+2", "1 + 2*(3 -4)", "-1", "- 1.5e3"):
        assert takes(lark(CALCULATOR), example)
        assert follows(text, example)
    for wrong in (" 1", "1 ", "1+", "(1", "1 2"):
        assert not follows(text, wrong)


@pytest.mark.parametrize(
    "definition",
    [
        'start: a\na: b "x" | "y"\nb: a "z"',  # begins with itself by way of another rule
        'start: a "x"\na: n a | "y"\nn: "z"?',  # begins with itself behind nothing
        'start: "a"~2000',
    ],
)
def test_what_cannot_be_said_has_no_gbnf(definition: str) -> None:
    compile_grammar(lark(definition))
    assert gbnf(lark(definition)) is None


@pytest.mark.parametrize(
    "definition", [r"\p{Lu}+", r"(?i)[\x{100}-\x{2000}]", "[a-z&&[^b]]", "(?x) a b", "a{1,5000}"]
)
def test_expressions_that_cannot_be_said_have_no_gbnf(definition: str) -> None:
    compile_grammar(regex(definition))
    assert gbnf(regex(definition)) is None


def test_plain_text_has_no_gbnf() -> None:
    assert gbnf(TextFormatGrammar("text")) is None


@pytest.mark.parametrize("name", COMMON)
def test_imports_mean_what_the_library_means(name: str) -> None:
    form = lark(f"start: {name}\n%import common.{name}")
    text = said(form)
    for example in (
        *"aZ7 \t\n\r\f_+.eé#-/", "12", "-12", "+1", "1.", ".5", "1.5e-3", "e5", "E+5", '"a\\"b"', '"a', "abc",
        "ab1", "_a", "  ", " \n", "\r\n\n", "# x", "// x", "/* x */", "/**/", "/* * */ */", "-- x", "--", "",
    ):  # fmt: skip
        assert follows(text, example) == takes(form, example), example


@pytest.mark.parametrize(
    ("definition", "yes", "no"),
    [
        ('start: "a"i "É"i', ["aé", "AÉ"], ["b"]),
        (r'start: "\x41\u00e9\n\"\\"', ['Aé\n"\\'], ["A"]),
        ('start: "a".."c" | "x"', ["b", "x"], ["d"]),
        ('start: "a"~2 "b"~1..2 "c"{2} "d"{1,} "e"{,1}', ["aabccd", "aabbccdde"], ["abccd", "aabccdee"]),
        ('start: ["a" "b"] "c"', ["abc", "c"], ["ac"]),
        ('start: a | B\na: "1" -> one\nB: "2" C\nC: /3/ | "4"', ["1", "23", "24"], ["2"]),
        ('!start: _x _Y z\n_x: "1"\n?z: "3"\n_Y: "2"', ["123"], ["12"]),
        ('start: "a"\n  | "b"  // or\n\n  | "c"', ["a", "b", "c"], ["ab"]),
        ("start: /a\\/b/ /c/i", ["a/bC"], ["a/b"]),
        ("%import common (INT, WS)\n%import common.WORD -> W\nstart: INT WS W", ["1 a"], ["1a"]),
        ('start: x*\nx: "a"? "b"?', ["", "abab", "ba"], ["c"]),
        ('start: (x y)*\nx: "a"?\ny: "b"?', ["", "abab", "ba"], ["c"]),
        ('start: s\ns: "(" s ")" |', ["", "(())"], ["(", ")"]),
        ('start: "a" "b"\n%ignore " "', ["ab", "a b", "a   b"], [" ab", "ab ", "a"]),
        ('start: "a"*\n%ignore " "', ["", "a", "a a"], [" ", " a"]),
        ('start: x "b"\nx: "a"*\n%ignore " "', ["b", "ab", "a a b"], [" b", "b "]),
        ('start: WORD_A "!"\nWORD_A: "a" "b"\n%ignore " "', ["ab!", "ab !"], ["a b!"]),
    ],
)
def test_lark(definition: str, yes: list[str], no: list[str]) -> None:
    text = said(lark(definition))
    for example in (*yes, *no):
        assert takes(lark(definition), example) == (example in yes), example
        assert follows(text, example) == (example in yes), example


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (regex("(a*)*b"), '("a"+)* "b"'),
        (regex("(a?b?)+"), '("a" "b"? | "b")*'),
        (regex("(a?){2,3}"), '"a"{0,3}'),
        (regex("[^a]."), "[^a] [^\\n]"),
        (regex(r"[\[\]^\-\"]"), r"[\x22\x2D\x5B\x5D-\x5E]"),
        (lark('start: (start "x" | "y")'), '"y" "x"*'),
        (lark('start: "\\"\\\\é\\u0007"'), r'"\"\\\u00E9\x07"'),
    ],
)
def test_engines_are_given_what_they_can_read(form: TextFormatGrammar, expected: str) -> None:
    """They refuse a repetition of what may be nothing, and a rule that begins with itself."""
    assert said(form) == f"root ::= r0-start\nr0-start ::= {expected}\n"


def test_names_that_look_alike_are_kept_apart() -> None:
    text = said(lark('start: a_b "-" a-b "-" A_B\na_b: "1"\na-b: "2"\nA_B: "3"'))
    assert follows(text, "1-2-3")


@pytest.mark.parametrize(
    ("definition", "yes", "no"),
    [
        ("^a+$", ["a", "aa"], ["", "b"]),
        (r"\Aab\z", ["ab"], ["a"]),
        ("a|bc|", ["a", "bc", ""], ["ab"]),
        ("(?:a(b)(?P<n>c)(?<m>d))?", ["abcd", ""], ["a"]),
        ("(?i)ab(?-i)c", ["ABc", "abc"], ["abC"]),
        ("(?i:a)b", ["Ab"], ["aB"]),
        ("(?i)k", ["k", "K", "\u212a"], ["x"]),
        ("a.b", ["axb", "a\rb"], ["a\nb"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
        (r"[]a-c\-\]x-]+", ["]-a", "x"], ["d"]),
        (r"[^\n\]]", ["a", "[", "é"], ["\n", "]"]),
        (r"[^\w\s-]", ["!", "→"], ["-", " ", "a", "é"]),
        ("(?i)[^k]", ["a"], ["k", "K", "\u212a"]),
        (r"[[:alpha:]_]+[\d.]", ["a_1", "b."], ["é1"]),
        (r"\t\x41\x{e9}\u00e8\U0001f600\.\/\-", ["\tAéè😀./-"], ["x"]),
        (r"\d\D\s\S\w\W", ["1a bé!"], ["11 bé!"]),
        ("a*?b+?c??", ["b", "aabbc"], ["a"]),
        ("a{2}b{1,}c{0,2}", ["aab", "aabbcc"], ["ab", "aabccc"]),
        ("a{2}{2}", ["aaaa"], ["aa"]),
        ("(a*)*b|(c?d?)+", ["aab", "b", "cdd", ""], ["a"]),
        ("", [""], ["a"]),
    ],
)  # fmt: skip
def test_regular_expressions(definition: str, yes: list[str], no: list[str]) -> None:
    text = said(regex(definition))
    for example in (*yes, *no):
        assert takes(regex(definition), example) == (example in yes), example
        assert follows(text, example) == (example in yes), example


@pytest.mark.parametrize("name", NAMED)
def test_a_named_class_holds_nothing_that_the_library_does_not_take(name: str) -> None:
    grammar = compile_grammar(regex(f"\\{name}"))
    edges = {edge for first, last in NAMED[name] for edge in (first, (first + last) // 2, last)}
    assert [hex(edge) for edge in sorted(edges) if grammar.check(chr(edge)) is not None] == []
    if name in "dws":
        marks = {"d": ("Nd",), "w": ("L", "N", "_", "M"), "s": ("Z", "C")}[name]
        inside = [code for first, last in NAMED[name] for code in range(first, last + 1)]
        assert [
            hex(c) for c in inside if not unicodedata.category(chr(c)).startswith(marks) and c != 0x5F
        ] == []


@pytest.mark.parametrize("name", POSIX)
def test_a_posix_class_is_the_library_s(name: str) -> None:
    grammar, text = compile_grammar(regex(f"[[:{name}:]]")), said(regex(f"[[:{name}:]]"))
    for code in range(128):
        assert (grammar.check(chr(code)) is None) == follows(text, chr(code)), code


_LITERAL = st.sampled_from(["a", "b", "é", "\\.", "[ab]", "[^a]", "\\w", ".", "(?i:B)"])
_EXPRESSIONS = st.recursive(
    _LITERAL,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(_EXPRESSIONS, st.lists(st.text("abBé.x\n", max_size=6), min_size=1, max_size=8))
def test_any_expression_means_the_same(expression: str, texts: list[str]) -> None:
    text = said(regex(expression))
    for example in texts:
        assert follows(text, example) == takes(regex(expression), example), (expression, example)


_NAMES = st.sampled_from(["start", "x", "y"])
_BODIES = st.recursive(
    st.one_of(st.sampled_from(['"a"', '"b"', '"c"', ""]), _NAMES),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({' '.join(parts)})"),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: f"({' | '.join(options)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "~1..2"])).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(_BODIES, _BODIES, _BODIES, st.lists(st.text("abc", max_size=5), min_size=1, max_size=8))
def test_any_rules_mean_the_same(start: str, x: str, y: str, texts: list[str]) -> None:
    """Words of one letter leave the lexer no choice, so the two cannot differ."""
    form = lark(f"start: {start}\nx: {x}\ny: {y}")
    try:
        compile_grammar(form)
    except BadGrammar:
        return  # rules without an end
    text = gbnf(form)
    if text is None:
        return
    for example in texts:
        why = compile_grammar(form).check(example)
        if why is None or "too hard" not in why:
            assert follows(text, example) == (why is None), (form.definition, example)


@settings(max_examples=100, deadline=None)
@given(st.text('abAB"/\\[](){}|*+?~:;,.#%_- \n', max_size=40))
def test_no_text_breaks_the_readers(definition: str) -> None:
    gbnf(lark(f"start: {definition}"))
    gbnf(regex(definition))
