"""One answer, told in several ways: deltas, ends, the last event, what is retrieved, and JSON."""

from antiphon.conformance.checking import check
from antiphon.conformance.checks.streams import expect_none, heard, last_response
from antiphon.conformance.members import list_at, text_at
from antiphon.conformance.order import RESEALED
from antiphon.conformance.probe import Probe
from antiphon.conformance.scenarios import SCENARIOS
from antiphon.conformance.verdict import Failed, Skipped, expect
from antiphon.protocol.content import JsonObject


@check("fold.stream", "Deltas add up to done, and items to the output", rule="stream-fold")
async def stream(probe: Probe) -> None:
    """In every stream that was told."""
    for answer in await heard(probe):
        expect_none(answer.events, "fold")


@check("fold.retrieved", "What is retrieved is what was told", rule="state-retrieve-same")
async def retrieved(probe: Probe) -> None:
    """The response of the last event, member by member."""
    told = last_response(await probe.stream("text"))
    answer = await probe.send("GET", f"responses/{told.get('id')}")
    if answer.status != 200 and told.get("store") is False:
        raise Skipped("not offered: the server says `store: false`")
    expect(answer.status == 200, f"GET of the response was answered with status {answer.status}")
    expect_same(told, answer.json)


@check("fold.json", "Without a stream, the same object comes", rule="stream-json-same")
async def whole(probe: Probe) -> None:
    """Two answers of a model differ in words, not in members."""
    told = last_response(await probe.stream("text"))
    asked = await probe.create(**SCENARIOS["text"].body)
    missing = sorted(told.keys() ^ asked.keys())
    expect(not missing, f"only one of stream and JSON has {', '.join(missing)}")
    for response in (told, asked):
        types = [text_at(item, "type") for item in list_at(response, "output")]
        expect("message" in types, f"the output is {', '.join(types) or 'empty'}: there is no message")


def expect_same(told: JsonObject, kept: JsonObject) -> None:
    """Fail with the members in which they differ. What is sealed anew may."""
    for name in sorted(told.keys() | kept.keys()):
        ours, theirs = told.get(name), kept.get(name)
        if name == "output":
            ours, theirs = _unsealed(told), _unsealed(kept)
        if ours != theirs:
            evidence = [f"told: {ours}", f"retrieved: {theirs}"]
            raise Failed(f"`{name}` is another one when it is retrieved", evidence)


def _unsealed(response: JsonObject) -> list[JsonObject]:
    return [
        {name: value for name, value in item.items() if name not in RESEALED}
        for item in list_at(response, "output")
    ]


CHECKS = (stream, retrieved, whole)
