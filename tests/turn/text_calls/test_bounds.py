"""Large and hostile texts: the cost stays linear, what is too large is text."""

import pytest

from antiphon.turn.chunks import TextDelta
from antiphon.turn.text_calls import states
from tests.turn.text_calls.telling import Told, feed_all, recovery, tell, told

MEGABYTE = "x" * 1_000_000

LARGE = [
    ("hermes", f'<tool_call>{{"name":"look","arguments":{{"a":"{MEGABYTE}"}}}}</tool_call>'),
    ("hermes", '<tool_call>{"name":"look","arguments":{"a":"' + "\\n" * 250_000 + '"}}</tool_call>'),
    ("xml", f"<function=look><parameter=a>{MEGABYTE}</parameter></function>"),
    ("mistral", f'[TOOL_CALLS]look[ARGS]{{"a":"{MEGABYTE}"}}'),
    ("llama", f'[look(a="{MEGABYTE}")]'),
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


def test_many_calls_in_one_text_are_found() -> None:
    text = '<tool_call>{"name":"look"}</tool_call>\n' * 10_000
    assert tell(text) == Told("", [("look", "{}")] * 10_000)


@pytest.fixture
def small_bodies(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(states, "MAX_BODY", 100)
    return 100


def test_a_body_beyond_the_limit_is_said_at_once(small_bodies: int) -> None:
    made = recovery()
    assert made.feed([TextDelta("<tool_call>{" + "x" * (small_bodies - 1))]) == []
    said = told(made.feed([TextDelta("x")]))
    assert said.text == "<tool_call>{" + "x" * small_bodies
    assert not made.holding


def test_the_limit_is_the_same_however_the_text_is_cut(small_bodies: int) -> None:
    for size in range(small_bodies - 60, small_bodies + 10):
        text = f'<tool_call>{{"name":"look","arguments":{{"a":"{"x" * size}"}}}}</tool_call>'
        whole = tell(text)
        assert told(feed_all(text)) == whole
        assert bool(whole.calls) is (len(text) - len("<tool_call>") <= small_bodies)


def test_text_behind_a_body_beyond_the_limit_is_read_again(small_bodies: int) -> None:
    late = '<tool_call>{"name":"look"}</tool_call>'
    text = "<tool_call>{" + "x" * small_bodies
    assert tell(text + late) == Told(text, [("look", "{}")])
