"""Responses in the background: queued, followed, cancelled, resumed."""

import asyncio

from antiphon.conformance.checking import check
from antiphon.conformance.checks.streams import expect_none
from antiphon.conformance.members import number_at, text_at
from antiphon.conformance.probe import ABSENT, Probe, expect_error, expect_offered
from antiphon.conformance.scenarios import LONG
from antiphon.conformance.verdict import Failed, Skipped, expect
from antiphon.protocol.content import JsonObject

RUNNING = ("queued", "in_progress")
PAUSE = 0.2
PADDING = "obfuscation"


async def begun(probe: Probe, **parameters: object) -> JsonObject:
    """A response in the background, or the check is skipped."""
    answer = await probe.ask(**{"input": "Say hello.", "background": True, **parameters})
    expect_offered(answer, "background")
    expect(answer.status == 200, f"the status is {answer.status}")
    return answer.json


async def ended(probe: Probe, response: JsonObject) -> JsonObject:
    """The response when it has ended; asked for again and again, within the time of one request."""
    async with asyncio.timeout(probe.target.timeout):
        while response.get("status") in RUNNING:
            await asyncio.sleep(PAUSE)
            answer = await probe.send("GET", f"responses/{response.get('id')}")
            expect(answer.status == 200, f"GET of the response was answered with status {answer.status}")
            response = answer.json
    return response


@check("background.completes", "It is queued at once and completes", rule="background-completes")
async def completes(probe: Probe) -> None:
    """Whether somebody listens or not."""
    response = await begun(probe)
    expect(response.get("background") is True, f"`background` is {response.get('background')!r} in the echo")
    expect(response.get("status") in RUNNING, f"its first status is {response.get('status')!r}")
    try:
        response = await ended(probe, response)
    except TimeoutError:
        raise Failed(f"it did not end within {probe.target.timeout:g} s") from None
    expect(response.get("status") in ("completed", "incomplete"), f"it ended as {response.get('status')!r}")
    expect(response.get("output"), "it has no output")


@check("background.cancel", "It can be cancelled", rule="background-cancel")
async def cancel(probe: Probe) -> None:
    """And stays so."""
    response = await begun(probe, input=LONG, max_output_tokens=None)
    path = f"responses/{response.get('id')}"
    answer = await probe.optional("POST /responses/{id}/cancel", "POST", f"{path}/cancel", {})
    if answer.json.get("status") == "completed":
        raise Skipped("not provoked: it had ended before it was cancelled")
    expect(answer.json.get("status") == "cancelled", f"its status is {answer.json.get('status')!r}")
    kept = await probe.send("GET", path)
    expect(kept.json.get("status") == "cancelled", f"its status is {kept.json.get('status')!r} afterwards")


@check("background.cancel_foreground", "One in the foreground cannot", rule="background-cancel-foreground")
async def cancel_foreground(probe: Probe) -> None:
    """It has ended, and was nobody's to cancel."""
    await begun(probe)
    response = await probe.create(input="Say hello.")
    answer = await probe.send("POST", f"responses/{response.get('id')}/cancel", {})
    if answer.status in ABSENT:
        raise Skipped(f"not offered: POST /responses/{{id}}/cancel is answered with status {answer.status}")
    expect_error(answer, 400)


@check("background.resume", "Its stream can be taken up after any event", rule="background-resume")
async def resume(probe: Probe) -> None:
    """`starting_after`: the rest, with the same numbers."""
    body = {**probe.basis, "input": "Say hello.", "background": True, "stream": True}
    streamed = await probe.send("POST", "responses", body)
    expect_offered(streamed, "background with stream")
    expect(streamed.status == 200, f"the status is {streamed.status}")
    events = streamed.events
    expect(len(events) > 3, f"only {len(events)} events came")
    expect_none(events, "envelope", "order", "numbering")
    response_id = text_at(events[0], "response.id")
    path = f"responses/{response_id}?stream=true&starting_after=2"
    rest = (await probe.optional("GET /responses/{id}?stream=true", "GET", path)).events
    numbers = [number_at(event, "sequence_number") for event in rest]
    expect(numbers[:1] == [3], f"after event 2 comes {numbers[:1]}")
    expect(_told(rest) == _told(events[3:]), "the rest of the stream is not what was told the first time")


def _told(events: list[JsonObject]) -> list[JsonObject]:
    """Events without the padding that hides how long they are: it is made anew every time."""
    return [{name: value for name, value in event.items() if name != PADDING} for event in events]


CHECKS = (completes, cancel, cancel_foreground, resume)
