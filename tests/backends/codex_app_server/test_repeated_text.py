"""The text of a response when codex repeats its request to the model."""

import pytest

from antiphon.backends.codex_app_server.repeated_text import RepeatedText
from antiphon.errors import BackendRefused


def test_messages_are_separated_and_not_emitted_twice() -> None:
    repeated = RepeatedText()
    assert [
        repeated.delta("1", "a"),
        repeated.completed("1", "a"),
        repeated.delta("2", "b"),
        repeated.completed("3", "c"),
    ] == [
        "a",
        "",
        "\n\nb",
        "\n\nc",
    ]
    assert repeated.text == "a\n\nb\n\nc"


@pytest.mark.parametrize("again", [["Hello", " world"], ["H", "e", "ll", "o world"], ["Hello world"]])
@pytest.mark.parametrize("name", ["2", "1"])
def test_a_repeated_message_is_emitted_from_the_point_of_the_interruption(
    again: list[str], name: str
) -> None:
    repeated = RepeatedText()
    repeated.completed("0", "First.")
    assert repeated.delta("1", "Hel") == "\n\nHel"
    repeated.interrupted()
    assert repeated.owing
    assert "".join(repeated.delta(name, text_delta) for text_delta in again) == "lo world"
    assert repeated.completed(name, "Hello world") == ""
    assert not repeated.owing
    assert repeated.text == "First.\n\nHello world"
    assert repeated.delta("9", "Next.") == "\n\nNext."


def test_it_may_be_interrupted_repeatedly() -> None:
    repeated = RepeatedText()
    repeated.delta("1", "Hello")
    for attempt in ("2", "3"):
        repeated.interrupted()
        assert repeated.delta(attempt, "Hel") == ""
    repeated.interrupted()
    repeated.interrupted()
    assert repeated.completed("4", "Hello!") == "!"
    assert repeated.text == "Hello!"


@pytest.mark.parametrize("other", ["Good day", "Help"])
def test_a_different_repetition_is_an_error(other: str) -> None:
    repeated = RepeatedText()
    repeated.delta("1", "Hello")
    repeated.interrupted()
    with pytest.raises(BackendRefused) as caught:
        repeated.delta("2", other)
    assert (caught.value.status, caught.value.code) == (502, "stream_disconnected")


@pytest.mark.parametrize("streamed", [True, False])
def test_a_shorter_repetition_is_an_error(streamed: bool) -> None:
    repeated = RepeatedText()
    repeated.delta("1", "Hello")
    repeated.interrupted()
    if streamed:
        repeated.delta("2", "Hel")
    with pytest.raises(BackendRefused):
        repeated.completed("2", "Hel")


def test_a_complete_message_may_be_repeated_or_be_the_last() -> None:
    repeated = RepeatedText()
    repeated.completed("1", "Hello.")
    repeated.interrupted()
    assert repeated.repeating
    assert not repeated.owing
    assert [repeated.delta("2", "Hel"), repeated.delta("2", "lo. Bye.")] == ["", " Bye."]
    assert repeated.text == "Hello. Bye."
    repeated = RepeatedText()
    repeated.completed("1", "I look.")
    repeated.interrupted()
    repeated.settled()
    assert repeated.completed("2", "Seen.") == "\n\nSeen."


def test_text_of_an_earlier_model_call_is_not_expected_again() -> None:
    repeated = RepeatedText()
    repeated.completed("1", "I look.")
    repeated.settled()
    repeated.interrupted()
    assert repeated.delta("2", "Seen.") == "\n\nSeen."


def test_a_message_with_an_empty_first_delta_is_separated_too() -> None:
    repeated = RepeatedText()
    repeated.completed("1", "a")
    assert [repeated.delta("2", ""), repeated.delta("2", "b")] == ["", "\n\nb"]
