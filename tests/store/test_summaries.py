"""Lists, trees and statistics of responses, on every database."""

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.store.base import Conversation, Page, StoredResponse
from antiphon.store.database import Row, Script, Statement
from antiphon.store.ports import Stores
from antiphon.store.stats import MAX_PREVIEW_CHARACTERS, ResponseStats, preview, tool_word
from antiphon.store.summaries import ResponseFilter, UsageQuery
from tests.store.conftest import Clock, Opened
from tests.store.values import calls, ended, events, message, queued, turn

ANY = ResponseFilter()


def called(name: str, *, at: int, key: str = "k1", upstream: str = "up", ms: int = 10) -> StoredResponse:
    """A response that has called the tool `look`, with usage and times."""
    stored = turn(name, created_at=at)
    usage = Usage(10, InputTokensDetails(cached_tokens=4), 6, OutputTokensDetails(reasoning_tokens=2), 16)
    response = replace(stored.response, usage=usage, output=[calls("look"), *stored.response.output])
    stats = ResponseStats(
        key_id=key, request_id=f"req_{name}", upstream=upstream, first_token_ms=ms, total_ms=3 * ms
    )
    return replace(stored, response=response, stats=stats)


async def listed(store: Stores, wanted: ResponseFilter = ANY, **page: Any) -> list[str]:
    found = await store.summaries.responses("t", wanted, Page(**page))
    return [each.response.id.removeprefix("resp_") for each in found.summaries]


async def test_unfinished_responses_come_first_and_then_the_newest(store: Stores) -> None:
    for number in range(3):
        await store.responses.save("t", turn(str(number), created_at=10 + number))
    await store.background.submit("t", queued("run"), b"{}", events(0, 2))
    assert await listed(store) == ["run", "2", "1", "0"]
    assert await listed(store, order="asc") == ["0", "1", "2", "run"]


async def test_pages_lead_through_the_whole_list_in_both_directions(store: Stores) -> None:
    for number in range(5):
        await store.responses.save("t", turn(str(number), created_at=10 + number // 2))
    for name in ("a", "b"):
        await store.background.submit("t", queued(name), b"{}", events(0, 2))
    everything = await listed(store)
    for order in ("desc", "asc"):
        seen = list[str]()
        while page := await listed(store, limit=2, order=order, after=f"resp_{seen[-1]}" if seen else None):
            seen += page
        assert seen == (everything if order == "desc" else everything[::-1])
    assert await listed(store, limit=2, before=f"resp_{everything[4]}") == everything[2:4]
    with pytest.raises(InvalidRequest, match="no response"):
        await listed(store, after="resp_unknown")


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (ResponseFilter(status="failed"), ["bad"]),
        (ResponseFilter(model="other"), []),
        (ResponseFilter(model="m", key_id="k2"), ["c2"]),
        (ResponseFilter(tool="LOOK"), ["c2", "c1"]),
        (ResponseFilter(tool="loo%"), []),
        (ResponseFilter(tool="l_ok"), []),
        (ResponseFilter(created_after=20, created_before=30), ["c2", "c1"]),
        (ResponseFilter(text="C1!"), ["c1"]),
        (ResponseFilter(text="c_!"), []),
        (ResponseFilter(text="RESP_C1"), ["c1"]),
        (ResponseFilter(background=True), []),
        (ResponseFilter(conversation="conv_1"), ["talk"]),
    ],
)
async def test_a_list_shows_what_its_filter_asks_for(
    store: Stores, wanted: ResponseFilter, names: list[str]
) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), ())
    await store.responses.save("t", turn("plain", created_at=5))
    await store.responses.save("t", called("c1", at=20))
    await store.responses.save("t", called("c2", at=30, key="k2"))
    await store.responses.save("t", turn("bad", status="failed", created_at=6))
    await store.responses.save("t", turn("talk", conversation="conv_1", created_at=7))
    assert await listed(store, wanted) == names


async def test_a_summary_tells_what_was_saved_with_the_response(store: Stores) -> None:
    await store.responses.save("t", replace(called("a", at=20), trace=b"sealed"))
    await store.responses.save("t", turn("b", "a", created_at=21))
    await store.responses.save("t", turn("c", "a", created_at=22))
    [_, _, first] = (await store.summaries.responses("t", ANY, Page())).summaries
    assert (first.key_id, first.upstream, first.first_token_ms, first.total_ms) == ("k1", "up", 10, 30)
    assert (first.tools, first.input_preview, first.output_preview) == (("look",), "a?", "a!")
    assert (first.trace, first.forks) == (True, 1)


async def test_an_output_without_text_has_its_last_call_as_preview(store: Stores) -> None:
    stored = turn("a", created_at=20)
    call = replace(calls("look"), arguments='{"a":\n 1}')
    response = replace(stored.response, output=[calls("find"), call])
    await store.responses.save("t", replace(stored, response=response))
    [found] = (await store.summaries.responses("t", ANY, Page())).summaries
    assert found.output_preview == 'look({"a": 1})'


