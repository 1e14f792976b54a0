"""The `proxy` profile: events, their order, indices and ids."""

from typing import Any

import pytest

from antiphon.errors import BackendBroken
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Failed, Finished, RefusalDelta, TextDelta
from tests.profiles.gateway import (
    LISTEN,
    LOOK,
    CompletedStream,
    call,
    gateway,
    read_deltas,
    text_of,
    two_calls,
)
from tests.profiles.order import check_message_first

TOOLS: dict[str, Any] = {"tools": [LOOK, LISTEN]}
MIXED: list[Chunk] = [TextDelta("Let me "), TextDelta("look."), *two_calls()]
CALLS_FIRST: list[Chunk] = [*two_calls()[:-1], TextDelta("Done."), Finished("tool_calls")]
INTERLEAVED: list[Chunk] = [
    CallStarted(0, "call_a", "look"),
    CallDelta(0, '{"at":'),
    CallStarted(1, "call_b", "look"),
    TextDelta("Wait."),
    CallDelta(1, '{"at":"sky'),
    CallDelta(0, '"sea"}'),
    CallDelta(1, '"}'),
    Finished("tool_calls"),
]
SCRIPTS: dict[str, list[Chunk]] = {
    "text": [TextDelta("a"), Finished("stop")],
    "nothing": [Finished("stop")],
    "calls": two_calls(),
    "text-and-calls": MIXED,
    "text-after-calls": CALLS_FIRST,
    "interleaved": INTERLEAVED,
    "refusal": [RefusalDelta("No."), Finished("stop")],
    "cut": [TextDelta("a"), *call(0, '{"at'), Finished("length")],
}


async def stream_of(*script: Chunk) -> CompletedStream:
    async with gateway("proxy", *script) as model:
        streamed = await model.stream(**TOOLS)
        check_message_first(streamed.events)
        return streamed


def shape(streamed: CompletedStream) -> list[str]:
    """Kind and index of each event."""
    return [
        f"{kind} {event['output_index']}" if "output_index" in event else kind
        for kind, event in zip(streamed.kinds, streamed.events, strict=True)
    ]


@pytest.mark.requirement(
    "SEED-003/verify-sequence",
    "SEED-003/task3-created",
    "SEED-003/task3-deltas",
    "SEED-003/task3-text-done",
    "SEED-003/task3-calls-done",
    "SEED-003/task3-completed",
    "SEED-003/task3-done",
    "SEED-003/B-created",
    "SEED-003/B-text-delta",
    "SEED-003/B-text-done",
    "SEED-003/B-call-events",
    "SEED-003/B-completed",
    "SEED-003/B-done",
)
async def test_the_complete_order_of_text_and_calls() -> None:
    streamed = await stream_of(*MIXED)
    assert shape(streamed) == [
        "created",
        "in_progress",
        "output_item.added 0",
        "content_part.added 0",
        "output_text.delta 0",
        "output_text.delta 0",
        "output_item.added 1",
        "function_call_arguments.delta 1",
        "function_call_arguments.delta 1",
        "output_item.added 2",
        "function_call_arguments.delta 2",
        "output_text.done 0",
        "content_part.done 0",
        "output_item.done 0",
        "function_call_arguments.done 1",
        "output_item.done 1",
        "function_call_arguments.done 2",
        "output_item.done 2",
        "completed",
    ]
    assert streamed.blocks[-1] == ("done", "[DONE]")


@pytest.mark.requirement("SEED-003/task3-deltas", "SEED-003/tests-call-only")
async def test_without_text_the_text_part_is_added_and_done_too() -> None:
    streamed = await stream_of(*call(0, "{}"), Finished("tool_calls"))
    assert shape(streamed) == [
        "created",
        "in_progress",
        "output_item.added 0",
        "content_part.added 0",
        "output_item.added 1",
        "function_call_arguments.delta 1",
        "output_text.done 0",
        "content_part.done 0",
        "output_item.done 0",
        "function_call_arguments.done 1",
        "output_item.done 1",
        "completed",
    ]
    assert streamed.of("output_text.done")[0]["text"] == ""


