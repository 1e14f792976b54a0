"""Large and hostile texts: the cost stays linear, what is too large is text."""

import pytest

from antiphon.turn.chunks import TextDelta
from antiphon.turn.text_calls import bodies, scan
from antiphon.turn.text_calls.python_calls import MAX_PYTHON
from tests.turn.text_calls.telling import Told, feed_all, recovery, tell, told

MEGABYTE = "x" * 1_000_000

LARGE = [
    ("hermes", f'<tool_call>{{"name":"look","arguments":{{"a":"{MEGABYTE}"}}}}</tool_call>'),
    ("hermes", '<tool_call>{"name":"look","arguments":{"a":"' + "\\n" * 250_000 + '"}}</tool_call>'),
    ("xml", f"<function=look><parameter=a>{MEGABYTE}</parameter></function>"),
    ("mistral", f'[TOOL_CALLS]look[ARGS]{{"a":"{MEGABYTE}"}}'),
    ("llama", f'{{"name":"look","parameters":{{"a":"{MEGABYTE}"}}}}'),
    (
        "deepseek",
        f'<｜DSML｜function_calls><｜DSML｜invoke name="look"><｜DSML｜parameter name="a">{MEGABYTE}</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>',
    ),
]


@pytest.mark.parametrize(("dialect", "text"), LARGE)
def test_a_large_body_in_tiny_pieces_is_a_call(dialect: str, text: str) -> None:
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    said, calls = told(feed_all(pieces, dialect))
    assert not said
    assert [name for name, _ in calls] == ["look"]
    assert len(calls[0][1]) >= 500_000


