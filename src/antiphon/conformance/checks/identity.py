"""Ids: everything has one, keeps it, and can be found by it."""

from antiphon.conformance.checking import check
from antiphon.conformance.checks.streams import expect_none, heard, last_response
from antiphon.conformance.members import list_at, text_at
from antiphon.conformance.probe import Probe, items_of
from antiphon.conformance.verdict import expect, provoked


@check("ids.stable", "An item has one id from added to the end", rule="stream-stable-ids")
async def stable(probe: Probe) -> None:
    """And the response has one in all of its events."""
    for answer in await heard(probe):
        expect_none(answer.events, "id")


@check("ids.present", "Responses and items have ids", rule="object-ids")
async def present(probe: Probe) -> None:
    """Texts with something in them."""
    response = last_response(await probe.stream("text"))
    expect(text_at(response, "id"), "the response has no id")
    for item in list_at(response, "output"):
        expect(text_at(item, "id"), f"a {item.get('type')} has no id")


@check("ids.unique", "Two responses share no ids", rule="object-ids-unique")
async def unique(probe: Probe) -> None:
    """Neither theirs nor those of their items."""
    streamed = last_response(await probe.stream("text"))
    asked = await probe.create(input="Say hello in one short sentence.")
    first, second = (
        {text_at(response, "id"), *(text_at(item, "id") for item in list_at(response, "output"))}
        for response in (streamed, asked)
    )
    expect(first.isdisjoint(second), f"both responses have {', '.join(sorted(first & second))}")


@check("ids.calls", "Calls have call ids of their own", rule="items-call-id")
async def calls(probe: Probe) -> None:
    """By which outputs find them."""
    response = last_response(await probe.stream("call"))
    found = [text_at(item, "call_id") for item in items_of(response, "function_call")]
    provoked(found, "the model did not call the tool")
    expect(all(found), "a function_call has no call_id")
    expect(len(set(found)) == len(found), "two calls have the same call_id")


CHECKS = (present, stable, unique, calls)
