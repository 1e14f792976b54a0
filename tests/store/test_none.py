"""The store that stores nothing rejects stateful requests."""

import pytest

from antiphon.errors import InvalidRequest, NotFound, Unsupported
from antiphon.store import none
from antiphon.store.base import ApiKey, Conversation, Fenced, Job, Page
from antiphon.store.files import FilePage, FileQuota, Upload
from antiphon.store.none import no_stores
from antiphon.store.ports import Stores
from antiphon.store.vector_stores import INGESTION, CandidateQuery, VectorStoreChange
from tests.store.values import ALL_ITEMS, ended, events, queued, turn
from tests.store.vector_values import QUOTA, a_file, a_store

KEY = ApiKey(id="key_1", tenant="t", name="n", digest="d", scopes=(), created_at=1)


@pytest.fixture
def no_store() -> Stores:
    return no_stores()


async def test_stateful_requests_are_told_to_send_the_history(no_store: Stores) -> None:
    await no_store.responses.check()
    await no_store.responses.save("t", turn("1"))
    for call, param in (
        (no_store.responses.continuation("t", "resp_1"), "previous_response_id"),
        (no_store.responses.item("t", "msg_1?"), "input"),
        (no_store.conversations.enter("t", "conv_1", "resp_1", 1.0), "conversation"),
        (
            no_store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), []),
            "conversation",
        ),
    ):
        with pytest.raises(Unsupported, match="full conversation history") as refused:
            await call
        assert refused.value.param == param


async def test_background_responses_are_rejected(no_store: Stores) -> None:
    with pytest.raises(Unsupported, match="background"):
        await no_store.background.submit("t", queued("1"), b"{}", events(0), "nobody")
    assert await no_store.background.claim("t", "resp_1") is None
    assert await no_store.jobs.held("o") == ()
    for call in (
        no_store.background.append("t", "resp_1", 1, events(0)),
        no_store.background.finish("t", 1, ended("1"), events(0)),
    ):
        with pytest.raises(Fenced):
            await call
    await no_store.jobs.beat("o")
    await no_store.jobs.release("o")


async def test_lookups_find_nothing(no_store: Stores) -> None:
    assert await no_store.responses.list_responses("t", limit=1) == ()
    for call in (
        no_store.responses.response("t", "resp_1"),
        no_store.responses.input_items("t", "resp_1", ALL_ITEMS),
        no_store.responses.delete("t", "resp_1"),
        no_store.background.events("t", "resp_1", -1),
        no_store.conversations.conversation("t", "conv_1"),
        no_store.conversations.set_metadata("t", "conv_1", {}),
        no_store.conversations.delete_conversation("t", "conv_1"),
        no_store.conversations.add_items("t", "conv_1", []),
        no_store.conversations.conversation_items("t", "conv_1", ALL_ITEMS),
        no_store.conversations.conversation_item("t", "conv_1", "msg_1"),
        no_store.conversations.delete_item("t", "conv_1", "msg_1"),
        no_store.keys.revoke_key("key_1", 1),
    ):
        with pytest.raises(NotFound):
            await call
    await no_store.conversations.leave("t", "conv_1", "resp_1")


async def test_it_has_no_files(no_store: Stores) -> None:
    quota = FileQuota(1, 1)
    upload = Upload(
        id="upload_1", filename="", purpose="", media_type="", bytes=1, created_at=1, expires_at=2
    )
    for call in (
        no_store.files.reserve_object("t", "key", 1, quota),
        no_store.files.list_files("t", FilePage()),
        no_store.files.file("t", "file-1"),
        no_store.files.delete_file("t", "file-1"),
        no_store.files.add_upload("t", upload),
        no_store.files.upload("t", "upload_1"),
    ):
        with pytest.raises(Unsupported, match="stores no files"):
            await call


async def test_it_has_no_vector_stores(no_store: Stores) -> None:
    stores, page = no_store.vector_stores, Page()
    job = Job(kind=INGESTION, tenant="t", id="vs_1/file-0001", owner="o")
    for call in (
        stores.add_store("t", a_store(), [], QUOTA),
        stores.store("t", "vs_1"),
        stores.list_stores("t", page),
        stores.change_store("t", "vs_1", VectorStoreChange()),
        stores.use_store("t", "vs_1"),
        stores.delete_store("t", "vs_1"),
        stores.add_files("t", [a_file(1)], QUOTA),
        stores.store_file("t", "vs_1", "file-0001"),
        stores.list_files("t", "vs_1", page),
        stores.set_attributes("t", "vs_1", "file-0001", {}),
        stores.delete_file("t", "vs_1", "file-0001"),
        stores.batch("t", "vs_1", "vsfb_1"),
        stores.cancel_batch("t", "vs_1", "vsfb_1"),
        stores.chunks("t", "vs_1", []),
        stores.content("t", "vs_1", "file-0001", 0, 1),
        stores.candidates("t", "vs_1", CandidateQuery()),
        stores.begin_reindex("t", "vs_1", "m"),
    ):
        with pytest.raises(Unsupported, match="no vector stores"):
            await call
    assert await stores.claim_file(job) is None
    for write in (stores.add_chunks(job, [], QUOTA), stores.end_file(job, None)):
        with pytest.raises(Fenced):
            await write
    assert await stores.sweep_stores() == 0


async def test_it_has_no_keys(no_store: Stores) -> None:
    with pytest.raises(Unsupported, match=r"server\.api_keys"):
        await no_store.keys.add_key(KEY)
    assert await no_store.keys.list_keys() == ()
    assert await no_store.upkeep.sweep() == 0
    await no_store.aclose()


async def test_an_approval_is_given_once_in_a_process(
    no_store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(none, "MAX_TAKEN_APPROVALS", 2)
    await no_store.responses.take_approvals("t", ["mcpr_1"])
    await no_store.responses.take_approvals("u", ["mcpr_1"])
    with pytest.raises(InvalidRequest, match="'mcpr_1' was already answered"):
        await no_store.responses.take_approvals("t", ["mcpr_2", "mcpr_1"])
    await no_store.responses.take_approvals("t", ["mcpr_2", "mcpr_3"])
    await no_store.responses.take_approvals("t", ["mcpr_1"])
