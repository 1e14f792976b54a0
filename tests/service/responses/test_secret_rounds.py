"""The secrets of the server in the rounds of a response."""

from typing import Any

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.known_secrets import HIDDEN, KNOWN_SECRETS
from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import AnnotationAdded, CallDelta, CallStarted, Chunk, Finished, TextDelta
from tests.service.conftest import MakeCreator
from tests.turn.folding import to_wire

SECRET = "canary-of-rounds-000001"
KNOWN_SECRETS.add(SECRET)
DEFERRED: list[dict[str, Any]] = [
    {"type": "tool_search"},
    {"type": "function", "name": "get_weather", "description": "weather", "defer_loading": True},
]
SEARCH: list[Chunk] = [CallStarted(0, "c", "tool_search"), CallDelta(0, '{"query": "weather"}')]
CITATION: Chunk = AnnotationAdded({"type": "url_citation", "url": "u"})


async def response_of(make_creator: MakeCreator, backend: ScriptedBackend, **params: Any) -> dict[str, Any]:
    request = create_from(model="m", input="hi", stream=True, **params)
    run = make_creator(backend).start(request, Caller.of("t"))
    events = [to_wire(event) async for batch in run.events() for event in batch]
    return events[-1]["response"]


def text_of(response: dict[str, Any]) -> str:
    """What the SDKs give as `output_text`: the text of all messages."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for message in messages for part in message["content"])


async def test_a_secret_is_recognised_in_the_next_round(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[TextDelta(f"It is {SECRET[:8]}"), *SEARCH, Finished("tool_calls")]],
        [[TextDelta(f"{SECRET[8:]}."), Finished("stop")]],
    )
    response = await response_of(make_creator, backend, tools=DEFERRED)
    assert len(backend.turns) == 2
    assert text_of(response) == f"It is {SECRET[:8]}{HIDDEN}."


async def test_an_answer_that_breaks_off_keeps_what_was_held(make_creator: MakeCreator) -> None:
    script: list[list[Chunk]] = [[TextDelta(f"It is {SECRET[:6]}")], [CITATION]]
    response = await response_of(make_creator, ScriptedBackend(script))
    assert response["status"] == "failed"
    (message,) = response["output"]
    assert message["content"][0]["text"] == f"It is {SECRET[:6]}"
    assert len(message["content"][0]["annotations"]) == 1


async def test_a_broken_off_answer_with_stages_keeps_what_was_held(make_creator: MakeCreator) -> None:
    script: list[list[Chunk]] = [[TextDelta(f"It is {SECRET[:6]}")], [CITATION]]
    response = await response_of(make_creator, ScriptedBackend(script), tools=DEFERRED)
    assert response["status"] == "failed"
    assert text_of(response) == f"It is {SECRET[:6]}"
