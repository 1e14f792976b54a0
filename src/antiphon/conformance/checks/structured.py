"""Checks of structured output: JSON that matches its schema."""

import msgspec
from msgspec import Struct

from antiphon.conformance.checks.streams import last_response
from antiphon.conformance.probe import Probe, check, expect_error, expect_offered, output_text
from antiphon.conformance.results import Failed, Skipped, expect
from antiphon.conformance.scenarios import PERSON_FORMAT, SCENARIOS
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
        raise Failed(f"the text does not match the schema: {error}", [text]) from None


@check("structured.stream", "Streamed output matches its JSON schema", rule="create-json-schema")
async def streamed(probe: Probe) -> None:
    _expect_person(last_response(await probe.stream("structured")))


@check("structured.json", "Output without a stream matches its JSON schema", rule="create-json-schema")
async def without_stream(probe: Probe) -> None:
    answer = await probe.ask(**SCENARIOS["structured"].body)
    expect_offered(answer, "a JSON schema")
    expect(answer.status == 200, f"the status is {answer.status}")
    _expect_person(answer.json)


@check("structured.object", "json_object is a JSON object", rule="create-json-object")
async def some_object(probe: Probe) -> None:
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
        raise Failed("the text is not a JSON object", [text]) from None


@check("structured.no_schema", "A format without a schema is refused", rule="create-json-schema-whole")
async def no_schema(probe: Probe) -> None:
    broken = {name: value for name, value in PERSON_FORMAT.items() if name != "schema"}
    expect_error(await probe.ask(input="Hello", text={"format": broken}), 400, 422)


CHECKS = (streamed, without_stream, some_object, no_schema)
