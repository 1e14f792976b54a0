"""Reads the signature of a function: which parameters a model fills in, and their JSON Schema."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, get_args

import msgspec

from antiphon.errors import SettingsError
from antiphon.protocol.content import JsonObject

VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function, grouped by their source."""

    function: str
    """The function's name, for messages."""
    shown: tuple[Parameter, ...]
    """Filled in by the model."""
    variadic: tuple[Parameter, ...]
    """`*args` and `**kwargs`."""
    context: Parameter | None
    """Receives the context of the call."""


def read_signature(function: Callable[..., Any], context_type: type) -> Signature:
    """The signature of any callable. A parameter annotated with `context_type`, or a subclass, receives the
    context and is hidden from the model."""
    name = function_name(function) or repr(function)
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (ValueError, TypeError, NameError, AttributeError, SyntaxError) as error:
        raise SettingsError(f"The signature of '{name}' cannot be read: {error}") from None
    contexts = [parameter for parameter in parameters if _takes_kind(parameter, context_type)]
    if len(contexts) > 1 or any(one.kind in (*VARIADIC, Parameter.POSITIONAL_ONLY) for one in contexts):
        raise SettingsError(f"'{name}' may take its context once, as a named parameter.")
    return Signature(
        function=name,
        shown=tuple(one for one in parameters if one.kind not in VARIADIC and one not in contexts),
        variadic=tuple(one for one in parameters if one.kind in VARIADIC and one not in contexts),
        context=contexts[0] if contexts else None,
    )


def function_name(function: Callable[..., Any]) -> str:
    """The function's own name; empty if it has none."""
    name = getattr(function, "__name__", "")
    return "" if name == "<lambda>" else name


def first_paragraph(function: Callable[..., Any]) -> str:
    """The first paragraph of the docstring, on one line."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.strip().split("\n\n")[0].split())


def schema_of(signature: Signature) -> JsonObject:
    """The JSON Schema of the parameters. Equal functions give equal schemas."""
    _check(signature)
    schemas, definitions = msgspec.json.schema_components([one.annotation for one in signature.shown])
    schema: JsonObject = {
        "type": "object",
        "properties": {
            parameter.name: _with_default(schema, parameter.default)
            for parameter, schema in zip(signature.shown, schemas, strict=True)
        },
        "required": [one.name for one in signature.shown if is_required(one)],
        "additionalProperties": False,
    }
    if definitions:
        schema["$defs"] = definitions
    return schema


def is_required(parameter: Parameter) -> bool:
    """Whether the parameter has no default."""
    return parameter.default is Parameter.empty


def _check(signature: Signature) -> None:
    unnamed = [one for one in signature.shown if one.kind is Parameter.POSITIONAL_ONLY]
    for parameter in (*signature.variadic, *unnamed):
        raise SettingsError(
            f"'{signature.function}' cannot be a tool: a model fills in parameters by name, "
            f"and '{parameter}' has none. Use named parameters."
        )
    for parameter in signature.shown:
        if parameter.annotation is Parameter.empty:
            raise _refused(signature, parameter, "it has no annotation. Annotate its type.")
        try:
            msgspec.json.schema(parameter.annotation)
        except (TypeError, ValueError) as error:
            raise _refused(signature, parameter, f"its type has no JSON Schema. {error}") from None


def _refused(signature: Signature, parameter: Parameter, why: str) -> SettingsError:
    return SettingsError(
        f"'{signature.function}' cannot be a tool because of its parameter '{parameter.name}': {why}"
    )


def _with_default(schema: JsonObject, default: object) -> JsonObject:
    """Add the default to the schema if it is a plain value."""
    if isinstance(default, str | int | float):
        return {**schema, "default": msgspec.to_builtins(default)}
    return schema


def takes(parameter: Parameter, value: object) -> bool:
    """Whether a value is an instance of one of the classes that a parameter is annotated with."""
    return any(isinstance(value, kind) for kind in _classes(parameter))


def _classes(parameter: Parameter) -> list[type]:
    options = get_args(parameter.annotation) or (parameter.annotation,)
    return [option for option in options if isinstance(option, type)]


def _takes_kind(parameter: Parameter, kind: type) -> bool:
    return any(issubclass(found, kind) for found in _classes(parameter))
