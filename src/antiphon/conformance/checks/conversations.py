"""Checks of conversations: created, updated, listed, used, deleted."""

from antiphon.conformance.checks.state import QUESTION, REMEMBER, expect_remembered
from antiphon.conformance.probe import Probe, check, expect_error
from antiphon.conformance.reading import list_at, member, text_at
from antiphon.conformance.results import expect
from antiphon.protocol.content import JsonObject

ENDPOINT = "POST /conversations"


async def created(probe: Probe, **body: object) -> JsonObject:
    """A new conversation; skips the check if the server has none."""
    return (
        await probe.optional(ENDPOINT, "POST", "conversations", {"metadata": {"topic": "tides"}, **body})
    ).json


async def items_in(probe: Probe, conversation: JsonObject, query: str = "") -> list[JsonObject]:
    """A page of the items of a conversation."""
    answer = await probe.send("GET", f"conversations/{conversation.get('id')}/items{query}")
    expect(answer.status == 200, f"GET of its items was answered with status {answer.status}")
    expect(answer.json.get("object") == "list", f"`object` is {answer.json.get('object')!r}, not 'list'")
    return list_at(answer.json, "data")


@check("conversations.create", "A conversation is created and retrieved", rule="conversations-create")
async def create(probe: Probe) -> None:
    conversation = await created(probe)
    expect(conversation.get("object") == "conversation", f"`object` is {conversation.get('object')!r}")
    expect(
        conversation.get("metadata") == {"topic": "tides"},
        f"its metadata is {conversation.get('metadata')!r}",
    )
    answer = await probe.send("GET", f"conversations/{conversation.get('id')}")
    expect(answer.status == 200, f"GET was answered with status {answer.status}")
    expect(answer.json == conversation, "the retrieved conversation differs")


@check("conversations.update", "Its metadata can be replaced", rule="conversations-update")
async def update(probe: Probe) -> None:
    conversation = await created(probe)
    answer = await probe.send(
        "POST", f"conversations/{conversation.get('id')}", {"metadata": {"topic": "moon"}}
    )
    expect(answer.status == 200, f"the status is {answer.status}")
    expect(
        answer.json.get("metadata") == {"topic": "moon"}, f"its metadata is {answer.json.get('metadata')!r}"
    )


@check("conversations.items", "Items are added, listed, retrieved and deleted", rule="conversations-items")
async def items(probe: Probe) -> None:
    first = {"type": "message", "role": "user", "content": "one"}
    conversation = await created(probe, items=[first])
    path = f"conversations/{conversation.get('id')}/items"
    added = await probe.send("POST", path, {"items": [{**first, "content": "two"}]})
    expect(added.status == 200, f"POST of items was answered with status {added.status}")
    listed = await items_in(probe, conversation)
    expect(len(listed) == 2, f"it has {len(listed)} items, not 2")
    expect(
        [_text(item) for item in listed] == ["two", "one"],
        f"the list is {[_text(item) for item in listed]!r}",
    )
    newest = text_at(listed[0], "id")
    expect(
        (await probe.send("GET", f"{path}/{newest}")).json.get("id") == newest,
        "GET of an item returns another item",
    )
    removed = await probe.send("DELETE", f"{path}/{newest}")
    expect(removed.status == 200, f"DELETE of an item was answered with status {removed.status}")
    expect_error(await probe.send("GET", f"{path}/{newest}"), 404)


@check(
    "conversations.respond",
    "A response is created in a conversation and appended",
    rule="conversations-respond",
)
async def respond(probe: Probe) -> None:
    conversation = await created(probe, items=[{"type": "message", "role": "user", "content": REMEMBER}])
    response = await probe.create(input=QUESTION, conversation=conversation.get("id"))
    found = member(response, "conversation.id")
    expect(found == conversation.get("id"), f"the response names the conversation {found!r}")
    roles = [text_at(item, "role") for item in await items_in(probe, conversation, "?order=asc")]
    expect(roles[:2] == ["user", "user"], f"its items have the roles {roles!r}: the input is not the second")
    expect("assistant" in roles, f"the roles of its items are {roles!r}: the output is missing")
    await expect_remembered(probe, response, QUESTION)


@check(
    "conversations.exclusive", "conversation excludes previous_response_id", rule="conversations-exclusive"
)
async def exclusive(probe: Probe) -> None:
    conversation = await created(probe)
    first = await probe.create(input="Say hello.")
    answer = await probe.ask(
        input="Hello", conversation=conversation.get("id"), previous_response_id=first.get("id")
    )
    expect_error(answer, 400, 422)


@check("conversations.delete", "A deleted conversation is not found", rule="conversations-delete")
async def delete(probe: Probe) -> None:
    conversation = await created(probe)
    path = f"conversations/{conversation.get('id')}"
    answer = await probe.send("DELETE", path)
    expect(answer.status == 200, f"DELETE was answered with status {answer.status}")
    expect(answer.json.get("deleted") is True, f"`deleted` is {answer.json.get('deleted')!r}")
    expect_error(await probe.send("GET", path), 404)


@check("conversations.unknown", "An unknown conversation is refused", rule="conversations-unknown")
async def unknown(probe: Probe) -> None:
    await created(probe)
    expect_error(await probe.send("GET", "conversations/conv_nobody"), 404)
    expect_error(await probe.ask(input="Hello", conversation="conv_nobody"), 400, 404)


def _text(item: JsonObject) -> str:
    return "".join(text_at(part, "text") for part in list_at(item, "content")) or text_at(item, "content")


CHECKS = (create, update, items, respond, exclusive, delete, unknown)
