"""Answers without citations get that of the passage that has their words."""

import pytest

from antiphon.protocol.content import JsonObject
from antiphon.service.responses.stages.citations import (
    MATCHED,
    MAX_COMPARED_CHARACTERS,
    MAX_COMPARED_PASSAGES,
    MAX_MATCHED_CHARACTERS,
    CitationStage,
    matching_passage,
)
from antiphon.turn.chunks import AnnotationAdded, Chunk, DowngradesAdded, Finished, TextDelta
from antiphon.turn.function_forms.file_searches import Sources

PRICES: JsonObject = {"file_id": "file_1", "filename": "prices.csv", "text": "| ice drill | 248 euros |"}
TRAVEL: JsonObject = {
    "file_id": "file_2",
    "filename": "travel.pdf",
    "text": "A hotel costs 130 euros a night.",
}
PAGE: JsonObject = {"url": "https://example.com", "text": "The ice drill costs 248 euros."}
SOURCES = Sources((TRAVEL, PRICES))
pytestmark = pytest.mark.requirement("HOSTED/citations-matched")


def answered(*texts: str, sources: Sources = SOURCES) -> list[Chunk]:
    stage = CitationStage(sources)
    passed: list[Chunk] = []
    for text in texts:
        passed += stage.feed([TextDelta(text)])
    return [*passed, *stage.feed([Finished("stop")])]


def cited(chunks: list[Chunk]) -> list[object]:
    return [chunk.annotation["file_id"] for chunk in chunks if isinstance(chunk, AnnotationAdded)]


def test_the_passage_with_the_words_and_the_numbers_is_cited_at_the_end() -> None:
    chunks = answered("The ice dr", "ill costs 248 euros.")
    assert cited(chunks) == ["file_1"]
    assert chunks[-2:] == [DowngradesAdded((MATCHED,)), Finished("stop")]


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("A boat costs €12,500 with its sails.", "file_3"),
        ("A boat costs 12500 euros with its sails.", "file_3"),
        (
            'To find this out, refer to the given passage. It states: "A hotel costs 130 euros a night."',
            "file_2",
        ),
        ("To find this out, refer to the given passage. It costs 130 euros.", None),
        (
            'To find this out, refer to the given passage. It states: "A boat with sails costs 12.500 euros '
            'for members." So this is what members of the club have to pay.',
            "file_3",
        ),
    ],
)
def test_numbers_may_be_grouped_and_one_sentence_may_match(text: str, file: str | None) -> None:
    boat: JsonObject = {"file_id": "file_3", "text": "A boat with sails costs members 12.500 euros."}
    assert cited(answered(text, sources=Sources((TRAVEL, boat)))) == ([] if file is None else [file])


def test_an_answer_with_a_citation_stays_as_it_is() -> None:
    chunks = answered("The ice drill costs 248 euros [1].")
    assert cited(chunks) == ["file_2"]
    assert not any(isinstance(chunk, DowngradesAdded) for chunk in chunks)


@pytest.mark.parametrize(
    "text",
    [
        "The files do not say what a snow shovel costs.",
        "The ice drill costs 249 euros.",
        "248 euros.",
        "",
        "The ice drill costs 248 euros." + " ice" * MAX_MATCHED_CHARACTERS,
    ],
)
def test_other_answers_cite_nothing(text: str) -> None:
    assert cited(answered(text)) == []


def test_each_message_is_looked_at_by_itself() -> None:
    stage = CitationStage(SOURCES)
    passed: list[Chunk] = []
    for text in ("It is cheap [1].", "The ice drill costs 248 euros."):
        passed += [*stage.feed([TextDelta(text)]), *stage.feed([Finished("stop")])]
    assert cited(passed) == ["file_2", "file_1"]


def test_a_page_of_the_web_is_not_matched() -> None:
    assert matching_passage("The ice drill costs 248 euros.", [PAGE]) is None


def test_only_the_newest_passages_are_compared() -> None:
    boat: JsonObject = {"file_id": "file_3", "text": "A boat with sails costs 12500 euros."}
    answer = "A boat with sails costs 12500 euros."
    short: JsonObject = {"file_id": "file_4", "text": "Nothing."}
    assert matching_passage(answer, [boat, *[short] * (MAX_COMPARED_PASSAGES - 1)]) == boat
    assert matching_passage(answer, [boat, *[short] * MAX_COMPARED_PASSAGES]) is None
    long: JsonObject = {"file_id": "file_5", "text": "x" * MAX_COMPARED_CHARACTERS}
    assert matching_passage(answer, [boat, long]) is None
    assert matching_passage(answer, [long, boat]) == boat
