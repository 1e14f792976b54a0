"""The text of a response, and what becomes of it when codex asks its model again."""

import pytest

from antiphon.backends.codex_app_server.repeated_text import RepeatedText
from antiphon.errors import BackendRefused


def test_messages_are_parted_and_not_said_twice() -> None:
    speech = RepeatedText()
    assert [
        speech.delta("1", "a"),
        speech.completed("1", "a"),
        speech.delta("2", "b"),
        speech.completed("3", "c"),
    ] == [
        "a",
        "",
        "\n\nb",
        "\n\nc",
    ]
    assert speech.text == "a\n\nb\n\nc"


@pytest.mark.parametrize("again", [["Hello", " world"], ["H", "e", "ll", "o world"], ["Hello world"]])
@pytest.mark.parametrize("name", ["2", "1"])
def test_a_message_that_is_said_again_is_told_from_where_it_broke(again: list[str], name: str) -> None:
    speech = RepeatedText()
    speech.completed("0", "First.")
    assert speech.delta("1", "Hel") == "\n\nHel"
    speech.interrupted()
    assert speech.owing
    assert "".join(speech.delta(name, words) for words in again) == "lo world"
    assert speech.completed(name, "Hello world") == ""
    assert not speech.owing
    assert speech.text == "First.\n\nHello world"
    assert speech.delta("9", "Next.") == "\n\nNext."


def test_it_may_break_again_and_again_also_while_it_is_repeated() -> None:
    speech = RepeatedText()
    speech.delta("1", "Hello")
    for attempt in ("2", "3"):
        speech.interrupted()
        assert speech.delta(attempt, "Hel") == ""
    speech.interrupted()
    speech.interrupted()
    assert speech.completed("4", "Hello!") == "!"
    assert speech.text == "Hello!"


@pytest.mark.parametrize("other", ["Good day", "Help"])
def test_another_answer_is_a_fault(other: str) -> None:
    speech = RepeatedText()
    speech.delta("1", "Hello")
    speech.interrupted()
    with pytest.raises(BackendRefused) as caught:
        speech.delta("2", other)
    assert (caught.value.status, caught.value.code) == (502, "stream_disconnected")


@pytest.mark.parametrize("streamed", [True, False])
def test_a_shorter_answer_is_a_fault(streamed: bool) -> None:
    speech = RepeatedText()
    speech.delta("1", "Hello")
    speech.interrupted()
    if streamed:
        speech.delta("2", "Hel")
    with pytest.raises(BackendRefused):
        speech.completed("2", "Hel")


def test_a_whole_message_may_be_said_again_or_be_the_last() -> None:
    speech = RepeatedText()
    speech.completed("1", "Hello.")
    speech.interrupted()
    assert speech.repeating
    assert not speech.owing
    assert [speech.delta("2", "Hel"), speech.delta("2", "lo. Bye.")] == ["", " Bye."]
    assert speech.text == "Hello. Bye."
    speech = RepeatedText()
    speech.completed("1", "I look.")
    speech.interrupted()
    speech.settled()
    assert speech.completed("2", "Seen.") == "\n\nSeen."


def test_what_was_said_in_an_earlier_call_of_the_model_is_not_said_again() -> None:
    speech = RepeatedText()
    speech.completed("1", "I look.")
    speech.settled()
    speech.interrupted()
    assert speech.delta("2", "Seen.") == "\n\nSeen."


def test_a_message_that_begins_with_nothing_is_parted_too() -> None:
    speech = RepeatedText()
    speech.completed("1", "a")
    assert [speech.delta("2", ""), speech.delta("2", "b")] == ["", "\n\nb"]
