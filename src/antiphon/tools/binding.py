"""Converts the arguments of a call, JSON that a model wrote, to the arguments of a Python function."""

from collections.abc import Container, Mapping
from inspect import Parameter
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Struct

from antiphon.errors import SettingsError
from antiphon.protocol.content import JsonObject
from antiphon.tools.schema import Signature, is_required, takes


class ToolArgumentsInvalid(Exception):
    """The model's arguments are not JSON, or do not fit the tool. The message is for the model."""


class Bound(NamedTuple):
    """Positional and keyword arguments for the function."""

    positional: tuple[Any, ...]
    named: dict[str, Any]


class Binding:
    """Decides once how a function is called; see `antiphon.tools.declaration.Run`.

    `declared` are the properties of the schema. None: the schema has no `properties`, so the signature alone
    decides.
    """

    def __init__(self, signature: Signature, declared: Container[str] | None) -> None:
        properties = () if declared is None else declared
        self._context = signature.context
        self._single = _single_parameter(signature, properties)
        if declared is None and self._single is not None and not _takes_object(self._single):
            self._single = None
        self._function = signature.function
        self._known = {one.name for one in (*signature.shown, signature.context) if one is not None}
        fields = [
            one for one in signature.shown if declared is None or one.name in properties or is_required(one)
        ]
        self._fields = frozenset(one.name for one in fields)
        self._struct: type[Struct] | None = None
        if self._single is None:
            _refuse_nameless(signature, fields)
            if declared is not None:
                _refuse_unknown(signature, fields, properties)
            takes_more = any(one.kind is Parameter.VAR_KEYWORD for one in signature.variadic)
            self._struct = _arguments_struct(fields, closed=not takes_more)

    @property
    def needs_context(self) -> bool:
        """Whether the function cannot be called without a context."""
        parameter = self._context
        if parameter is None or not is_required(parameter):
            return False
        return type(None) not in get_args(parameter.annotation)

    def bind(self, arguments: str, context: object | None) -> Bound:
        """Parse, check and convert. Blank arguments mean an empty object."""
        text = arguments if arguments.strip() else "{}"
        values = decode_object(text)
        if self._struct is not None:
            bound = Bound((), self._by_name(values, self._struct))
        else:
            bound = self._at_once(text, values)
        if self._context is not None:
            bound.named.update(self._given(self._context, context))
        return bound

    def _by_name(self, values: JsonObject, struct: type[Struct]) -> dict[str, Any]:
        converted = _convert(values, struct)
        named = {name: getattr(converted, name) for name in values if name in self._fields}
        further = {name: value for name, value in values.items() if name not in self._fields}
        for name in further.keys() & self._known:
            raise ToolArgumentsInvalid(f"'{name}' is not an argument of this tool.")
        return named | further

    def _at_once(self, text: str, values: JsonObject) -> Bound:
        assert self._single is not None
        kind = self._single.annotation
        if kind is str:
            value: Any = text
        else:
            value = values if kind is Parameter.empty else _convert(values, kind)
        if self._single.kind is Parameter.POSITIONAL_ONLY:
            return Bound((value,), {})
        return Bound((), {self._single.name: value})

    def _given(self, parameter: Parameter, context: object | None) -> dict[str, object | None]:
        if context is not None and takes(parameter, context):
            return {parameter.name: context}
        if type(None) in get_args(parameter.annotation):
            return {parameter.name: None}
        if self.needs_context:
            found = "none" if context is None else f"a {type(context).__name__}"
            raise SettingsError(f"'{self._function}' needs the context of the call, but there is {found}.")
        return {}


def decode_object(text: str) -> JsonObject:
    """Parse a JSON object. Raises `ToolArgumentsInvalid` with the reason."""
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ToolArgumentsInvalid(f"The arguments are not valid JSON: {error}") from None
    if not isinstance(decoded, dict):
        raise ToolArgumentsInvalid("The arguments must be a JSON object.")
    return decoded  # pyright: ignore[reportUnknownVariableType] -- the keys of a JSON object are strings


def _single_parameter(signature: Signature, properties: Container[str]) -> Parameter | None:
    """The parameter that takes all arguments at once; None: they are passed by name."""
    if signature.variadic or any(_has_name(one, properties) for one in signature.shown):
        return None
    required = [one for one in signature.shown if is_required(one)]
    return required[0] if len(required) == 1 else None


def _takes_object(parameter: Parameter) -> bool:
    """Whether the annotation of a parameter fits an object."""
    kind = parameter.annotation
    return kind in (Parameter.empty, Any, dict) or get_origin(kind) in (dict, Mapping)


def _has_name(parameter: Parameter, properties: Container[str]) -> bool:
    return parameter.kind is not Parameter.POSITIONAL_ONLY and parameter.name in properties


def _refuse_nameless(signature: Signature, fields: list[Parameter]) -> None:
    for parameter in fields:
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            raise SettingsError(
                f"'{signature.function}' cannot be called by a model: '{parameter.name}' is positional-only."
            )


def _refuse_unknown(signature: Signature, fields: list[Parameter], properties: Container[str]) -> None:
    for parameter in fields:
        if parameter.name not in properties:
            raise SettingsError(
                f"'{signature.function}' needs '{parameter.name}', which the tool's parameters do not have. "
                "Add it to their properties, or give it a default."
            )


def _arguments_struct(fields: list[Parameter], *, closed: bool) -> type[Struct]:
    """A struct that checks and converts. Its defaults are never used: absent arguments are not passed."""
    definitions = [
        (one.name, _annotation(one)) if is_required(one) else (one.name, _annotation(one), None)
        for one in fields
    ]
    return msgspec.defstruct("Arguments", definitions, kw_only=True, forbid_unknown_fields=closed)


def _annotation(parameter: Parameter) -> Any:
    return Any if parameter.annotation is Parameter.empty else parameter.annotation


def _convert(values: JsonObject, kind: Any) -> Any:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ToolArgumentsInvalid(f"The arguments do not fit: {error}") from None
