"""Runs: only the latest claim of a response may write; the log has no gaps."""

import asyncio

import pytest
from msgspec.structs import replace

from antiphon.errors import AntiphonError, InvalidRequest, NotFound
from antiphon.protocol.items import OpaqueItem
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.protocol.tool_items import McpApprovalRequest, McpApprovalResponse
from antiphon.store.base import Claim, Conversation, Events, Fenced, Progress
from antiphon.store.ports import Stores
from tests.store.conftest import Clock, CountRows
from tests.store.values import ALL_ITEMS, encoded, ended, events, history, message, queued, texts, turn

USAGE = Usage(3, InputTokensDetails(1), 2, OutputTokensDetails(), 5)
REQUEST = '{"model":"m","input":"ü"}'.encode()


async def submit(store: Stores, name: str = "1", parent: str | None = None) -> None:
    await store.background.submit("t", queued(name, parent), REQUEST, events(0, 2), "nobody")


async def claimed(store: Stores, name: str = "1") -> Claim:
    claim = await store.background.claim("t", f"resp_{name}")
    assert claim is not None
    return claim


async def numbers(store: Stores, after: int = -1) -> list[tuple[int, int]]:
    rows, _ = await store.background.events("t", "resp_1", after)
    return [(row.first, row.count) for row in rows]


async def test_a_submitted_response_waits_with_everything_it_needs(store: Stores) -> None:
    opaque = OpaqueItem("program", {"type": "program", "id": "cm_1", "n": 1.0})
    waiting = replace(queued("1"), input=(message("a"), opaque), expires_at=5000)
    await store.background.submit("t", waiting, REQUEST, events(0, 2), "nobody")
    assert encoded(await store.responses.response("t", "resp_1")) == encoded(waiting.response)
    claim = await claimed(store)
    assert (claim.token, claim.attempt, claim.request, claim.expires_at) == (1, 0, REQUEST, 5000)
    assert claim.response == waiting.response
    assert claim.input == waiting.input
    assert list(claim.events) == [events(0, 2)]


async def test_submitting_is_idempotent(store: Stores, count_rows: CountRows) -> None:
    await submit(store)
    await submit(store)
    assert await count_rows("responses") == await count_rows("events") == 1


async def test_an_approval_that_a_submitted_response_answers_no_longer_waits(store: Stores) -> None:
    request = McpApprovalRequest(id="mcpr_1", server_label="files", name="delete", arguments="{}")
    asking = turn("1")
    await store.responses.save("t", replace(asking, response=replace(asking.response, output=[request])))
    assert [each.id for each in await store.responses.open_approvals("t", 10)] == ["mcpr_1"]
    answer = McpApprovalResponse(approval_request_id="mcpr_1", approve=True)
    await store.background.submit(
        "t", replace(queued("2", "1"), input=(answer,)), REQUEST, events(0), "nobody"
    )
    assert await store.responses.open_approvals("t", 10) == []


async def test_an_unfinished_response_cannot_be_continued(store: Stores) -> None:
    await submit(store)
    with pytest.raises(InvalidRequest) as refused:
        await store.responses.continuation("t", "resp_1")
    assert (refused.value.code, refused.value.param) == ("response_not_finished", "previous_response_id")
    with pytest.raises(InvalidRequest):
        await store.responses.save("t", turn("2", "1"))


async def test_the_log_grows_and_the_response_is_in_progress(store: Stores) -> None:
    await submit(store)
    token = (await claimed(store)).token
    assert (await store.responses.response("t", "resp_1")).status == "queued"
    await store.background.append("t", "resp_1", token, events(2, 3))
    assert (await store.responses.response("t", "resp_1")).status == "in_progress"
    assert await store.background.events("t", "resp_1", -1) == ([events(0, 2), events(2, 3)], False)
    assert (await claimed(store)).response.status == "in_progress"


