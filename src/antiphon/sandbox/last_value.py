"""Makes code print the value of its last expression, like a notebook, without parsing it with this process's
parser: a parser in C can be made to crash, a tokenizer cannot."""

import io
import keyword
import tokenize
from collections.abc import Sequence

MAX_CHARACTERS = 10_000
"""Longer code is left as it is: the tokenizer takes quadratic time."""
_STARTS = frozenset({"not", "await", "lambda", "None", "True", "False"})
"""Keywords that an expression can begin with."""
_ASSIGNMENTS = frozenset(
    {"=", ":", ";", "+=", "-=", "*=", "/=", "//=", "%=", "**=", "|=", "&=", "^=", "@=", "<<=", ">>=", ":="}
)
_SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


def show_last_value(code: str) -> str:
    """The code, which prints its last value. Code that cannot be read, or is very long, is left as it is."""
    if len(code) > MAX_CHARACTERS:
        return code
    statement = _last_statement(code)
    if not statement or not _is_expression(statement):
        return code
    start, end = statement[0].start, statement[-1].end
    # Not splitlines: the tokenizer does not end lines at a form feed or U+2028.
    lines = io.StringIO(code).readlines()
    before, last = "".join(lines[: start[0] - 1]), lines[start[0] - 1 : end[0]]
    last[-1] = last[-1][: end[1]]
    return f"{before}_ = ({''.join(last)}\n)\nif _ is not None:\n    print(repr(_))\n"


def _last_statement(code: str) -> Sequence[tokenize.TokenInfo]:
    """The tokens of the last logical line; none if the code has no such line."""
    statement: list[tokenize.TokenInfo] = []
    ended = True
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.ERRORTOKEN:
                return []
            if token.type == tokenize.NEWLINE:
                ended = True
            elif token.type not in _SKIPPED and token.type != tokenize.ENDMARKER:
                if ended:
                    statement, ended = [], False
                statement.append(token)
    except (tokenize.TokenError, SyntaxError):
        return []
    return statement


def _is_expression(statement: Sequence[tokenize.TokenInfo]) -> bool:
    first = statement[0]
    if first.start[1] != 0 or first.string == "@":
        return False
    if keyword.iskeyword(first.string) and first.string not in _STARTS:
        return False
    depth = 0
    for token in statement:
        if token.type != tokenize.OP:
            continue
        if token.string in "([{":
            depth += 1
        elif token.string in ")]}":
            depth -= 1
        elif depth == 0 and token.string in _ASSIGNMENTS:
            in_lambda = first.string == "lambda" and token.string in (":", "=")
            if not in_lambda:
                return False
    return True
