"""The JSON Schema of a function, from its signature."""

from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct, json

from antiphon.errors import SettingsError
from antiphon.protocol.content import JsonObject
from antiphon.tools.declaration import CallContext, Tool
from antiphon.tools.schema import first_paragraph, read_signature, schema_of


class Unit(Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(Struct):
    city: str
    country: str = "FR"


def forecast(
    city: Annotated[str, Meta(description="Where to look")],
    days: Annotated[int, Meta(ge=1, le=14)],
    unit: Unit = Unit.C,
    detail: Literal["low", "high"] = "low",
    note: str | None = None,
) -> str:
    """Say what the weather
    will be.

    More that the model need not know.
    """
    return f"{city} {days} {unit} {detail} {note}"


def schema(function: Any) -> JsonObject:
    return schema_of(read_signature(function, CallContext))


def test_parameters_become_the_properties_of_an_object() -> None:
    assert schema(forecast) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where to look"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "unit": {"$ref": "#/$defs/Unit"},
            "detail": {"enum": ["high", "low"], "default": "low"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
        "$defs": {"Unit": {"title": "Unit", "enum": ["celsius", "fahrenheit"]}},
    }


def test_the_same_function_always_yields_the_same_schema() -> None:
    assert json.encode(schema(forecast)) == json.encode(schema(forecast))


def test_custom_types_are_defined_next_to_the_properties() -> None:
    def visit(place: Place, others: list[Place]) -> str:
        return f"{place}{others}"

    visit_schema = schema(visit)
    assert visit_schema["properties"]["place"] == {"$ref": "#/$defs/Place"}
    assert visit_schema["$defs"]["Place"]["properties"]["country"] == {"type": "string", "default": "FR"}


def test_a_function_without_parameters_has_an_empty_object() -> None:
    def now() -> str:
        return "noon"

    assert schema(now) == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def test_the_context_is_not_the_models_business() -> None:
    def whoami(context: CallContext, formal: bool, again: bool = False) -> str:
        return f"{context.tenant}{formal}{again}"

    def maybe(context: CallContext | None = None) -> str:
        return str(context)

    assert list(schema(whoami)["properties"]) == ["formal", "again"]
    assert schema(maybe)["properties"] == {}


def test_methods_and_partial_functions_are_functions() -> None:
    class Shop:
        def price(self, item: str) -> str:
            return item

    def add(left: int, right: int) -> int:
        return left + right

    assert list(schema(Shop().price)["properties"]) == ["item"]
    assert schema(partial(add, right=1))["required"] == ["left"]


def test_parameters_without_names_are_rejected() -> None:
    def many(*values: int) -> int:
        return sum(values)

    def anything(**values: int) -> int:
        return sum(values.values())

    def nameless(value: int, /) -> int:
        return value

    for function, parameter in ((many, "*values"), (anything, "**values"), (nameless, "value")):
        with pytest.raises(SettingsError, match="by name") as caught:
            schema(function)
        assert f"'{function.__name__}'" in caught.value.message
        assert parameter in caught.value.message


def test_a_parameter_without_a_type_is_rejected_by_name() -> None:
    def vague(city) -> str:  # pyright: ignore # noqa: PGH003
        return str(city)  # pyright: ignore[reportUnknownArgumentType]

    with pytest.raises(SettingsError, match=r"'vague'.*'city'.*no annotation"):
        schema(vague)


def test_a_non_json_type_is_rejected_by_name() -> None:
    class Engine:
        pass

    def drive(speed: int, engine: Engine) -> str:
        return f"{speed}{engine}"

    with pytest.raises(SettingsError, match=r"'drive'.*'engine'.*no JSON Schema"):
        schema(drive)


def test_an_unresolvable_annotation_is_rejected() -> None:
    def lost(city: "Nowhere") -> str:  # pyright: ignore # noqa: F821, PGH003
        return str(city)  # pyright: ignore[reportUnknownArgumentType]

    with pytest.raises(SettingsError, match="'lost' cannot be read: name 'Nowhere'"):
        schema(lost)


def test_the_context_is_taken_once_and_by_name() -> None:
    def twice(one: CallContext, two: CallContext) -> str:
        return f"{one}{two}"

    def nameless(one: CallContext, /) -> str:
        return f"{one}"

    for function in (twice, nameless):
        with pytest.raises(SettingsError, match="context once"):
            schema(function)


def test_the_first_paragraph_of_the_docstring_describes_the_tool() -> None:
    assert first_paragraph(forecast) == "Say what the weather will be."
    assert first_paragraph(lambda: "") == ""
    assert Tool.from_function(forecast).description == "Say what the weather will be."