async def test_others_see_nothing(store: Stores) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), ())
    await store.responses.save("t", replace(called("a", at=20), trace=b"sealed"))
    summaries = store.summaries
    assert (await summaries.responses("other", ANY, Page())).summaries == []
    assert (await summaries.conversations("other", Page())).conversations == []
    assert await summaries.usage("other", UsageQuery(start=0, end=100, bucket=3600)) == []
    assert await summaries.of_request("other", "req_a") is None
    assert await summaries.of_item("other", "msg_a!") is None
    for call in (summaries.tree, summaries.trace):
        with pytest.raises(NotFound, match="Response with id 'resp_a' not found"):
            await call("other", "resp_a")


async def test_what_has_expired_is_not_shown(store: Stores, clock: Clock) -> None:
    await store.responses.save("t", turn("old", expires_at=int(clock.now) - 1))
    assert await listed(store) == []
    assert await store.summaries.usage("t", UsageQuery(start=0, end=100, bucket=3600)) == []


async def test_a_tree_has_every_branch_with_its_parent(store: Stores) -> None:
    for name, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "d"), ("other", None)):
        await store.responses.save("t", turn(name, parent, created_at=ord(name[0])))
    for asked in ("a", "c", "e"):
        tree = await store.summaries.tree("t", f"resp_{asked}")
        assert tree.root == "resp_a"
        assert not tree.truncated
        parents = {node.id[5:]: node.parent and node.parent[5:] for node in tree.nodes}
        assert parents == {"a": None, "b": "a", "c": "b", "d": "a", "e": "d"}


async def test_the_responses_of_a_conversation_follow_one_another(store: Stores) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), ())
    for number, name in enumerate("abc"):
        await store.responses.save("t", turn(name, conversation="conv_1", created_at=number))
    tree = await store.summaries.tree("t", "resp_b")
    assert (tree.conversation, tree.root) == ("conv_1", "resp_a")
    assert [node.parent for node in tree.nodes] == [None, "resp_a", "resp_b"]


