"""Large and hostile texts: processing time stays linear, and an oversized body is text."""

import pytest

from antiphon.turn.chunks import TextDelta
from antiphon.turn.text_calls import scanner
from antiphon.turn.text_calls.readers import MAX_PYTHON_CHARACTERS
from tests.turn.text_calls.feeding import Result, feed_all, feed_text, recovery, result_of

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
    emitted, calls = result_of(feed_all(pieces, dialect))
    assert not emitted
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
def test_a_hostile_text_is_read_once_and_is_text(text: str) -> None:
    assert feed_text(text) == Result(text, [])
    assert result_of(feed_all([text[at : at + 7] for at in range(0, len(text), 7)])) == Result(text, [])


MILLION = 1_000_000
DSML_OPEN = '<｜DSML｜function_calls><｜DSML｜invoke name="look">'
DSML_CLOSE = "</｜DSML｜invoke></｜DSML｜function_calls>"


def filled(before: str, piece: str, after: str) -> str:
    return before + piece * (MILLION // len(piece)) + after


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
def test_no_reader_backtracks_over_a_hostile_body(dialect: str, text: str) -> None:
    assert feed_text(text, dialect) == Result(text, [])


@pytest.mark.parametrize("prefix", ["[", "<|python_tag|>[", "<|python_start|>["])
def test_a_python_list_beyond_its_own_limit_is_text(prefix: str) -> None:
    def listed(size: int) -> str:
        return f'{prefix}look(a="{"x" * size}")]'

    assert len(feed_text(listed(60_000), "llama").calls) == 1
    assert feed_text(listed(MAX_PYTHON_CHARACTERS), "llama") == Result(listed(MAX_PYTHON_CHARACTERS), [])
    text_recovery = recovery("llama")
    text_recovery.feed([TextDelta(listed(2 * MAX_PYTHON_CHARACTERS)[:-20])])
    assert not text_recovery.holding


def test_calls_are_found_though_too_much_was_read_twice() -> None:
    text = (
        '<|python_tag|>{"name":"look"}' + " " * 3000 + "x"
    ) * 1500 + '<tool_call>{"name":"look"}</tool_call>'
    unsplit = feed_text(text)
    assert len(unsplit.calls) == 1501
    assert result_of(feed_all([text[at : at + 1001] for at in range(0, len(text), 1001)])) == unsplit


def test_many_calls_in_one_text_are_found() -> None:
    text = '<tool_call>{"name":"look"}</tool_call>\n' * 10_000
    assert feed_text(text) == Result("", [("look", "{}")] * 10_000)


@pytest.fixture
def small_bodies(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(scanner, "MAX_BODY_CHARACTERS", 100)
    return 100


def test_a_body_beyond_the_limit_is_emitted_at_once(small_bodies: int) -> None:
    text_recovery = recovery()
    assert text_recovery.feed([TextDelta('<tool_call>{"' + "x" * (small_bodies - 2))]) == []
    emitted = result_of(text_recovery.feed([TextDelta("x")]))
    assert emitted.text == '<tool_call>{"' + "x" * (small_bodies - 1)
    assert not text_recovery.holding


def test_the_limit_is_the_same_for_any_split_of_the_text(small_bodies: int) -> None:
    for size in range(small_bodies - 60, small_bodies + 10):
        text = f'<tool_call>{{"name":"look","arguments":{{"a":"{"x" * size}"}}}}</tool_call>'
        unsplit = feed_text(text)
        assert result_of(feed_all(text)) == unsplit
        assert bool(unsplit.calls) is (len(text) - len("<tool_call>") <= small_bodies)


def test_text_after_an_oversized_body_is_read_again(small_bodies: int) -> None:
    late = '<tool_call>{"name":"look"}</tool_call>'
    text = '<tool_call>{"' + "x" * small_bodies
    assert feed_text(text + late) == Result(text, [("look", "{}")])


def test_an_open_list_is_not_passed_to_pythons_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("Python's parser takes long, and an answer may contain hundreds of opening tags")

    monkeypatch.setattr("antiphon.turn.text_calls.readers.ast.parse", never)
    text = ("#<|python_start|>[look(a=[\n" + "1," * 100 + "\n") * 285
    assert feed_text(text).text == text


@pytest.mark.parametrize("prefix", ['[TOOL_CALLS][{"a":', '<|python_tag|>{"name":"look"};{'])
def test_a_short_answer_is_not_reread_forever(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    again = scanner.TextScanner.reread
    charged: list[int] = []

    def count(self: scanner.TextScanner, text: str, read: int) -> str:
        rest = again(self, text, read)
        charged.append(read if rest else 0)
        return rest

    monkeypatch.setattr(scanner.TextScanner, "reread", count)
    text = prefix * (64 * 1024 // len(prefix))
    assert feed_text(text).text == text
    assert 0 < sum(charged) < 512 * 1024


@pytest.mark.parametrize("word", ["from", "class", "in", "import"])
def test_parameters_may_be_keywords_of_python(word: str) -> None:
    emitted, calls = feed_text(f'[look({word}="a", days = 3, x="{word}=1")]', "llama")
    assert not emitted
    assert calls == [("look", f'{{"{word}":"a","days":3,"x":"{word}=1"}}')]
