"""The guard against loops: what is one, and what only looks like one."""

import random
from pathlib import Path

import pytest

from antiphon.backends.local.repetition import RepetitionGuard

ROOT = Path(__file__).parents[3]

POEM = """\
The moon, a moon,
A moon, a moon's own,
A moon, a moon's moon,
A moon, a moon.

The night, a night,
A night, a night's night,
A night, a night.

The night, a night's night's night,
A night, a night's moon,
A night, a moon,
A night, a moon's moon.

The night, a night,
A night's night's night's night.
A night, a night's light,
A night, a moon.

The night, a night's night,
A night's night's moon,
A night, a moon,
A night, a night's night.
"""
"""As the default model wrote it, and did not stop: no line is the one before."""
PARAGRAPH = (
    "The painting is also said to be a work of art, and it is also said to have been created in Italy. "
    "It is said to be one of the most famous paintings in the history of art. "
)
BOTTLES = "{0} bottles of beer on the wall, {0} bottles of beer. Take one down and pass it around.\n"

LOOPS = {
    "a word": "word " * 60,
    "a sentence": "I am here to help you. " * 20,
    "a paragraph": PARAGRAPH * 4,
    "varied lines": POEM,
    "letters without white space": "abc" * 500,
    "Chinese": "\u4f60\u597d\u4e16\u754c\uff0c" * 200,
    "punctuation": "-" * 2000,
}
FINE = {
    "numbers": " ".join(map(str, range(400))),
    "a numbered list": "\n".join(f"{number}. Item {number}" for number in range(1, 200)),
    "a table": "\n".join(f"{one} x {two} = {one * two}" for one in range(11) for two in range(11)),
    "a counting song": "".join(BOTTLES.format(count) for count in range(99, 50, -1)),
    "JSON": "\n".join(f'{{"name": "n{number}", "age": {number}}},' for number in range(60)),
    "laughter": "Ha ha ha ha ha ha ha! " * 3,
    "a refrain twice": PARAGRAPH * 2,
    "prose": (ROOT / "docs/reference/cli.md").read_text(),
    "code": (ROOT / "src/antiphon/cli/options.py").read_text(),
}


def repeats(text: str, step: int) -> bool:
    guard = RepetitionGuard()
    for start in range(0, len(text), step):
        guard.read(text[start : start + step])
    return guard.repeats


@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_a_loop_is_found_however_the_text_is_cut(text: str, step: int) -> None:
    assert repeats(text, step)


@pytest.mark.parametrize("step", [1, 100_000])
@pytest.mark.parametrize("text", FINE.values(), ids=FINE)
def test_text_that_goes_on_is_no_loop(text: str, step: int) -> None:
    assert not repeats(text, step)


def test_a_loop_is_found_soon() -> None:
    guard = RepetitionGuard()
    guard.read("Once upon a time there was a fox. ")
    assert next(count for count in range(100) if guard.read("The fox ran into the forest. ")) < 10


@pytest.mark.parametrize(("words", "repeats"), [("abc", True), ("abcdef", False)])
def test_few_words_in_any_order_are_a_loop(words: str, repeats: bool) -> None:
    """Three words make 27 sequences of three, six make 216."""
    chance = random.Random(7)
    assert RepetitionGuard().read(" ".join(chance.choice(words) for _ in range(300)) + " ") is repeats
