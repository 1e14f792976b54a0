"""Reading calls that are written as a Python list, as Llama does."""

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from math import isfinite

import msgspec

from antiphon.turn.text_calls.forms import Call, Tools

MAX_PYTHON = 64 * 1024
"""Characters of such a list. Python's own parser takes a thousand times the memory, and blocks all else."""

PYTHON_NAME = r"[A-Za-z_][\w.\-]{0,127}"
_PLACEHOLDER = "ǀ"  # a letter to Python, and in no name that a model was shown
_STRING_OR_NAME = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)'
    r"|'''(?:[^'\\]|\\.|'(?!''))*+(?:'''|\Z)"
    r'|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
    r"|'[^'\\]*+(?:\\.[^'\\]*+)*+(?:'|\\?\Z)"
    rf"|(?<![\w.\-])(?P<name>{PYTHON_NAME})(?=\()"
    r"|(?<![\w.\-])(?P<keyword>[a-z]++)(?=\s*+=(?!=))",
    re.DOTALL,
)


def read_python(body: str, tools: Tools) -> Sequence[Call] | None:
    """A Python list of calls with keyword arguments that are literals."""
    del tools
    names: dict[str, str] = {}

    def valid(found: re.Match[str]) -> str:
        """Names of tools may have dashes and dots, and those of parameters may be words of Python."""
        name = found["name"] or (found["keyword"] if iskeyword(found["keyword"] or "") else None)
        if name is None:
            return found[0]
        placeholder = f"{_PLACEHOLDER}{len(names)}"
        names[placeholder] = name
        return placeholder

    source = _STRING_OR_NAME.sub(valid, body.strip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in a string is no concern of ours
            tree = ast.parse(source, mode="eval").body
        if not isinstance(tree, ast.List) or not tree.elts:
            return None
        return [_python_call(node, names) for node in tree.elts]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _python_call(node: ast.expr, names: Mapping[str, str]) -> Call:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name):
        raise ValueError("no call with keyword arguments")
    arguments: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("a keyword argument without a name")
        arguments[names.get(keyword.arg, keyword.arg)] = _literal(keyword.value)
    name = names.get(node.func.id)
    if name is None:
        raise ValueError("a name that does not stand before its arguments")
    return Call(name, msgspec.json.encode(arguments).decode())


def _literal(node: ast.expr) -> object:
    """The value of a literal; models also write JSON's words for true, false and null."""
    match node:
        case ast.Constant(value=str() | int() | None as value):
            return value
        case ast.Constant(value=float() as value) if isfinite(value):
            return value
        case ast.Name(id=("true" | "false" | "null") as word):
            return {"true": True, "false": False, "null": None}[word]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -_finite(number)
        case ast.List() | ast.Tuple():
            return [_literal(element) for element in node.elts]
        case ast.Dict():
            return {_key(key): _literal(value) for key, value in zip(node.keys, node.values, strict=True)}
        case _:
            raise ValueError("no literal that JSON has")


def _finite(number: float) -> float:
    if isfinite(number):
        return number
    raise ValueError("a number that JSON does not have")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("a key that is no string")
