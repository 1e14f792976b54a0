"""The dialects in which models write tool calls as text, as data (docs/reference/text-calls.md has examples).

A `Form` is one way of writing calls: its tags, how a body begins, how its end is found, and its reader. A
`Dialect` has the forms of a family of models. `Openings` has what the scanner searches for in plain text,
derived from the forms of all dialects of a route.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from msgspec import Struct

from antiphon.turn.text_calls.ends import PYTHON, AfterJson, AtBalance, AtTag, EndFinder
from antiphon.turn.text_calls.json_calls import Reader, read_explicit_object, read_object, read_objects
from antiphon.turn.text_calls.readers import (
    CALL_BEGIN,
    CALL_END,
    DSML,
    MAX_PYTHON_CHARACTERS,
    NAME,
    PYTHON_NAME,
    SEPARATOR,
    read_bare_function,
    read_deepseek_call,
    read_deepseek_calls,
    read_fenced,
    read_functions,
    read_glm,
    read_invokes,
    read_mistral_call,
    read_python,
    several,
    with_opening,
)


class Form(Struct, frozen=True, kw_only=True, eq=False):
    """One way of writing calls."""

    opening: str
    """The tag before a body."""
    begins: re.Pattern[str]
    """Matches the beginning of a body, up to where `ends` starts."""
    may_begin: re.Pattern[str]
    """Matches every beginning that is too short for `begins` to match or fail."""
    ends: Callable[[], EndFinder]
    read: Reader
    close: str = ""
    """The tag after a body."""
    tail: tuple[str, ...] = ()
    """Tags that may follow, in this order, and have no meaning."""
    strays: str = ""
    """Characters of which one may follow by mistake."""
    limit: int | None = None
    """The maximal characters of a body, if its reader is expensive."""
    needs_close: bool = False
    """Whether a body without its closing tag cannot be known to be complete."""
    sole_content: bool = False
    """Whether it counts only if the answer contains nothing else."""
    starts_line: bool = False
    """Whether its tags count only at the beginning of a line."""
    encloses: bool = False
    """Whether its tags also enclose other content, which is then skipped up to the closing tag."""


class Dialect(Struct, frozen=True, eq=False):
    """The forms of a family of models."""

    name: str
    forms: tuple[Form, ...]


_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_CALLS_BEGIN, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_PYTHON_TAG, _PYTHON_START, _PYTHON_END = "<|python_tag|>", "<|python_start|>", "<|python_end|>"
_TURN_ENDS = ("<|eom_id|>", "<|eot_id|>")
_STRAYS = "}]>,"
_FENCE = "```"


def _prefix_of(*tags: str) -> str:
    """A pattern of every prefix of these tags, from the empty one to the complete tag."""
    patterns: list[str] = []
    for tag in tags:
        pattern = ""
        for character in reversed(tag):
            pattern = f"(?:{re.escape(character)}{pattern})?"
        patterns.append(pattern)
    return f"(?:{'|'.join(patterns)})"


_OBJECT = re.compile(r"\s*(?=\{\s*\")")
_MAY_BE_OBJECT = re.compile(r"\s*(?:\{\s*)?")

_HERMES = Dialect(
    "hermes",
    (
        Form(
            opening=_OPEN,
            close=_CLOSE,
            begins=_OBJECT,
            may_begin=_MAY_BE_OBJECT,
            ends=partial(AfterJson, _CLOSE),
            read=read_object,
        ),
    ),
)

_MAY_BE_FUNCTION = re.compile(
    rf"(?:{NAME}\s*(?:>\s*(?:\{{\s*|{_prefix_of('<parameter=', '</function>')}))?)?"
)
_FUNCTION_OF_JSON = Form(
    opening="<function=",
    close="</function>",
    tail=(_CLOSE, *_TURN_ENDS),
    begins=re.compile(rf"{NAME}\s*>\s*(?=\{{\s*[\"}}])"),
    may_begin=_MAY_BE_FUNCTION,
    ends=partial(AfterJson, "</function>"),
    read=read_bare_function,
)

_XML = Dialect(
    "xml",
    (
        Form(
            opening=_OPEN,
            close=_CLOSE,
            begins=re.compile(r"\s*(?=<function=)"),
            may_begin=re.compile(rf"\s*{_prefix_of('<function=')}"),
            ends=partial(AtTag, _CLOSE),
            read=read_functions,
        ),
        Form(
            opening="<function=",
            close="</function>",
            tail=(_CLOSE,),  # some models write only the closing half of the outer tag
            begins=re.compile(rf"{NAME}\s*>\s*(?=<parameter=|</function>)"),
            may_begin=_MAY_BE_FUNCTION,
            ends=partial(AtTag, "</function>"),
            read=read_bare_function,
            needs_close=True,
        ),
        _FUNCTION_OF_JSON,
    ),
)

_GLM = Dialect(
    "glm",
    (
        Form(
            opening=_OPEN,
            close=_CLOSE,
            begins=re.compile(rf"\s*{NAME}\s*(?=<arg_key>|{_CLOSE})"),
            may_begin=re.compile(rf"\s*(?:{NAME}\s*{_prefix_of('<arg_key>', _CLOSE)})?"),
            ends=partial(AtTag, _CLOSE),
            read=read_glm,
            needs_close=True,
        ),
    ),
)


def _tagged_python(opening: str) -> Form:
    return Form(
        opening=opening,
        tail=(_PYTHON_END, *_TURN_ENDS),
        strays=_STRAYS,
        limit=MAX_PYTHON_CHARACTERS,
        needs_close=True,  # an open list is not given to Python's parser
        begins=re.compile(rf"\s*(?=\[\s*{PYTHON_NAME}\()"),
        may_begin=re.compile(rf"\s*(?:\[\s*(?:{PYTHON_NAME})?)?"),
        ends=partial(AtBalance, PYTHON),
        read=read_python,
    )


_LLAMA_TAGGED = Dialect(
    "llama",
    (
        Form(
            opening=_PYTHON_TAG,
            tail=_TURN_ENDS,
            strays=_STRAYS,
            begins=_OBJECT,
            may_begin=_MAY_BE_OBJECT,
            ends=partial(AtBalance, several=True),
            read=several(read_object),
        ),
        _tagged_python(_PYTHON_TAG),
        _tagged_python(_PYTHON_START),
    ),
)

_LLAMA = Dialect(
    "llama",
    (
        *_LLAMA_TAGGED.forms,
        _FUNCTION_OF_JSON,
        Form(
            opening="[",
            tail=_TURN_ENDS,
            strays=_STRAYS,
            limit=MAX_PYTHON_CHARACTERS,
            needs_close=True,
            sole_content=True,
            begins=re.compile(rf"\s*(?={PYTHON_NAME}\()"),
            may_begin=re.compile(rf"\s*(?:{PYTHON_NAME})?"),
            ends=partial(AtBalance, PYTHON, inside="["),
            read=with_opening("[", read_python),
        ),
        Form(
            opening="{",
            tail=_TURN_ENDS,
            strays=_STRAYS,
            sole_content=True,
            begins=re.compile(r'\s*(?="(?:name|type|id|arguments|parameters)"\s*:)'),
            may_begin=re.compile(r'\s*(?:"(?:[a-z]{0,10}|[a-z]{2,10}"\s*))?'),
            ends=partial(AtBalance, inside="{", several=True),
            read=with_opening("{", several(read_explicit_object)),
        ),
    ),
)

_MISTRAL = Dialect(
    "mistral",
    (
        Form(
            opening="[TOOL_CALLS]",
            strays=_STRAYS,
            begins=re.compile(r"\s*(?=(?:\[\s*)?\{\s*\")"),
            may_begin=re.compile(r"\s*(?:\[\s*)?(?:\{\s*)?"),
            ends=AtBalance,
            read=read_objects,
        ),
        Form(
            opening="[TOOL_CALLS]",
            strays=_STRAYS,
            begins=re.compile(rf"\s*{NAME}(?:\[CALL_ID\][\w\-]{{1,64}})?(?:\[ARGS\])?\s*(?=\{{\s*[\"}}])"),
            may_begin=re.compile(rf"\s*(?:{NAME}(?:\[[\w\[\]\-]{{0,90}})?\s*(?:\{{\s*)?)?"),
            ends=AtBalance,
            read=read_mistral_call,
        ),
    ),
)


def _dsml(outer: str) -> Form:
    return Form(
        opening=f"<{DSML}{outer}>",
        close=f"</{DSML}{outer}>",
        begins=re.compile(rf"\s*(?=<{DSML}invoke\s)"),
        may_begin=re.compile(rf"\s*{_prefix_of(f'<{DSML}invoke')}"),
        ends=partial(AtTag, f"</{DSML}{outer}>"),
        read=read_invokes,
    )


_DEEPSEEK = Dialect(
    "deepseek",
    (
        Form(
            opening=_CALLS_BEGIN,
            close=_CALLS_END,
            begins=re.compile(rf"\s*(?={CALL_BEGIN})"),
            may_begin=re.compile(rf"\s*{_prefix_of(CALL_BEGIN)}"),
            ends=partial(AfterJson, _CALLS_END),
            read=read_deepseek_calls,
        ),
        Form(
            opening=CALL_BEGIN,
            close=CALL_END,
            begins=re.compile(rf"\s*{NAME}\s*(?={SEPARATOR}|{_FENCE}|\{{)"),
            may_begin=re.compile(rf"\s*(?:{NAME}\s*{_prefix_of(SEPARATOR, _FENCE)})?"),
            ends=partial(AfterJson, CALL_END),
            read=read_deepseek_call,
        ),
        _dsml("function_calls"),
        _dsml("tool_calls"),
    ),
)

_FENCED = Dialect(
    "fenced",
    (
        Form(
            opening=_FENCE,
            close=_FENCE,
            starts_line=True,
            encloses=True,
            begins=re.compile(r"(?i:json|tool_calls?)?[ \t]*\r?\n\s*(?=[\[{])"),
            may_begin=re.compile(r"[A-Za-z_]{0,10}[ \t]*(?:\r|\r?\n\s*)?"),
            ends=partial(AfterJson, _FENCE),
            read=read_fenced,
        ),
    ),
)

_ALL = (_HERMES, _XML, _GLM, _LLAMA, _MISTRAL, _DEEPSEEK, _FENCED)
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in _ALL}
_UNAMBIGUOUS = (_HERMES, _XML, _GLM, _LLAMA_TAGGED, _MISTRAL, _DEEPSEEK)


def dialects_named(name: str) -> tuple[Dialect, ...]:
    """The dialects of a setting: none for `off`, for `auto` all whose tags are unambiguous."""
    if name == "off":
        return ()
    return _UNAMBIGUOUS if name == "auto" else (DIALECTS[name],)


_NOTHING = "(?!)"


class Openings(NamedTuple):
    """The patterns to search in plain text; the same for every turn of a route."""

    sole: tuple[Form, ...]
    """Forms that count only as the complete answer."""
    forms: dict[str, tuple[Form, ...]]
    tags: re.Pattern[str]
    first_characters: re.Pattern[str]
    prefixes: frozenset[str]
    """Every proper prefix of a tag."""
    longest: int
    """Characters of the longest prefix."""
    start_lines: bool
    """Whether there are tags that count only at the beginning of a line."""
    signs: re.Pattern[str]
    """The tags, and a line break at the end, after which one may count."""

    def in_text(self, text: str) -> bool:
        """Whether `text` contains a tag, or ends with a prefix of one or with a line break that matters."""
        return self.signs.search(text) is not None or self.partial_tag_length(text) > 0

    def first_in(self, text: str, *, line_starts: bool) -> re.Match[str] | None:
        """The first tag; `line_starts`: whether `text` begins a line."""
        tag = self.tags.search(text)
        if tag and not tag.start() and not line_starts and self.forms[tag[0]][0].starts_line:
            tag = self.tags.search(text, 1)
        return tag

    def partial_tag_length(self, text: str) -> int:
        """The length of the longest suffix of `text` that is a proper prefix of a tag."""
        for first in self.first_characters.finditer(text, max(0, len(text) - self.longest)):
            if text[first.start() :] in self.prefixes:
                return len(text) - first.start()
        return 0


def _pattern(forms: Iterable[tuple[Form, ...]]) -> str:
    """A pattern of the tags, grouped by first character so that most text is skipped quickly."""
    groups: dict[str, list[str]] = {}
    for form, *_ in forms:
        first = re.escape(form.opening[0])
        group = groups.setdefault(rf"(?<![^\n]){first}" if form.starts_line else first, [])
        group.append(re.escape(form.opening[1:]))
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in groups.items()) or _NOTHING


@lru_cache
def openings_of(dialects: tuple[Dialect, ...]) -> Openings:
    """The openings of all forms of these dialects."""
    forms: dict[str, tuple[Form, ...]] = {}
    sole: list[Form] = []
    for form in (form for dialect in dialects for form in dialect.forms):
        if form.sole_content:
            sole.append(form)
        else:
            forms[form.opening] = (*forms.get(form.opening, ()), form)
    tags = _pattern(forms.values())
    start_lines = any(form.starts_line for those in forms.values() for form in those)
    firsts = {tag[0] for tag in (*forms, *("\n" * start_lines))}
    prefixes = frozenset(tag[:size] for tag in forms for size in range(1, len(tag)))
    return Openings(
        sole=tuple(sole),
        forms=forms,
        tags=re.compile(tags),
        first_characters=re.compile("|".join(sorted(map(re.escape, firsts))) or _NOTHING),
        prefixes=prefixes,
        longest=max(map(len, prefixes), default=0),
        start_lines=start_lines,
        signs=re.compile(rf"{tags}|\n\Z" if start_lines else tags),
    )
