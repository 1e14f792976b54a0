"""Compacting conversations on request, by a trigger and by a threshold, without loss of content."""

from collections.abc import Sequence
from itertools import count
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import (
    BackendBroken,
    BackendRefused,
    BackendUnreachable,
    InvalidRequest,
    ModelNotFound,
    NotFound,
)
from antiphon.isolated.pool import IsolatedPool
from antiphon.protocol.content import InputText
from antiphon.protocol.ids import IdSource
from antiphon.protocol.items import (
    Compaction,
    CompactionTrigger,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
)
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.service.checks import Checks
from antiphon.service.responses.compaction import CompactionPlan, Compactor
from antiphon.service.responses.context import Context, Contexts
from antiphon.service.responses.file_room import SentContent
from antiphon.service.responses.summarise import BROKEN_OFF
from antiphon.service.routing.router import Route, Router
from antiphon.store.base import Continuation, HistoryRoom, StoredItem, item_not_found, response_not_found
from antiphon.store.ports import Stores
from antiphon.turn.chunks import HEARTBEAT, Chunk, Failed, Finished, ReasoningDelta, TextDelta, UsageReported
from antiphon.turn.compaction import HEADING, compact_view
from antiphon.turn.context import TurnRequest
from antiphon.turn.sealing import SealKey

USAGE = Usage(3, InputTokensDetails(), 5, OutputTokensDetails(), 8)
SEAL_KEY = SealKey(b"secret", bytes)
SEALER = SEAL_KEY.sealer("t")
TOO_LONG = BackendRefused("too long", status=400, code="context_length_exceeded")

QUESTION = Message(role="user", content="what time is it?")
CALL = FunctionCall(call_id="c1", name="clock", arguments="{}")
OUTPUT = FunctionCallOutput(call_id="c1", output="12:00")
ANSWER = Message(role="assistant", content="noon")
MORE = Message(role="user", content="and now?")

CALLER = Caller.of("t")


class Shelf:
    """The part of a store that compaction needs."""

    async def continuation(self, tenant: str, response_id: str, _room: HistoryRoom) -> Continuation:
        if (tenant, response_id) != ("t", "resp_1"):
            raise response_not_found(response_id, "previous_response_id")
        return Continuation((QUESTION, CALL, OUTPUT, ANSWER))

    async def item(self, tenant: str, item_id: str) -> StoredItem:
        if (tenant, item_id) != ("t", "msg_1"):
            raise item_not_found(item_id)
        return StoredItem(Message(id="msg_1", role="user", content="stored words"))


class Shelves:
    """The part of the stores that compaction needs."""

    responses = Shelf()


def compactor(*backends: ScriptedBackend, model: str | None = None) -> Compactor:
    numbers = count(1)
    routes = [Route("m", backend, priority=index) for index, backend in enumerate(backends)]
    return Compactor(
        router=Router(routes, chance=lambda: 0.5),
        contexts=Contexts(cast("Stores", Shelves()), SEAL_KEY, lambda: 1000.0, Checks(IsolatedPool())),
        ids=IdSource(lambda: 1000.0, lambda size: next(numbers).to_bytes(size, "big")),
        clock=lambda: 1000.0,
        seal_key=SEAL_KEY,
        sent=SentContent(),
        model=model,
        count_tokens=lambda items, _: len(items),
    )


def summary_backend(*chunks: Chunk) -> ScriptedBackend:
    return ScriptedBackend([chunks])


def summarising() -> ScriptedBackend:
    return summary_backend(TextDelta("it is "), TextDelta("noon"), Finished("stop"), UsageReported(USAGE))


def summary_input(turn: TurnRequest) -> str:
    """The input of the summarising model."""
    (message,) = turn.items
    assert isinstance(message, Message)
    assert isinstance(message.content, str)
    return message.content


def body(**params: Any) -> bytes:
    return msgspec.json.encode({"model": "m", **params})


async def plan(under_test: Compactor, *items: Item, history: int = 0, **params: Any) -> CompactionPlan:
    request = create_from(**{"model": "m", "input": "unused", **params})
    request = replace(request, items=items[history:])
    return await under_test.plan(items, Context(request, items[:history]), "t")


