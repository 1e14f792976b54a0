"""The check of JSON while it arrives: what it finds and where, whatever the pieces are."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon.protocol.requests import TextFormat
from antiphon.turn.json_answer import Answer, is_json, read_json_answer
from antiphon.turn.json_prefix.checker import MAX_DEPTH, JsonPrefixCheck
from antiphon.turn.json_prefix.faults import PrefixFault, Undecided
from tests.turn.json_prefix.schemas import SCHEMAS, VALUES, cuts, documents

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 4},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
        "unit": {"enum": ["kg", "😀"]},
        "note": {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "maxItems": 2},
        "yes": {"const": True},
        "one": {"const": 1},
        "pair": {"prefixItems": [{"type": "string"}], "items": False},
        "open": {"type": "object", "minProperties": 1, "maxProperties": 2},
        "inner": {"type": "object", "required": ["a", "b"]},
        "both": {"allOf": [{"maxLength": 3}, {"minLength": 2}]},
        "never": False,
        "free": True,
    },
    "additionalProperties": False,
    "$defs": {"tag": {"type": "string"}},
}


def check(schema: dict[str, Any], pieces: Iterable[str]) -> PrefixFault | None:
    """The first fault of a text."""
    checked = JsonPrefixCheck(schema)
    return next(filter(None, map(checked.feed, pieces)), None)


def fits(schema: dict[str, Any], text: str) -> bool:
    """What the check at the end says."""
    form = TextFormat(type="json_schema", name="x", schema=schema, strict=True)
    answer = read_json_answer(text, form)
    return isinstance(answer, Answer) and answer.text == text


@given(st.data())
def test_a_prefix_of_a_fitting_document_has_no_fault(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    text = data.draw(documents(schema))
    assume(fits(schema, text))
    try:
        checked = JsonPrefixCheck(schema)
        assert not any(map(checked.feed, data.draw(cuts(text))))
        checked.feed("\n")  # a number has no end of its own
        assert checked.is_complete
    except Undecided:
        return


@given(st.data())
def test_the_pieces_do_not_matter(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    text = data.draw(documents(schema))
    position = data.draw(st.integers(0, len(text)))
    text = text[:position] + data.draw(st.sampled_from(["", "x", '"', "}", "1", ",", "\\"])) + text[position:]
    try:
        whole = check(schema, [text])
    except Undecided:
        return
    assert check(schema, data.draw(cuts(text))) == whole
    assert check(schema, text) == whole
    if whole is not None:
        assert check(schema, [text[: whole.offset]]) == whole
        assert check(schema, [text[: whole.offset - 1]]) is None


@given(st.data())
def test_what_has_a_fault_does_not_fit(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    text = data.draw(documents(schema))
    try:
        fault = check(schema, [text, "\n"])
    except Undecided:
        return
    if fault is not None:
        assert not fits(schema, text)


@given(st.data())
def test_only_json_is_complete(data: st.DataObject) -> None:
    text = msgspec.json.encode(data.draw(VALUES)).decode()
    position = data.draw(st.integers(0, len(text)))
    removed = data.draw(st.integers(0, 2))
    added = data.draw(st.text('{}[]",:\\u0dD8eE+-.1 tnx\x1f\n', max_size=3))
    text = text[:position] + added + text[position + removed :]
    checked = JsonPrefixCheck({})
    fault = checked.feed(f"{text}\n")
    complete = fault is None and checked.is_complete
    assert is_json(text) == complete or (complete and "e" in text.lower())  # 1e999 is out of range
    assert fault is None or fault.is_syntax


SIMPLE_FAULTS = {
    # the text up to the character that decides, and what is said about it
    "[": "The answer: an array is not allowed, it must be of type 'object'.",
    '{"name": 1': "At 'name': a number is not allowed, it must be of type 'string'.",
    '{"age": t': "At 'age': a boolean is not allowed, it must be of type 'integer'.",
    '{"age": 1.5}': "At 'age': 1.5 is not of type 'integer'.",
    '{"age": -1,': "At 'age': -1 violates 'minimum', which is 0.",
    '{"age": 150 ': "At 'age': 150 violates 'exclusiveMaximum', which is 150.",
    '{"nam"': "The answer: the member 'nam' is not allowed.",
    '{"never"': "The answer: the member 'never' is not allowed.",
    '{"name": ""': "At 'name': the string has fewer than 1 characters.",
    '{"name": "a\\n\\ud83d\\ude00bc': "At 'name': the string has more than 4 characters.",
    '{"unit": "g"': "At 'unit': the string is none of the allowed values.",
    '{"unit": "kgg': "At 'unit': the string has more than 2 characters.",
    '{"unit": n': "At 'unit': null is not allowed.",
    '{"note": 1': "At 'note': a number is not allowed.",
    '{"note": "abc': "At 'note': the string has more than 2 characters.",
    '{"tags": []': "At 'tags': the array has fewer than 1 elements.",
    '{"tags": ["a", 1': "At 'tags[1]': a number is not allowed, it must be of type 'string'.",
    '{"tags": ["a", "b",': "At 'tags': the array has more than 2 elements.",
    '{"yes": f': "At 'yes': false is none of the allowed values.",
    '{"one": 2}': "At 'one': 2 is none of the allowed values.",
    '{"one": t': "At 'one': a boolean is not allowed.",
    '{"pair": ["a", 1': "At 'pair[1]': a number is not allowed.",
    '{"open": {}': "At 'open': the object has fewer than 1 members.",
    '{"open": {"a": 1, "a": 2, "b": 3, "c"': "At 'open': the object has more than 2 members.",
    '{"inner": {"b": 1}': "At 'inner': the member 'a' is missing.",
    '{"both": "abcd': "At 'both': the string has more than 3 characters.",
    '{"both": "a"': "At 'both': the string has fewer than 2 characters.",
}


@pytest.mark.parametrize("text", SIMPLE_FAULTS)
def test_simple_faults_are_found_at_once(text: str) -> None:
    assert check(PERSON, [text]) == check(PERSON, text) == PrefixFault(SIMPLE_FAULTS[text], len(text))


BROKEN = [
    "{x",
    "{,",
    '{"a" 1',
    '{"a"::',
    '{"a":1]',
    "[1}",
    "[1 2",
    "[,",
    "[1,]",
    "[01,",
    "[1.,",
    "[-]",
    "[+",
    "[tx",
]
BROKEN_STRINGS = [
    "[nulL",
    '["\n',
    '["\\x',
    '["\\u00g',
    '["\\udc00',
    '["\\ud800"',
    '["\\ud800\\n',
    '["\\ud800\\u0041',
    "[] x",
]


@pytest.mark.parametrize("text", BROKEN + BROKEN_STRINGS)
def test_what_is_not_json_is_found_at_its_last_character(text: str) -> None:
    for pieces in ([text], text):
        fault = check({}, pieces)
        assert fault is not None
        assert (fault.offset, fault.is_syntax) == (len(text), True)


@pytest.mark.parametrize(
    "text",
    [
        '{"age": 1.0, "note": null, "free": {"x": [1, "y"]}, "tags": ["a", "b"]}',
        '{"unit": "\\ud83d\\ude00", "n\\u0061me": "\\u0041b", "one": 1.0, "pair": ["x"], "open": {"a": 1}}',
        '{"inner": {"b": 1, "a": 2, "c": 3}, "both": "abc", "age": 0}',
    ],
)
def test_a_fitting_document_is_complete(text: str) -> None:
    assert fits(PERSON, text)
    checked = JsonPrefixCheck(PERSON)
    assert [checked.feed(character) for character in text] == [None] * len(text)
    assert checked.is_complete


def test_each_value_of_a_repeated_member_must_fit() -> None:
    fault = check(PERSON, ['{"age": "x", "age": 1}'])
    assert fault is not None
    assert fault.offset == len('{"age": "')


UNDECIDED_HERE: list[tuple[dict[str, Any], str]] = [
    ({"pattern": "^a"}, '"b"'),
    ({"format": "date"}, '"b"'),
    ({"not": {"type": "string"}}, '"b"'),
    ({"anyOf": [{"maxLength": 1}, {"maxLength": 2}]}, '"abc"'),
    ({"uniqueItems": True}, "[1, 1]"),
    ({"maximum": 2**53}, str(2**60)),
    ({"patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False}, '{"b": 1}'),
    ({"properties": {"a": {"$id": "http://x/", "type": "string"}}}, '{"a": 1}'),
    ({"$ref": "http://x/"}, "1"),
    ({"maximum": 1}, f"2.{'0' * 40}"),
    ({"type": ["integer", "number"]}, "1.5"),
    ({"properties": {"a": {"$schema": "x", "type": "string"}}}, '{"a": 1}'),
    ({"$defs": {"a": {"$id": "x", "b": {"type": "string"}}}, "$ref": "#/$defs/a/b"}, "1"),
    ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "string"}, "1"),
]


@pytest.mark.parametrize(("schema", "text"), UNDECIDED_HERE)
def test_what_needs_more_than_this_is_left_to_the_end(schema: dict[str, Any], text: str) -> None:
    assert check(schema, [text, "\n"]) is None


def test_drafts_differ() -> None:
    draft_7 = "http://json-schema.org/draft-07/schema#"
    beside_ref = {"$ref": "#/definitions/any", "type": "string", "definitions": {"any": True}}
    assert check({"$schema": draft_7, **beside_ref}, ["1 "]) is None
    assert check(beside_ref, ["1 "]) is not None
    tuple_form = {"items": [{"type": "string"}], "additionalItems": False}
    assert check({"$schema": draft_7, **tuple_form}, ["[1"]) is not None
    assert check({"$schema": draft_7, **tuple_form}, ['["a", 1']) is not None
    assert check({"$schema": draft_7, **tuple_form}, ['["a"]']) is None


RECURSIVE: dict[str, Any] = {
    "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "n": {"type": "integer"}},
    "type": "object",
    "required": ["n"],
}


def test_a_reference_may_have_escapes() -> None:
    schema = {"$ref": "#/$defs/a~1b%20~0", "$defs": {"a/b ~": {"type": "string"}}}
    assert check(schema, ["1"]) is not None
    assert check(schema, ['"x"']) is None


def test_a_recursive_schema_is_followed() -> None:
    assert check(RECURSIVE, ['{"n": 1, "next": {"n": 2, "next": null}}']) is None
    fault = check(RECURSIVE, ['{"n": 1, "next": {"next": {"n": "x"'])
    assert fault is not None
    assert fault.why.startswith("At 'next.next.n'")


ENDLESS: list[tuple[dict[str, Any], str]] = [
    ({}, "[" * (MAX_DEPTH + 1)),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "1"),
    ({"enum": ["x" * 9 + str(number) for number in range(10_000)]}, '"'),
    (PERSON, '{"\ud800\\n"'),
    ({"allOf": [{"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}]}, "1"),
]


@pytest.mark.parametrize(("schema", "text"), ENDLESS)
def test_too_much_work_is_left_to_the_end(schema: dict[str, Any], text: str) -> None:
    with pytest.raises(Undecided):
        check(schema, [text])
