"""Compile the grammar of a custom tool, and check texts against it.

llguidance does the work. OpenAI's API uses it too, so a grammar means the same here and there: Lark with a
greedy lexer, or a regular expression in Rust's syntax, which does not backtrack. A vocabulary of single bytes
stands in for a model's tokens. The library's limits are set low: a grammar that needs more is rejected, and a
text that needs more fails its check.
"""

import importlib
import importlib.util
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import UnsetType

from antiphon.grammars.lark import InvalidGrammar, lark_tokens

if TYPE_CHECKING:
    import llguidance

MAX_DEFINITION_CHARACTERS = 32_768
"""Real definitions have one or two thousand."""
MAX_TEXT_BYTES = 262_144
"""A patch of five thousand lines."""
_SLICE_BYTES = 64
"""How many bytes are consumed at once. The bytes of a rejected slice are tried one by one."""
_END_TOKEN = 256
_LIBRARY = "llguidance"
_LOCATED_ERROR = re.compile(r"(?:at )?(?P<line>\d+)\(\d+\): (?P<why>.*)", re.DOTALL)
_MAX_NAMED_BYTES = 8


class GrammarFormat(Protocol):
    """The `format` of a custom tool. Its `type` is `text` or `grammar`."""

    @property
    def type(self) -> str: ...
    @property
    def syntax(self) -> str | UnsetType: ...
    @property
    def definition(self) -> str | UnsetType: ...


class Grammar:
    """A compiled grammar. Without a matcher it accepts any text."""

    def __init__(self, matcher: "llguidance.LLMatcher | None" = None) -> None:
        self._matcher = matcher

    def check(self, text: str) -> str | None:
        """Why the text does not follow the grammar, in one sentence; None if it does."""
        if self._matcher is None:
            return None
        tokens = list(text.encode(errors="replace"))
        if len(tokens) > MAX_TEXT_BYTES:
            return f"The input has more than {MAX_TEXT_BYTES} bytes, which is too long to be checked."
        matcher = self._matcher_at(tokens, 0)
        for start in range(0, len(tokens), _SLICE_BYTES):
            if not matcher.consume_tokens(tokens[start : start + _SLICE_BYTES]):
                return self._mismatch(text, tokens, start)
        if matcher.is_accepting():
            return None
        return f"The input ends too early: {_expected(matcher)}."

    def _mismatch(self, text: str, tokens: list[int], start: int) -> str:
        """Why the slice at `start` was rejected."""
        # `validate_tokens` is made for this, but ignores all limits.
        matcher, place = self._matcher_at(tokens, start), start
        while not matcher.is_stopped() and matcher.consume_token(tokens[place]):
            place += 1
        if matcher.is_error() and not _is_mismatch(matcher.get_error()):
            return "The input is too hard to be checked against its grammar."
        expected = _expected(self._matcher_at(tokens, place))
        before = bytes(tokens[:place]).decode(errors="ignore")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        where = f"At line {line}, column {column} of the input"
        return f"{where}, {text[len(before)]!r} does not fit: {expected}."

    def _matcher_at(self, tokens: list[int], place: int) -> "llguidance.LLMatcher":
        """A matcher that has consumed the first `place` bytes, which are known to fit."""
        assert self._matcher is not None
        matcher = self._matcher.deep_copy()
        matcher.consume_tokens(tokens[:place])
        return matcher


_ANY_TEXT = Grammar()


def compile_grammar(form: GrammarFormat) -> Grammar:
    """The compiled grammar of a format, from a cache if possible. Raises `InvalidGrammar`."""
    if form.type == "text":
        return _ANY_TEXT
    syntax, definition = form.syntax, form.definition
    if isinstance(syntax, UnsetType) or isinstance(definition, UnsetType):
        raise InvalidGrammar("a grammar needs 'syntax' and 'definition'")
    return compile_definition(syntax, definition)


def grammars_installed() -> bool:
    """Whether the library is installed; it is an extra because of its size."""
    return importlib.util.find_spec(_LIBRARY) is not None


@lru_cache(maxsize=32)
def compile_definition(syntax: str, definition: str) -> Grammar:
    """The compiled grammar of a definition. Raises `InvalidGrammar`."""
    if len(definition) > MAX_DEFINITION_CHARACTERS:
        raise InvalidGrammar(
            f"it has {len(definition)} characters, and at most {MAX_DEFINITION_CHARACTERS} are accepted"
        )
    library: Any = importlib.import_module(_LIBRARY)
    if syntax == "lark":
        lark_tokens(definition)
        grammar = library.LLMatcher.grammar_from_lark(definition)
    else:
        grammar = library.LLMatcher.grammar_from_regex(definition)
    matcher = library.LLMatcher(_byte_tokenizer(), grammar, log_level=0, limits=_limits())
    if matcher.is_error():
        raise _library_error(matcher.get_error(), syntax)
    if not matcher.is_accepting() and not _allowed_bytes(matcher):
        raise InvalidGrammar("no text can follow it")
    return Grammar(matcher)


class _Bytes:
    """A vocabulary of bytes: the check is independent of any model."""

    eos_token_id = _END_TOKEN
    bos_token_id = None
    tokens = (*(bytes([number]) for number in range(256)), b"<end>")
    special_token_ids = (_END_TOKEN,)

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


@lru_cache(maxsize=1)
def _byte_tokenizer() -> "llguidance.LLTokenizer":
    library: Any = importlib.import_module(_LIBRARY)
    return library.LLTokenizer(library.TokenizerWrapper(_Bytes()), slices=[])


@lru_cache(maxsize=1)
def _limits() -> "llguidance.LLParserLimits":
    library: Any = importlib.import_module(_LIBRARY)
    return library.LLParserLimits(
        max_items_in_row=512,
        step_max_items=20_000,
        initial_lexer_fuel=200_000,
        step_lexer_fuel=200_000,
        max_lexer_states=20_000,
        max_grammar_size=50_000,
        verbose_errors=False,
    )


def _library_error(error: str, syntax: str) -> InvalidGrammar:
    """The library's message without its drawing of the place."""
    located = _LOCATED_ERROR.match(error)
    line, text = (int(located["line"]), located["why"]) if located else (0, error)
    _, _, inner = text.partition("\nerror: ")
    why = (inner or text).partition("\n")[0].rstrip(" .:")
    # The line of a regular expression is that of the grammar which the library puts around it.
    return InvalidGrammar(why[:200], line if syntax == "lark" else 0)


def _is_mismatch(error: str) -> bool:
    """Whether a byte was rejected by the grammar, not by a limit."""
    return "satisfy the grammar" in error or "fails parse" in error


def _expected(matcher: "llguidance.LLMatcher") -> str:
    forced = "" if matcher.is_stopped() else matcher.compute_ff_bytes().decode(errors="ignore")
    if forced:
        return f"{forced[:40]!r} must come here"
    allowed = _allowed_bytes(matcher)
    if not allowed:
        return "nothing may follow"
    if len(allowed) > _MAX_NAMED_BYTES or any(number > 127 for number in allowed):
        return "the grammar expects something else"
    return f"one of {', '.join(repr(chr(number)) for number in allowed)} must come here"


def _allowed_bytes(matcher: "llguidance.LLMatcher") -> list[int]:
    if matcher.is_stopped():
        return []
    mask = matcher.compute_bitmask()
    return [number for number in range(256) if mask[number // 8] >> number % 8 & 1]
