"""The declaration of `file_search`: its checks, its stores, and the choice that demands it."""

from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.attribute_filters import Comparison
from antiphon.protocol.items import FunctionCall
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tool_items import FileSearchCall
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.service.vector_stores.passages import HybridWeights, PassageQuery
from antiphon.turn.chunks import Finished, HostedItemDone, RefusalDelta, TextDelta
from tests.service.conftest import MakeCreator
from tests.service.passages import ScriptedPassages
from tests.service.responses.searches import (
    ANSWER,
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


@pytest.mark.requirement("HOSTED/search-declaration")
async def test_the_declaration_is_echoed_with_its_defaults(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    creator, _ = searching(SEARCH, ANSWER)
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


async def test_the_model_is_shown_requests_that_need_a_search(searching: MakeSearching) -> None:
    creator, backend = searching(SEARCH, ANSWER)
    await create(creator)
    [tool] = backend.turns[0].tools
    assert "Is that allowed?" in tool.requests


@pytest.mark.requirement("HOSTED/search-stores")
async def test_unknown_and_expired_stores_are_rejected_before_any_event(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    creator, backend = searching(SEARCH, ANSWER)
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


@pytest.mark.requirement("HOSTED/loop-choice")
@pytest.mark.parametrize(
    "choice",
    [
        {"type": "file_search"},
        "required",
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "file_search"}]},
    ],
)
async def test_a_search_can_be_demanded(
    searching: MakeSearching, passages: ScriptedPassages, choice: object
) -> None:
    creator, backend = searching(SEARCH, ANSWER)
    response = await create(creator, tool_choice=choice)
    assert isinstance(response.output[0], FileSearchCall)
    assert [turn.choice if isinstance(turn.choice, str) else turn.choice.name for turn in backend.turns] in (
        ["file_search", "auto"],
        ["required", "auto"],
    )

    creator, backend = searching([TextDelta("I know it."), USAGE, Finished("stop")], ANSWER)
    events = await stream(creator, tool_choice=choice, input="Why is the sky blue?")
    response = events[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["file_search_call", "message"]
    assert response["output"][0]["queries"] == ["Why is the sky blue?"]
    assert "the server called 'file_search' for it" in str(response["downgrades"])
    assert response["usage"]["total_tokens"] == 10
    assert not any("I know it" in str(event) for event in events)


async def test_a_refusal_is_not_replaced_by_a_search(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    creator, _ = searching([TextDelta("I"), RefusalDelta("No."), Finished("stop")])
    response = await create(creator, tool_choice={"type": "file_search"})
    assert msgspec.to_builtins(response.output[0])["content"][1]["refusal"] == "No."
    assert not passages.queries


async def test_the_options_of_the_tool_are_those_of_the_search(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    creator, _ = searching(SEARCH, ANSWER)
    ranking = {"score_threshold": 0.5, "hybrid_search": {"embedding_weight": 1, "text_weight": 0.5}}
    filters = {"type": "eq", "key": "year", "value": 2024}
    tool = {**TOOL, "max_num_results": 3, "filters": filters, "ranking_options": ranking}
    await create(creator, tools=[tool])
    assert passages.queries == [
        PassageQuery(
            queries=("why blue",),
            filter=Comparison("eq", "year", 2024),
            limit=3,
            score_threshold=0.5,
            weights=HybridWeights(1.0, 0.5),
        )
    ]


async def test_only_declared_tools_can_be_demanded(searching: MakeSearching) -> None:
    creator, _ = searching(ANSWER)
    with pytest.raises(InvalidRequest) as refused:
        await create(creator, tools=[LOOK], tool_choice={"type": "file_search"})
    assert (refused.value.param, refused.value.code) == ("tool_choice", "invalid_value")


@pytest.mark.requirement("HOSTED/loop-names")
async def test_a_function_of_the_client_may_have_the_same_name(
    searching: MakeSearching, passages: ScriptedPassages
) -> None:
    own = {**LOOK, "name": "file_search"}
    creator, backend = searching([*call("mine"), Finished("tool_calls")], ANSWER)
    response = await create(creator, tools=[own, TOOL])
    assert isinstance(response.output[0], FunctionCall)
    assert [tool.name for tool in backend.turns[0].tools] == ["file_search", "file_search_2"]
    creator, backend = searching([*call("ours", name="file_search_2"), Finished("tool_calls")], ANSWER)
    response = await create(creator, tools=[own, TOOL])
    assert isinstance(response.output[0], FileSearchCall)


async def test_an_item_can_declare_the_tool(searching: MakeSearching, passages: ScriptedPassages) -> None:
    creator, _ = searching(SEARCH, ANSWER, SEARCH, ANSWER)
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
