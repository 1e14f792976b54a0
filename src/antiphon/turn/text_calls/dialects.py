"""The dialects in which models write tool calls as text (docs/text-calls.md has an example of each)."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from antiphon.turn.text_calls.ends import AfterJson, AtBalance, AtTag, AtTheEnd
from antiphon.turn.text_calls.forms import Call, Dialect, Form, Reader, Tools
from antiphon.turn.text_calls.json_calls import read_explicit_objects, read_object, read_objects
from antiphon.turn.text_calls.readers import (
    CALL_BEGIN,
    CALL_END,
    NAME,
    read_bare_function,
    read_deepseek_call,
    read_deepseek_calls,
    read_functions,
    read_glm,
    read_mistral_call,
    read_python,
    read_rest_of_python,
    read_run,
)

_SPACE = re.compile(r"\s*")
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_CALLS_BEGIN, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_PYTHON_TAG = "<|python_tag|>"
_FENCE = "```"
_INFO = re.compile(r"\w*[ \t]*\r?\n")


def _untyped(read: Callable[[str], Sequence[Call] | None]) -> Reader:
    """A reader that needs no schemas, because JSON has types of its own."""

    def read_body(body: str, tools: Tools) -> Sequence[Call] | None:
        del tools
        return read(body)

    return read_body


def _read_fenced(body: str) -> Sequence[Call] | None:
    return read_explicit_objects(_INFO.sub("", body, count=1))


_HERMES = Dialect(
    "hermes",
    (
        Form(
            opening=_OPEN,
            close=_CLOSE,
            begins=re.compile(r"\s*(?=\{)"),
            may_begin=_SPACE,
            ends=partial(AfterJson, _CLOSE),
            read=_untyped(read_object),
        ),
    ),
)

_XML = Dialect(
    "xml",
    (
        Form(
            opening=_OPEN,
            close=_CLOSE,
            begins=re.compile(r"\s*(?=<function=)"),
            may_begin=re.compile(r"\s*(?:<[a-z]{0,8})?"),
            ends=partial(AtTag, _CLOSE),
            read=read_functions,
        ),
        Form(
            opening="<function=",
            close="</function>",
            tail=_CLOSE,  # models forget the outer tag, and then remember it
            begins=re.compile(rf"{NAME}\s*(?=>)"),
            may_begin=re.compile(rf"(?:{NAME}\s*)?"),
            ends=partial(AtTag, "</function>"),
            read=read_bare_function,
            needs_close=True,
        ),
    ),
)

_GLM = Dialect(
    "glm",
    (
        Form(
            opening=_OPEN,
            close=_CLOSE,
            begins=re.compile(rf"\s*{NAME}\s*(?=<arg_key>|{_CLOSE})"),
            may_begin=re.compile(rf"\s*(?:{NAME}\s*(?:</?[a-z_]{{0,9}})?)?"),
            ends=partial(AtTag, _CLOSE),
            read=read_glm,
            needs_close=True,
        ),
    ),
)

_LLAMA_TAGGED = Dialect(
    "llama",
    (
        Form(
            opening=_PYTHON_TAG,
            begins=re.compile(r"\s*(?=\{)"),
            may_begin=_SPACE,
            ends=partial(AtBalance, run=True),
            read=read_run,
        ),
        Form(
            opening=_PYTHON_TAG,
            begins=re.compile(r"\s*(?=\[)"),
            may_begin=_SPACE,
            ends=AtTheEnd,
            read=read_python,
        ),
    ),
)

_LLAMA = Dialect(
    "llama",
    (
        *_LLAMA_TAGGED.forms,
        Form(
            opening="[",
            leads=True,
            begins=re.compile(r"\s*(?=[A-Za-z_][\w.]{0,127}\()"),
            may_begin=re.compile(r"\s*(?:[A-Za-z_][\w.]{0,127})?"),
            ends=AtTheEnd,
            read=read_rest_of_python,
        ),
    ),
)

_MISTRAL = Dialect(
    "mistral",
    (
        Form(
            opening="[TOOL_CALLS]",
            begins=re.compile(r"\s*(?=[\[{])"),
            may_begin=_SPACE,
            ends=AtBalance,
            read=_untyped(read_objects),
        ),
        Form(
            opening="[TOOL_CALLS]",
            begins=re.compile(rf"\s*{NAME}(?:\[CALL_ID\][\w\-]{{1,64}})?(?:\[ARGS\])?\s*(?=\{{)"),
            may_begin=re.compile(rf"\s*(?:{NAME}(?:\[[\w\[\]\-]{{0,90}})?\s*)?"),
            ends=AtBalance,
            read=read_mistral_call,
        ),
    ),
)

_DEEPSEEK = Dialect(
    "deepseek",
    (
        Form(
            opening=_CALLS_BEGIN,
            close=_CALLS_END,
            begins=re.compile(rf"\s*(?={CALL_BEGIN})"),
            may_begin=re.compile(r"\s*(?:<[^<>]{0,20})?"),
            ends=partial(AfterJson, _CALLS_END),
            read=read_deepseek_calls,
        ),
        Form(
            opening=CALL_BEGIN,
            close=CALL_END,
            begins=re.compile(rf"\s*(?={NAME})"),
            may_begin=_SPACE,
            ends=partial(AfterJson, CALL_END),
            read=read_deepseek_call,
        ),
    ),
)

_FENCED = Dialect(
    "fenced",
    (
        Form(
            opening=_FENCE,
            close=_FENCE,
            encloses=True,
            begins=re.compile(r"(?:json|tool_call)?[ \t]*\r?\n\s*(?=[\[{])"),
            may_begin=re.compile(r"[a-z_]{0,9}[ \t]*(?:\r|\r?\n\s*)?"),
            ends=partial(AfterJson, _FENCE),
            read=_untyped(_read_fenced),
        ),
    ),
)

_ALL = (_HERMES, _XML, _GLM, _LLAMA, _MISTRAL, _DEEPSEEK, _FENCED)
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in _ALL}
_UNMISTAKABLE = (_HERMES, _XML, _GLM, _LLAMA_TAGGED, _MISTRAL, _DEEPSEEK)


def dialects_named(name: str) -> tuple[Dialect, ...]:
    """The dialects of a setting: `off` is none; `auto` is all that have tags which mean nothing else."""
    if name == "off":
        return ()
    return _UNMISTAKABLE if name == "auto" else (DIALECTS[name],)
