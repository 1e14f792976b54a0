"""Readers of bodies that are not plain JSON: elements with tags, names before arguments, Python lists.

No pattern backtracks over a body: patterns match only what opens an element, and its end is searched for.
"""

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from math import isfinite

import msgspec

from antiphon.turn.text_calls.ends import AfterJson, AtBalance, End
from antiphon.turn.text_calls.json_calls import (
    Call,
    Reader,
    Tools,
    encode_arguments,
    read_arguments,
    read_explicit_objects,
)

NAME = r"[\w.\-]{1,128}"
DSML = "｜DSML｜"
CALL_BEGIN = "<｜tool▁call▁begin｜>"
CALL_END = "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"
MAX_PYTHON_CHARACTERS = 64 * 1024
"""Python's parser needs a thousand times the memory of its source, and blocks the event loop."""
PYTHON_NAME = r"[A-Za-z_][\w.\-]{0,127}"

# Elements: <function=…><parameter=…>, GLM's pairs, DeepSeek's DSML

_FUNCTION = re.compile(rf"\s*+<function=({NAME})\s*+>")
_BARE_FUNCTION = re.compile(rf"({NAME})\s*+>")
_PARAMETER = re.compile(r"\s*+<parameter=([^>]++)>")
_GLM_NAME = re.compile(rf"\s*+({NAME})")
_GLM_PAIR = re.compile(r"\s*+<arg_key>([^<]*+)</arg_key>\s*+<arg_value>")
_INVOKE = re.compile(rf'\s*+<{DSML}invoke\s++name="([^"]++)"\s*+>')
_DSML_PARAMETER = re.compile(rf'\s*+<{DSML}parameter\s++name="([^"]++)"(?:\s++string="(true|false)")?+\s*+>')
_LEADING_LINE_BREAK = re.compile(r"\A\r?\n")
_TRAILING_LINE_BREAK = re.compile(r"\r?\n\Z")

Elements = list[tuple[re.Match[str], str]]
"""The match of what opens each element, and its content."""


def read_functions(body: str, tools: Tools) -> Sequence[Call] | None:
    """``<function=NAME><parameter=KEY>value</parameter></function>``, once or several times."""
    functions = _elements(body, _FUNCTION, "</function>")
    return _all([_function(head[1], content, tools) for head, content in functions or ()])


def read_bare_function(body: str, tools: Tools) -> Sequence[Call] | None:
    """The text after ``<function=``, up to the closing tag."""
    head = _BARE_FUNCTION.match(body)
    return _all([_function(head[1], body[head.end() :], tools)]) if head else None


def _function(name: str, content: str, tools: Tools) -> Call | None:
    """Parameters between tags, or all of them as one JSON object."""
    if content.lstrip().startswith("{"):
        return _call(name, read_arguments(content))
    parameters = _elements(content, _PARAMETER, "</parameter>")
    return None if parameters is None else _call(name, encode_arguments(_pairs(parameters), tools.get(name)))


def read_glm(body: str, tools: Tools) -> Sequence[Call] | None:
    """``NAME<arg_key>k</arg_key><arg_value>v</arg_value>…``."""
    name = _GLM_NAME.match(body)
    pairs = _elements(body[name.end() :], _GLM_PAIR, "</arg_value>") if name else None
    if name is None or pairs is None:
        return None
    return _all([_call(name[1], encode_arguments(_pairs(pairs), tools.get(name[1])))])


def read_invokes(body: str, tools: Tools) -> Sequence[Call] | None:
    """``<｜DSML｜invoke name="NAME">…</｜DSML｜invoke>``, once or several times."""
    invokes = _elements(body, _INVOKE, f"</{DSML}invoke>")
    return _all([_invoke(head[1], content, tools) for head, content in invokes or ()])


def _invoke(name: str, content: str, tools: Tools) -> Call | None:
    """Parameters that may declare themselves strings, or all of them as one JSON object."""
    if content.lstrip().startswith("{"):
        return _call(name, read_arguments(content))
    parameters = _elements(content, _DSML_PARAMETER, f"</{DSML}parameter>")
    if parameters is None:
        return None
    strings = {head[1] for head, _ in parameters if head[2] == "true"}
    pairs = [(head[1], value) for head, value in parameters]
    return _call(name, encode_arguments(pairs, tools.get(name), strings))


def _elements(body: str, head: re.Pattern[str], close: str) -> Elements | None:
    """The elements of a body; None if it contains anything else."""
    found: Elements = []
    at = 0
    while begin := head.match(body, at):
        end = body.find(close, begin.end())
        if end < 0:
            return None
        found.append((begin, body[begin.end() : end]))
        at = end + len(close)
    return None if body[at:].strip() else found


def _pairs(elements: Elements) -> list[tuple[str, str]]:
    """Keys and values. Templates put one line break before and one after a value."""
    return [
        (head[1].strip(), _TRAILING_LINE_BREAK.sub("", _LEADING_LINE_BREAK.sub("", value)))
        for head, value in elements
    ]


def _call(name: str, arguments: str | None) -> Call | None:
    return None if arguments is None else Call(name, arguments)


def _all(calls: list[Call | None]) -> list[Call] | None:
    """The calls, if there are any and each was readable."""
    read = [call for call in calls if call is not None]
    return read if read and len(read) == len(calls) else None


