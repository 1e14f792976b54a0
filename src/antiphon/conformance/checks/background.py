"""Checks of background responses: queued, streamed, cancelled, resumed."""

import asyncio

from antiphon.conformance.checks.streams import expect_none
from antiphon.conformance.probe import ABSENT, Probe, check, expect_error, expect_offered
from antiphon.conformance.reading import number_at, text_at
from antiphon.conformance.results import Failed, Skipped, expect
from antiphon.conformance.scenarios import LONG
from antiphon.protocol.content import JsonObject

RUNNING = ("queued", "in_progress")
POLL_SECONDS = 0.2
PADDING = "obfuscation"


async def started(probe: Probe, **parameters: object) -> JsonObject:
    """A background response; skips the check if the server has none."""
    answer = await probe.ask(**{"input": "Say hello.", "background": True, **parameters})
    expect_offered(answer, "background")
    expect(answer.status == 200, f"the status is {answer.status}")
    return answer.json


async def ended(probe: Probe, response: JsonObject) -> JsonObject:
    """Poll the response until it has ended, within the timeout of one request."""
    async with asyncio.timeout(probe.target.timeout):
        while response.get("status") in RUNNING:
            await asyncio.sleep(POLL_SECONDS)
            answer = await probe.send("GET", f"responses/{response.get('id')}")
            expect(answer.status == 200, f"GET of the response was answered with status {answer.status}")
            response = answer.json
    return response


@check("background.completes", "A background response is queued and completes", rule="background-completes")
async def completes(probe: Probe) -> None:
    response = await started(probe)
    expect(response.get("background") is True, f"`background` is {response.get('background')!r} in the echo")
    expect(response.get("status") in RUNNING, f"its first status is {response.get('status')!r}")
    try:
        response = await ended(probe, response)
    except TimeoutError:
        raise Failed(f"it did not end within {probe.target.timeout:g} s") from None
    expect(response.get("status") in ("completed", "incomplete"), f"it ended as {response.get('status')!r}")
    expect(response.get("output"), "it has no output")


@check("background.cancel", "A background response can be cancelled", rule="background-cancel")
async def cancel(probe: Probe) -> None:
    response = await started(probe, input=LONG, max_output_tokens=None)
    path = f"responses/{response.get('id')}"
    answer = await probe.optional("POST /responses/{id}/cancel", "POST", f"{path}/cancel", {})
    if answer.json.get("status") == "completed":
        raise Skipped("not provoked: it ended before it was cancelled")
    expect(answer.json.get("status") == "cancelled", f"its status is {answer.json.get('status')!r}")
    stored = await probe.send("GET", path)
    status = stored.json.get("status")
    expect(status == "cancelled", f"its status is {status!r} afterwards")


@check(
    "background.cancel_foreground",
    "A foreground response cannot be cancelled",
    rule="background-cancel-foreground",
)
async def cancel_foreground(probe: Probe) -> None:
    await started(probe)
    response = await probe.create(input="Say hello.")
    answer = await probe.send("POST", f"responses/{response.get('id')}/cancel", {})
    if answer.status in ABSENT:
        raise Skipped(f"not offered: POST /responses/{{id}}/cancel is answered with status {answer.status}")
    expect_error(answer, 400)


@check("background.resume", "A stream can be resumed after any event", rule="background-resume")
async def resume(probe: Probe) -> None:
    body = {**probe.defaults, "input": "Say hello.", "background": True, "stream": True}
    streamed = await probe.send("POST", "responses", body)
    expect_offered(streamed, "background with stream")
    expect(streamed.status == 200, f"the status is {streamed.status}")
    events = streamed.events
    expect(len(events) > 3, f"the stream has only {len(events)} events")
    expect_none(events, "envelope", "order", "numbering")
    response_id = text_at(events[0], "response.id")
    path = f"responses/{response_id}?stream=true&starting_after=2"
    rest = (await probe.optional("GET /responses/{id}?stream=true", "GET", path)).events
    numbers = [number_at(event, "sequence_number") for event in rest]
    expect(numbers[:1] == [3], f"the event after 2 is {numbers[:1]}")
    expect(_unpadded(rest) == _unpadded(events[3:]), "the resumed stream differs from the first one")


def _unpadded(events: list[JsonObject]) -> list[JsonObject]:
    """Events without the padding that hides their length: it is random."""
    return [{name: value for name, value in event.items() if name != PADDING} for event in events]


CHECKS = (completes, cancel, cancel_foreground, resume)