# summarise


async def test_a_summary_has_the_models_text_and_usage() -> None:
    backend = summarising()
    summary = await compactor(backend).summarise([QUESTION, CALL, OUTPUT], "t", model="m")
    assert (summary.text, summary.usage) == ("it is noon", USAGE)
    assert "assistant calls clock" in summary_input(backend.turns[0])
    assert backend.turns[0].tools == ()


async def test_reasoning_is_not_part_of_the_summary() -> None:
    backend = summary_backend(ReasoningDelta("hm"), TextDelta("noon"), Finished("stop"))
    assert (await compactor(backend).summarise([QUESTION], "t", model="m")).text == "noon"


async def test_the_operators_summary_model_takes_precedence_over_the_requests_model() -> None:
    backend = summarising()
    await compactor(backend, model="m").summarise([QUESTION], "t", model="unknown here")
    assert backend.turns[0].model == "m"
    with pytest.raises(ModelNotFound):
        await compactor(backend).summarise([QUESTION], "t", model="unknown here")


@pytest.mark.parametrize(
    "failure",
    [[BackendUnreachable()], [[TextDelta("it")], BackendUnreachable()], [[Failed(BackendUnreachable())]]],
)
async def test_another_backend_may_take_over_at_any_time(failure: list[Step]) -> None:
    second = summarising()
    summary = await compactor(ScriptedBackend(failure), second).summarise([QUESTION], "t", model="m")
    assert (summary.text, len(second.turns)) == ("it is noon", 1)


async def test_an_error_of_the_request_is_raised_without_fallback() -> None:
    refusal = BackendRefused("no", status=400)
    second = summarising()
    with pytest.raises(BackendRefused):
        await compactor(ScriptedBackend([refusal]), second).summarise([QUESTION], "t", model="m")
    assert second.turns == []


@pytest.mark.parametrize(
    "chunks",
    [
        [Finished("stop")],
        [TextDelta(" \n"), Finished("stop")],
        [TextDelta("half a"), Finished("content_filter")],
        [TextDelta("half a")],
    ],
)
async def test_an_incomplete_or_empty_summary_is_an_error(chunks: Sequence[Chunk]) -> None:
    with pytest.raises(BackendBroken):
        await compactor(summary_backend(*chunks)).summarise([QUESTION], "t", model="m")


async def test_a_truncated_summary_is_reported() -> None:
    summary = await compactor(summary_backend(TextDelta("half a"), Finished("length"))).summarise(
        [QUESTION], "t", model="m"
    )
    assert summary.text == f"half a\n{BROKEN_OFF}"


async def test_a_history_that_is_too_long_for_the_model_is_summarised_in_parts() -> None:
    def steps_for(turn: TurnRequest) -> list[Step]:
        text = summary_input(turn)
        if text.count("user:") > 2:
            return [TOO_LONG]
        last = text.rsplit("word ", 1)[1][0]
        return [[TextDelta(f"up to {last}"), Finished("stop"), UsageReported(USAGE)]]

    backend = ScriptedBackend(steps_for)
    items = [Message(role="user", content=f"word {number}") for number in range(5)]
    summary = await compactor(backend).summarise(items, "t", model="m")
    assert summary.text == "up to 4"
    answered = [summary_input(turn) for turn in backend.turns if summary_input(turn).count("user:") <= 2]
    assert "came_before" not in answered[0]
    assert ["up to 1" in answered[1], "up to 2" in answered[2]] == [True, True]
    assert summary.usage is not None
    assert summary.usage.total_tokens == 8 * len(answered)


async def test_one_item_that_is_too_long_for_the_model_is_shortened() -> None:
    backend = ScriptedBackend(
        lambda turn: (
            [TOO_LONG] if len(summary_input(turn)) > 3_000 else [[TextDelta("short"), Finished("stop")]]
        )
    )
    items = [Message(role="user", content="x" * 50_000)]
    assert (await compactor(backend).summarise(items, "t", model="m")).text == "short"
    assert "characters are left out here" in summary_input(backend.turns[-1])


