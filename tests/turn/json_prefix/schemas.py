"""Random schemas, values that fit them, and values that may not."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

NAMES = st.sampled_from(["a", "b", "ä", 'quo"te', "\\", "😀", "longer name"])
TEXTS = st.text(
    st.one_of(st.sampled_from('ab"\\/\n\t\x7f é😀\u2028'), st.characters(codec="utf-8")), max_size=6
)
NUMBERS = st.one_of(st.integers(-20, 20), st.sampled_from([0.5, 1.0, -2.5, 1e3, 2**60, -(2**53) - 1, 1e-7]))
SCALARS = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
BOUNDS = st.integers(0, 4)


def optional(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries({}, optional=keywords)


def _merged(*parts: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.tuples(*parts).map(
        lambda found: {name: value for part in found for name, value in part.items()}
    )


def _typed(kind: str, **keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return _merged(st.just({"type": kind}), optional(**keywords))


LEAVES = st.one_of(
    _typed("string", minLength=BOUNDS, maxLength=BOUNDS, pattern=st.sampled_from(["^a", "b$"])),
    _typed("integer", minimum=NUMBERS, maximum=NUMBERS, multipleOf=st.just(2)),
    _typed("number", exclusiveMinimum=NUMBERS, exclusiveMaximum=NUMBERS),
    st.fixed_dictionaries({"type": st.sampled_from(["boolean", "null", "string"])}),
    st.fixed_dictionaries({"type": st.just(["string", "null"])}),
    st.fixed_dictionaries({"enum": st.lists(SCALARS, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": VALUES}),
    st.sampled_from([{}, {"$ref": "#"}, {"$ref": "#/$defs/word"}, True]),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    members = st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        _typed(
            "object",
            properties=members,
            required=st.lists(NAMES, max_size=2, unique=True),
            additionalProperties=st.one_of(st.just(False), inner),
            patternProperties=st.just({"^a": {"type": "string"}}),
            minProperties=st.integers(0, 2),
            maxProperties=st.integers(0, 3),
        ),
        _typed(
            "array",
            items=st.one_of(st.just(False), inner),
            prefixItems=st.lists(inner, min_size=1, max_size=2),
            minItems=st.integers(0, 2),
            maxItems=st.integers(0, 3),
            uniqueItems=st.booleans(),
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
        _merged(
            st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}), LEAVES.map(_as_dict)
        ),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
    )


def _as_dict(schema: Any) -> Schema:
    return {} if isinstance(schema, bool) else schema


DEFINITIONS = {"$defs": {"word": {"type": "string", "maxLength": 3}}}
SCHEMAS: st.SearchStrategy[Schema] = st.recursive(LEAVES, _containers, max_leaves=8).map(
    lambda schema: {**_as_dict(schema), **DEFINITIONS}
)


def fitting(schema: Any, root: Schema, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that often fit; the validator decides."""
    if isinstance(schema, bool | None) or depth > 3:
        return VALUES
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            inner: list[Any] = schema[name]
            return st.sampled_from(inner).flatmap(lambda each: fitting(each, root, depth + 1))
    if "$ref" in schema:
        targets: Mapping[str, Any] = {"#": root, "#/$defs/word": DEFINITIONS["$defs"]["word"]}
        return fitting(targets.get(schema["$ref"], {}), root, depth + 1)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    return _of_type(schema, root, depth)


def _of_type(schema: Schema, root: Schema, depth: int) -> st.SearchStrategy[Any]:
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            required = set(schema.get("required", ()))
            known = {name: fitting(each, root, depth + 1) for name, each in properties.items()}
            known |= {name: VALUES for name in required if name not in known}
            return st.fixed_dictionaries(
                {name: each for name, each in known.items() if name in required},
                optional={name: each for name, each in known.items() if name not in required},
            )
        case "array":
            return st.lists(fitting(schema.get("items"), root, depth + 1), max_size=3)
        case "string":
            return TEXTS
        case "integer" | "number":
            return NUMBERS
        case "boolean":
            return st.booleans()
        case _:
            return SCALARS


@st.composite
def documents(draw: st.DrawFn, schema: Schema) -> str:
    """A JSON text, written in different ways."""
    value = draw(st.one_of(fitting(schema, schema), VALUES))
    compact = draw(st.booleans())
    return json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        separators=(",", ":") if compact else None,
        indent=None if compact else draw(st.sampled_from([None, 1])),
    )


@st.composite
def cuts(draw: st.DrawFn, text: str) -> Sequence[str]:
    """A text in pieces."""
    places = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=8)))
    edges = [0, *places, len(text)]
    return [text[start:end] for start, end in pairwise(edges)]
