"""What ends the check of a text before the text ends."""

from msgspec import Struct


class PrefixFault(Struct, frozen=True):
    """Why a text cannot become JSON of its schema any more, as one sentence."""

    why: str
    offset: int
    """How many characters it took to know that."""
    is_syntax: bool = False
    """Whether the text is not JSON at all; otherwise it is JSON that does not fit its schema."""

    @property
    def may_be_prose(self) -> bool:
        """Whether the text may be a sentence that begins like JSON: "[Note] …"."""
        return self.is_syntax or self.offset == 1


class FaultFound(Exception):
    """A fault, and the position in the current piece behind the character that shows it."""

    def __init__(self, after: int, why: str, *, is_syntax: bool = False) -> None:
        super().__init__(why)
        self.after = after
        self.why = why
        self.is_syntax = is_syntax


class Undecided(Exception):
    """The text or its schema is too complex to be followed while the text arrives."""


def unexpected(text: str, position: int) -> FaultFound:
    """The fault of a character that JSON does not have here."""
    return FaultFound(position + 1, f"unexpected character {text[position]!r}", is_syntax=True)
