"""Ids: a prefix that names the kind, 48 bits of time so that they sort, 128 random bits.

Only the composition root reads a clock or a random source; it passes both to `IdSource`.
"""

import re
from collections.abc import Callable
from string import ascii_lowercase, digits
from typing import Literal, NamedTuple

from antiphon.errors import InvalidRequest


class IdForm(NamedTuple):
    """How ids of a kind begin, and the parameter that holds one."""

    prefix: str
    param: str

    def check(self, value: str) -> None:
        """Raise `InvalidRequest` for an id of another form."""
        if not value.startswith(self.prefix):
            expected = f"Expected an ID that begins with '{self.prefix}'."
            message = f"Invalid '{self.param}': '{value[:100]}'. {expected}"
            raise InvalidRequest(message, param=self.param, code="invalid_value")


RESPONSE_ID = IdForm("resp", "response_id")
PREVIOUS_RESPONSE_ID = IdForm("resp", "previous_response_id")
CONVERSATION_ID = IdForm("conv", "conversation_id")
CONVERSATION = IdForm("conv", "conversation")
FILE_ID = IdForm("file-", "file_id")
UPLOAD_ID = IdForm("upload_", "upload_id")
VECTOR_STORE_ID = IdForm("vs_", "vector_store_id")
CONTAINER_ID = IdForm("cntr_", "container_id")

_STORED_FILE_ID = re.compile("file-[0-9a-f]{44}")


def is_stored_file_id(value: str) -> bool:
    """Whether this may be the id of a file that is stored here; ids of other servers look different."""
    return _STORED_FILE_ID.fullmatch(value) is not None


Clock = Callable[[], float]
"""Seconds since the epoch."""

Entropy = Callable[[int], bytes]
"""Returns this many random bytes."""

MARK = "AM"
LETTERS = ascii_lowercase + digits
_TO_LETTERS = bytes(ord(LETTERS[byte % len(LETTERS)]) for byte in range(256))


RANDOM_BYTES = 16


class IdSource:
    """Makes ids such as ``resp_0194f3a6c1b8…``: 12 digits of milliseconds, 32 digits of entropy.

    Entropy is read for `block` ids at once: most of them need no system call.
    """

    __slots__ = ("_digits", "_millisecond", "_time_digits", "block", "clock", "entropy")

    def __init__(self, clock: Clock, entropy: Entropy, block: int = 1) -> None:
        self.clock = clock
        self.entropy = entropy
        self.block = block
        self._digits: list[str] = []
        self._millisecond = -1
        self._time_digits = ""

    def new(self, prefix: str, separator: str = "_") -> str:
        """A new id."""
        millisecond = int(self.clock() * 1000)
        if millisecond != self._millisecond:
            self._millisecond, self._time_digits = millisecond, f"{millisecond:012x}"
        if not self._digits:
            self._read_entropy()
        return f"{prefix}{separator}{self._time_digits}{self._digits.pop()}"

    def _read_entropy(self) -> None:
        digits, width = self.entropy(RANDOM_BYTES * self.block).hex(), 2 * RANDOM_BYTES
        self._digits = [digits[start : start + width] for start in range(0, len(digits), width)]

    def new_marked(self, prefix: str) -> str:
        """A new id in the style of `maestro`: ``resp_AM-{milliseconds}-{random}``, ``msg_AM-{random}``."""
        if prefix == "resp":
            return f"{prefix}_{MARK}-{int(self.clock() * 1000)}-{self._letters(8)}"
        return f"{prefix}_{MARK}-{self._letters(12)}"

    def maker(self, style: Literal["timed", "marked"]) -> Callable[[str], str]:
        """The function that makes ids of this style."""
        return self.new if style == "timed" else self.new_marked

    def _letters(self, count: int) -> str:
        return self.entropy(count).translate(_TO_LETTERS).decode()
