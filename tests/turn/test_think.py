"""Reasoning in tags is separated from the answer, for any split of the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.turn.chunks import ReasoningDelta, TextDelta
from antiphon.turn.think import Delta, ThinkSplitter


def split(pieces: list[str], *, inside: bool = False) -> tuple[str, str]:
    """The reasoning and the answer in these pieces of text."""
    splitter = ThinkSplitter(inside=inside)
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += [TextDelta(piece)] if splitter.settled else splitter.feed(piece)
    deltas += splitter.finish()
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return reasoning, "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("<think>why</think>because", "why", "because"),
        ("\n <think>\nwhy\n</think>\n\nbecause\n", "why", "because\n"),
        ("<think></think>because", "", "because"),
        ("<think>never closed", "never closed", ""),
        ("<think>a < b </thin> c</think>d", "a < b </thin> c", "d"),
        ("<think>once</think>and <think>twice</think>", "once", "and <think>twice</think>"),
        ("Hello <think>no</think>", "", "Hello <think>no</think>"),
        ("  indented", "", "  indented"),
        ("<thing>", "", "<thing>"),
        ("<thi", "", "<thi"),
        (" \n ", "", " \n "),
        ("", "", ""),
    ],
)
def test_tags_at_the_start_hold_the_reasoning(text: str, reasoning: str, answer: str) -> None:
    assert split([text]) == (reasoning, answer)
    assert split(list(text)) == (reasoning, answer)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("why</think>because", "why", "because"),
        ("\nwhy\n</think>\nbecause", "why", "because"),
        ("<think>why</think>because", "why", "because"),
        ("</think>because", "", "because"),
        ("why", "why", ""),
        ("<", "<", ""),
    ],
)
def test_an_answer_may_begin_within_the_tags(text: str, reasoning: str, answer: str) -> None:
    assert split([text], inside=True) == (reasoning, answer)
    assert split(list(text), inside=True) == (reasoning, answer)


def test_a_closing_tag_is_text_unless_the_answer_began_within_the_tags() -> None:
    assert split(["why</think>because"]) == ("", "why</think>because")


def test_other_tags_can_be_used() -> None:
    splitter = ThinkSplitter(("[THINK]", "[/THINK]"))
    assert splitter.feed("[THINK]hm[/THINK]yes") == [ReasoningDelta("hm"), TextDelta("yes")]


def test_the_splitter_is_settled_at_the_first_text_of_the_answer() -> None:
    splitter = ThinkSplitter()
    splitter.feed("<think>a</think>\n")
    assert not splitter.settled
    splitter.feed("b")
    assert splitter.settled


def test_held_text_is_emitted_at_the_end() -> None:
    splitter = ThinkSplitter()
    assert splitter.feed("<thi") == []
    assert splitter.finish() == [TextDelta("<thi")]
    assert splitter.settled


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "/", "think>", " ", "\n", "a", "é"]), max_size=12),
    st.data(),
)
def test_any_split_of_the_text_yields_the_same_result(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    inside = data.draw(st.booleans())
    assert split(pieces, inside=inside) == split([text], inside=inside)
