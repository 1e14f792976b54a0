"""Stems of English words."""

import pytest

from antiphon.retrieval.stemming import stem

STEMS = """
caresses caress | ponies poni | cats cat | feed feed | agreed agre | plastered plaster | sing sing
motoring motor | conflated conflat | troubled troubl | sized size | hopping hop | falling fall | hissing hiss
failing fail | filing file | happy happi | sky sky | relational relat | conditional condit | rational ration
digitizer digit | vietnamization vietnam | operator oper | decisiveness decis | sensibility sensibl
triplicate triplic | formative form | electrical electr | goodness good | revival reviv | inference infer
replacement replac | adoption adopt | communism commun | effective effect | probate probat | rate rate
cease ceas | controlling control | roll roll | is is | connections connect | connecting connect
"""


@pytest.mark.parametrize(
    "pair", [pair.strip() for line in STEMS.split("\n") for pair in line.split("|") if pair.strip()]
)
def test_stems_are_those_of_porters_algorithm(pair: str) -> None:
    word, expected = pair.split()
    assert stem(word) == expected


@pytest.mark.parametrize("word", ["größe", "x1ing", "привет", "東京", "", "as"])
def test_other_words_stay(word: str) -> None:
    assert stem(word) == word
