"""Readers of bodies that are more than one JSON value: names before arguments, runs of objects, fences."""

import re
from collections.abc import Sequence

from antiphon.turn.text_calls.balance import AtBalance
from antiphon.turn.text_calls.ends import AfterJson, End
from antiphon.turn.text_calls.forms import Call, Reader, Tools
from antiphon.turn.text_calls.json_calls import read_arguments, read_explicit_objects
from antiphon.turn.text_calls.tagged_calls import NAME

CALL_BEGIN = "<｜tool▁call▁begin｜>"
CALL_END = "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"

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


def run_of(read: Reader) -> Reader:
    """Reads objects that white space or semicolons part."""

    def read_run(body: str, tools: Tools) -> Sequence[Call] | None:
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

    return read_run


def behind(opening: str, read: Reader) -> Reader:
    """Reads a body whose opening is part of it."""
    return lambda body, tools: read(opening + body, tools)


def read_fenced(body: str, tools: Tools) -> Sequence[Call] | None:
    """One call, or a list of calls, behind the name of a language."""
    language = _LANGUAGE.match(body)
    return read_explicit_objects(body[language.end() :] if language else body, tools)
