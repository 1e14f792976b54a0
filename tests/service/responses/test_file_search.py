"""`file_search`: the server searches, the model continues with the passages, and cites them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.errors import BackendUnreachable, InvalidRequest, NotFound
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Response, Usage
from antiphon.protocol.tool_items import FileSearchCall
from antiphon.service.hosted_tools import calls as hosted_calls
from antiphon.service.hosted_tools.calls import HostedLimits
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.service.responses.create import Creator
from antiphon.service.routing.router import Route, Router
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Finished,
    HostedItemDone,
    TextDelta,
    UsageReported,
)
from tests.service.conftest import MakeCreator
from tests.service.passages import ScriptedPassages, passage
from tests.turn.folding import to_wire
from tests.turn.order import check_order

CALLER = Caller.of("t")
TOOL: dict[str, Any] = {"type": "file_search", "vector_store_ids": ["vs_1"]}
LOOK: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
}
USAGE = UsageReported(Usage(3, InputTokensDetails(), 2, OutputTokensDetails(), 5))


def call(*queries: str, index: int = 0, name: str = "file_search") -> list[Chunk]:
    arguments = msgspec.json.encode({"queries": queries}).decode()
    middle = len(arguments) // 2
    return [
        CallStarted(index, f"call_{index}", name),
        CallDelta(index, arguments[:middle]),
        CallDelta(index, arguments[middle:]),
        CallFinished(index),
    ]


SEARCH: list[Chunk] = [*call("why blue"), USAGE, Finished("tool_calls")]
ANSWER: list[Chunk] = [TextDelta("It is blue ["), TextDelta("1]."), USAGE, Finished("stop")]


@pytest.fixture
def passages() -> ScriptedPassages:
    return ScriptedPassages()


@pytest.fixture
def make(make_creator: MakeCreator, passages: ScriptedPassages) -> Any:
    """A creator whose model plays these turns."""

    def made(*turns: Sequence[Chunk], **fields: object) -> tuple[Creator, ScriptedBackend]:
        backend = ScriptedBackend(*([list(turn)] for turn in turns))
        return make_creator(backend, served_tools=(FileSearch(passages),), **fields), backend

    return made


async def create(creator: Creator, **params: object) -> Response:
    request = create_from(**{"model": "m", "input": "Why is the sky blue?", "tools": [TOOL], **params})
    return await creator.start(request, CALLER).result()


async def stream(creator: Creator, **params: object) -> list[dict[str, Any]]:
    request = create_from(**{"model": "m", "input": "Why?", "stream": True, "tools": [TOOL], **params})
    batches = [batch async for batch in creator.start(request, CALLER).events()]
    events = to_wire([event for batch in batches for event in batch])
    check_order(events)
    return events


def outputs(backend: ScriptedBackend, turn: int = -1) -> list[str]:
    """What the model has been shown of its searches."""
    return [str(item.output) for item in backend.turns[turn].items if isinstance(item, FunctionCallOutput)]


@pytest.mark.requirement("HOSTED/loop-rounds")
async def test_the_model_continues_with_the_passages(make: Any, passages: ScriptedPassages) -> None:
    creator, backend = make(SEARCH, ANSWER)
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


@pytest.mark.requirement("HOSTED/loop-order")
async def test_the_events_come_in_their_order(make: Any) -> None:
    creator, _ = make(SEARCH, ANSWER)
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
async def test_searching_is_sent_before_the_search_ends(make: Any, passages: ScriptedPassages) -> None:
    passages.gate = asyncio.Event()
    creator, _ = make(SEARCH, ANSWER)
    request = create_from(model="m", input="Why?", stream=True, tools=[TOOL])
    seen: list[str] = []
    async for batch in creator.start(request, CALLER).events():
        seen += [event["type"] for event in to_wire(batch)]
        if seen[-1] == "response.file_search_call.searching":
            assert not passages.gate.is_set()
            passages.gate.set()
    assert seen[-1] == "response.completed"


@pytest.mark.requirement("HOSTED/loop-parallel")
async def test_a_slow_search_is_accompanied_by_heartbeats(
    make: Any, passages: ScriptedPassages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_calls, "HEARTBEAT_SECONDS", 0.01)
    passages.gate = asyncio.Event()
    creator, _ = make(SEARCH, ANSWER)
    request = create_from(model="m", input="Why?", stream=True, tools=[TOOL])
    seen: list[str] = []
    async for batch in creator.start(request, CALLER).events():
        seen += [event["type"] for event in to_wire(batch)]
        if seen.count("keepalive") == 2:
            passages.gate.set()
    assert seen[-1] == "response.completed"


@pytest.mark.requirement("HOSTED/search-results")
async def test_results_are_sent_if_the_client_asks_for_them(make: Any) -> None:
    creator, _ = make(SEARCH, ANSWER)
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


@pytest.mark.requirement("HOSTED/search-declaration")
async def test_the_declaration_is_echoed_with_its_defaults(make: Any, passages: ScriptedPassages) -> None:
    creator, _ = make(SEARCH, ANSWER)
    response = await create(creator)
    (tool,) = response.tools
    assert msgspec.to_builtins(tool) == {
        "type": "file_search",
        "vector_store_ids": ["vs_1"],
        "filters": None,
        "max_num_results": 20,
        "ranking_options": {"ranker": "auto", "score_threshold": 0},
    }
    await create(
        creator,
        tools=[
            {
                **TOOL,
                "max_num_results": 1,
                "filters": {"type": "eq", "key": "year", "value": 2024},
                "ranking_options": {
                    "ranker": "default-2024-11-15",
                    "score_threshold": 0.5,
                    "hybrid_search": {"embedding_weight": 1, "text_weight": 0.5},
                },
            }
        ],
    )


@pytest.mark.requirement("HOSTED/search-declaration")
@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"vector_store_ids": []}, "tools[0].vector_store_ids"),
        ({"vector_store_ids": None}, "tools[0].vector_store_ids"),
        ({"vector_store_ids": [1]}, "tools[0].vector_store_ids[0]"),
        ({"vector_store_ids": [""]}, "tools[0].vector_store_ids[0]"),
        ({"max_num_results": 51}, "tools[0].max_num_results"),
        ({"max_num_results": 0}, "tools[0].max_num_results"),
        ({"filters": {"type": "like"}}, "tools[0].filters.type"),
        (
            {"filters": {"type": "and", "filters": [{"type": "eq", "key": "a"}]}},
            "tools[0].filters.filters[0].value",
        ),
        ({"ranking_options": {"ranker": "best"}}, "tools[0].ranking_options.ranker"),
        ({"ranking_options": {"score_threshold": 2}}, "tools[0].ranking_options.score_threshold"),
        (
            {"ranking_options": {"hybrid_search": {"embedding_weight": 0, "text_weight": 0}}},
            "tools[0].ranking_options.hybrid_search",
        ),
    ],
)
def test_a_wrong_declaration_is_rejected_with_its_path(change: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        create_from(model="m", input="hi", tools=[{**TOOL, **change}])
    assert refused.value.param == param


@pytest.mark.requirement("HOSTED/search-stores")
async def test_unknown_and_expired_stores_are_rejected_before_any_event(
    make: Any, passages: ScriptedPassages
) -> None:
    creator, backend = make(SEARCH, ANSWER)
    with pytest.raises(NotFound) as unknown:
        await create(creator, tools=[{**TOOL, "vector_store_ids": ["vs_9"]}])
    assert (unknown.value.status, unknown.value.param) == (404, "tools[0].vector_store_ids")
    first = await create(creator)
    passages.stores = {"vs_1": "expired"}
    with pytest.raises(InvalidRequest) as expired:
        await create(creator, previous_response_id=first.id, tools=[])
    assert expired.value.code == "vector_store_expired"
    request = create_from(model="m", input="hi", tools=[TOOL])
    with pytest.raises(NotFound):
        await creator.start(request, Caller.of("other")).result()
    assert len(backend.turns) == 2


@pytest.mark.requirement("HOSTED/loop-parallel")
async def test_several_searches_of_a_turn_run_at_the_same_time(make: Any, passages: ScriptedPassages) -> None:
    three = [*call("a"), *call("b", index=1), *call("c", index=2), Finished("tool_calls")]
    creator, backend = make(three, ANSWER, hosted=HostedLimits(parallel_calls=2))
    events = await stream(creator)
    assert passages.most_running == 2
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item.get("queries") for item in done] == [["a"], ["b"], ["c"], None]
    assert ["[1]" in shown for shown in outputs(backend)] == [True, False, False]
    assert "[5] sky.pdf" in outputs(backend)[2]


@pytest.mark.requirement("HOSTED/loop-mixed")
async def test_calls_of_the_client_end_the_response(make: Any) -> None:
    look = [CallStarted(1, "call_look", "look"), CallDelta(1, "{}"), CallFinished(1)]
    creator, backend = make([*look, *call("why"), USAGE, Finished("tool_calls")], ANSWER)
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
async def test_a_failed_search_is_told_to_the_model(make: Any, passages: ScriptedPassages) -> None:
    passages.found = BackendUnreachable("The embedding model is down.")
    creator, backend = make(SEARCH, [TextDelta("I could not search [1]."), Finished("stop")])
    events = await stream(creator)
    search, message = events[-1]["response"]["output"]
    assert (search["status"], search["queries"], search["results"]) == ("failed", ["why blue"], None)
    assert message["content"][0]["text"] == "I could not search [1]."
    assert outputs(backend) == ["The search failed: The embedding model is down."]


@pytest.mark.parametrize("arguments", ["", "{}", '{"queries": []}', "[1]", '{"queries": [""]}'])
async def test_a_call_without_queries_fails(make: Any, arguments: str) -> None:
    calls = [CallStarted(0, "c", "file_search"), CallDelta(0, arguments), Finished("tool_calls")]
    creator, backend = make(calls, ANSWER)
    (search, _message) = (await create(creator)).output
    assert search.status == "failed"
    assert "'queries' must be a list" in outputs(backend)[0]


@pytest.mark.requirement("HOSTED/loop-failure")
async def test_a_search_that_takes_too_long_fails(make: Any, passages: ScriptedPassages) -> None:
    passages.gate = asyncio.Event()
    creator, backend = make(SEARCH, ANSWER, hosted=HostedLimits(call_seconds=0.01))
    (search, _message) = (await create(creator)).output
    assert search.status == "failed"
    assert outputs(backend) == ["The search failed: it took longer than 0.01 s"]
    assert passages.running == 0


@pytest.mark.requirement("HOSTED/loop-limits")
async def test_calls_beyond_the_limit_are_ignored(make: Any, passages: ScriptedPassages) -> None:
    both = [*call("a"), *call("b", index=1), USAGE, Finished("tool_calls")]
    creator, backend = make(both, both, ANSWER)
    response = await create(creator, max_tool_calls=1)
    assert [item.queries for item in response.output if isinstance(item, FileSearchCall)] == [["a"]]
    assert [len(turn.tools) for turn in backend.turns] == [1, 0]
    assert len(passages.queries) == 1
    assert isinstance(response.output[-1], Message)


@pytest.mark.requirement("HOSTED/loop-limits")
async def test_the_rounds_are_limited(make: Any, passages: ScriptedPassages) -> None:
    creator, backend = make(SEARCH, SEARCH, ANSWER, hosted=HostedLimits(max_rounds=2))
    response = await create(creator)
    assert [len(turn.tools) for turn in backend.turns] == [1, 1, 0]
    assert "rounds with hosted tools" in str(response.downgrades)
    assert len(passages.queries) == 2


@pytest.mark.requirement("HOSTED/loop-limits")
async def test_the_time_of_an_answer_holds_over_its_rounds(make: Any, passages: ScriptedPassages) -> None:
    _, backend = make(SEARCH, ANSWER)
    creator, _ = make(SEARCH, router=Router([Route("m", backend, total_seconds=0.0)], chance=lambda: 0.5))
    events = await stream(creator)
    assert events[-1]["type"] == "response.failed"
    assert "took longer than 0 s" in events[-1]["response"]["error"]["message"]
    assert len(backend.turns) == 1


async def test_a_turn_that_was_cut_off_does_not_search(make: Any, passages: ScriptedPassages) -> None:
    creator, _ = make([*call("why"), USAGE, Finished("length")])
    response = await create(creator)
    assert (response.status, response.output) == ("incomplete", [])
    assert not passages.queries


@pytest.mark.requirement("HOSTED/search-next-turn")
async def test_the_passages_are_shown_again_in_the_next_turn(make: Any, passages: ScriptedPassages) -> None:
    creator, backend = make(SEARCH, ANSWER, [TextDelta("Green [2]."), Finished("stop")], SEARCH, ANSWER)
    first = await create(creator)
    second = await create(creator, input="And grass?", previous_response_id=first.id)
    assert "[2] grass.md" in outputs(backend)[0]
    assert msgspec.to_builtins(second.output[0])["content"][0]["annotations"][0]["filename"] == "grass.md"
    passages.found = [passage("Water is wet.", name="water.md")]
    await create(creator, input="And water?", previous_response_id=second.id)
    assert "[3] water.md" in outputs(backend)[1]
    assert len(passages.queries) == 2


async def test_items_of_a_client_that_stores_nothing(make: Any) -> None:
    creator, backend = make(SEARCH, ANSWER)
    asked = {"role": "user", "content": "Why?"}
    for include, expected in ((["file_search_call.results"], "[2] grass.md"), ([], "not available any more")):
        backend.turns.clear()
        first = await create(creator, store=False, include=include)
        items = [asked, *msgspec.to_builtins(first.output), {"role": "user", "content": "And grass?"}]
        await create(creator, store=False, input=items, tools=[])
        assert expected in outputs(backend)[0]


@pytest.mark.requirement("HOSTED/search-next-turn")
async def test_old_passages_are_left_out_if_there_are_too_many(make: Any, passages: ScriptedPassages) -> None:
    passages.found = [passage("x" * 400)]
    creator, backend = make(SEARCH, SEARCH, ANSWER, result_tokens=200)
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


@pytest.mark.requirement("HOSTED/loop-choice")
@pytest.mark.parametrize(
    "choice",
    [
        {"type": "file_search"},
        "required",
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "file_search"}]},
    ],
)
async def test_a_search_can_be_demanded(make: Any, passages: ScriptedPassages, choice: object) -> None:
    creator, backend = make(SEARCH, ANSWER)
    response = await create(creator, tool_choice=choice)
    assert isinstance(response.output[0], FileSearchCall)
    assert [turn.choice if isinstance(turn.choice, str) else turn.choice.name for turn in backend.turns] in (
        ["file_search", "auto"],
        ["required", "auto"],
    )

    creator, backend = make([TextDelta("I know it."), USAGE, Finished("stop")], ANSWER)
    events = await stream(creator, tool_choice=choice, input="Why is the sky blue?")
    response = events[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["file_search_call", "message"]
    assert response["output"][0]["queries"] == ["Why is the sky blue?"]
    assert "the server called 'file_search' for it" in str(response["downgrades"])
    assert response["usage"]["total_tokens"] == 10
    assert not any("I know it" in str(event) for event in events)


async def test_only_declared_tools_can_be_demanded(make: Any) -> None:
    creator, _ = make(ANSWER)
    with pytest.raises(InvalidRequest) as refused:
        await create(creator, tools=[LOOK], tool_choice={"type": "file_search"})
    assert (refused.value.param, refused.value.code) == ("tool_choice", "invalid_value")


@pytest.mark.requirement("HOSTED/loop-names")
async def test_a_function_of_the_client_may_have_the_same_name(make: Any, passages: ScriptedPassages) -> None:
    own = {**LOOK, "name": "file_search"}
    creator, backend = make([*call("mine"), Finished("tool_calls")], ANSWER)
    response = await create(creator, tools=[own, TOOL])
    assert isinstance(response.output[0], FunctionCall)
    assert [tool.name for tool in backend.turns[0].tools] == ["file_search", "file_search_2"]
    creator, backend = make([*call("ours", name="file_search_2"), Finished("tool_calls")], ANSWER)
    response = await create(creator, tools=[own, TOOL])
    assert isinstance(response.output[0], FileSearchCall)


@pytest.mark.requirement("HOSTED/citations-text")
async def test_json_answers_are_not_searched_for_citations(make: Any) -> None:
    form = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}
    creator, _ = make(SEARCH, [TextDelta('{"n": [1]}'), Finished("stop")])
    response = await create(creator, text=form)
    assert msgspec.to_builtins(response.output[1])["content"][0]["text"] == '{"n": [1]}'


async def test_a_client_that_leaves_ends_the_search(make: Any, passages: ScriptedPassages) -> None:
    passages.gate = asyncio.Event()
    creator, _ = make(SEARCH, ANSWER)
    run = creator.start(create_from(model="m", input="Why?", stream=True, tools=[TOOL]), CALLER)
    events = run.events()
    async for batch in events:
        if any(event["type"].endswith("searching") for event in to_wire(batch)):
            await asyncio.sleep(0)
            break
    await events.aclose()
    assert (len(passages.queries), passages.running) == (1, 0)


async def test_an_item_can_declare_the_tool(make: Any, passages: ScriptedPassages) -> None:
    creator, _ = make(SEARCH, ANSWER, SEARCH, ANSWER)
    declared = {"type": "additional_tools", "role": "developer", "tools": [TOOL]}
    first = await create(creator, tools=[], input=[declared, {"role": "user", "content": "Why?"}])
    assert isinstance(first.output[0], FileSearchCall)
    second = await create(creator, tools=[], previous_response_id=first.id)
    assert isinstance(second.output[0], FileSearchCall)
    other = {**declared, "tools": [{**TOOL, "vector_store_ids": ["vs_9"]}]}
    with pytest.raises(NotFound) as unknown:
        await create(creator, tools=[], input=[other, {"role": "user", "content": "Why?"}])
    assert unknown.value.param == "input.vector_store_ids"


class Native(ScriptedBackend):
    """A model whose own server searches files."""

    @property
    def natives(self) -> frozenset[str]:
        return frozenset({"function", "file_search"})


@pytest.mark.requirement("HOSTED/search-upstream")
async def test_stores_of_the_upstream_are_left_to_it(
    make_creator: MakeCreator, passages: ScriptedPassages
) -> None:
    backend = Native([SEARCH], [ANSWER])
    creator = make_creator(backend, served_tools=(FileSearch(passages),))
    response = await create(creator)
    assert isinstance(response.output[0], FileSearchCall)
    assert [(len(turn.tools), len(turn.hosted)) for turn in backend.turns] == [(1, 0), (1, 0)]
    assert outputs(backend)

    found = HostedItemDone(FileSearchCall(status="completed", queries=["q"]))
    upstream = Native([[found, TextDelta("Found [1]."), Finished("stop")]])
    creator = make_creator(upstream, served_tools=(FileSearch(passages),))
    theirs = {**TOOL, "vector_store_ids": ["vs_upstream"]}
    response = await create(creator, tools=[theirs], tool_choice={"type": "file_search"})
    (turn,) = upstream.turns
    assert ([tool.body["vector_store_ids"] for tool in turn.hosted], turn.tools) == ([["vs_upstream"]], ())
    await create(creator, previous_response_id=response.id, tools=[])
    with pytest.raises(NotFound):
        await create(
            make_creator(ScriptedBackend([ANSWER]), served_tools=(FileSearch(passages),)), tools=[theirs]
        )


async def test_a_plain_request_has_no_stage(make: Any) -> None:
    creator, backend = make([TextDelta("See a [1]."), Finished("stop")])
    response = await create(creator, tools=[])
    assert msgspec.to_builtins(response.output[0])["content"][0]["text"] == "See a [1]."
    assert not backend.turns[0].sources.results
