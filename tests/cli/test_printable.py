"""Sanitizing of a model's text for the terminal."""

import pytest

from antiphon.cli.terminal import printable


@pytest.mark.parametrize(
    "text", ["plain\ttext\n", "größe 東京 שלום", "👩\u200d🚀", "می\u200cخواهم", "\u00a0\u2028"]
)
def test_text_is_shown_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    "hidden",
    [
        "\x1b",
        "\x07",
        "\r",
        "\x7f",
        "\x9b",
        "\u202e",
        "\u2066",
        "\u200b",
        "\u200f",
        "\ufeff",
        "\u00ad",
        "\U000e0041",
    ],
)
def test_control_and_bidi_characters_are_removed(hidden: str) -> None:
    assert printable(f"a{hidden}b") == "ab"
    assert printable(f"a{hidden}b") == "ab"
