"""Readers of bodies that are more than one JSON value: tags, names before arguments, Python calls."""

import ast
import re
import warnings
from collections.abc import Sequence

import msgspec

from antiphon.turn.text_calls.ends import AfterJson, AtBalance
from antiphon.turn.text_calls.forms import Call, Tools
from antiphon.turn.text_calls.json_calls import read_arguments, read_object
from antiphon.turn.text_calls.values import encode_arguments

NAME = r"[\w.\-]{1,128}"

CALL_BEGIN = "<｜tool▁call▁begin｜>"
CALL_END = "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"

_FUNCTION = re.compile(rf"\s*<function=({NAME})\s*>(.*?)</function>", re.DOTALL)
_BARE_FUNCTION = re.compile(rf"({NAME})\s*>(.*)\Z", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^>]+)>(.*?)</parameter>", re.DOTALL)
_GLM_NAME = re.compile(rf"\s*({NAME})\s*")
_GLM_PAIR = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_MISTRAL_HEAD = re.compile(rf"\s*({NAME})(?:\[CALL_ID\][\w\-]+)?(?:\[ARGS\])?\s*(?=\{{)")
_DEEPSEEK_HEAD = re.compile(rf"\s*(?:function{SEPARATOR})?({NAME})\s*(?:{SEPARATOR})?\s*(?:```(?:json)?\s)?")
_DEEPSEEK_BEGIN = re.compile(rf"\s*{CALL_BEGIN}")
_NEXT_OBJECT = re.compile(r"[\s;]*(?=\{)")


def read_functions(body: str, tools: Tools) -> Sequence[Call] | None:
    """``<function=NAME><parameter=KEY>value</parameter></function>``, once or several times."""
    calls: list[Call] = []
    at = 0
    while found := _FUNCTION.match(body, at):
        call = _function(found[1], found[2], tools)
        if call is None:
            return None
        calls.append(call)
        at = found.end()
    return calls if calls and not body[at:].strip() else None


def read_bare_function(body: str, tools: Tools) -> Sequence[Call] | None:
    """What follows ``<function=``, up to the closing tag."""
    found = _BARE_FUNCTION.match(body)
    call = _function(found[1], found[2], tools) if found else None
    return [call] if call else None


def _function(name: str, parameters: str, tools: Tools) -> Call | None:
    pairs = _pairs(_PARAMETER, parameters, 0)
    return None if pairs is None else Call(name, encode_arguments(pairs, tools.get(name)))


def read_glm(body: str, tools: Tools) -> Sequence[Call] | None:
    """``NAME<arg_key>k</arg_key><arg_value>v</arg_value>…``."""
    name = _GLM_NAME.match(body)
    pairs = _pairs(_GLM_PAIR, body, name.end()) if name else None
    if name is None or pairs is None:
        return None
    return [Call(name[1], encode_arguments(pairs, tools.get(name[1])))]


def _pairs(pattern: re.Pattern[str], body: str, at: int) -> list[tuple[str, str]] | None:
    """Keys and values, if there is nothing else."""
    pairs: list[tuple[str, str]] = []
    while found := pattern.match(body, at):
        pairs.append((found[1].strip(), _without_line_breaks(found[2])))
        at = found.end()
    return None if body[at:].strip() else pairs


def _without_line_breaks(value: str) -> str:
    """Templates put one line break before and one behind a value."""
    return value.removeprefix("\n").removesuffix("\n")


def read_mistral_call(body: str, tools: Tools) -> Sequence[Call] | None:
    """``NAME[ARGS]{…}``, with or without ``[CALL_ID]`` and ``[ARGS]``."""
    del tools
    head = _MISTRAL_HEAD.match(body)
    return _named(head, body[head.end() :]) if head else None


def read_deepseek_calls(body: str, tools: Tools) -> Sequence[Call] | None:
    """Calls between their tags, one after the other."""
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


def read_run(body: str, tools: Tools) -> Sequence[Call] | None:
    """Objects that white space or semicolons part."""
    del tools
    calls: list[Call] = []
    at = 0
    while begin := _NEXT_OBJECT.match(body, at):
        end = AtBalance().feed(body, begin.end())
        found = read_object(body[begin.end() : end.body]) if end else None
        if end is None or found is None:
            return None
        calls.extend(found)
        at = end.span
    return calls if calls and not body[at:].strip("; \t\r\n") else None


def read_python(body: str, tools: Tools) -> Sequence[Call] | None:
    """A Python list of calls with keyword arguments that are literals."""
    del tools
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in a string is no concern of ours
            tree = ast.parse(body.strip(), mode="eval").body
        if not isinstance(tree, ast.List) or not tree.elts:
            return None
        return [_python_call(node) for node in tree.elts]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def read_rest_of_python(body: str, tools: Tools) -> Sequence[Call] | None:
    """The same, behind the opening bracket."""
    return read_python("[" + body, tools)


def _python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("no call with keyword arguments")
    arguments: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("a keyword argument without a name")
        arguments[keyword.arg] = _literal(keyword.value)
    return Call(ast.unparse(node.func), msgspec.json.encode(arguments).decode())


def _literal(node: ast.expr) -> object:
    """The value of a literal; models also write JSON's words for true, false and null."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name(id=("true" | "false" | "null") as word):
            return {"true": True, "false": False, "null": None}[word]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List() | ast.Tuple():
            return [_literal(element) for element in node.elts]
        case ast.Dict():
            return {_key(key): _literal(value) for key, value in zip(node.keys, node.values, strict=True)}
        case _:
            raise ValueError("no literal")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("a key that is no string")
