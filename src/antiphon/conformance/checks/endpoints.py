"""Checks of the endpoints for models, input_tokens and compact."""

from antiphon.conformance.probe import ABSENT, REFUSED, Probe, check, expect_error, expect_offered
from antiphon.conformance.reading import list_at, number_at, text_at
from antiphon.conformance.results import expect, provoked
from antiphon.protocol.content import JsonObject

COUNT = "POST /responses/input_tokens"


@check("models.list", "Models are listed", rule="endpoints-models")
async def models(probe: Probe) -> None:
    answer = await probe.optional("GET /models", "GET", "models")
    expect(answer.json.get("object") == "list", f"`object` is {answer.json.get('object')!r}, not 'list'")
    expect(isinstance(answer.json.get("data"), list), "there is no list `data`")
    listed = list_at(answer.json, "data")
    provoked(listed, "the list is empty")
    for model in listed:
        expect(text_at(model, "id"), "a model has no id")
        expect(model.get("object") == "model", f"`object` of a model is {model.get('object')!r}")


@check("models.retrieve", "The model can be retrieved", rule="endpoints-model")
async def model(probe: Probe) -> None:
    answer = await probe.optional("GET /models/{model}", "GET", f"models/{probe.target.model}")
    expect(answer.json.get("id") == probe.target.model, f"its id is {answer.json.get('id')!r}")


@check("models.unknown", "An unknown model is not found", rule="endpoints-model-unknown")
async def unknown_model(probe: Probe) -> None:
    await probe.optional("GET /models/{model}", "GET", f"models/{probe.target.model}")
    expect_error(await probe.send("GET", "models/nobody-knows-this-model"), 404)


@check("input_tokens.count", "Input tokens are counted", rule="endpoints-input-tokens")
async def count(probe: Probe) -> None:
    short, long = [await _count(probe, "Hello"), await _count(probe, "Hello " * 50)]
    expect(0 < short < long, f"a short input has {short} tokens, a long one {long}")


@check("compact.output", "A compaction ends with one compaction item", rule="endpoints-compact")
async def compact(probe: Probe) -> None:
    found = await _compacted(probe)
    expect(found.get("object") == "response.compaction", f"`object` is {found.get('object')!r}")
    types = [text_at(item, "type") for item in list_at(found, "output")]
    expect(types.count("compaction") == 1, f"the output is {', '.join(types) or 'empty'}")
    expect(types[-1] == "compaction", "the compaction is not the last item")
    expect(
        text_at(list_at(found, "output")[-1], "encrypted_content"), "the compaction has no encrypted_content"
    )


@check("compact.continue", "Its output can start the next input", rule="endpoints-compact-continue")
async def compact_continue(probe: Probe) -> None:
    found = await _compacted(probe)
    await probe.create(input=[*list_at(found, "output"), {"role": "user", "content": "Go on."}])


async def _count(probe: Probe, text: str) -> int:
    answer = await probe.optional(
        COUNT, "POST", "responses/input_tokens", {"model": probe.target.model, "input": text}
    )
    expect(answer.json.get("object") == "response.input_tokens", f"`object` is {answer.json.get('object')!r}")
    return number_at(answer.json, "input_tokens") or 0


async def _compacted(probe: Probe) -> JsonObject:
    items = [
        {"role": "user", "content": "Remember this word: heliotrope."},
        {"role": "assistant", "content": "I will."},
        {"role": "user", "content": "Good."},
    ]
    answer = await probe.send("POST", "responses/compact", {"model": probe.target.model, "input": items})
    expect_offered(answer, "POST /responses/compact", REFUSED | ABSENT)
    expect(answer.status == 200, f"the status is {answer.status}")
    return answer.json


CHECKS = (models, model, unknown_model, count, compact, compact_continue)