@pytest.mark.requirement(
    "SEED-003/tests-text-before-calls",
    "SEED-003/tests-completed-after-done",
    "SEED-003/tests-done-last",
    "SEED-003/task3-done",
    "SEED-003/B-done",
    "SEED-003/B-sequence",
    "SEED-003/objective-events",
)
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_the_end_of_every_stream_is_in_order(script: list[Chunk]) -> None:
    streamed = await stream_of(*script)
    kinds = streamed.kinds
    assert kinds.index("output_text.done") < kinds.index("output_item.done")
    assert kinds[-1] == "completed"
    assert sum(block.data == "[DONE]" for block in streamed.blocks) == 1
    assert streamed.blocks[-1] == ("done", "[DONE]")
    assert [block.name for block in streamed.blocks[:-1]] == [event["type"] for event in streamed.events]
    assert [event["sequence_number"] for event in streamed.events] == list(range(len(streamed.events)))


@pytest.mark.requirement(
    "SEED-003/D1-text-index",
    "SEED-003/D1-call-index",
    "SEED-003/D1-output-position",
    "SEED-003/D1-no-collision",
    "SEED-003/task2-text-delta",
    "SEED-003/task2-text-part",
    "SEED-003/task2-call-deltas",
    "SEED-003/task2-call-final",
    "SEED-003/B-text-index",
    "SEED-003/B-call-index",
    "SEED-003/tests-text-index",
    "SEED-003/tests-call-index",
)
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_an_index_is_the_position_in_the_final_output(script: list[Chunk]) -> None:
    streamed = await stream_of(*script)
    ids = [item["id"] for item in streamed.final["output"]]
    for event in streamed.events:
        if "output_index" in event:
            place = event["output_index"]
            assert (event.get("item_id") or event["item"]["id"]) == ids[place]
            is_text = event["type"].startswith(("response.output_text", "response.content_part"))
            is_call = event["type"].startswith("response.function_call")
            assert not (is_text and place), "text is at 0"
            assert not (is_call and not place), "calls are not"
    ordinals = [event["output_index"] for event in streamed.of("output_item.added")]
    assert ordinals == list(range(len(ids)))


@pytest.mark.requirement(
    "SEED-003/D2-item-id", "SEED-003/D2-call-id", "SEED-003/D2-canonical", "SEED-003/A-id"
)
async def test_ids_are_stable_and_the_call_id_is_the_upstream_s() -> None:
    streamed = await stream_of(*MIXED)
    added = [event["item"] for event in streamed.of("output_item.added")]
    done = [event["item"] for event in streamed.of("output_item.done")]
    final = streamed.final["output"]
    for names in (["id"], ["id", "call_id"]):
        lists = [[[item.get(name) for name in names] for item in items] for items in (added, done, final)]
        assert lists[0] == lists[1] == lists[2]
    assert [item["call_id"] for item in final[1:]] == ["call_0", "call_1"]
    assert len({event["response"]["id"] for event in streamed.events if "response" in event}) == 1


@pytest.mark.requirement("SEED-003/task2-call-added")
async def test_a_call_is_added_with_all_that_is_known_of_it() -> None:
    streamed = await stream_of(*MIXED)
    _, look, listen = (event["item"] for event in streamed.of("output_item.added"))
    for item, call_id, name in ((look, "call_0", "look"), (listen, "call_1", "listen")):
        assert item["id"]
        assert (item["type"], item["call_id"], item["name"]) == ("function_call", call_id, name)
        assert (item["status"], item["arguments"]) == ("in_progress", "")


async def test_calls_are_streamed_while_the_model_generates() -> None:
    streamed = await stream_of(*CALLS_FIRST)
    kinds = streamed.kinds
    assert kinds.index("function_call_arguments.delta") < kinds.index("output_text.delta")
    assert text_of(streamed.final["output"][0]) == "Done."


