"""Reading calls whose arguments stand between tags, one element behind the other."""

import re
from collections.abc import Sequence

from antiphon.turn.text_calls.forms import Call, Tools
from antiphon.turn.text_calls.json_calls import read_arguments
from antiphon.turn.text_calls.values import encode_arguments

NAME = r"[\w.\-]{1,128}"
DSML = "｜DSML｜"

# Only what opens an element: its end is looked up, so that no pattern goes back over a body.
_FUNCTION = re.compile(rf"\s*+<function=({NAME})\s*+>")
_BARE_FUNCTION = re.compile(rf"({NAME})\s*+>")
_PARAMETER = re.compile(r"\s*+<parameter=([^>]++)>")
_GLM_NAME = re.compile(rf"\s*+({NAME})")
_GLM_PAIR = re.compile(r"\s*+<arg_key>([^<]*+)</arg_key>\s*+<arg_value>")
_INVOKE = re.compile(rf'\s*+<{DSML}invoke\s++name="([^"]++)"\s*+>')
_DSML_PARAMETER = re.compile(rf'\s*+<{DSML}parameter\s++name="([^"]++)"(?:\s++string="(true|false)")?+\s*+>')
_LINE_BREAK_BEFORE = re.compile(r"\A\r?\n")
_LINE_BREAK_BEHIND = re.compile(r"\r?\n\Z")


def read_functions(body: str, tools: Tools) -> Sequence[Call] | None:
    """``<function=NAME><parameter=KEY>value</parameter></function>``, once or several times."""
    return _all(
        [
            _function(head[1], inside, tools)
            for head, inside in _elements(body, _FUNCTION, "</function>") or ()
        ]
    )


def read_bare_function(body: str, tools: Tools) -> Sequence[Call] | None:
    """What follows ``<function=``, up to the closing tag."""
    head = _BARE_FUNCTION.match(body)
    return _all([_function(head[1], body[head.end() :], tools)]) if head else None


def _function(name: str, inside: str, tools: Tools) -> Call | None:
    """Parameters between tags, or all of them as one JSON object."""
    if inside.lstrip().startswith("{"):
        return _call(name, read_arguments(inside))
    parameters = _elements(inside, _PARAMETER, "</parameter>")
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
    return _all([_invoke(head[1], inside, tools) for head, inside in invokes or ()])


def _invoke(name: str, inside: str, tools: Tools) -> Call | None:
    """Parameters that may say whether they are strings, or all of them as one JSON object."""
    if inside.lstrip().startswith("{"):
        return _call(name, read_arguments(inside))
    parameters = _elements(inside, _DSML_PARAMETER, f"</{DSML}parameter>")
    if parameters is None:
        return None
    strings = {head[1] for head, _ in parameters if head[2] == "true"}
    pairs = [(head[1], value) for head, value in parameters]
    return _call(name, encode_arguments(pairs, tools.get(name), strings))


def _elements(body: str, head: re.Pattern[str], close: str) -> list[tuple[re.Match[str], str]] | None:
    """What opens the elements, and what stands in them; nothing if there is anything else."""
    found: list[tuple[re.Match[str], str]] = []
    at = 0
    while begin := head.match(body, at):
        end = body.find(close, begin.end())
        if end < 0:
            return None
        found.append((begin, body[begin.end() : end]))
        at = end + len(close)
    return None if body[at:].strip() else found


def _pairs(elements: list[tuple[re.Match[str], str]]) -> list[tuple[str, str]]:
    """Keys and values. Templates put one line break before and one behind a value."""
    return [(head[1].strip(), _without_line_breaks(value)) for head, value in elements]


def _without_line_breaks(value: str) -> str:
    return _LINE_BREAK_BEHIND.sub("", _LINE_BREAK_BEFORE.sub("", value))


def _call(name: str, arguments: str | None) -> Call | None:
    return None if arguments is None else Call(name, arguments)


def _all(calls: list[Call | None]) -> list[Call] | None:
    """The calls, if there are any, and each could be read."""
    read = [call for call in calls if call is not None]
    return read if read and len(read) == len(calls) else None
