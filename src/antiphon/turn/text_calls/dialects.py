"""The dialects in which models write tool calls as text (docs/text-calls.md has an example of each)."""

import re
from collections.abc import Mapping
from functools import partial

from antiphon.turn.text_calls.balance import PYTHON, AtBalance
from antiphon.turn.text_calls.ends import AfterJson, AtTag
from antiphon.turn.text_calls.forms import Dialect, Form
from antiphon.turn.text_calls.json_calls import read_explicit_object, read_object, read_objects
from antiphon.turn.text_calls.python_calls import MAX_PYTHON, PYTHON_NAME, read_python
from antiphon.turn.text_calls.readers import (
    CALL_BEGIN,
    CALL_END,
    SEPARATOR,
    behind,
    read_deepseek_call,
    read_deepseek_calls,
    read_fenced,
    read_mistral_call,
    run_of,
)
from antiphon.turn.text_calls.tagged_calls import (
    DSML,
    NAME,
    read_bare_function,
    read_functions,
    read_glm,
    read_invokes,
)

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_CALLS_BEGIN, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_PYTHON_TAG, _PYTHON_START, _PYTHON_END = "<|python_tag|>", "<|python_start|>", "<|python_end|>"
_TURN_ENDS = ("<|eom_id|>", "<|eot_id|>")
_STRAYS = "}]>,"
_FENCE = "```"


def _begun(*tags: str) -> str:
    """A pattern of all that one of these tags may begin with, the whole tag and nothing included."""
    patterns: list[str] = []
    for tag in tags:
        pattern = ""
        for character in reversed(tag):
            pattern = f"(?:{re.escape(character)}{pattern})?"
        patterns.append(pattern)
    return f"(?:{'|'.join(patterns)})"


_OBJECT = re.compile(r"\s*(?=\{\s*\")")
_MAY_BE_OBJECT = re.compile(r"\s*(?:\{\s*)?")

_HERMES = Dialect(
    "hermes",
    (
        Form(
            opening=_OPEN,
            close=_CLOSE,
            begins=_OBJECT,
            may_begin=_MAY_BE_OBJECT,
            ends=partial(AfterJson, _CLOSE),
            read=read_object,
        ),
    ),
)

_MAY_BE_FUNCTION = re.compile(rf"(?:{NAME}\s*(?:>\s*(?:\{{\s*|{_begun('<parameter=', '</function>')}))?)?")
_FUNCTION_OF_JSON = Form(
    opening="<function=",
    close="</function>",
    tail=(_CLOSE, *_TURN_ENDS),
    begins=re.compile(rf"{NAME}\s*>\s*(?=\{{\s*[\"}}])"),
    may_begin=_MAY_BE_FUNCTION,
    ends=partial(AfterJson, "</function>"),
    read=read_bare_function,
)

_XML = Dialect(
    "xml",
    (
        Form(
            opening=_OPEN,
            close=_CLOSE,
            begins=re.compile(r"\s*(?=<function=)"),
            may_begin=re.compile(rf"\s*{_begun('<function=')}"),
            ends=partial(AtTag, _CLOSE),
            read=read_functions,
        ),
        Form(
            opening="<function=",
            close="</function>",
            tail=(_CLOSE,),  # models forget the outer tag, and then remember it
            begins=re.compile(rf"{NAME}\s*>\s*(?=<parameter=|</function>)"),
            may_begin=_MAY_BE_FUNCTION,
            ends=partial(AtTag, "</function>"),
            read=read_bare_function,
            needs_close=True,
        ),
        _FUNCTION_OF_JSON,
    ),
)

_GLM = Dialect(
    "glm",
    (
        Form(
            opening=_OPEN,
            close=_CLOSE,
            begins=re.compile(rf"\s*{NAME}\s*(?=<arg_key>|{_CLOSE})"),
            may_begin=re.compile(rf"\s*(?:{NAME}\s*{_begun('<arg_key>', _CLOSE)})?"),
            ends=partial(AtTag, _CLOSE),
            read=read_glm,
            needs_close=True,
        ),
    ),
)


def _tagged_python(opening: str) -> Form:
    return Form(
        opening=opening,
        tail=(_PYTHON_END, *_TURN_ENDS),
        strays=_STRAYS,
        limit=MAX_PYTHON,
        needs_close=True,  # a list that is open is not worth Python's parser
        begins=re.compile(rf"\s*(?=\[\s*{PYTHON_NAME}\()"),
        may_begin=re.compile(rf"\s*(?:\[\s*(?:{PYTHON_NAME})?)?"),
        ends=partial(AtBalance, PYTHON),
        read=read_python,
    )


