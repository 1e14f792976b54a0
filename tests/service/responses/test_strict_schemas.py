"""Strict schemas: an answer that violates one is repaired or fails, whatever the model's server claims."""

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.service.routing.router import Route, Router
from antiphon.turn.chunks import Finished, TextDelta
from tests.service.conftest import MakeCreator
from tests.service.responses.test_rounds import FORMAT, USAGE, answer, respond, stream

STRICT = {"format": {**FORMAT["format"], "strict": True}}


def enforcing(*texts: str, size: int = 100) -> ScriptedBackend:
    """A backend that claims to enforce everything, and answers in pieces of this size."""
    scripts: list[list[Step]] = [
        [
            *([TextDelta(text[start : start + size])] for start in range(0, len(text), size)),
            [USAGE, Finished("stop")],
        ]
        for text in texts
    ]
    return ScriptedBackend(*scripts)


def trusted(backend: ScriptedBackend) -> Router:
    return Router([Route("m", backend, strict_schemas="trusted")], chance=lambda: 0.5)


@pytest.mark.requirement("PROTOCOL/create-format-strict")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_strict_schema_is_kept_though_the_server_says_it_enforces_it(
    make_creator: MakeCreator, streamed: bool
) -> None:
    backend = enforcing('{"n": "one"}', '{"n": 1}')
    creator = make_creator(backend)
    if streamed:
        events = await stream(creator, text=STRICT)
        deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
        assert (deltas, events[-1]["type"]) == (['{"n": 1}'], "response.completed")
    else:
        assert answer(await respond(creator, text=STRICT)) == '{"n": 1}'
    assert len(backend.turns) == 2


@pytest.mark.requirement("PROTOCOL/create-format-strict")
async def test_a_trusted_server_that_breaks_a_strict_schema_fails_the_stream(
    make_creator: MakeCreator,
) -> None:
    backend = enforcing('{"n": "one"}', '{"n": 1}', size=3)
    events = await stream(make_creator(router=trusted(backend)), text=STRICT)
    assert [event["delta"] for event in events if event["type"].endswith("text.delta")] == ['{"n', '": ']
    failed = events[-1]["response"]
    assert (events[-2]["type"], events[-2]["error"]["code"]) == ("error", "model_did_not_comply")
    assert (events[-1]["type"], failed["status"]) == ("response.failed", "failed")
    assert "strict_schemas" in failed["error"]["message"]
    assert (failed["usage"], "downgrades" in failed, len(backend.turns)) == (None, False, 1)


@pytest.mark.requirement("PROTOCOL/create-format-strict")
async def test_a_violation_that_only_the_end_shows_fails_the_stream(make_creator: MakeCreator) -> None:
    pattern = {"type": "object", "properties": {"n": {"type": "string", "pattern": "^[0-9]+$"}}}
    backend = enforcing('{"n": "one"}', size=3)
    events = await stream(
        make_creator(router=trusted(backend)), text={"format": {**STRICT["format"], "schema": pattern}}
    )
    assert "".join(e["delta"] for e in events if e["type"].endswith("text.delta")) == '{"n": "one"}'
    assert (events[-2]["error"]["code"], events[-1]["type"]) == ("model_did_not_comply", "response.failed")
    assert events[-1]["response"]["usage"]["total_tokens"] == 5


@pytest.mark.requirement("PROTOCOL/create-format-strict")
async def test_a_trusted_server_is_repaired_before_any_text_was_sent(make_creator: MakeCreator) -> None:
    backend = enforcing('{"n": "one"}', '{"n": 1}')
    events = await stream(make_creator(router=trusted(backend)), text=STRICT)
    assert [event["delta"] for event in events if event["type"].endswith("text.delta")] == ['{"n": 1}']
    assert events[-1]["type"] == "response.completed"


@pytest.mark.requirement("PROTOCOL/create-format-strict")
async def test_a_trusted_server_is_repaired_where_nothing_was_streamed(make_creator: MakeCreator) -> None:
    backend = enforcing('{"n": "one"}', '{"n": 1}')
    assert answer(await respond(make_creator(router=trusted(backend)), text=STRICT)) == '{"n": 1}'


async def test_a_schema_that_is_not_strict_is_streamed_and_its_violation_reported(
    make_creator: MakeCreator,
) -> None:
    events = await stream(make_creator(enforcing('{"n": "one"}')), text=FORMAT)
    assert events[-1]["type"] == "response.completed"
    assert "did not hold it" in events[-1]["response"]["downgrades"][0]
