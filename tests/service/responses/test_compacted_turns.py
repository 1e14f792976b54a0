"""Compaction and truncation from the caller's side."""

from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import BackendRefused, InvalidRequest
from antiphon.protocol.items import Compaction, Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.compaction import HEADING
from antiphon.turn.context import TurnRequest
from antiphon.turn.sealing import SealKey
from tests.service.conftest import MakeCreator
from tests.turn.folding import to_wire
from tests.turn.order import check_order

TRIGGER = {"type": "compaction_trigger"}


def steps_for(turn: TurnRequest) -> list[Step]:
    """A model that summarises when it is shown a transcript, and answers otherwise."""
    summarises = turn.params.instructions is not None and "You summarise" in turn.params.instructions
    return [[TextDelta("the summary" if summarises else "an answer"), Finished("stop")]]


async def create_response(creator: Creator, **params: Any) -> Response:
    return await creator.start(
        create_from(**{"model": "m", "input": "hi", **params}), Caller.of("t")
    ).result()


def texts(turn: TurnRequest) -> list[str]:
    """The texts that the model received."""
    found: list[str] = []
    for item in turn.items:
        assert isinstance(item, Message)
        content = item.content
        found.append(content if isinstance(content, str) else "".join(to_text(part) for part in content))
    return found


def to_text(part: object) -> str:
    return str(getattr(part, "text", ""))


@pytest.mark.requirement("PROTOCOL/compaction-trigger")
async def test_a_trigger_yields_one_compaction_and_completes(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend(steps_for))
    first = await create_response(creator)
    request = create_from(model="m", input=[TRIGGER], previous_response_id=first.id, stream=True)
    events = [
        to_wire(event) async for batch in creator.start(request, Caller.of("t")).events() for event in batch
    ]
    check_order(events)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.compaction.compacting",
        "response.output_item.done",
        "response.completed",
    ]


async def test_a_conversation_continues_after_a_trigger(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(steps_for)
    creator = make_creator(backend)
    first = await create_response(creator, input="a")
    compacted = await create_response(creator, input=[TRIGGER], previous_response_id=first.id)
    second = await create_response(creator, input="b", previous_response_id=compacted.id)
    await create_response(creator, input="c", previous_response_id=second.id)
    assert texts(backend.turns[-1]) == ["a", f"{HEADING}\n\nthe summary", "b", "an answer", "c"]


@pytest.mark.requirement("PROTOCOL/compaction-replayed")
async def test_a_client_with_its_own_history_continues_with_the_compaction_item(
    make_creator: MakeCreator,
) -> None:
    backend = ScriptedBackend(steps_for)
    creator = make_creator(backend)
    history: list[dict[str, Any]] = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    (compaction,) = (await create_response(creator, input=[*history, TRIGGER], store=False)).output
    assert isinstance(compaction, Compaction)
    replayed = {"type": "compaction", "id": compaction.id, "encrypted_content": compaction.encrypted_content}
    await create_response(creator, input=[*history, replayed, {"role": "user", "content": "c"}], store=False)
    assert texts(backend.turns[-1]) == ["a", f"{HEADING}\n\nthe summary", "c"]
    with pytest.raises(InvalidRequest) as caught:
        await create_response(
            make_creator(backend, seal_key=SealKey(b"another", bytes)), input=[*history, replayed]
        )
    assert (caught.value.param, caught.value.code) == ("input[2]", "invalid_encrypted_content")


@pytest.mark.requirement("PROTOCOL/compaction-threshold")
async def test_beyond_the_threshold_the_answer_is_based_on_a_summary(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(steps_for)
    creator = make_creator(backend)
    managed = {"context_management": [{"type": "compaction", "compact_threshold": 20}]}
    first = await create_response(creator, input="a", **managed)
    assert [type(item) for item in first.output] == [Message]
    second = await create_response(creator, input="b" * 100, previous_response_id=first.id, **managed)
    assert [type(item) for item in second.output] == [Compaction, Message]
    assert texts(backend.turns[-1]) == ["a", f"{HEADING}\n\nthe summary", "b" * 100]
    await create_response(creator, input="c", previous_response_id=second.id)
    assert texts(backend.turns[-1]) == ["a", "b" * 100, f"{HEADING}\n\nthe summary", "an answer", "c"]


async def test_a_branch_from_before_a_compaction_has_the_complete_history(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(steps_for)
    creator = make_creator(backend)
    first = await create_response(creator, input="a")
    await create_response(creator, input=[TRIGGER], previous_response_id=first.id)
    await create_response(creator, input="b", previous_response_id=first.id)
    assert texts(backend.turns[-1]) == ["a", "an answer", "b"]


def short_sighted(turn: TurnRequest) -> list[Step]:
    if len(turn.items) > 3:
        return [BackendRefused("too long", status=400, code="context_length_exceeded")]
    return steps_for(turn)


@pytest.mark.requirement("PROTOCOL/create-truncation-auto")
async def test_truncation_omits_the_oldest_items_and_reports_it(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(short_sighted)
    items = [{"role": "user", "content": f"{number}"} for number in range(9)]
    response = await create_response(make_creator(backend), input=items, truncation="auto")
    assert texts(backend.turns[-1])[-1] == "8"
    dropped = 9 - len(backend.turns[-1].items)
    assert isinstance(response.downgrades, list)
    assert any(str(dropped) in note for note in response.downgrades)


@pytest.mark.requirement("PROTOCOL/create-truncation-disabled")
async def test_without_truncation_the_refusal_is_the_answer(make_creator: MakeCreator) -> None:
    items = [{"role": "user", "content": f"{number}"} for number in range(9)]
    with pytest.raises(BackendRefused) as caught:
        await create_response(make_creator(ScriptedBackend(short_sighted)), input=items)
    assert caught.value.code == "context_length_exceeded"