async def test_a_tree_that_is_too_large_still_has_the_response_that_was_asked_for(
    store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.store.summary_scripts.MAX_TREE_NODES", 3)
    parent = None
    for number in range(6):
        await store.responses.save("t", turn(str(number), parent, created_at=number))
        parent = str(number)
    tree = await store.summaries.tree("t", "resp_5")
    assert tree.truncated
    assert len(tree.nodes) == 3
    assert tree.nodes[-1].id == "resp_5"


async def test_a_tree_of_an_unfinished_response_without_history_is_that_response(store: Stores) -> None:
    await store.background.submit("t", queued("run"), b"{}", events(0, 2))
    tree = await store.summaries.tree("t", "resp_run")
    assert [node.id for node in tree.nodes] == ["resp_run"]


async def test_usage_has_sums_and_percentiles_of_each_group(store: Stores) -> None:
    for number in range(100):
        name, at = f"n{number:03}", 3600 + number
        await store.responses.save("t", called(name, at=at, key=f"k{number % 2}", ms=number + 1))
    await store.responses.save("t", turn("bad", status="failed", created_at=7300))
    first, second = await store.summaries.usage("t", UsageQuery(start=0, end=10_000, bucket=3600))
    assert (first.start, first.responses, first.errors, first.tool_calls) == (3600, 100, 0, 100)
    assert (first.input_tokens, first.cached_tokens) == (1000, 400)
    assert (first.output_tokens, first.reasoning_tokens) == (600, 200)
    times = first.first_token_ms
    assert (times.p50, times.p95, times.p99) == (50, 95, 99)
    assert (first.total_ms.p50, first.total_ms.p99) == (150, 290)
    assert (second.start, second.errors, second.total_ms.p50) == (7200, 1, None)
    grouped = await store.summaries.usage(
        "t", UsageQuery(start=0, end=7200, bucket=3600, by_key=True, by_model=True, by_upstream=True)
    )
    assert [(each.key_id, each.model, each.upstream, each.responses) for each in grouped] == [
        ("k0", "m", "up", 50),
        ("k1", "m", "up", 50),
    ]


async def test_usage_with_too_many_rows_is_refused(store: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.store.usage.MAX_USAGE_ROWS", 1)
    for name in ("a", "b"):
        await store.responses.save("t", called(name, at=1, key=name))
    with pytest.raises(InvalidRequest, match="more than 1 rows"):
        await store.summaries.usage("t", UsageQuery(start=0, end=10, bucket=3600, by_key=True))


async def test_usage_of_many_responses_is_read_in_slices(
    store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        name, at = f"n{number:02}", 100 + number // 3
        await store.responses.save("t", called(name, at=at, key=f"k{number % 2}", ms=number + 1))
    query = UsageQuery(start=0, end=3600, bucket=3600, by_key=True)
    expected = await store.summaries.usage("t", query)
    assert [each.responses for each in expected] == [10, 10]
    for size in (1, 4, 19):
        monkeypatch.setattr("antiphon.store.usage.SLICE_RESPONSES", size)
        assert await store.summaries.usage("t", query) == expected


async def test_conversations_are_listed_with_their_activity(store: Stores) -> None:
    for number in range(3):
        new = Conversation(id=f"conv_{number}", created_at=number, metadata={"a": "b"})
        await store.conversations.add_conversation("t", new, ())
    await store.responses.save("t", turn("x", conversation="conv_1", created_at=50))
    page = await store.summaries.conversations("t", Page(limit=2))
    assert [each.id for each in page.conversations] == ["conv_2", "conv_1"]
    assert page.has_more
    assert (page.conversations[1].response_count, page.conversations[1].last_active_at) == (1, 50)
    before = await store.summaries.conversations("t", Page(limit=1, before="conv_0"))
    assert [each.id for each in before.conversations] == ["conv_1"]
    assert before.conversations[0].metadata == {"a": "b"}


async def test_a_background_response_keeps_the_key_and_request_that_submitted_it(store: Stores) -> None:
    submitted = replace(queued("run"), stats=ResponseStats(key_id="k1", request_id="req_1"), trace=b"first")
    await store.background.submit("t", submitted, b"{}", events(0, 2))
    claim = await store.background.claim("t", "resp_run")
    assert claim is not None
    assert claim.traced
    done = replace(ended("run"), stats=ResponseStats(upstream="up", total_ms=7), trace=b"second")
    await store.background.finish("t", claim.token, done, events(2))
    [found] = (await store.summaries.responses("t", ANY, Page())).summaries
    assert (found.key_id, found.upstream, found.total_ms, found.background) == ("k1", "up", 7, True)
    assert await store.summaries.of_request("t", "req_1") == "resp_run"
    trace = await store.summaries.trace("t", "resp_run")
    assert (trace.sealed, trace.request_id) == (b"second", "req_1")


async def test_a_trace_is_deleted_with_its_response(store: Stores, opened: Opened) -> None:
    await store.responses.save("t", replace(turn("a"), trace=b"sealed"))
    await store.responses.delete("t", "resp_a")
    with pytest.raises(NotFound, match="Response"):
        await store.summaries.trace("t", "resp_a")
    rows = await opened.database.read(_traces())
    assert rows == []


async def test_old_traces_are_erased_and_their_responses_stay(store: Stores, clock: Clock) -> None:
    week = 7 * 24 * 3600
    await store.responses.save("t", replace(turn("a", created_at=int(clock.now) - week - 1), trace=b"x"))
    await store.responses.save("t", replace(turn("b", created_at=int(clock.now) - week + 60), trace=b"y"))
    assert await store.upkeep.sweep() == 1
    with pytest.raises(NotFound, match="antiphon-trace: record"):
        await store.summaries.trace("t", "resp_a")
    assert (await store.summaries.trace("t", "resp_b")).sealed == b"y"


async def test_rows_of_earlier_versions_have_no_stats_and_are_listed(store: Stores, opened: Opened) -> None:
    await store.responses.save("t", turn("old"))
    await opened.database.write(_forget_stats())
    [found] = (await store.summaries.responses("t", ANY, Page())).summaries
    assert found.response.model == "m"
    assert (found.input_preview, found.total_ms, found.tools, found.background) == ("", None, (), False)
    assert (await store.summaries.tree("t", "resp_old")).nodes[0].model is None
    assert await store.summaries.usage("t", UsageQuery(start=0, end=10, bucket=3600)) == []


def _traces() -> Script[list[Row]]:
    rows = yield Statement("find_trace", ("t", "resp_a"))
    return list(rows)


def _forget_stats() -> Script[None]:
    """Set the columns as the migration leaves them."""
    rows = yield Statement("find_response", ("t", "resp_old", 0))
    body = rows[0][4]
    row = ("t", "resp_old", "resp_old", 0, 1, 2, "completed", body, None, None, None, *[None] * 15)
    yield Statement("finish_response", row)


def test_a_preview_is_one_short_line_of_the_last_text() -> None:
    assert preview([message("first"), message("a\n\n b\tc\0d")]) == "a b cd"
    assert preview([message("first"), calls("look")]) == "first"
    assert len(preview([message("x" * 5000)])) == MAX_PREVIEW_CHARACTERS
    assert preview([message("\ud83d broken")]) == "? broken"
    assert preview([]) == ""


def test_a_name_of_a_tool_is_one_word_of_ascii() -> None:
    assert tool_word("Get Weather ü") == "get_weather_?"
    assert len(tool_word("x" * 500)) == 64
