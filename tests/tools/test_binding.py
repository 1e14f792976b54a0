"""Binding of a call's JSON to the arguments of a function."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, TypedDict

import pytest
from msgspec import Struct

from antiphon.errors import SettingsError
from antiphon.tools.binding import Binding, ToolArgumentsInvalid
from antiphon.tools.declaration import CallContext
from antiphon.tools.schema import read_signature

CONTEXT = CallContext(tenant="t")


class Trip(Struct):
    city: str
    days: int = 1


class Options(TypedDict):
    city: str


def echo(arguments: Any) -> Any:
    return arguments


def name_city(city: Any) -> Any:
    return city


def call(
    function: Callable[..., Any], arguments: str, *properties: str, context: CallContext | None = None
) -> Any:
    bound = Binding(read_signature(function, CallContext), properties).bind(arguments, context)
    return function(*bound.positional, **bound.named)


def test_arguments_are_passed_by_name_and_converted() -> None:
    def book(day: date, trip: Trip, *, seats: int = 2) -> tuple[date, Trip, int]:
        return day, trip, seats

    arguments_json = '{"trip": {"city": "Rome"}, "day": "2026-03-01"}'
    assert call(book, arguments_json, "day", "trip", "seats") == (date(2026, 3, 1), Trip("Rome"), 2)


def test_an_omitted_argument_has_the_functions_default() -> None:
    marker: list[str] = ["default"]

    def take(values: list[str] = marker) -> list[str]:
        return values

    assert call(take, "{}", "values") is marker
    assert call(take, '{"values": []}', "values") == []


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_blank_arguments_are_an_empty_object(blank: str) -> None:
    assert call(lambda: "called", blank) == "called"
    assert call(echo, blank) == {}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ('{"city": 5, "days": 1}', r"\$\.city"),
        ('{"city": "Rome", "days": "many"}', r"\$\.days"),
        ('{"days": 1}', "city"),
        ('{"city": "Rome", "days": 1, "color": "red"}', "color"),
        ('{"city": "Rome", "days": [[1]]}', r"\$\.days"),
    ],
)
def test_an_invalid_argument_is_reported(arguments: str, named: str) -> None:
    def visit(city: str, days: int) -> str:
        return f"{city}{days}"

    with pytest.raises(ToolArgumentsInvalid, match=named):
        call(visit, arguments, "city", "days")


@pytest.mark.parametrize("arguments", ["{", "nonsense", '{"city": "\\ud800"', "\ud800", "[" * 100_000])
def test_arguments_that_are_no_json_are_invalid(arguments: str) -> None:
    with pytest.raises(ToolArgumentsInvalid, match="not valid JSON"):
        call(name_city, arguments, "city")


@pytest.mark.parametrize("arguments", ["[]", "5", '"text"', "null"])
def test_arguments_that_are_no_object_are_invalid(arguments: str) -> None:
    with pytest.raises(ToolArgumentsInvalid, match="must be a JSON object"):
        call(name_city, arguments, "city")


def test_a_single_parameter_that_is_no_property_takes_all_arguments() -> None:
    def as_dict(arguments: dict[str, Any]) -> object:
        return arguments

    def as_text(arguments: str) -> object:
        return arguments

    def as_struct(trip: Trip) -> object:
        return trip

    def as_typed_dict(options: Options) -> object:
        return options

    def nameless(city: dict[str, Any], /) -> object:
        return city

    def keyword(*, arguments: dict[str, Any]) -> object:
        return arguments

    arguments_json = '{"city":  "Rome"}'
    assert call(as_dict, arguments_json, "city") == {"city": "Rome"}
    assert call(echo, arguments_json, "city") == {"city": "Rome"}
    assert call(as_text, arguments_json, "city") == arguments_json
    assert call(as_struct, arguments_json, "city") == Trip("Rome")
    assert call(as_typed_dict, arguments_json, "city") == {"city": "Rome"}
    assert call(nameless, arguments_json, "city") == {"city": "Rome"}
    assert call(keyword, arguments_json, "city") == {"city": "Rome"}


def test_all_arguments_at_once_are_checked_too() -> None:
    def as_struct(trip: Trip) -> object:
        return trip

    def as_text(arguments: str) -> object:
        return arguments

    with pytest.raises(ToolArgumentsInvalid, match=r"\$\.days"):
        call(as_struct, '{"city": "Rome", "days": "x"}', "city", "days")
    with pytest.raises(ToolArgumentsInvalid, match="not valid JSON"):
        call(as_text, "{", "city")


def test_the_model_cannot_set_bound_arguments() -> None:
    def at_once(arguments: dict[str, Any], secret: str = "mine") -> object:
        return arguments, secret

    def by_name(city: str, secret: str = "mine") -> object:
        return city, secret

    assert call(at_once, '{"secret": "yours"}', "city") == ({"secret": "yours"}, "mine")
    with pytest.raises(ToolArgumentsInvalid, match="secret"):
        call(by_name, '{"city": "Rome", "secret": "yours"}', "city")


def test_a_function_may_accept_any_keyword() -> None:
    def anything(context: CallContext, secret: str = "mine", **arguments: Any) -> object:
        return context.tenant, secret, arguments

    assert call(anything, '{"a": 1, "b": [2]}', "a", context=CONTEXT) == ("t", "mine", {"a": 1, "b": [2]})
    for reserved in ("context", "secret"):
        with pytest.raises(ToolArgumentsInvalid, match=reserved):
            call(anything, f'{{"{reserved}": "yours"}}', "a", context=CONTEXT)


def test_the_context_is_passed() -> None:
    def describe(context: CallContext, city: str) -> str:
        return context.tenant + city

    def at_once(context: CallContext, arguments: dict[str, Any]) -> str:
        return context.tenant + arguments["city"]

    assert call(describe, '{"city": "Rome"}', "city", context=CONTEXT) == "tRome"
    assert call(at_once, '{"city": "Rome"}', "city", context=CONTEXT) == "tRome"
    with pytest.raises(ToolArgumentsInvalid, match="context"):
        call(describe, '{"city": "Rome", "context": {}}', "city", context=CONTEXT)


def test_without_a_context_only_tools_with_an_optional_context_run() -> None:
    def needs(context: CallContext) -> str:
        return context.tenant

    def takes_none(context: CallContext | None) -> object:
        return context

    def has_default(context: CallContext = CONTEXT) -> str:
        return context.tenant

    with pytest.raises(SettingsError, match="'needs' needs the context"):
        call(needs, "{}")
    assert call(takes_none, "{}") is None
    assert call(has_default, "{}") == "t"


@dataclass(frozen=True, slots=True)
class RicherContext(CallContext):
    mode: str = "qa"


def test_a_tool_with_a_specific_context_type_gets_no_base_context() -> None:
    def whose(context: RicherContext) -> str:
        return context.tenant + context.mode

    def anybodys(context: CallContext) -> str:
        return context.tenant

    assert call(whose, "{}", context=RicherContext(tenant="t")) == "tqa"
    assert call(anybodys, "{}", context=RicherContext(tenant="t")) == "t"
    with pytest.raises(
        SettingsError, match="'whose' needs the context of the call, but there is a CallContext"
    ):
        call(whose, "{}", context=CONTEXT)


def test_a_function_that_cannot_be_called_by_name_is_rejected() -> None:
    def nameless(city: str, days: int, /) -> str:
        return f"{city}{days}"

    with pytest.raises(SettingsError, match="'city' is positional-only"):
        call(nameless, "{}", "city", "days")


def test_a_function_with_unbindable_parameters_is_rejected() -> None:
    def visit(city: str, days: int) -> str:
        return f"{city}{days}"

    def anything(city: str, **others: Any) -> object:
        return city, others

    with pytest.raises(SettingsError, match="'visit' needs 'days', which the tool's parameters do not have"):
        call(visit, '{"city": "Rome"}', "city")
    with pytest.raises(SettingsError, match="'anything' needs 'city'"):
        call(anything, "{}", "days")


def test_a_callable_without_a_signature_is_rejected() -> None:
    with pytest.raises(SettingsError, match="signature of 'type' cannot be read"):
        call(type, "{}")