HOSTILE = [
    "<tool_call>" * 50_000,
    "<tool_call>{" * 50_000,
    '<tool_call>{"</tool_call>" ' * 20_000,
    '<tool_call>{"</tool_call>" ' * 20_000 + "\n",
    '<tool_call>{"name":"look","arguments":{"a":"' + '\\"' * 200_000 + "</tool_call>",
    '<tool_call>{"name":"look","arguments":{"a":[' + ",  " * 100_000 + "</tool_call>",
    "<tool_call>" + " " * 500_000,
    "<" * 300_000,
    "[TOOL_CALLS]" * 50_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_read_once_and_stays_text(text: str) -> None:
    assert tell(text) == Told(text, [])
    assert told(feed_all([text[at : at + 7] for at in range(0, len(text), 7)])) == Told(text, [])


MILLION = 1_000_000
DSML_OPEN = '<｜DSML｜function_calls><｜DSML｜invoke name="look">'
DSML_CLOSE = "</｜DSML｜invoke></｜DSML｜function_calls>"


def filled(before: str, piece: str, behind: str) -> str:
    return before + piece * (MILLION // len(piece)) + behind


HOSTILE_BODIES = [
    ("glm", filled("<tool_call>look<arg_key>", "</arg_key><arg_value>", "</tool_call>")),
    ("glm", filled("<tool_call>look<arg_key>a", "</arg_key>", "</tool_call>")),
    ("glm", filled("<tool_call>look<arg_key>a</arg_key>", " ", "</tool_call>")),
    ("xml", filled("<tool_call><function=look>", "<parameter=a>", "</function></tool_call>")),
    ("xml", filled("<tool_call><function=look><parameter=", "a", "</function></tool_call>")),
    ("xml", filled("<tool_call>", "<function=look>", "</tool_call>")),
    ("xml", filled("<function=look><parameter=a>", " </parameter><parameter=", "</function>")),
    ("xml", filled('<function=look>{"":', " ,", "</function>")),
    ("deepseek", filled(DSML_OPEN, '<｜DSML｜parameter name="a">', DSML_CLOSE)),
    ("deepseek", filled(DSML_OPEN, '<｜DSML｜parameter name="', DSML_CLOSE)),
    ("deepseek", filled(DSML_OPEN, " ", "x" + DSML_CLOSE)),
    ("deepseek", filled("<｜tool▁call▁begin｜>look<｜tool▁sep｜>", " ", "x<｜tool▁call▁end｜>")),
    ("deepseek", filled("<｜tool▁call▁begin｜>look<｜tool▁sep｜>", '"', "<｜tool▁call▁end｜>")),
    ("mistral", filled('[TOOL_CALLS]look{"":', "[", "")),
    ("mistral", filled('[TOOL_CALLS]look{"":', '"a', "")),
    ("mistral", filled('[TOOL_CALLS]look{"":', "{}", "]]")),
    ("mistral", filled("", '[TOOL_CALLS]look{"', "")),
    ("mistral", filled('[TOOL_CALLS][{"', ",  ", "}]")),
    ("fenced", filled("```json\n{", "\\", "\n```")),
    ("fenced", filled("```\n{", "x", "\n```")),
    ("fenced", filled("", "```\n", "")),
    ("fenced", filled("", "\n```json\n{", "")),
    ("hermes", filled('<tool_call>{"a":[', ",   ", "x]}</tool_call>")),
    ("hermes", filled('<tool_call>{"', "\\", "}</tool_call>")),
    ("hermes", filled('<tool_call>{""', "}", "</tool_call>")),
    ("hermes", filled('<tool_call>{"":', "[", "</tool_call>")),
    ("llama", filled("[look(a=", "[", "")),
    ("llama", filled("[look(a=", '"', "")),
    ("llama", filled("[look(a=", "1,", ")]")),
    ("llama", filled("", "<|python_tag|>[look(", "")),
    ("llama", filled('<|python_tag|>{"":', "{};", "x")),
    ("llama", filled('{"name":', "[]", "}")),
]


@pytest.mark.parametrize(("dialect", "text"), HOSTILE_BODIES)
def test_no_reader_goes_back_over_a_hostile_body(dialect: str, text: str) -> None:
    assert tell(text, dialect) == Told(text, [])


@pytest.mark.parametrize("opening", ["[", "<|python_tag|>[", "<|python_start|>["])
def test_a_python_list_beyond_its_own_limit_is_text(opening: str) -> None:
    def listed(size: int) -> str:
        return f'{opening}look(a="{"x" * size}")]'

    assert len(tell(listed(60_000), "llama").calls) == 1
    assert tell(listed(MAX_PYTHON), "llama") == Told(listed(MAX_PYTHON), [])
    made = recovery("llama")
    made.feed([TextDelta(listed(2 * MAX_PYTHON)[:-20])])
    assert not made.holding


def test_calls_are_found_though_too_much_was_read_twice() -> None:
    text = (
        '<|python_tag|>{"name":"look"}' + " " * 3000 + "x"
    ) * 1500 + '<tool_call>{"name":"look"}</tool_call>'
    whole = tell(text)
    assert len(whole.calls) == 1501
    assert told(feed_all([text[at : at + 1001] for at in range(0, len(text), 1001)])) == whole


def test_many_calls_in_one_text_are_found() -> None:
    text = '<tool_call>{"name":"look"}</tool_call>\n' * 10_000
    assert tell(text) == Told("", [("look", "{}")] * 10_000)


@pytest.fixture
def small_bodies(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(bodies, "MAX_BODY", 100)
    return 100


def test_a_body_beyond_the_limit_is_said_at_once(small_bodies: int) -> None:
    made = recovery()
    assert made.feed([TextDelta('<tool_call>{"' + "x" * (small_bodies - 2))]) == []
    said = told(made.feed([TextDelta("x")]))
    assert said.text == '<tool_call>{"' + "x" * (small_bodies - 1)
    assert not made.holding


def test_the_limit_is_the_same_however_the_text_is_cut(small_bodies: int) -> None:
    for size in range(small_bodies - 60, small_bodies + 10):
        text = f'<tool_call>{{"name":"look","arguments":{{"a":"{"x" * size}"}}}}</tool_call>'
        whole = tell(text)
        assert told(feed_all(text)) == whole
        assert bool(whole.calls) is (len(text) - len("<tool_call>") <= small_bodies)


def test_text_behind_a_body_beyond_the_limit_is_read_again(small_bodies: int) -> None:
    late = '<tool_call>{"name":"look"}</tool_call>'
    text = '<tool_call>{"' + "x" * small_bodies
    assert tell(text + late) == Told(text, [("look", "{}")])


def test_python_is_not_asked_about_a_list_that_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("Python's parser takes long, and an answer may hold hundreds of openings")

    monkeypatch.setattr("antiphon.turn.text_calls.python_calls.ast.parse", never)
    text = ("#<|python_start|>[look(a=[\n" + "1," * 100 + "\n") * 285
    assert tell(text).text == text


@pytest.mark.parametrize("opening", ['[TOOL_CALLS][{"a":', '<|python_tag|>{"name":"look"};{'])
def test_a_short_answer_is_not_read_again_for_ever(opening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    again = scan.Scan.read_again
    charged: list[int] = []

    def count(self: scan.Scan, text: str, read: int) -> str:
        rest = again(self, text, read)
        charged.append(read if rest else 0)
        return rest

    monkeypatch.setattr(scan.Scan, "read_again", count)
    text = opening * (64 * 1024 // len(opening))
    assert tell(text).text == text
    assert 0 < sum(charged) < 512 * 1024


@pytest.mark.parametrize("word", ["from", "class", "in", "import"])
def test_parameters_may_be_words_of_python(word: str) -> None:
    said, calls = tell(f'[look({word}="a", days = 3, x="{word}=1")]', "llama")
    assert not said
    assert calls == [("look", f'{{"{word}":"a","days":3,"x":"{word}=1"}}')]
