"""Ids and file names: `AGN-004` and `AGN-004 - Result Mapping.md`."""

import re
import unicodedata

from antiphon.errors import InvalidRequest

LETTERS = "[A-Z]{3}"
DIGITS = r"\d{3,9}"
MAX_NUMBER = 999_999_999
MAX_TITLE_CHARS = 120
"""Length of a title in a file name."""
MAX_TITLE_BYTES = 200
"""The same in bytes: file systems limit a name to 255."""

_LETTERS = re.compile(LETTERS)
_ID = re.compile(r"([A-Za-z]{3})-(\d{1,9})", re.ASCII)
_FILE = re.compile(rf"({LETTERS})-({DIGITS}) - ([^\x00-\x1f\ud800-\udfff]+)\.md", re.ASCII)
_NUMBERED = re.compile(rf"({LETTERS})-({DIGITS})(?!\d)", re.ASCII)
_PATH_CHARACTERS = frozenset('/\\:*?"<>|')
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NAMELESS = "Untitled"


def check_letters(tla: str) -> str:
    """Raise `InvalidRequest` unless a series is three capital letters."""
    if _LETTERS.fullmatch(tla) is None:
        raise InvalidRequest(
            f"'{tla}' is not a series of documents: use three capital letters, such as AGN.", param="id"
        )
    return tla


def read_id(text: str) -> tuple[str, int]:
    """Series and number; `agn-4` is `AGN-004`."""
    found = _ID.fullmatch(text.strip())
    if found is None or not int(found[2]):
        raise InvalidRequest(f"'{text}' is not the id of a document. An id looks like AGN-004.", param="id")
    return found[1].upper(), int(found[2])


def format_id(tla: str, number: int) -> str:
    """The id, with at least three digits."""
    return f"{tla}-{number:03}"


def split_file_name(name: str) -> tuple[str, int, str] | None:
    """Series, number and title; None: not the name of a document."""
    found = _FILE.fullmatch(name)
    if found is None or not int(found[2]):
        return None
    return found[1], int(found[2]), found[3]


def taken_number(name: str, tla: str) -> int:
    """The number of this series that a file uses, document or not; 0 if none."""
    found = _NUMBERED.match(name)
    return int(found[2]) if found is not None and found[1] == tla else 0


def make_file_name(tla: str, number: int, title: str) -> str:
    """The file name of a document. No title can make it leave its folder.

    The leading id also avoids names that a system reserves (`CON`, `NUL`).
    """
    return f"{format_id(tla, number)} - {_safe(title)}.md"


def _safe(title: str) -> str:
    visible = "".join(_safe_character(character) for character in unicodedata.normalize("NFC", title))
    short = _trim(" ".join(visible.split()))[:MAX_TITLE_CHARS]
    short = short.encode()[:MAX_TITLE_BYTES].decode(errors="ignore")
    return _trim(short) or _NAMELESS


def _safe_character(character: str) -> str:
    if character in _PATH_CHARACTERS:
        return "-"
    if character.isspace():
        return " "
    return "" if unicodedata.category(character) in _INVISIBLE else character


def _trim(name: str) -> str:
    """Strip dots and spaces, which hide a file or which some systems remove."""
    return name.lstrip(". ").rstrip(". ")
