"""Ids and file names, and titles that try to escape the folder."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.documents.naming import (
    check_letters,
    make_file_name,
    read_id,
    split_file_name,
    taken_number,
)

PREFIX, ENDING = "AGN-007 - ", ".md"


def test_a_file_name_has_series_number_and_title() -> None:
    assert make_file_name("AGN", 4, "Result Mapping") == "AGN-004 - Result Mapping.md"
    assert make_file_name("AGN", 12345, "Far on") == "AGN-12345 - Far on.md"
    assert split_file_name("AGN-004 - Result Mapping.md") == ("AGN", 4, "Result Mapping")


@pytest.mark.parametrize(
    ("title", "safe"),
    [
        ("../../etc/passwd", "-..-etc-passwd"),
        ("/etc/passwd", "-etc-passwd"),
        ("..\\..\\boot.ini", "-..-boot.ini"),
        ("C:\\x", "C--x"),
        ('what? *all* <of> "it" | now', "what- -all- -of- -it- - now"),
        ("nul\x00 tab\t bell\x07 line", "nul tab bell line"),
        ("...hidden", "hidden"),
        ("ends. . .", "ends"),
        ("...", "Untitled"),
        ("CON", "CON"),
        ("a\u202egnp.exe", "agnp.exe"),
        ("x" * 500, "x" * 120),
        ("é" * 120, "é" * 100),
        ("🎼" * 120, "🎼" * 50),
    ],
)
def test_a_title_is_sanitized_for_the_file_name(title: str, safe: str) -> None:
    assert make_file_name("AGN", 7, title) == f"{PREFIX}{safe}{ENDING}"


@given(st.text())
def test_no_title_escapes_the_folder_or_yields_an_invalid_name(title: str) -> None:
    name = make_file_name("AGN", 7, title)
    assert Path("/folder", name).resolve() == Path("/folder", name)
    assert Path("/folder", name).parent == Path("/folder")
    assert len(name.encode()) <= 255
    assert not any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in name)
    assert not set(name) & set('/\\:*?"<>|')
    inner = name.removeprefix(PREFIX).removesuffix(ENDING)
    assert inner == inner.strip(". ") != ""
    assert split_file_name(name) == ("AGN", 7, inner)


@pytest.mark.parametrize("text", ["AGN-004", "agn-4", " Agn-0004 ", "AGN-000004"])
def test_an_id_is_read_liberally(text: str) -> None:
    assert read_id(text) == ("AGN", 4)


@pytest.mark.parametrize(
    "text", ["", "AGN", "AGN-", "AG-4", "AGNX-4", "AGN-0", "AGN-4x", "../AGN-4", "AGN-١"]
)
def test_an_invalid_id_is_rejected(text: str) -> None:
    with pytest.raises(InvalidRequest, match="AGN-004") as caught:
        read_id(text)
    assert caught.value.param == "id"


@pytest.mark.parametrize("tla", ["", "AG", "AGNX", "agn", "A1N", "ÄGN", "../"])
def test_a_series_has_three_capital_letters(tla: str) -> None:
    with pytest.raises(InvalidRequest, match="three capital letters"):
        check_letters(tla)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "AGN-004.md",
        "AGN-04 - Short.md",
        "AGN-000 - Zero.md",
        "agn-004 - Lower.md",
        "AGN-004 - .md.txt",
        "imp - AGN-004 - Old.md",
        ".AGN-004.new",
        "AGN-004 - a\nb.md",
        "AGN-004 - \udcff.md",
    ],
)
def test_other_files_are_no_documents(name: str) -> None:
    assert split_file_name(name) is None


def test_a_number_is_taken_if_any_file_begins_with_it() -> None:
    assert taken_number("AGN-012.md", "AGN") == 12
    assert taken_number("AGN-000037 - Long.md", "AGN") == 37
    assert taken_number("TUL-012 - Other.md", "AGN") == 0
    assert taken_number("notes.md", "AGN") == 0
