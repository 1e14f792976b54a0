"""The tags to look for in plain text."""

import re
from functools import lru_cache
from typing import NamedTuple

from antiphon.turn.text_calls.forms import Dialect, Form


class Openings(NamedTuple):
    """What to look for; the same for every turn of a model."""

    leading: tuple[Form, ...]
    forms: dict[str, tuple[Form, ...]]
    tags: re.Pattern[str]
    first_characters: re.Pattern[str]
    parts: frozenset[str]
    """All that a tag may begin with."""
    longest: int
    """Characters of the longest part."""

    def in_text(self, text: str) -> bool:
        """Whether `text` holds a tag, or ends with what may be part of one."""
        return self.tags.search(text) is not None or self.part_at_end(text) > 0

    def part_at_end(self, text: str) -> int:
        """The length of the longest end of `text` that may be part of a tag."""
        for first in self.first_characters.finditer(text, max(0, len(text) - self.longest)):
            if text[first.start() :] in self.parts:
                return len(text) - first.start()
        return 0


@lru_cache
def openings_of(dialects: tuple[Dialect, ...]) -> Openings:
    """The forms of all dialects, by the tags that open them."""
    forms: dict[str, tuple[Form, ...]] = {}
    leading: list[Form] = []
    for form in (form for dialect in dialects for form in dialect.forms):
        if form.leads:
            leading.append(form)
        else:
            forms[form.opening] = (*forms.get(form.opening, ()), form)
    nothing = "(?!)"
    parts = frozenset(tag[:size] for tag in forms for size in range(1, len(tag)))
    return Openings(
        leading=tuple(leading),
        forms=forms,
        tags=re.compile("|".join(map(re.escape, forms)) or nothing),
        first_characters=re.compile("|".join(sorted({re.escape(tag[0]) for tag in forms})) or nothing),
        parts=parts,
        longest=max(map(len, parts), default=0),
    )