async def test_text_after_a_call_continues_the_same_message() -> None:
    streamed = await stream_of(TextDelta("a"), *call(0, "{}"), TextDelta("b"), Finished("stop"))
    assert [item["type"] for item in streamed.final["output"]] == ["message", "function_call"]
    assert text_of(streamed.final["output"][0]) == "ab"


async def test_interleaved_calls_are_separated() -> None:
    streamed = await stream_of(*INTERLEAVED)
    argument_deltas = [
        (event["output_index"], event["delta"]) for event in streamed.of("function_call_arguments.delta")
    ]
    assert argument_deltas == [(1, '{"at":'), (2, '{"at":"sky'), (1, '"sea"}'), (2, '"}')]
    assert [item["arguments"] for item in streamed.final["output"][1:]] == ['{"at":"sea"}', '{"at":"sky"}']


@pytest.mark.requirement("SEED-003/tests-growing-arguments")
async def test_equal_and_short_argument_fragments_are_neither_lost_nor_deduplicated() -> None:
    """`a`, `a` is `aa`; a `{` after `{"at":{` is one more brace."""
    pieces = ['{"at":{', '"x":"', "a", "a", '","y":', "{", "}", "}", "}"]
    head = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "look", "arguments": ""}}
    tails = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    streamed = await stream_of(*read_deltas(*({"tool_calls": [piece]} for piece in (head, *tails))))
    assert streamed.final["output"][1]["arguments"] == "".join(pieces)
    assert streamed.of("function_call_arguments.done")[0]["arguments"] == "".join(pieces)


@pytest.mark.requirement("SEED-003/task3-deterministic", "SEED-003/task3-completed")
@pytest.mark.parametrize("script", [MIXED, CALLS_FIRST, INTERLEAVED], ids=["text", "calls", "interleaved"])
async def test_the_envelope_at_the_end_is_the_json_answer(script: list[Chunk]) -> None:
    async with gateway("proxy", *script) as model:
        streamed = (await model.stream(**TOOLS)).final
        complete = await model.answer(**TOOLS)
        for response in (streamed, complete):
            for item in response["output"]:
                item["id"] = item["type"]
            for name in ("id", "created", "created_at", "completed_at"):
                response[name] = name
        assert streamed == complete


@pytest.mark.requirement("SEED-003/A-status", "SEED-003/B-completed")
async def test_a_truncated_answer_is_completed_with_the_status_incomplete() -> None:
    streamed = await stream_of(TextDelta("a"), *call(0, '{"at'), Finished("length"))
    assert streamed.kinds[-1] == "completed"
    assert streamed.final["status"] == "incomplete"
    assert streamed.final["incomplete_details"] == {"reason": "max_output_tokens"}
    assert streamed.final["output"][1]["status"] == "incomplete"


@pytest.mark.requirement("SEED-003/A-status")
@pytest.mark.parametrize(
    "chunks_before", [[], [TextDelta("half")], call(0, '{"at')], ids=["nothing", "text", "call"]
)
async def test_a_failure_is_an_error_then_failed_then_done(chunks_before: list[Chunk]) -> None:
    broken = Failed(BackendBroken("gibberish"))
    streamed = await stream_of(*chunks_before, broken)
    assert streamed.kinds[-2:] == ["error", "failed"]
    assert streamed.final["status"] == "failed"
    assert streamed.final["error"]["message"] == "gibberish"
    assert streamed.blocks[-1] == ("done", "[DONE]")


async def test_a_refusal_in_a_stream_is_a_part_after_the_empty_text() -> None:
    streamed = await stream_of(RefusalDelta("No"), RefusalDelta("."), Finished("stop"))
    (message,) = streamed.final["output"]
    assert [part["type"] for part in message["content"]] == ["output_text", "refusal"]
    assert {event["content_index"] for event in streamed.of("refusal.delta")} == {1}
