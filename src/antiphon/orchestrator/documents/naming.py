"""Ids and file names: `AGN-004` and `AGN-004 - Result Mapping.md`."""

import re
import unicodedata

from antiphon.errors import InvalidRequest

LETTERS = "[A-Z]{3}"
DIGITS = r"\d{3,9}"
MAX_NUMBER = 999_999_999
MAX_TITLE = 120
"""Characters of a title that stand in a file name."""
MAX_TITLE_BYTES = 200
"""The same in bytes: file systems take 255 for the whole name."""

_LETTERS = re.compile(LETTERS)
_ID = re.compile(r"([A-Za-z]{3})-(\d{1,9})", re.ASCII)
_FILE = re.compile(rf"({LETTERS})-({DIGITS}) - ([^\x00-\x1f\ud800-\udfff]+)\.md", re.ASCII)
_NUMBERED = re.compile(rf"({LETTERS})-({DIGITS})(?!\d)", re.ASCII)
_PATH_CHARACTERS = frozenset('/\\:*?"<>|')
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NAMELESS = "Untitled"


def check_letters(tla: str) -> str:
    """Refuse a series that is not named by three capital letters."""
    if _LETTERS.fullmatch(tla) is None:
        raise InvalidRequest(
            f"'{tla}' is no series of documents: use three capital letters, as in AGN.", param="id"
        )
    return tla


def read_id(text: str) -> tuple[str, int]:
    """Series and number; `agn-4` is `AGN-004`."""
    found = _ID.fullmatch(text.strip())
    if found is None or not int(found[2]):
        raise InvalidRequest(f"'{text}' is no id of a document. An id looks like AGN-004.", param="id")
    return found[1].upper(), int(found[2])


def say_id(tla: str, number: int) -> str:
    """The id; at least three digits."""
    return f"{tla}-{number:03}"


def split_file_name(name: str) -> tuple[str, int, str] | None:
    """Series, number and title; None if it is not the name of a document."""
    found = _FILE.fullmatch(name)
    if found is None or not int(found[2]):
        return None
    return found[1], int(found[2]), found[3]


def taken_number(name: str, tla: str) -> int:
    """The number of this series that a file uses, document or not; 0 if none."""
    found = _NUMBERED.match(name)
    return int(found[2]) if found is not None and found[1] == tla else 0


def make_file_name(tla: str, number: int, title: str) -> str:
    """The name of the file of a document. It stays in its folder whatever the title is.

    The id in front also keeps names that a system reserves (`CON`, `NUL`) from being names of files.
    """
    return f"{say_id(tla, number)} - {_safe(title)}.md"


def _safe(title: str) -> str:
    visible = "".join(_safe_character(character) for character in unicodedata.normalize("NFC", title))
    short = _trim(" ".join(visible.split()))[:MAX_TITLE]
    short = short.encode()[:MAX_TITLE_BYTES].decode(errors="ignore")
    return _trim(short) or _NAMELESS


def _safe_character(character: str) -> str:
    if character in _PATH_CHARACTERS:
        return "-"
    if character.isspace():
        return " "
    return "" if unicodedata.category(character) in _INVISIBLE else character


def _trim(name: str) -> str:
    """No hidden files, and no ends that some systems cut off."""
    return name.lstrip(". ").rstrip(". ")
