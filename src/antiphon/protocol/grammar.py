"""Grammars of custom tools: whether a definition is one, and whether a text follows it.

`llguidance` does the work, as it does behind OpenAI's own API, so that a grammar means the same here and
there: Lark with a greedy lexer, or a regular expression in Rust's syntax, which knows no way back. Its limits
are set low: a grammar that would need more is refused, and a text that would need more is too hard to check.
"""

import importlib
import importlib.util
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import UnsetType

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.lark_tokens import BadGrammar, lark_tokens
from antiphon.protocol.parse import missing
from antiphon.protocol.tools import TextFormatGrammar

if TYPE_CHECKING:
    import llguidance

MAX_DEFINITION = 32_768
"""Characters of a definition. Real ones have one or two thousand."""
MAX_TEXT = 262_144
"""Bytes of a text that is checked: a patch of five thousand lines."""
_SLICE = 64
"""Bytes between two looks at the time: one takes up to a millisecond with the worst grammar there may be."""
_END = 256
_MODULE = "llguidance"
_AT = re.compile(r"(?:at )?(?P<line>\d+)\(\d+\): (?P<why>.*)", re.DOTALL)
_MOST_NAMED = 8


class Grammar:
    """A grammar that is ready to check texts. Without a matcher it takes any text."""

    def __init__(self, matcher: "llguidance.LLMatcher | None" = None) -> None:
        self._matcher = matcher

    def check(self, text: str, late: Callable[[], bool] | None = None) -> str | None:
        """Why a text does not follow the grammar, in one sentence; None if it does.

        `late` is asked now and then whether it has taken too long.
        """
        if self._matcher is None:
            return None
        tokens = list(text.encode(errors="replace"))
        if len(tokens) > MAX_TEXT:
            return f"The input has more than {MAX_TEXT} bytes, which is too long to be checked."
        matcher = self._at(tokens, 0)
        for start in range(0, len(tokens), _SLICE):
            if late is not None and late():
                return "The input takes too long to be checked against its grammar."
            if not matcher.consume_tokens(tokens[start : start + _SLICE]):
                return self._refusal(text, tokens, start)
        if matcher.is_accepting():
            return None
        return f"The input ends too early: {_expected(matcher)}."

    def _refusal(self, text: str, tokens: list[int], start: int) -> str:
        """Why the slice at `start` was not taken."""
        # Not `validate_tokens`, which is made for this: it heeds no limit.
        matcher, place = self._at(tokens, start), start
        while not matcher.is_stopped() and matcher.consume_token(tokens[place]):
            place += 1
        if matcher.is_error() and not _misfit(matcher.get_error()):
            return "The input is too hard to be checked against its grammar."
        expected = _expected(self._at(tokens, place))
        before = bytes(tokens[:place]).decode(errors="ignore")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        where = f"At line {line}, column {column} of the input"
        return f"{where}, {text[len(before)]!r} does not fit: {expected}."

    def _at(self, tokens: list[int], place: int) -> "llguidance.LLMatcher":
        """The matcher after so many bytes, which are known to fit."""
        assert self._matcher is not None
        matcher = self._matcher.deep_copy()
        matcher.consume_tokens(tokens[:place])
        return matcher


_ANY_TEXT = Grammar()


def compile_grammar(form: TextFormatGrammar) -> Grammar:
    """The grammar of a format, made once; that of plain text takes everything. Raises `BadGrammar`."""
    if form.type == "text":
        return _ANY_TEXT
    syntax, definition = form.syntax, form.definition
    if isinstance(syntax, UnsetType) or isinstance(definition, UnsetType):
        raise BadGrammar("a grammar needs 'syntax' and 'definition'")
    return _compiled(syntax, definition)


