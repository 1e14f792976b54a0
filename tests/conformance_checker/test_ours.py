"""Our own server passes every check: one test per check, marked with its rule."""

from collections.abc import Iterator

import pytest

from antiphon.conformance.checks import CHECKS
from antiphon.conformance.probe import Probe, Streams
from antiphon.conformance.target import Target
from tests.conformance_checker.obedient import MODEL

PASSED = [
    pytest.param("order.text", marks=pytest.mark.requirement("PROTOCOL/order-message")),
    pytest.param("order.function_call", marks=pytest.mark.requirement("PROTOCOL/order-function-call")),
    pytest.param("order.parallel_calls", marks=pytest.mark.requirement("PROTOCOL/order-one-after-another")),
    pytest.param("order.custom_call", marks=pytest.mark.requirement("PROTOCOL/order-custom-tool-call")),
    pytest.param("order.reasoning", marks=pytest.mark.requirement("PROTOCOL/order-reasoning")),
    pytest.param("order.structured", marks=pytest.mark.requirement("PROTOCOL/order-message")),
    pytest.param("order.incomplete", marks=pytest.mark.requirement("PROTOCOL/order-incomplete")),
    pytest.param("numbering.sequence", marks=pytest.mark.requirement("PROTOCOL/stream-numbers")),
    pytest.param("numbering.indices", marks=pytest.mark.requirement("PROTOCOL/stream-indices")),
    pytest.param("framing.media_type", marks=pytest.mark.requirement("PROTOCOL/framing-stream-media-type")),
    pytest.param(
        "framing.json_media_type", marks=pytest.mark.requirement("PROTOCOL/framing-json-media-type")
    ),
    pytest.param("framing.names", marks=pytest.mark.requirement("PROTOCOL/framing-event-name")),
    pytest.param("framing.data", marks=pytest.mark.requirement("PROTOCOL/framing-data")),
    pytest.param("framing.created", marks=pytest.mark.requirement("PROTOCOL/stream-created")),
    pytest.param("framing.terminal", marks=pytest.mark.requirement("PROTOCOL/stream-one-terminal")),
    pytest.param("framing.end", marks=pytest.mark.requirement("PROTOCOL/framing-done")),
    pytest.param("ids.present", marks=pytest.mark.requirement("PROTOCOL/object-ids")),
    pytest.param("ids.stable", marks=pytest.mark.requirement("PROTOCOL/stream-stable-ids")),
    pytest.param("ids.unique", marks=pytest.mark.requirement("PROTOCOL/object-ids-unique")),
    pytest.param("ids.calls", marks=pytest.mark.requirement("PROTOCOL/items-call-id")),
    pytest.param("fold.stream", marks=pytest.mark.requirement("PROTOCOL/stream-fold")),
    pytest.param("fold.retrieved", marks=pytest.mark.requirement("PROTOCOL/state-retrieve-same")),
    pytest.param("fold.json", marks=pytest.mark.requirement("PROTOCOL/stream-json-same")),
    pytest.param("object.essential", marks=pytest.mark.requirement("PROTOCOL/object-essential")),
    pytest.param("object.members", marks=pytest.mark.requirement("PROTOCOL/object-members")),
    pytest.param("object.echo", marks=pytest.mark.requirement("PROTOCOL/object-echo")),
    pytest.param("object.usage", marks=pytest.mark.requirement("PROTOCOL/object-usage")),
    pytest.param("object.unknown_members", marks=pytest.mark.requirement("PROTOCOL/create-client-metadata")),
    pytest.param("tools.none", marks=pytest.mark.requirement("PROTOCOL/tools-choice-none")),
    pytest.param("tools.required", marks=pytest.mark.requirement("PROTOCOL/tools-choice-required")),
    pytest.param("tools.named", marks=pytest.mark.requirement("PROTOCOL/tools-choice-named")),
    pytest.param("tools.allowed", marks=pytest.mark.requirement("PROTOCOL/tools-choice-allowed")),
    pytest.param("tools.arguments", marks=pytest.mark.requirement("PROTOCOL/items-function-call")),
    pytest.param("tools.one_at_a_time", marks=pytest.mark.requirement("PROTOCOL/tools-parallel-false")),
    pytest.param("tools.round_trip", marks=pytest.mark.requirement("PROTOCOL/tools-round-trip")),
    pytest.param("tools.continued", marks=pytest.mark.requirement("PROTOCOL/tools-continue")),
    pytest.param("tools.unknown_call", marks=pytest.mark.requirement("PROTOCOL/tools-unknown-call")),
    pytest.param("tools.unknown_choice", marks=pytest.mark.requirement("PROTOCOL/tools-unknown-choice")),
    pytest.param("structured.stream", marks=pytest.mark.requirement("PROTOCOL/create-json-schema")),
    pytest.param("structured.json", marks=pytest.mark.requirement("PROTOCOL/create-json-schema")),
    pytest.param("structured.object", marks=pytest.mark.requirement("PROTOCOL/create-json-object")),
    pytest.param("structured.no_schema", marks=pytest.mark.requirement("PROTOCOL/create-json-schema-whole")),
    pytest.param("state.retrieve", marks=pytest.mark.requirement("PROTOCOL/state-retrieve")),
    pytest.param("state.continue", marks=pytest.mark.requirement("PROTOCOL/state-previous")),
    pytest.param("state.echo", marks=pytest.mark.requirement("PROTOCOL/state-previous-echo")),
    pytest.param("state.branch", marks=pytest.mark.requirement("PROTOCOL/state-branch")),
    pytest.param("state.instructions", marks=pytest.mark.requirement("PROTOCOL/state-instructions")),
    pytest.param("state.not_stored", marks=pytest.mark.requirement("PROTOCOL/state-store-false")),
    pytest.param("state.not_continued", marks=pytest.mark.requirement("PROTOCOL/state-store-false-previous")),
    pytest.param("state.item_reference", marks=pytest.mark.requirement("PROTOCOL/state-item-reference")),
    pytest.param(
        "state.unknown_reference", marks=pytest.mark.requirement("PROTOCOL/state-unknown-reference")
    ),
    pytest.param("state.input_items", marks=pytest.mark.requirement("PROTOCOL/state-input-items")),
    pytest.param(
        "state.input_items_pages", marks=pytest.mark.requirement("PROTOCOL/state-input-items-pages")
    ),
    pytest.param("state.delete", marks=pytest.mark.requirement("PROTOCOL/state-delete")),
    pytest.param("conversations.create", marks=pytest.mark.requirement("PROTOCOL/conversations-create")),
    pytest.param("conversations.update", marks=pytest.mark.requirement("PROTOCOL/conversations-update")),
    pytest.param("conversations.items", marks=pytest.mark.requirement("PROTOCOL/conversations-items")),
    pytest.param("conversations.respond", marks=pytest.mark.requirement("PROTOCOL/conversations-respond")),
    pytest.param(
        "conversations.exclusive", marks=pytest.mark.requirement("PROTOCOL/conversations-exclusive")
    ),
    pytest.param("conversations.delete", marks=pytest.mark.requirement("PROTOCOL/conversations-delete")),
    pytest.param("conversations.unknown", marks=pytest.mark.requirement("PROTOCOL/conversations-unknown")),
    pytest.param("background.completes", marks=pytest.mark.requirement("PROTOCOL/background-completes")),
    pytest.param("background.cancel", marks=pytest.mark.requirement("PROTOCOL/background-cancel")),
    pytest.param(
        "background.cancel_foreground", marks=pytest.mark.requirement("PROTOCOL/background-cancel-foreground")
    ),
    pytest.param("background.resume", marks=pytest.mark.requirement("PROTOCOL/background-resume")),
    pytest.param("models.list", marks=pytest.mark.requirement("PROTOCOL/endpoints-models")),
    pytest.param("models.retrieve", marks=pytest.mark.requirement("PROTOCOL/endpoints-model")),
    pytest.param("models.unknown", marks=pytest.mark.requirement("PROTOCOL/endpoints-model-unknown")),
    pytest.param("input_tokens.count", marks=pytest.mark.requirement("PROTOCOL/endpoints-input-tokens")),
    pytest.param("compact.output", marks=pytest.mark.requirement("PROTOCOL/endpoints-compact")),
    pytest.param("compact.continue", marks=pytest.mark.requirement("PROTOCOL/endpoints-compact-continue")),
    pytest.param("errors.json", marks=pytest.mark.requirement("PROTOCOL/errors-json")),
    pytest.param("errors.not_an_object", marks=pytest.mark.requirement("PROTOCOL/errors-json")),
    pytest.param("errors.nested", marks=pytest.mark.requirement("PROTOCOL/errors-json")),
    pytest.param("errors.model_missing", marks=pytest.mark.requirement("PROTOCOL/errors-required")),
    pytest.param("errors.input_missing", marks=pytest.mark.requirement("PROTOCOL/errors-required")),
    pytest.param("errors.model_unknown", marks=pytest.mark.requirement("PROTOCOL/errors-model")),
    pytest.param("errors.type", marks=pytest.mark.requirement("PROTOCOL/errors-type")),
    pytest.param("errors.range", marks=pytest.mark.requirement("PROTOCOL/errors-range")),
    pytest.param("errors.item", marks=pytest.mark.requirement("PROTOCOL/errors-item")),
    pytest.param("errors.role", marks=pytest.mark.requirement("PROTOCOL/errors-item")),
    pytest.param("errors.stream", marks=pytest.mark.requirement("PROTOCOL/errors-before-stream")),
    pytest.param("errors.previous", marks=pytest.mark.requirement("PROTOCOL/errors-previous")),
    pytest.param("errors.response", marks=pytest.mark.requirement("PROTOCOL/errors-response")),
    pytest.param("errors.route", marks=pytest.mark.requirement("PROTOCOL/errors-route")),
    pytest.param("errors.method", marks=pytest.mark.requirement("PROTOCOL/errors-method")),
    pytest.param("errors.members", marks=pytest.mark.requirement("PROTOCOL/errors-object")),
    pytest.param("errors.request_id", marks=pytest.mark.requirement("PROTOCOL/errors-request-id")),
    pytest.param("websocket.refusal", marks=pytest.mark.requirement("PROTOCOL/websocket-refusal")),
    pytest.param("websocket.turn", marks=pytest.mark.requirement("PROTOCOL/websocket-turn")),
    pytest.param("websocket.stream_flag", marks=pytest.mark.requirement("PROTOCOL/websocket-stream-flag")),
    pytest.param("websocket.sequential", marks=pytest.mark.requirement("PROTOCOL/websocket-sequential")),
    pytest.param("websocket.not_stored", marks=pytest.mark.requirement("PROTOCOL/websocket-store-false")),
    pytest.param("websocket.warm_up", marks=pytest.mark.requirement("PROTOCOL/websocket-generate-false")),
    pytest.param(
        "websocket.unknown_previous", marks=pytest.mark.requirement("PROTOCOL/websocket-unknown-previous")
    ),
    pytest.param("websocket.bad_frame", marks=pytest.mark.requirement("PROTOCOL/websocket-errors")),
]
NEEDS_A_KEY = "errors.key"
"""Run by `test_command.py`, against a server with a key."""


@pytest.fixture(scope="module")
def streams() -> Streams:
    """Several checks share a stream."""
    return {}


@pytest.fixture
def target(good_url: str) -> Iterator[Target]:
    target = Target(good_url, model=MODEL, timeout=20)
    yield target
    target.close()


@pytest.mark.parametrize("name", PASSED)
async def test_our_server_passes(name: str, target: Target, streams: Streams) -> None:
    (check,) = [check for check in CHECKS if check.id == name]
    await check.body(Probe(target, streams))


def test_every_check_is_run_and_marked_with_its_rule() -> None:
    marked = {str(case.values[0]): case.marks for case in PASSED}
    assert {*marked, NEEDS_A_KEY} == {check.id for check in CHECKS}
    for check in CHECKS:
        if check.id != NEEDS_A_KEY:
            assert [mark.args for mark in marked[check.id]] == [(check.rule,)]