async def test_retries_with_shorter_input_are_bounded() -> None:
    backend = ScriptedBackend([TOO_LONG])
    items = [Message(role="user", content="x" * 5_000) for _ in range(8)]
    with pytest.raises(BackendRefused) as caught:
        await compactor(backend).summarise(items, "t", model="m")
    assert caught.value.code == "context_length_exceeded"
    assert len(backend.turns) < 20


async def test_every_sign_of_life_is_passed_on() -> None:
    beats: list[int] = []

    async def beat() -> None:
        beats.append(1)

    backend = ScriptedBackend([HEARTBEAT, HEARTBEAT, [TextDelta("x"), Finished("stop")]])
    await compactor(backend).summarise([QUESTION], "t", model="m", beat=beat)
    assert len(beats) == 3


# POST /v1/responses/compact


@pytest.mark.requirement("PROTOCOL/endpoints-compact")
async def test_the_answer_is_the_callers_messages_and_one_compaction() -> None:
    items = [msgspec.to_builtins(item) for item in (QUESTION, CALL, OUTPUT, ANSWER, MORE)]
    items.insert(0, {"role": "developer", "content": "be brief"})
    compacted = await compactor(summarising()).compact(body(input=items), CALLER)
    *messages, compaction = compacted.output
    assert [(m.role, m.content) for m in messages if isinstance(m, Message)] == [
        ("developer", [InputText(text="be brief")]),
        ("user", [InputText(text="what time is it?")]),
        ("user", [InputText(text="and now?")]),
    ]
    assert all(isinstance(item, Message) and item.id and item.status == "completed" for item in messages)
    assert isinstance(compaction, Compaction)
    assert SEALER.open_summary(compaction.encrypted_content) == "it is noon"
    assert (compacted.object, compacted.created_at, compacted.usage) == ("response.compaction", 1000, USAGE)


async def test_a_stored_response_is_compacted_with_the_new_input() -> None:
    backend = summarising()
    reference = {"type": "item_reference", "id": "msg_1"}
    compacted = await compactor(backend).compact(
        body(previous_response_id="resp_1", input=[reference], instructions="be brief"), CALLER
    )
    read = summary_input(backend.turns[0])
    assert all(text in read for text in ("12:00", "stored words", "be brief"))
    assert [type(item) for item in compacted.output] == [Message, Message, Compaction]


