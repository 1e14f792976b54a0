"""`file_search`: the server searches, the model continues with the passages, and cites them."""

import asyncio
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import BackendUnreachable
from antiphon.protocol.items import FunctionCall, Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tool_items import FileSearchCall
from antiphon.service.hosted_tools import calls as hosted_calls
from antiphon.service.hosted_tools.calls import HostedLimits
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.service.responses.context import CONVERSATION_LEASE_SECONDS
from antiphon.service.routing.router import Route, Router
from antiphon.store.base import Conversation
from antiphon.store.ports import Stores
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Finished,
    TextDelta,
)
from tests.service.conftest import MakeCreator
from tests.service.passages import ScriptedPassages, passage
from tests.service.responses.searches import (
    ANSWER,
    CALLER,
    LOOK,
    SEARCH,
    TOOL,
    USAGE,
    MakeSearching,
    call,
    create,
    outputs,
    stream,
)
from tests.turn.folding import to_wire
from tests.turn.order import check_order


@pytest.mark.requirement("HOSTED/loop-rounds")
async def test_the_model_continues_with_the_passages(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    creator, backend = searching(SEARCH, ANSWER)
    response = await create(creator)
    search, message = response.output
    assert isinstance(search, FileSearchCall)
    assert (search.status, search.queries, search.results) == ("completed", ["why blue"], None)
    assert str(search.id).startswith("fs_")
    assert response.usage is not None
    assert (response.usage.total_tokens, response.status) == (10, "completed")

    shown, asked = outputs(backend), backend.turns[1].items[1]
    assert isinstance(asked, FunctionCall)
    assert (asked.name, asked.arguments) == ("file_search", '{"queries":["why blue"]}')
    assert "[1] sky.pdf, page 3\nThe sky is blue.\n\n[2] grass.md\nGrass is green." in shown[0]
    assert passages.queries[0].limit == 20

    assert isinstance(message, Message)
    part = msgspec.to_builtins(message)["content"][0]
    assert part["text"] == "It is blue ."
    assert part["annotations"] == [
        {
            "type": "file_citation",
            "file_id": "file_sky.pdf",
            "filename": "sky.pdf",
            "index": len("It is blue "),
            "antiphon": {"vector_store_id": "vs_1", "chunk": 0, "label": "page 3", "score": 0.8765},
        }
    ]


@pytest.mark.requirement("HOSTED/search-own-words")
async def test_what_finds_nothing_is_searched_for_in_the_words_of_the_user(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    passages.found = []
    creator, backend = searching([*call("1.1.2"), USAGE, Finished("tool_calls")], ANSWER)
    response = await create(creator)
    assert [query.queries for query in passages.queries] == [("1.1.2",), ("Why is the sky blue?",)]
    search = response.output[0]
    assert isinstance(search, FileSearchCall)
    assert search.queries == ["1.1.2", "Why is the sky blue?"]
    assert "The search found nothing" in outputs(backend)[0]


@pytest.mark.requirement("HOSTED/loop-order")
async def test_the_events_come_in_their_order(searching: MakeSearching) -> None:
    creator, _ = searching(SEARCH, ANSWER)
    events = await stream(creator)
    types = [event["type"].removeprefix("response.") for event in events]
    assert types[2:8] == [
        "output_item.added",
        "file_search_call.in_progress",
        "file_search_call.searching",
        "file_search_call.completed",
        "output_item.done",
        "output_item.added",
    ]
    added, done = events[2]["item"], events[6]["item"]
    assert (added["status"], added["queries"], added["results"]) == ("in_progress", [], None)
    assert (done["status"], done["queries"], done["results"]) == ("completed", ["why blue"], None)
    annotated = types.index("output_text.annotation.added")
    assert events[annotated]["annotation"]["index"] == 11
    assert [event["delta"] for event in events if event["type"].endswith("text.delta")] == [
        "It is blue ",
        ".",
    ]


@pytest.mark.requirement("HOSTED/loop-order")
async def test_searching_is_sent_before_the_search_ends(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    passages.gate = asyncio.Event()
    creator, _ = searching(SEARCH, ANSWER)
    request = create_from(model="m", input="Why?", stream=True, tools=[TOOL])
    seen: list[str] = []
    async for batch in creator.start(request, CALLER).events():
        seen += [to_wire(event)["type"] for event in batch]
        if seen[-1] == "response.file_search_call.searching":
            assert not passages.gate.is_set()
            passages.gate.set()
    assert seen[-1] == "response.completed"


@pytest.mark.requirement("HOSTED/loop-parallel")
async def test_a_slow_search_is_accompanied_by_heartbeats(
    searching: MakeSearching, passages: ScriptedPassages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_calls, "HEARTBEAT_SECONDS", 0.01)
    passages.gate = asyncio.Event()
    creator, _ = searching(SEARCH, ANSWER)
    request = create_from(model="m", input="Why?", stream=True, tools=[TOOL])
    seen: list[str] = []
    async for batch in creator.start(request, CALLER).events():
        seen += [to_wire(event)["type"] for event in batch]
        if seen.count("keepalive") == 2:
            passages.gate.set()
    assert seen[-1] == "response.completed"


async def test_text_before_a_demanded_call_does_not_delay_its_events(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    passages.gate = asyncio.Event()
    creator, _ = searching([TextDelta("Let me look."), *call("why"), Finished("tool_calls")], ANSWER)
    choice = {"type": "file_search"}
    request = create_from(model="m", input="Why?", stream=True, tools=[TOOL], tool_choice=choice)
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(10):
        async for batch in creator.start(request, CALLER).events():
            events += map(to_wire, batch)
            if events[-1]["type"] == "response.file_search_call.searching":
                passages.gate.set()
    check_order(events)
    kinds = [item["type"] for item in events[-1]["response"]["output"]]
    assert kinds == ["message", "file_search_call", "message"]


async def test_a_conversation_stays_locked_while_a_tool_runs(
    searching: MakeSearching, passages: ScriptedPassages, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_calls, "HEARTBEAT_SECONDS", 0.01)
    passages.gate, now = asyncio.Event(), [1000.0]
    creator, _ = searching(SEARCH, ANSWER, clock=lambda: now[0])
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [])
    request = create_from(model="m", input="Why?", stream=True, tools=[TOOL], conversation="conv_1")
    renew, renewed = store.conversations.renew, list[str]()

    async def counted(*arguments: Any) -> Any:
        renewed.append("again")
        return await renew(*arguments)

    monkeypatch.setattr(store.conversations, "renew", counted)
    async with asyncio.timeout(10):
        async for batch in creator.start(request, CALLER).events():
            if any(to_wire(event)["type"] == "keepalive" for event in batch):
                now[0] += CONVERSATION_LEASE_SECONDS
                if len(renewed) > 1:
                    passages.gate.set()
    assert len(renewed) > 1


@pytest.mark.requirement("HOSTED/search-results")
async def test_results_are_sent_if_the_client_asks_for_them(searching: MakeSearching) -> None:
    creator, _ = searching(SEARCH, ANSWER)
    (search, _message) = (await create(creator, include=["file_search_call.results"])).output
    assert isinstance(search, FileSearchCall)
    assert isinstance(search.results, list)
    first = search.results[0]
    assert {name: first[name] for name in ("file_id", "filename", "score", "text", "attributes")} == {
        "file_id": "file_sky.pdf",
        "filename": "sky.pdf",
        "score": 0.8765,
        "text": "The sky is blue.",
        "attributes": {"year": 2024.0},
    }


@pytest.mark.requirement("HOSTED/loop-parallel")
async def test_several_searches_of_a_turn_run_at_the_same_time(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    three = [*call("a"), *call("b", index=1), *call("c", index=2), Finished("tool_calls")]
    creator, backend = searching(three, ANSWER, hosted=HostedLimits(parallel_calls=2))
    events = await stream(creator)
    assert passages.most_running == 2
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item.get("queries") for item in done] == [["a"], ["b"], ["c"], None]
    assert ["[1]" in shown for shown in outputs(backend)] == [True, False, False]
    assert "[5] sky.pdf" in outputs(backend)[2]


@pytest.mark.requirement("HOSTED/loop-mixed")
async def test_calls_of_the_client_end_the_response(searching: MakeSearching) -> None:
    look = [CallStarted(1, "call_look", "look"), CallDelta(1, "{}"), CallFinished(1)]
    creator, backend = searching([*look, *call("why"), USAGE, Finished("tool_calls")], ANSWER)
    events = await stream(creator, tools=[TOOL, LOOK])
    response = events[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["function_call", "file_search_call"]
    assert response["usage"]["total_tokens"] == 5
    assert len(backend.turns) == 1

    output = {"type": "function_call_output", "call_id": "call_look", "output": "seen"}
    await create(creator, previous_response_id=response["id"], input=[output])
    assert sorted("seen" in shown for shown in outputs(backend)) == [False, True]
    assert any("The sky is blue." in shown for shown in outputs(backend))


@pytest.mark.requirement("HOSTED/loop-failure")
async def test_a_failed_search_is_told_to_the_model(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    passages.found = BackendUnreachable("The embedding model is down.")
    creator, backend = searching(SEARCH, [TextDelta("I could not search [1]."), Finished("stop")])
    events = await stream(creator)
    search, message = events[-1]["response"]["output"]
    assert (search["status"], search["queries"], search["results"]) == ("failed", ["why blue"], None)
    assert message["content"][0]["text"] == "I could not search [1]."
    assert outputs(backend) == ["The search failed: The embedding model is down."]


@pytest.mark.parametrize("arguments", ["", "{}", '{"queries": []}', "[1]", '{"queries": [""]}'])
async def test_a_call_without_queries_fails(searching: MakeSearching, arguments: str) -> None:
    calls = [CallStarted(0, "c", "file_search"), CallDelta(0, arguments), Finished("tool_calls")]
    creator, backend = searching(calls, ANSWER)
    (search, _message) = (await create(creator)).output
    assert search.status == "failed"
    assert "'queries' must be a list" in outputs(backend)[0]


@pytest.mark.requirement("HOSTED/loop-failure")
async def test_a_search_that_takes_too_long_fails(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    passages.gate = asyncio.Event()
    creator, backend = searching(SEARCH, ANSWER, hosted=HostedLimits(call_seconds=0.01))
    (search, _message) = (await create(creator)).output
    assert search.status == "failed"
    assert outputs(backend) == ["The search failed: it took longer than 0.01 s"]
    assert passages.running == 0


@pytest.mark.requirement("HOSTED/loop-limits")
async def test_calls_beyond_the_limit_are_ignored(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    both = [*call("a"), *call("b", index=1), USAGE, Finished("tool_calls")]
    creator, backend = searching(both, both, ANSWER)
    response = await create(creator, max_tool_calls=1)
    assert [item.queries for item in response.output if isinstance(item, FileSearchCall)] == [["a"]]
    assert [len(turn.tools) for turn in backend.turns] == [1, 0]
    assert len(passages.queries) == 1
    assert isinstance(response.output[-1], Message)


@pytest.mark.requirement("HOSTED/loop-limits")
async def test_the_rounds_are_limited(searching: MakeSearching, passages: ScriptedPassages) -> None:
    creator, backend = searching(SEARCH, SEARCH, ANSWER, hosted=HostedLimits(max_rounds=2))
    response = await create(creator)
    assert [len(turn.tools) for turn in backend.turns] == [1, 1, 0]
    assert "rounds with hosted tools" in str(response.downgrades)
    assert len(passages.queries) == 2


@pytest.mark.requirement("HOSTED/loop-limits")
async def test_the_time_of_an_answer_holds_over_its_rounds(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    _, backend = searching(SEARCH, ANSWER)
    creator, _ = searching(
        SEARCH, router=Router([Route("m", backend, total_seconds=0.0)], chance=lambda: 0.5)
    )
    events = await stream(creator)
    assert events[-1]["type"] == "response.failed"
    assert "took longer than 0 s" in events[-1]["response"]["error"]["message"]
    assert len(backend.turns) == 1


async def test_a_turn_that_was_cut_off_does_not_search(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    creator, _ = searching([*call("why"), USAGE, Finished("length")])
    response = await create(creator)
    assert (response.status, response.output) == ("incomplete", [])
    assert not passages.queries


@pytest.mark.requirement("HOSTED/search-next-turn")
async def test_the_passages_are_shown_again_in_the_next_turn(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    creator, backend = searching(SEARCH, ANSWER, [TextDelta("Green [2]."), Finished("stop")], SEARCH, ANSWER)
    first = await create(creator)
    second = await create(creator, input="And grass?", previous_response_id=first.id)
    assert "[2] grass.md" in outputs(backend)[0]
    assert msgspec.to_builtins(second.output[0])["content"][0]["annotations"][0]["filename"] == "grass.md"
    passages.found = [passage("Water is wet.", name="water.md")]
    await create(creator, input="And water?", previous_response_id=second.id)
    assert "[3] water.md" in outputs(backend)[1]
    assert len(passages.queries) == 2


async def test_items_of_a_client_that_stores_nothing(searching: MakeSearching) -> None:
    creator, backend = searching(SEARCH, ANSWER)
    asked = {"role": "user", "content": "Why?"}
    for include, expected in ((["file_search_call.results"], "[2] grass.md"), ([], "not available any more")):
        backend.turns.clear()
        first = await create(creator, store=False, include=include)
        items = [asked, *msgspec.to_builtins(first.output), {"role": "user", "content": "And grass?"}]
        await create(creator, store=False, input=items, tools=[])
        assert expected in outputs(backend)[0]


@pytest.mark.requirement("HOSTED/search-next-turn")
async def test_old_passages_are_left_out_if_there_are_too_many(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    passages.found = [passage("x" * 400)]
    creator, backend = searching(SEARCH, SEARCH, ANSWER, result_tokens=200)
    await create(creator)
    assert ["left out" in shown for shown in outputs(backend)] == [True, False]
    assert "[2] sky.pdf" in outputs(backend)[1]


async def test_one_search_has_a_budget(make_creator: MakeCreator, passages: ScriptedPassages) -> None:
    passages.found = [passage("a" * 100), passage("b" * 100), passage("c" * 100)]
    backend = ScriptedBackend([SEARCH], [ANSWER])
    creator = make_creator(backend, served_tools=(FileSearch(passages, max_tokens=40),))
    (search, _message) = (await create(creator, include=["file_search_call.results"])).output
    shown = outputs(backend)[0]
    assert ("a" * 100 in shown, "b" * 60 in shown, "b" * 61 in shown, "[3]" in shown) == (
        True,
        True,
        False,
        False,
    )
    assert isinstance(search, FileSearchCall)
    assert len(search.results or []) == 3


@pytest.mark.requirement("HOSTED/citations-text")
async def test_json_answers_are_not_searched_for_citations(searching: MakeSearching) -> None:
    form = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}
    creator, _ = searching(SEARCH, [TextDelta('{"n": [1]}'), Finished("stop")])
    response = await create(creator, text=form)
    assert msgspec.to_builtins(response.output[1])["content"][0]["text"] == '{"n": [1]}'


async def test_a_client_that_leaves_ends_the_search(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    passages.gate = asyncio.Event()
    creator, _ = searching(SEARCH, ANSWER)
    run = creator.start(create_from(model="m", input="Why?", stream=True, tools=[TOOL]), CALLER)
    events = run.events()
    async for batch in events:
        if any(to_wire(event)["type"].endswith("searching") for event in batch):
            await asyncio.sleep(0)
            break
    await events.aclose()
    assert (len(passages.queries), passages.running) == (1, 0)


async def test_a_plain_request_has_no_stage(searching: MakeSearching) -> None:
    creator, backend = searching([TextDelta("See a [1]."), Finished("stop")])
    response = await create(creator, tools=[])
    assert msgspec.to_builtins(response.output[0])["content"][0]["text"] == "See a [1]."
    assert not backend.turns[0].sources.results