# Names before arguments (Mistral, DeepSeek), several objects, fences

_MISTRAL_HEAD = re.compile(rf"\s*+({NAME})(?:\[CALL_ID\][\w\-]++)?+(?:\[ARGS\])?+\s*+(?=\{{)")
_DEEPSEEK_HEAD = re.compile(
    rf"\s*+(?:function{SEPARATOR})?+({NAME})\s*+(?:{SEPARATOR})?+\s*+(?:```(?:json)?+\s)?+"
)
_DEEPSEEK_BEGIN = re.compile(rf"\s*+{CALL_BEGIN}")
_NEXT_OBJECT = re.compile(r"[\s;]*+(?=\{)")
_LANGUAGE = re.compile(r"\w*+[ \t]*+\r?\n")


def read_mistral_call(body: str, tools: Tools) -> Sequence[Call] | None:
    """``NAME[ARGS]{…}``, with or without ``[CALL_ID]`` and ``[ARGS]``."""
    del tools
    head = _MISTRAL_HEAD.match(body)
    return _named(head, body[head.end() :]) if head else None


def read_deepseek_calls(body: str, tools: Tools) -> Sequence[Call] | None:
    """Several calls, each between its tags."""
    calls: list[Call] = []
    at = 0
    while begin := _DEEPSEEK_BEGIN.match(body, at):
        end = AfterJson(CALL_END).feed(body, begin.end())
        call = read_deepseek_call(body[begin.end() : end.body], tools) if end else None
        if end is None or call is None:
            return None
        calls.extend(call)
        at = end.span
    return calls if calls and not body[at:].strip() else None


def read_deepseek_call(body: str, tools: Tools) -> Sequence[Call] | None:
    """``function<｜tool▁sep｜>NAME`` and fenced JSON, or ``NAME<｜tool▁sep｜>{…}``."""
    del tools
    head = _DEEPSEEK_HEAD.match(body)
    if head is None:
        return None
    return _named(head, body[head.end() :].strip().removesuffix("```"))


def _named(head: re.Match[str], arguments: str) -> Sequence[Call] | None:
    read = read_arguments(arguments)
    return None if read is None else [Call(head[1], read)]


def several(read: Reader) -> Reader:
    """Reads objects that white space or semicolons separate."""

    def read_several(body: str, tools: Tools) -> Sequence[Call] | None:
        calls: list[Call] = []
        at = 0
        while begin := _NEXT_OBJECT.match(body, at):
            end = AtBalance().feed(body, begin.end())
            found = read(body[begin.end() : end.body], tools) if isinstance(end, End) else None
            if not isinstance(end, End) or found is None:
                return None
            calls.extend(found)
            at = end.span
        return calls if calls and not body[at:].strip("; \t\r\n") else None

    return read_several


def with_opening(opening: str, read: Reader) -> Reader:
    """Reads a body whose opening is part of it."""
    return lambda body, tools: read(opening + body, tools)


def read_fenced(body: str, tools: Tools) -> Sequence[Call] | None:
    """One call or a list of calls, after the name of a language."""
    language = _LANGUAGE.match(body)
    return read_explicit_objects(body[language.end() :] if language else body, tools)


# Python lists of calls, as Llama writes them

_PLACEHOLDER = "ǀ"  # a letter to Python, and in no name of a tool
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
    """A Python list of calls whose arguments are keywords with literal values."""
    del tools
    names: dict[str, str] = {}

    def valid(found: re.Match[str]) -> str:
        """Names of tools may have dashes and dots, and names of parameters may be keywords of Python."""
        name = found["name"] or (found["keyword"] if iskeyword(found["keyword"] or "") else None)
        if name is None:
            return found[0]
        placeholder = f"{_PLACEHOLDER}{len(names)}"
        names[placeholder] = name
        return placeholder

    source = _STRING_OR_NAME.sub(valid, body.strip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unknown escapes in strings
            tree = ast.parse(source, mode="eval").body
        if not isinstance(tree, ast.List) or not tree.elts:
            return None
        return [_python_call(node, names) for node in tree.elts]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _python_call(node: ast.expr, names: Mapping[str, str]) -> Call:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name):
        raise ValueError("not a call with keyword arguments")
    arguments: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("a keyword argument without a name")
        arguments[names.get(keyword.arg, keyword.arg)] = _literal(keyword.value)
    name = names.get(node.func.id)
    if name is None:
        raise ValueError("a name without arguments")
    return Call(name, msgspec.json.encode(arguments).decode())


def _literal(node: ast.expr) -> object:
    """The value of a literal; models also write JSON's true, false and null."""
    match node:
        case ast.Constant(value=str() | int() | None as value):
            return value
        case ast.Constant(value=float() as value) if isfinite(value):
            return value
        case ast.Name(id=("true" | "false" | "null") as constant):
            return {"true": True, "false": False, "null": None}[constant]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -_finite(number)
        case ast.List() | ast.Tuple():
            return [_literal(element) for element in node.elts]
        case ast.Dict():
            return {_key(key): _literal(value) for key, value in zip(node.keys, node.values, strict=True)}
        case _:
            raise ValueError("not a literal that JSON can represent")


def _finite(number: float) -> float:
    if isfinite(number):
        return number
    raise ValueError("not a number that JSON can represent")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("a key that is not a string")
