"""Blocks of Markdown: where they end, and how they look."""

import io

import pytest
from rich.console import Console

from antiphon.cli.answers import Answer, print_notes
from antiphon.cli.rendering import BlockPrinter, end_of_block, markdown, with_line_breaks

WIDTH = 40


def rendered(text: str) -> str:
    console = Console(file=io.StringIO(), width=WIDTH)
    with console.capture() as capture:
        console.print(markdown(text), end="")
    return capture.get()


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("one\n\ntwo", "one\n\n"),
        ("one\n \ntwo", "one\n \n"),
        ("one\ntwo", None),
        ("```\none\n\ntwo", None),
        ("```\none\n\ntwo\n```\n\nthree", "```\none\n\ntwo\n```\n\n"),
        ("~~~~\n```\n\n~~~\n\n", None),
    ],
)
def test_a_block_ends_at_a_blank_line_outside_of_code(text: str, first: str | None) -> None:
    end = end_of_block(text)
    assert (None if end is None else text[:end]) == first


def test_lines_of_a_verse_stay_lines() -> None:
    assert rendered("Roses are red,\nviolets are blue.") == "Roses are red,\nviolets are blue.\n"
    assert with_line_breaks("```\na\nb\n```") == "```\na\nb\n```"


def test_a_table_stays_a_table() -> None:
    assert "|" not in rendered("| a | b |\n|---|---|\n| 1 | 2 |")


def test_blocks_have_one_blank_line_between_them_and_no_padding() -> None:
    console = Console(file=io.StringIO(), width=WIDTH)
    printer = BlockPrinter(console, markdown)
    with console.capture() as capture:
        for piece in ("# He", "ad\n", "\n- one\n- two\n\nlast", " words"):
            printer.write(piece)
        printer.close()
    assert capture.get() == "Head\n\n • one\n • two\n\nlast words\n"


def test_a_note_about_the_end_replaces_the_general_one(capsys: pytest.CaptureFixture[str]) -> None:
    note = "the answer was ended because the model repeated itself"
    answer = Answer.of({"id": "resp_1", "status": "incomplete", "downgrades": [note]})
    print_notes(answer, known={note})
    assert capsys.readouterr().err == f"Note: {note}\n"
    print_notes(Answer.of({"id": "resp_1", "status": "incomplete"}))
    assert "cut off" in capsys.readouterr().err