def check_grammar(form: TextFormatGrammar, path: str) -> None:
    """Refuse a format that is no grammar. `path`: where the request has the format."""
    if form.type == "text":
        return
    if isinstance(form.syntax, UnsetType):
        raise missing(f"{path}.syntax", "Use 'lark' or 'regex'.")
    if isinstance(form.definition, UnsetType):
        raise missing(f"{path}.definition")
    if not grammars_installed():
        message = "Grammars need a library that is not installed here: pip install 'antiphon[grammars]'."
        raise Unsupported(message, param=f"{path}.type", code="unsupported_grammar")
    try:
        _compiled(form.syntax, form.definition)
    except BadGrammar as error:
        where = f" in line {error.line}" if error.line else ""
        what = "Lark grammar" if form.syntax == "lark" else "regular expression"
        message = f"'{path}.definition' is not a {what} that is taken here: {error.why}{where}."
        raise InvalidRequest(message, param=f"{path}.definition", code="invalid_grammar") from None


def grammars_installed() -> bool:
    """Whether the library is there; it is an extra, for its size."""
    return importlib.util.find_spec(_MODULE) is not None


@lru_cache(maxsize=256)
def _compiled(syntax: str, definition: str) -> Grammar:
    if len(definition) > MAX_DEFINITION:
        raise BadGrammar(f"it has {len(definition)} characters, and at most {MAX_DEFINITION} are taken")
    library: Any = importlib.import_module(_MODULE)
    if syntax == "lark":
        lark_tokens(definition)
        grammar = library.LLMatcher.grammar_from_lark(definition)
    else:
        grammar = library.LLMatcher.grammar_from_regex(definition)
    matcher = library.LLMatcher(_byte_tokenizer(), grammar, log_level=0, limits=_limits())
    if matcher.is_error():
        raise _reason(matcher.get_error(), syntax)
    if not matcher.is_accepting() and not _allowed(matcher):
        raise BadGrammar("no text can follow it")
    return Grammar(matcher)


class _Bytes:
    """A vocabulary of bytes: a text is checked byte by byte, for no model in particular."""

    eos_token_id = _END
    bos_token_id = None
    tokens = (*(bytes([number]) for number in range(256)), b"<end>")
    special_token_ids = (_END,)

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


@lru_cache(maxsize=1)
def _byte_tokenizer() -> "llguidance.LLTokenizer":
    library: Any = importlib.import_module(_MODULE)
    return library.LLTokenizer(library.TokenizerWrapper(_Bytes()), slices=[])


@lru_cache(maxsize=1)
def _limits() -> "llguidance.LLParserLimits":
    library: Any = importlib.import_module(_MODULE)
    return library.LLParserLimits(
        max_items_in_row=512,
        step_max_items=20_000,
        initial_lexer_fuel=200_000,
        step_lexer_fuel=200_000,
        max_lexer_states=20_000,
        max_grammar_size=50_000,
        verbose_errors=False,
    )


def _reason(error: str, syntax: str) -> BadGrammar:
    """What the library says, without its picture of the place."""
    place = _AT.match(error)
    line, text = (int(place["line"]), place["why"]) if place else (0, error)
    _, _, inner = text.partition("\nerror: ")
    why = (inner or text).partition("\n")[0].rstrip(" .:")
    # A regular expression stands alone: the line is that of the grammar which the library puts around it.
    return BadGrammar(why[:200], line if syntax == "lark" else 0)


def _misfit(error: str) -> bool:
    """Whether a byte was refused because it does not fit, and not because a limit was reached."""
    return "satisfy the grammar" in error or "fails parse" in error


def _expected(matcher: "llguidance.LLMatcher") -> str:
    """What may come next, in a few words."""
    forced = "" if matcher.is_stopped() else matcher.compute_ff_bytes().decode(errors="ignore")
    if forced:
        return f"{forced[:40]!r} must come here"
    allowed = _allowed(matcher)
    if not allowed:
        return "nothing may follow"
    if len(allowed) > _MOST_NAMED or any(number > 127 for number in allowed):
        return "the grammar expects something else"
    return f"one of {', '.join(repr(chr(number)) for number in allowed)} must come here"


def _allowed(matcher: "llguidance.LLMatcher") -> list[int]:
    """The bytes that may come next."""
    if matcher.is_stopped():
        return []
    mask = matcher.compute_bitmask()
    return [number for number in range(256) if mask[number // 8] >> number % 8 & 1]
