"""State: what is kept, continued, listed, referred to and deleted; and what is not kept."""

from antiphon.conformance.checking import check
from antiphon.conformance.members import list_at, number_at, text_at
from antiphon.conformance.probe import Probe, expect_error, items_of, output_text
from antiphon.conformance.target import Answer
from antiphon.conformance.verdict import Failed, Skipped, expect
from antiphon.protocol.content import JsonObject

WORD = "heliotrope"
WHICH = "Which word did you say? Answer with that word alone."
REMEMBER = f"Remember this word: {WORD}. Answer with OK."
QUESTION = "Which word did I ask you to remember? Answer with that word alone."


async def expect_remembered(probe: Probe, response: JsonObject, alone: object) -> None:
    """The response has the word; else its input has more tokens than the input without a history, `alone`."""
    if WORD in output_text(response).lower():
        return
    other = await probe.create(input=alone)
    tokens = [number_at(one, "usage.input_tokens") for one in (response, other)]
    if tokens[0] is None or tokens[1] is None or 0 in tokens:
        raise Skipped("not provoked: the model did not say the word, and no tokens were counted")
    if tokens[0] <= tokens[1]:
        raise Failed(
            f"the history did not reach the model: {tokens[0]} tokens of input, {tokens[1]} without it"
        )


async def kept(probe: Probe, **parameters: object) -> JsonObject:
    """A response that is stored, or the check is skipped."""
    response = await probe.create(**{"input": REMEMBER, **parameters})
    if response.get("store") is False:
        raise Skipped("not offered: the server says `store: false`")
    return response


async def continued(probe: Probe, previous: object, **parameters: object) -> JsonObject:
    """The answer to a question that continues a response."""
    return await probe.create(**{"input": QUESTION, "previous_response_id": previous, **parameters})


@check("state.retrieve", "A stored response can be retrieved", rule="state-retrieve")
async def retrieve(probe: Probe) -> None:
    """Storing is the default."""
    response = await kept(probe)
    answer = await probe.send("GET", f"responses/{response.get('id')}")
    expect(answer.status == 200, f"the status is {answer.status}")
    expect(answer.json.get("id") == response.get("id"), f"its id is {answer.json.get('id')!r}")


@check("state.continue", "previous_response_id brings the history to the model", rule="state-previous")
async def continues(probe: Probe) -> None:
    """The model says what it was told before; else the tokens of the input say that it could have."""
    first = await kept(probe)
    await expect_remembered(probe, await continued(probe, first.get("id")), QUESTION)


@check("state.echo", "previous_response_id is normal_arguments", rule="state-previous-echo")
async def echoes(probe: Probe) -> None:
    """In the response that continues."""
    first = await kept(probe)
    second = await continued(probe, first.get("id"))
    found = second.get("previous_response_id")
    expect(found == first.get("id"), f"previous_response_id is {found!r}, not {first.get('id')!r}")


@check("state.branch", "A response can be continued twice", rule="state-branch")
async def branch(probe: Probe) -> None:
    """Each continuation is a response of its own."""
    first = await kept(probe)
    ids = [(await continued(probe, first.get("id"))).get("id") for _ in range(2)]
    expect(ids[0] != ids[1], "both continuations have the same id")


@check("state.instructions", "instructions are not inherited", rule="state-instructions")
async def instructions(probe: Probe) -> None:
    """A continuation has its own, or none."""
    first = await kept(probe, instructions="Answer in French.")
    second = await continued(probe, first.get("id"))
    expect(
        not second.get("instructions"),
        f"the continuation has the instructions {second.get('instructions')!r}",
    )


@check("state.not_stored", "store false: nobody can retrieve it", rule="state-store-false")
async def not_stored(probe: Probe) -> None:
    """And the echo says so."""
    response = await probe.create(input="Say hello.", store=False)
    expect(response.get("store") is False, f"`store` is {response.get('store')!r} in the echo")
    expect_error(await probe.send("GET", f"responses/{response.get('id')}"), 404)


@check(
    "state.not_continued", "store false: over HTTP, nobody can continue it", rule="state-store-false-previous"
)
async def not_continued(probe: Probe) -> None:
    """There is nothing to continue."""
    response = await probe.create(input="Say hello.", store=False)
    expect_error(await probe.ask(input="Go on.", previous_response_id=response.get("id")), 400, 404)


@check("state.item_reference", "An item can be referred to by its id", rule="state-item-reference")
async def item_reference(probe: Probe) -> None:
    """Some clients send nothing else of earlier turns. The model gets what it refers to."""
    told = await kept(probe, input=f"Say this word, and nothing else: {WORD}.")
    message = next(iter(items_of(told, "message")), None)
    if message is None:
        raise Skipped("not provoked: there is no message to refer to")
    reference = {"type": "item_reference", "id": message.get("id")}
    hello, question = ({"role": "user", "content": text} for text in ("Hello.", WHICH))
    response = await probe.create(input=[hello, reference, question])
    await expect_remembered(probe, response, [hello, question])


@check("state.unknown_reference", "A reference to nothing is refused", rule="state-unknown-reference")
async def unknown_reference(probe: Probe) -> None:
    """No item has this id."""
    items = [{"type": "item_reference", "id": "msg_nobody"}, {"role": "user", "content": "And again?"}]
    expect_error(await probe.ask(input=items), 400, 404)


@check("state.input_items", "input_items lists the input, newest first", rule="state-input-items")
async def input_items(probe: Probe) -> None:
    """Each with an id."""
    listed = await _list_of(probe, await _three_items(probe), "")
    texts = [_text(item) for item in list_at(listed.json, "data")]
    expect(texts[:3] == ["three", "two", "one"], f"the list is {texts!r}")
    for item in list_at(listed.json, "data"):
        expect(text_at(item, "id"), "an item of the list has no id")


@check("state.input_items_pages", "input_items comes in pages", rule="state-input-items-pages")
async def input_items_pages(probe: Probe) -> None:
    """`limit`, `after`, `order`, `has_more`."""
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
    expect(seen == ["one", "two", "three"], f"the pages hold {seen!r}")


@check("state.delete", "A deleted response is gone", rule="state-delete")
async def delete(probe: Probe) -> None:
    """For those who retrieve and for those who continue."""
    response = await kept(probe)
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
    return await kept(probe, input=items)


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
