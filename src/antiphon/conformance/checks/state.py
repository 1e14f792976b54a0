"""Checks of state: responses are stored, continued, listed, referenced and deleted; or not stored."""

from antiphon.conformance.probe import Probe, check, expect_error, items_of, output_text
from antiphon.conformance.reading import list_at, number_at, text_at
from antiphon.conformance.results import Failed, Skipped, expect
from antiphon.conformance.target import Answer
from antiphon.protocol.content import JsonObject

WORD = "heliotrope"
WHICH = "Which word did you say? Answer with that word alone."
REMEMBER = f"Remember this word: {WORD}. Answer with OK."
QUESTION = "Which word did I ask you to remember? Answer with that word alone."


async def expect_remembered(probe: Probe, response: JsonObject, alone: object) -> None:
    """Fail unless the response contains the word, or its input has more tokens than `alone` (the input
    without the history)."""
    if WORD in output_text(response).lower():
        return
    other = await probe.create(input=alone)
    tokens = [number_at(one, "usage.input_tokens") for one in (response, other)]
    if tokens[0] is None or tokens[1] is None or 0 in tokens:
        raise Skipped("not provoked: the model did not repeat the word, and the server counts no tokens")
    if tokens[0] <= tokens[1]:
        raise Failed(
            f"the history did not reach the model: {tokens[0]} tokens of input, {tokens[1]} without it"
        )


async def stored(probe: Probe, **parameters: object) -> JsonObject:
    """A stored response; skips the check if the server stores none."""
    response = await probe.create(**{"input": REMEMBER, **parameters})
    if response.get("store") is False:
        raise Skipped("not offered: the server says `store: false`")
    return response


async def continued(probe: Probe, previous: object, **parameters: object) -> JsonObject:
    """A response that continues another one."""
    return await probe.create(**{"input": QUESTION, "previous_response_id": previous, **parameters})


@check("state.retrieve", "A stored response can be retrieved", rule="state-retrieve")
async def retrieve(probe: Probe) -> None:
    response = await stored(probe)
    answer = await probe.send("GET", f"responses/{response.get('id')}")
    expect(answer.status == 200, f"the status is {answer.status}")
    expect(answer.json.get("id") == response.get("id"), f"its id is {answer.json.get('id')!r}")


@check("state.continue", "previous_response_id adds the history to the input", rule="state-previous")
async def continues(probe: Probe) -> None:
    first = await stored(probe)
    await expect_remembered(probe, await continued(probe, first.get("id")), QUESTION)


@check("state.echo", "previous_response_id is echoed", rule="state-previous-echo")
async def echoes(probe: Probe) -> None:
    first = await stored(probe)
    second = await continued(probe, first.get("id"))
    found = second.get("previous_response_id")
    expect(found == first.get("id"), f"previous_response_id is {found!r}, not {first.get('id')!r}")


@check("state.branch", "A response can be continued twice", rule="state-branch")
async def branch(probe: Probe) -> None:
    first = await stored(probe)
    ids = [(await continued(probe, first.get("id"))).get("id") for _ in range(2)]
    expect(ids[0] != ids[1], "both continuations have the same id")


@check("state.instructions", "instructions are not inherited", rule="state-instructions")
async def instructions(probe: Probe) -> None:
    first = await stored(probe, instructions="Answer in French.")
    second = await continued(probe, first.get("id"))
    expect(
        not second.get("instructions"),
        f"the continuation has the instructions {second.get('instructions')!r}",
    )


@check("state.not_stored", "store false: the response cannot be retrieved", rule="state-store-false")
async def not_stored(probe: Probe) -> None:
    response = await probe.create(input="Say hello.", store=False)
    expect(response.get("store") is False, f"`store` is {response.get('store')!r} in the echo")
    expect_error(await probe.send("GET", f"responses/{response.get('id')}"), 404)