async def test_private_sides_in_the_log_are_for_the_next_attempt_only(store: Stores) -> None:
    await submit(store)
    token = (await claimed(store)).token
    found = replace(events(2), private={"fs_1": '{"results":[{"text":"found"}]}'})
    await store.background.append("t", "resp_1", token, found)
    await store.background.append("t", "resp_1", token, replace(events(3), private={"fs_2": "{}"}))
    claim = await claimed(store)
    assert claim.private == {"fs_1": '{"results":[{"text":"found"}]}', "fs_2": "{}"}
    assert await store.background.events("t", "resp_1", 1) == ([events(2), events(3)], False)


async def test_the_next_attempt_gets_what_was_used_last(store: Stores, count_rows: CountRows) -> None:
    await submit(store)
    claim = await claimed(store)
    assert claim.progress is None
    for number, used in enumerate((Progress(1.5), Progress(1.5, 2, USAGE), None), 2):
        await store.background.append("t", "resp_1", claim.token, replace(events(number), progress=used))
    claim = await claimed(store)
    assert claim.progress == Progress(1.5, 2, USAGE)
    await store.background.finish("t", claim.token, ended("1"), events(5))
    assert await count_rows("responses WHERE progress IS NOT NULL") == 0


async def test_a_reader_gets_the_rows_that_hold_newer_events(store: Stores) -> None:
    await submit(store)
    token = (await claimed(store)).token
    await store.background.append("t", "resp_1", token, events(2, 3))
    await store.background.append("t", "resp_1", token, events(5, 1))
    assert await numbers(store, -1) == [(0, 2), (2, 3), (5, 1)]
    assert await numbers(store, 0) == [(0, 2), (2, 3), (5, 1)]
    assert await numbers(store, 1) == [(2, 3), (5, 1)]
    assert await numbers(store, 3) == [(2, 3), (5, 1)]
    assert await numbers(store, 4) == [(5, 1)]
    assert await numbers(store, 5) == await numbers(store, 99) == []


async def test_the_end_is_stored_with_its_last_events(store: Stores, count_rows: CountRows) -> None:
    await store.responses.save("t", turn("0"))
    await submit(store, "1", "0")
    token = (await claimed(store)).token
    await store.background.finish("t", token, ended("1", "0"), events(2, 2))
    assert encoded(await store.responses.response("t", "resp_1")) == encoded(ended("1").response)
    assert await history(store, "1") == ["0?", "0!", "1?", "1!"]
    assert await store.background.events("t", "resp_1", 1) == ([events(2, 2)], True)
    assert await count_rows("chains") == 1
    assert await store.background.claim("t", "resp_1") is None
    assert (await store.responses.item("t", "msg_1?")).item == message("1?")


async def test_older_claims_are_fenced(store: Stores) -> None:
    await submit(store)
    old = (await claimed(store)).token
    new = (await claimed(store)).token
    assert new > old
    for token in (old, new + 1):
        with pytest.raises(Fenced):
            await store.background.append("t", "resp_1", token, events(2))
        with pytest.raises(Fenced):
            await store.background.finish("t", token, ended("1"), events(2))
    assert await numbers(store) == [(0, 2)]
    await store.background.finish("t", new, ended("1"), events(2))
    with pytest.raises(Fenced):
        await store.background.append("t", "resp_1", new, events(3))
    with pytest.raises(Fenced):
        await store.background.finish("t", new, ended("1"), events(3))
    with pytest.raises(Fenced):
        await store.background.append("t", "resp_x", 1, events(0))


async def test_of_many_claims_only_the_last_one_counts(store: Stores) -> None:
    await submit(store)
    claims = await asyncio.gather(*(store.background.claim("t", "resp_1") for _ in range(8)))
    tokens = [claim.token for claim in claims if claim is not None]
    assert sorted(tokens) == list(range(1, 9))
    results = await asyncio.gather(
        *(store.background.finish("t", token, ended("1"), events(2)) for token in tokens),
        return_exceptions=True,
    )
    assert [isinstance(result, Fenced) for result in results].count(False) == 1


async def test_appending_the_same_events_again_is_harmless(store: Stores) -> None:
    await submit(store)
    token = (await claimed(store)).token
    await store.background.append("t", "resp_1", token, events(2, 3))
    await store.background.append("t", "resp_1", token, events(2, 3))
    assert await numbers(store) == [(0, 2), (2, 3)]


