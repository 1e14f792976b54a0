"""What a way of writing calls is: small data around a reader. `dialects.py` has them all."""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.turn.text_calls.ends import EndFinder

Tools = Mapping[str, JsonObject | None]
"""The tools that the model may call: their names, and the JSON schemas of their parameters."""


class Call(Struct, frozen=True):
    """A call that was read from text. `arguments` is JSON text."""

    name: str
    arguments: str


Reader = Callable[[str, Tools], Sequence[Call] | None]
"""Reads a body, the text between the tags; nothing if it holds no calls."""


class Form(Struct, frozen=True, kw_only=True, eq=False):
    """One way in which calls are written."""

    opening: str
    """The tag that it begins with."""
    begins: re.Pattern[str]
    """The beginning of a body, up to where `ends` starts to look."""
    may_begin: re.Pattern[str]
    """All that a body may have shown before `begins` can tell."""
    ends: Callable[[], EndFinder]
    """Makes what finds the end of a body."""
    read: Reader
    close: str = ""
    """The tag that it ends with."""
    tail: tuple[str, ...] = ()
    """Tags that may stand behind it, in this order, without a meaning of their own."""
    strays: str = ""
    """Characters of which one too many may stand behind it."""
    limit: int | None = None
    """Characters of a body, if its reader is dear."""
    needs_close: bool = False
    """Whether a body cannot be known to be whole without its closing tag."""
    leads: bool = False
    """Whether it only counts as all that is said."""
    starts_line: bool = False
    """Whether its tags only count at the beginning of a line."""
    encloses: bool = False
    """Whether its tags also stand around other things, which are passed over as a whole."""


class Dialect(Struct, frozen=True, eq=False):
    """How a family of models writes its calls."""

    name: str
    forms: tuple[Form, ...]
