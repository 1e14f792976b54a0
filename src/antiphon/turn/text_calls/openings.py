"""The tags to look for in plain text."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from antiphon.turn.text_calls.forms import Dialect, Form

_NOTHING = "(?!)"


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
    start_lines: bool
    """Whether there are tags that only count at the beginning of a line."""
    signs: re.Pattern[str]
    """The tags, and the end of a line behind which one may count."""

    def in_text(self, text: str) -> bool:
        """Whether `text` holds a tag, or ends with what may be part of one, or with a line that matters."""
        return self.signs.search(text) is not None or self.part_at_end(text) > 0

    def first_in(self, text: str, *, line_starts: bool) -> re.Match[str] | None:
        """The first tag; `line_starts`: whether `text` begins a line."""
        tag = self.tags.search(text)
        if tag and not tag.start() and not line_starts and self.forms[tag[0]][0].starts_line:
            tag = self.tags.search(text, 1)
        return tag

    def part_at_end(self, text: str) -> int:
        """The length of the longest end of `text` that may be part of a tag."""
        for first in self.first_characters.finditer(text, max(0, len(text) - self.longest)):
            if text[first.start() :] in self.parts:
                return len(text) - first.start()
        return 0


def _pattern(forms: Iterable[tuple[Form, ...]]) -> str:
    """A pattern of the tags, by their first characters, so that most text is passed over quickly."""
    groups: dict[str, list[str]] = {}
    for form, *_ in forms:
        first = re.escape(form.opening[0])
        group = groups.setdefault(rf"(?<![^\n]){first}" if form.starts_line else first, [])
        group.append(re.escape(form.opening[1:]))
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in groups.items()) or _NOTHING


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
    tags = _pattern(forms.values())
    start_lines = any(form.starts_line for those in forms.values() for form in those)
    firsts = {tag[0] for tag in (*forms, *("\n" * start_lines))}
    parts = frozenset(tag[:size] for tag in forms for size in range(1, len(tag)))
    return Openings(
        leading=tuple(leading),
        forms=forms,
        tags=re.compile(tags),
        first_characters=re.compile("|".join(sorted(map(re.escape, firsts))) or _NOTHING),
        parts=parts,
        longest=max(map(len, parts), default=0),
        start_lines=start_lines,
        signs=re.compile(rf"{tags}|\n\Z" if start_lines else tags),
    )