@check(
    "state.not_continued",
    "store false: the response cannot be continued over HTTP",
    rule="state-store-false-previous",
)
async def not_continued(probe: Probe) -> None:
    response = await probe.create(input="Say hello.", store=False)
    expect_error(await probe.ask(input="Go on.", previous_response_id=response.get("id")), 400, 404)


@check("state.item_reference", "An item can be referred to by its id", rule="state-item-reference")
async def item_reference(probe: Probe) -> None:
    first = await stored(probe, input=f"Say this word, and nothing else: {WORD}.")
    message = next(iter(items_of(first, "message")), None)
    if message is None:
        raise Skipped("not provoked: there is no message to refer to")
    reference = {"type": "item_reference", "id": message.get("id")}
    hello, question = ({"role": "user", "content": text} for text in ("Hello.", WHICH))
    response = await probe.create(input=[hello, reference, question])
    await expect_remembered(probe, response, [hello, question])


@check("state.unknown_reference", "A reference to an unknown item is refused", rule="state-unknown-reference")
async def unknown_reference(probe: Probe) -> None:
    items = [{"type": "item_reference", "id": "msg_nobody"}, {"role": "user", "content": "And again?"}]
    expect_error(await probe.ask(input=items), 400, 404)


@check("state.input_items", "input_items lists the input, newest first", rule="state-input-items")
async def input_items(probe: Probe) -> None:
    listed = await _list_of(probe, await _three_items(probe), "")
    texts = [_text(item) for item in list_at(listed.json, "data")]
    expect(texts[:3] == ["three", "two", "one"], f"the list is {texts!r}")
    for item in list_at(listed.json, "data"):
        expect(text_at(item, "id"), "an item of the list has no id")


@check("state.input_items_pages", "input_items is paginated", rule="state-input-items-pages")
async def input_items_pages(probe: Probe) -> None:
    response = await _three_items(probe)
    seen: list[str] = []
    after = ""
    for page in range(4):
        answer = await _list_of(probe, response, f"?order=asc&limit=2{after}")
        data = list_at(answer.json, "data")
        seen += [_text(item) for item in data]
        expect(answer.json.get("has_more") is (page == 0), f"has_more of page {page + 1} is wrong")
        if not answer.json.get("has_more"):
            break
        expect(answer.json.get("last_id") == data[-1].get("id"), "last_id is not the id of the last item")
        after = f"&after={data[-1].get('id')}"
    expect(seen == ["one", "two", "three"], f"the pages contain {seen!r}")


@check("state.delete", "A deleted response is not found", rule="state-delete")
async def delete(probe: Probe) -> None:
    response = await stored(probe)
    path = f"responses/{response.get('id')}"
    answer = await probe.send("DELETE", path)
    if answer.status in (405, 501):
        raise Skipped(f"not offered: DELETE /responses/{{id}} is answered with status {answer.status}")
    expect(answer.status in (200, 204), f"DELETE was answered with status {answer.status}")
    expect_error(await probe.send("GET", path), 404)
    expect_error(await probe.ask(input="Go on.", previous_response_id=response.get("id")), 400, 404)
    expect_error(await probe.send("DELETE", path), 404)


async def _three_items(probe: Probe) -> JsonObject:
    items = [{"role": "user", "content": word} for word in ("one", "two", "three")]
    return await stored(probe, input=items)


async def _list_of(probe: Probe, response: JsonObject, query: str) -> Answer:
    path = f"responses/{response.get('id')}/input_items{query}"
    answer = await probe.optional("GET /responses/{id}/input_items", "GET", path)
    expect(answer.json.get("object") == "list", f"`object` is {answer.json.get('object')!r}, not 'list'")
    return answer


def _text(item: JsonObject) -> str:
    content = item.get("content")
    return (
        content
        if isinstance(content, str)
        else "".join(text_at(part, "text") for part in list_at(item, "content"))
    )


CHECKS = (
    retrieve, continues, echoes, branch, instructions, not_stored, not_continued, item_reference,
    unknown_reference, input_items, input_items_pages, delete,
)  # fmt: skip