async def test_a_gap_in_the_log_is_rejected(store: Stores) -> None:
    await submit(store)
    token = (await claimed(store)).token
    with pytest.raises(AntiphonError, match="ends before event 2") as refused:
        await store.background.append("t", "resp_1", token, events(3))
    assert refused.value.code == "event_log_gap"
    with pytest.raises(AntiphonError, match="ends before event 2"):
        await store.background.finish("t", token, ended("1"), events(7))
    assert (await store.responses.response("t", "resp_1")).status == "queued"


async def test_a_run_can_end_although_its_parent_was_deleted(store: Stores, count_rows: CountRows) -> None:
    await store.responses.save("t", turn("0"))
    await submit(store, "1", "0")
    await store.responses.delete("t", "resp_0")
    token = (await claimed(store)).token
    await store.background.finish("t", token, ended("1", "0"), events(2))
    assert await history(store, "1") == ["0?", "0!", "1?", "1!"]
    await store.responses.delete("t", "resp_1")
    for table in ("responses", "items", "chains", "events"):
        assert await count_rows(table) == 0


async def test_two_runs_after_one_response_are_two_branches(store: Stores) -> None:
    await store.responses.save("t", turn("0"))
    for name in ("1", "2"):
        await submit(store, name, "0")
    for name in ("2", "1"):
        token = (await claimed(store, name=name)).token
        await store.background.finish("t", token, ended(name, "0"), events(2))
    assert await history(store, "1") == ["0?", "0!", "1?", "1!"]
    assert await history(store, "2") == ["0?", "0!", "2?", "2!"]


async def test_a_run_in_a_conversation_adds_to_it_at_its_end(store: Stores) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [message("a")])
    await store.background.submit("t", queued("1", conversation="conv_1"), REQUEST, events(0, 2), "nobody")
    await store.conversations.add_items("t", "conv_1", [message("b")])
    await store.conversations.enter("t", "conv_1", "resp_1", 1000.0)
    token = (await claimed(store)).token
    await store.background.finish("t", token, ended("1", conversation="conv_1"), events(2))
    assert texts((await store.conversations.conversation_items("t", "conv_1", ALL_ITEMS)).items) == [
        "a",
        "b",
        "1?",
        "1!",
    ]
    await store.conversations.add_items("t", "conv_1", [message("c")])


async def test_a_run_can_end_although_its_conversation_was_deleted(store: Stores) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [message("a")])
    await store.background.submit("t", queued("1", conversation="conv_1"), REQUEST, events(0, 2), "nobody")
    await store.conversations.delete_conversation("t", "conv_1")
    token = (await claimed(store)).token
    await store.background.finish("t", token, ended("1", conversation="conv_1"), events(2))
    assert await history(store, "1") == ["a", "1?", "1!"]


async def test_a_deleted_run_is_gone(store: Stores, count_rows: CountRows) -> None:
    await submit(store)
    token = (await claimed(store)).token
    await store.responses.delete("t", "resp_1")
    with pytest.raises(Fenced):
        await store.background.finish("t", token, ended("1"), events(2))
    with pytest.raises(NotFound):
        await store.background.events("t", "resp_1", -1)
    assert await count_rows("events") == 0


async def test_an_expired_run_is_gone(store: Stores, clock: Clock) -> None:
    await store.background.submit("t", replace(queued("1"), expires_at=1010), REQUEST, events(0), "nobody")
    clock.now = 1010.0
    assert await store.background.claim("t", "resp_1") is None
    with pytest.raises(NotFound):
        await store.background.events("t", "resp_1", -1)


async def test_a_foreground_response_has_no_log(store: Stores) -> None:
    await store.responses.save("t", turn("1"))
    assert await store.background.events("t", "resp_1", -1) == ([], True)


async def test_ending_without_further_events_is_possible(store: Stores) -> None:
    await submit(store)
    token = (await claimed(store)).token
    await store.background.finish("t", token, ended("1"), Events(2, 0, b""))
    assert await numbers(store) == [(0, 2)]