_LLAMA_TAGGED = Dialect(
    "llama",
    (
        Form(
            opening=_PYTHON_TAG,
            tail=_TURN_ENDS,
            strays=_STRAYS,
            begins=_OBJECT,
            may_begin=_MAY_BE_OBJECT,
            ends=partial(AtBalance, run=True),
            read=run_of(read_object),
        ),
        _tagged_python(_PYTHON_TAG),
        _tagged_python(_PYTHON_START),
    ),
)

_LLAMA = Dialect(
    "llama",
    (
        *_LLAMA_TAGGED.forms,
        _FUNCTION_OF_JSON,
        Form(
            opening="[",
            tail=_TURN_ENDS,
            strays=_STRAYS,
            limit=MAX_PYTHON,
            needs_close=True,
            leads=True,
            begins=re.compile(rf"\s*(?={PYTHON_NAME}\()"),
            may_begin=re.compile(rf"\s*(?:{PYTHON_NAME})?"),
            ends=partial(AtBalance, PYTHON, inside="["),
            read=behind("[", read_python),
        ),
        Form(
            opening="{",
            tail=_TURN_ENDS,
            strays=_STRAYS,
            leads=True,
            begins=re.compile(r'\s*(?="(?:name|type|id|arguments|parameters)"\s*:)'),
            may_begin=re.compile(r'\s*(?:"(?:[a-z]{0,10}|[a-z]{2,10}"\s*))?'),
            ends=partial(AtBalance, inside="{", run=True),
            read=behind("{", run_of(read_explicit_object)),
        ),
    ),
)

_MISTRAL = Dialect(
    "mistral",
    (
        Form(
            opening="[TOOL_CALLS]",
            strays=_STRAYS,
            begins=re.compile(r"\s*(?=(?:\[\s*)?\{\s*\")"),
            may_begin=re.compile(r"\s*(?:\[\s*)?(?:\{\s*)?"),
            ends=AtBalance,
            read=read_objects,
        ),
        Form(
            opening="[TOOL_CALLS]",
            strays=_STRAYS,
            begins=re.compile(rf"\s*{NAME}(?:\[CALL_ID\][\w\-]{{1,64}})?(?:\[ARGS\])?\s*(?=\{{\s*[\"}}])"),
            may_begin=re.compile(rf"\s*(?:{NAME}(?:\[[\w\[\]\-]{{0,90}})?\s*(?:\{{\s*)?)?"),
            ends=AtBalance,
            read=read_mistral_call,
        ),
    ),
)


def _dsml(outer: str) -> Form:
    return Form(
        opening=f"<{DSML}{outer}>",
        close=f"</{DSML}{outer}>",
        begins=re.compile(rf"\s*(?=<{DSML}invoke\s)"),
        may_begin=re.compile(rf"\s*{_begun(f'<{DSML}invoke')}"),
        ends=partial(AtTag, f"</{DSML}{outer}>"),
        read=read_invokes,
    )


_DEEPSEEK = Dialect(
    "deepseek",
    (
        Form(
            opening=_CALLS_BEGIN,
            close=_CALLS_END,
            begins=re.compile(rf"\s*(?={CALL_BEGIN})"),
            may_begin=re.compile(rf"\s*{_begun(CALL_BEGIN)}"),
            ends=partial(AfterJson, _CALLS_END),
            read=read_deepseek_calls,
        ),
        Form(
            opening=CALL_BEGIN,
            close=CALL_END,
            begins=re.compile(rf"\s*{NAME}\s*(?={SEPARATOR}|{_FENCE}|\{{)"),
            may_begin=re.compile(rf"\s*(?:{NAME}\s*{_begun(SEPARATOR, _FENCE)})?"),
            ends=partial(AfterJson, CALL_END),
            read=read_deepseek_call,
        ),
        _dsml("function_calls"),
        _dsml("tool_calls"),
    ),
)

_FENCED = Dialect(
    "fenced",
    (
        Form(
            opening=_FENCE,
            close=_FENCE,
            starts_line=True,
            encloses=True,
            begins=re.compile(r"(?i:json|tool_calls?)?[ \t]*\r?\n\s*(?=[\[{])"),
            may_begin=re.compile(r"[A-Za-z_]{0,10}[ \t]*(?:\r|\r?\n\s*)?"),
            ends=partial(AfterJson, _FENCE),
            read=read_fenced,
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
