"""GBNF, the notation of llama.cpp, which vLLM's engines read too.

Those engines go from left to right: a rule that begins with itself has no end for them, and neither has a
repetition of what may be nothing. Both are said otherwise where that is possible. A form that cannot be said
at all has none: `gbnf` is None, and the model's answer is checked instead.
"""

from functools import lru_cache

from msgspec import UnsetType

from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.grammars.lark import START, LarkRules, lark_rules
from antiphon.turn.grammars.normal import normal_rules
from antiphon.turn.grammars.parts import (
    Chars,
    Choice,
    Inexpressible,
    Part,
    Ref,
    Repeat,
    Series,
    Spaced,
    Text,
    others,
)
from antiphon.turn.grammars.regexes import regex_part

LONGEST = 200_000
MOST_REPEATS = 1000
"""More copies of a part than that are refused by llama.cpp, or take it long."""
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_PLAIN_IN_CLASSES = frozenset(
    map(ord, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.,:;")
)


def gbnf(form: TextFormatGrammar) -> str | None:
    """A grammar in GBNF; None if it cannot be said in it."""
    if form.type == "text" or isinstance(form.syntax, UnsetType) or isinstance(form.definition, UnsetType):
        return None
    return _gbnf(form.syntax, form.definition)


@lru_cache(maxsize=256)
def _gbnf(syntax: str, definition: str) -> str | None:
    try:
        rules = lark_rules(definition) if syntax == "lark" else LarkRules({START: regex_part(definition)})
        root, normal = normal_rules(rules)
        names = _names(normal)
        lines = [f"root ::= {names[root]}"]
        lines += [f"{names[name]} ::= {_render(part, names)}" for name, part in normal.items()]
    except (Inexpressible, RecursionError):
        return None
    text = "\n".join(lines) + "\n"
    return text if len(text) <= LONGEST else None


def _names(rules: dict[str, Part]) -> dict[str, str]:
    """Names of letters, digits and dashes, each its own. The number keeps `A_b` and `a-b` apart."""
    return {
        name: f"r{number}-{''.join(sign if sign.isascii() and sign.isalnum() else '-' for sign in name)}"
        for number, name in enumerate(rules)
    }


def _render(part: Part, names: dict[str, str], *, inner: bool = False) -> str:
    match part:
        case Text():
            return f'"{"".join(map(_quoted, part.text))}"'
        case Chars():
            return _class(part)
        case Ref():
            return names[part.name]
        case Spaced():
            raise Inexpressible("a word that nobody has spaced")
        case Series():
            text = " ".join(_render(member, names, inner=True) for member in part.parts)
        case Choice():
            text = " | ".join(_render(option, names) for option in part.options)
        case Repeat():
            repeated = _render(part.part, names, inner=True)
            return (
                f"({repeated}){_count(part)}"
                if isinstance(part.part, Repeat)
                else f"{repeated}{_count(part)}"
            )
    return f"({text})" if inner else text


def _count(part: Repeat) -> str:
    if max(part.least, part.most or 0) > MOST_REPEATS:
        raise Inexpressible("too many repetitions")
    match (part.least, part.most):
        case (0, None):
            return "*"
        case (1, None):
            return "+"
        case (0, 1):
            return "?"
        case (least, None):
            return f"{{{least},}}"
        case (least, most):
            return f"{{{least},{most}}}"


def _class(part: Chars) -> str:
    rest = others(part.ranges)
    if rest and len(rest) < len(part.ranges):
        return f"[^{_ranges(rest)}]"
    return f"[{_ranges(part.ranges)}]"


def _ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(
        _code(first) if first == last else f"{_code(first)}-{_code(last)}" for first, last in ranges
    )


def _code(code: int) -> str:
    if code in _PLAIN_IN_CLASSES:
        return chr(code)
    return _ESCAPES[chr(code)] if chr(code) in "\n\r\t\\" else _hex(code)


def _quoted(sign: str) -> str:
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    return sign if sign.isascii() and sign.isprintable() else _hex(ord(sign))


def _hex(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
