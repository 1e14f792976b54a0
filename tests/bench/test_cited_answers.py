"""The files and the verdicts of `bench.cited_answers`."""

from dataclasses import replace
from pathlib import Path

from bench.cited_answers import QUESTIONS, Answer, write_files

from antiphon.documents.reading import read_document

QUESTION = QUESTIONS[0]
ANSWER = Answer("It is 34 euros.", 1, ("travel.pdf, page 1", "holidays.md"), 2.0)


def test_each_file_has_the_facts_of_its_questions(tmp_path: Path) -> None:
    write_files(tmp_path)
    for question in QUESTIONS:
        sections = read_document((tmp_path / question.file).read_bytes(), question.file).sections
        text = " ".join(section.text for section in sections)
        assert replace(ANSWER, text=text).has_fact(question), question


def test_a_fact_is_a_word_of_the_answer() -> None:
    assert ANSWER.has_fact(QUESTION)
    assert not replace(ANSWER, text="It is 340 euros.").has_fact(QUESTION)
    assert ANSWER.files == {"travel.pdf", "holidays.md"}
