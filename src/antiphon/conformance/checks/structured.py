"""Structured output: JSON that fits its schema, streamed and whole."""

import msgspec
from msgspec import Struct

from antiphon.conformance.checking import check
from antiphon.conformance.checks.streams import last_response
from antiphon.conformance.probe import Probe, expect_error, expect_offered, output_text
from antiphon.conformance.scenarios import PERSON_FORMAT, SCENARIOS
from antiphon.conformance.verdict import Failed, Skipped, expect
from antiphon.protocol.content import JsonObject


class _Person(Struct, forbid_unknown_fields=True):
    name: str
    year: int


def _expect_person(response: JsonObject) -> None:
    if response.get("status") == "incomplete":
        raise Skipped("not provoked: the answer was cut off")
    text = output_text(response)
    try:
        msgspec.json.decode(text, type=_Person)
    except msgspec.DecodeError as error:
        raise Failed(f"the text does not fit the schema: {error}", [text]) from None


@check("structured.stream", "A stream fits its JSON schema", rule="create-json-schema")
async def streamed(probe: Probe) -> None:
    """All of its text."""
    _expect_person(last_response(await probe.stream("structured")))


@check("structured.json", "A whole answer fits its JSON schema", rule="create-json-schema")
async def whole(probe: Probe) -> None:
    """And the format is normal_arguments."""
    answer = await probe.ask(**SCENARIOS["structured"].body)
    expect_offered(answer, "a JSON schema")
    expect(answer.status == 200, f"the status is {answer.status}")
    _expect_person(answer.json)


@check("structured.object", "json_object is a JSON object", rule="create-json-object")
async def some_object(probe: Probe) -> None:
    """Of any shape."""
    answer = await probe.ask(
        input="Give me a JSON object with the name of one city.", text={"format": {"type": "json_object"}}
    )
    expect_offered(answer, "json_object")
    expect(answer.status == 200, f"the status is {answer.status}")
    if answer.json.get("status") == "incomplete":
        raise Skipped("not provoked: the answer was cut off")
    text = output_text(answer.json)
    try:
        msgspec.json.decode(text, type=JsonObject)
    except msgspec.DecodeError:
        raise Failed("the text is no JSON object", [text]) from None


@check("structured.no_schema", "A format without its schema is refused", rule="create-json-schema-whole")
async def no_schema(probe: Probe) -> None:
    """`schema` is required."""
    broken = {name: value for name, value in PERSON_FORMAT.items() if name != "schema"}
    expect_error(await probe.ask(input="Hello", text={"format": broken}), 400, 422)


CHECKS = (streamed, whole, some_object, no_schema)