@pytest.mark.requirement("PROTOCOL/endpoints-compact-again")
async def test_a_compacted_conversation_can_be_compacted_again() -> None:
    items = [msgspec.to_builtins(item) for item in (QUESTION, ANSWER)]
    first = await compactor(summarising()).compact(body(input=items), CALLER)
    backend = summary_backend(TextDelta("it is noon, then one"), Finished("stop"))
    again = [*msgspec.to_builtins(first.output), {"role": "assistant", "content": "one"}]
    second = await compactor(backend).compact(body(input=again), CALLER)
    assert "it is noon" in summary_input(backend.turns[0])
    assert [type(item) for item in second.output] == [Message, Compaction]


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "compaction_trigger"}]}, "input"),
        ({"input": [{"type": "compaction", "encrypted_content": "?"}]}, "input[0]"),
        ({"input": 5}, "input"),
        ({"model": ""}, "model"),
    ],
)
@pytest.mark.requirement("PROTOCOL/endpoints-compact-model")
async def test_invalid_compaction_requests_are_rejected(params: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await compactor(summarising()).compact(body(**params), CALLER)
    assert caught.value.param == param


@pytest.mark.requirement("PROTOCOL/endpoints-compact-model")
async def test_an_empty_body_and_a_missing_model_are_rejected() -> None:
    for sent in (b"", b'{"input":"hi"}'):
        with pytest.raises(InvalidRequest):
            await compactor(summarising()).compact(sent, CALLER)


@pytest.mark.parametrize(
    "params",
    [{"previous_response_id": "resp_1"}, {"input": [{"type": "item_reference", "id": "msg_1"}]}],
)
async def test_another_tenants_response_does_not_exist(params: dict[str, Any]) -> None:
    with pytest.raises(NotFound):
        await compactor(summarising()).compact(body(**params), Caller.of("somebody else"))


# plan


async def test_a_turn_without_compaction_requests_no_summary() -> None:
    backend = summarising()
    planned = await plan(compactor(backend), QUESTION, ANSWER, MORE)
    assert (list(planned.items), planned.compacted, planned.is_all) == ([QUESTION, ANSWER, MORE], None, False)
    assert backend.turns == []


async def test_a_trigger_is_answered_only_with_a_compaction() -> None:
    backend = summarising()
    planned = await plan(compactor(backend), QUESTION, CALL, OUTPUT, CompactionTrigger())
    assert planned.is_all
    assert planned.compacted is not None
    assert SEALER.open_summary(planned.compacted.envelope) == "it is noon"
    assert planned.compacted.usage == USAGE


@pytest.mark.requirement("PROTOCOL/compaction-trigger-empty")
async def test_a_trigger_without_earlier_items_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        await plan(compactor(summarising()), CompactionTrigger())
    assert caught.value.param == "input"


def managed(*thresholds: int) -> dict[str, Any]:
    return {
        "context_management": [{"type": "compaction", "compact_threshold": number} for number in thresholds]
    }


async def test_beyond_the_threshold_the_turn_begins_with_a_compaction() -> None:
    backend = summarising()
    planned = await plan(compactor(backend), QUESTION, CALL, OUTPUT, ANSWER, MORE, **managed(9, 5))
    assert planned.compacted is not None
    assert not planned.is_all
    assert list(planned.items) == [
        QUESTION,
        Message(role="developer", content=f"{HEADING}\n\nit is noon"),
        MORE,
    ]
    assert "and now?" not in summary_input(backend.turns[0])


async def test_below_the_threshold_no_compaction_is_made() -> None:
    planned = await plan(compactor(summarising()), QUESTION, ANSWER, MORE, **managed(4))
    assert planned.compacted is None


async def test_compacted_items_count_as_their_summary_only() -> None:
    earlier = Compaction(encrypted_content=SEALER.seal_summary("noon"))
    items = [QUESTION, CALL, OUTPUT, ANSWER, earlier, ANSWER, MORE]
    assert (await plan(compactor(summarising()), *items, **managed(5))).compacted is None
    again = await plan(compactor(summarising()), *items, **managed(4))
    assert again.compacted is not None
    assert list(again.items) == [
        QUESTION,
        Message(role="developer", content=f"{HEADING}\n\nit is noon"),
        MORE,
    ]


async def test_the_next_turn_finds_everything_that_this_turn_saw() -> None:
    """The stored order is history, input, compaction, answer: every item before the compaction must be in
    its summary.
    """
    backend = summarising()
    history, own = [QUESTION, CALL], [OUTPUT, MORE]
    planned = await plan(compactor(backend), *history, *own, history=2, **managed(1))
    assert "12:00" in summary_input(backend.turns[0])
    assert planned.compacted is not None
    stored = [*history, *own, Compaction(encrypted_content=planned.compacted.envelope), ANSWER]
    next_view = compact_view(stored, SEALER.open_summary, str)
    assert set(map(repr, planned.items)) <= set(map(repr, next_view))


@pytest.mark.parametrize(
    ("history", "params", "param"),
    [
        (0, {}, "input[1]"),
        (1, {}, "input[0]"),
        (2, {"previous_response_id": "resp_1"}, "previous_response_id"),
        (2, {"conversation": "conv_1"}, "conversation"),
    ],
)
@pytest.mark.requirement("PROTOCOL/compaction-sealed")
async def test_an_invalid_compaction_is_rejected_with_the_responsible_param(
    history: int, params: dict[str, Any], param: str
) -> None:
    foreign = Compaction(encrypted_content="from elsewhere")
    with pytest.raises(InvalidRequest) as caught:
        await plan(compactor(summarising()), QUESTION, foreign, history=history, **params)
    assert (caught.value.param, caught.value.code) == (param, "invalid_encrypted_content")
