"""Files become chunks: what is added, what fails and why, and what waits."""

import pytest

from antiphon.errors import BackendBroken, BackendRefused, BackendUnreachable, InvalidRequest, NotFound
from antiphon.protocol.vector_stores import Chunking, StaticChunking
from antiphon.retrieval.cutting import PORTION_CHUNKS
from antiphon.service.vector_stores import ingestion
from antiphon.service.vector_stores.objects import batch_object, store_object
from antiphon.store.base import Page
from antiphon.store.ports import Stores
from antiphon.store.vector_stores import StoreQuota
from tests.documents.files import docx_file, eml_file, pptx_file, scanned_pdf, xlsx_file
from tests.documents.pdf_file import pdf_file
from tests.service.vector_stores.world import CALLER, TestedEmbedder, World, open_world, until

LONG = "\n\n".join(f"Paragraph {number} is about topic{number}. " + "filler " * 60 for number in range(120))
BINARY = b"\x00\x01\x02\x03" * 64
SMALL_CHUNKS = StaticChunking(Chunking(100, 0))


async def texts(world: World, store_id: str, file_id: str) -> list[str]:
    portions = world.service.files.content(CALLER, store_id, file_id)
    return [chunk.text async for portion in portions for chunk in portion]


async def test_a_file_is_added(world: World) -> None:
    store = await world.new_store()
    file = await world.add(
        store.id, "The capital of France is Paris.", "facts.txt", attributes={"kind": "fact"}
    )
    assert (file.status, file.error, file.filename, file.attributes) == (
        "completed",
        None,
        "facts.txt",
        {"kind": "fact"},
    )
    assert file.usage_bytes > 0
    assert await texts(world, store.id, file.id) == ["The capital of France is Paris."]
    changed = await world.service.retrieve(CALLER, store.id)
    assert (changed.model, changed.dimensions) == ("hashed", 64)
    assert (changed.file_counts.completed, changed.file_counts.total) == (1, 1)
    assert store_object(changed).status == "completed"


async def test_a_long_file_is_saved_in_portions(world: World) -> None:
    store = await world.new_store()
    file = await world.add(store.id, LONG, chunking_strategy=SMALL_CHUNKS)
    found = await texts(world, store.id, file.id)
    assert len(found) > 100
    assert [sum(f"topic{number}." in text for text in found) for number in range(120)] == [1] * 120


@pytest.mark.requirement("VECTOR-STORES/ingestion-no-text")
@pytest.mark.parametrize(
    ("data", "name", "code", "reason"),
    [
        (BINARY, "a.bin", "unsupported_file", "not a type"),
        (b" \n\t ", "blank.txt", "invalid_file", "no text"),
        (b"%PDF-1.4 broken", "broken.pdf", "invalid_file", "damaged"),
    ],
)
async def test_a_file_without_text_fails_with_the_reason(
    world: World, data: bytes, name: str, code: str, reason: str
) -> None:
    store = await world.new_store()
    file = await world.add(store.id, data, name)
    assert (file.status, file.usage_bytes) == ("failed", 0)
    assert file.error is not None
    assert file.error.code == code


@pytest.mark.requirement("VECTOR-STORES/ingestion-no-text")
async def test_a_scan_says_that_it_is_one(world: World) -> None:
    store = await world.new_store()
    file = await world.add(store.id, scanned_pdf(), "scan.pdf")
    assert file.status == "failed"
    assert file.error is not None
    assert "scan" in file.error.message


async def test_a_deleted_file_fails(world: World) -> None:
    store = await world.new_store()
    world.embedder.may_work.clear()
    blocking = await world.new_file("first")
    second = await world.new_file("second")
    await world.add_batch(store.id, blocking, second)
    await world.files.delete(CALLER, second)
    world.embedder.may_work.set()
    await world.settled(store.id)
    with pytest.raises(NotFound):
        await world.file(store.id, second)


@pytest.mark.requirement("VECTOR-STORES/batch-independence")
async def test_one_bad_file_does_not_stop_a_batch(world: World) -> None:
    store = await world.new_store()
    ids = [await world.new_file(f"good {number}") for number in range(3)]
    bad = await world.new_file(BINARY, "bad.bin")
    batch = await world.add_batch(store.id, ids[0], bad, *ids[1:])
    assert (batch.file_counts.in_progress, batch.file_counts.total) == (4, 4)
    await world.settled(store.id)
    ended = await world.service.files.batch(CALLER, store.id, batch.id)
    assert (ended.file_counts.completed, ended.file_counts.failed) == (3, 1)
    assert batch_object(ended).status == "completed"
    failed, _ = await world.service.files.list(CALLER, store.id, Page(), status="failed", batch=batch.id)
    assert [file.id for file in failed] == [bad]


async def test_a_batch_of_bad_files_has_failed(world: World) -> None:
    store = await world.new_store()
    batch = await world.add_batch(store.id, await world.new_file(BINARY, "bad.bin"))
    await world.settled(store.id)
    assert batch_object(await world.service.files.batch(CALLER, store.id, batch.id)).status == "failed"


async def test_an_unknown_file_in_a_batch_adds_none(world: World) -> None:
    store = await world.new_store()
    with pytest.raises(NotFound) as raised:
        await world.add_batch(store.id, await world.new_file("x"), "file-unknown")
    assert raised.value.param == "file_ids[1]"
    assert (await world.service.retrieve(CALLER, store.id)).file_counts.total == 0


@pytest.mark.requirement("VECTOR-STORES/ingestion-waits")
async def test_a_model_out_of_reach_delays_a_file_which_says_so(world: World) -> None:
    store = await world.new_store()
    world.embedder.errors = [BackendUnreachable("No connection.") for _ in range(4)]
    file_id = await world.new_file("patience")

    async def is_delayed() -> bool:
        file = await world.file(store.id, file_id)
        return file.error is not None

    await world.add_batch(store.id, file_id)
    await until(is_delayed)
    delayed = await world.file(store.id, file_id)
    assert delayed.error is not None
    assert delayed.status == "in_progress"
    assert "waits for the embedding model 'hashed': No connection." in delayed.error.message
    await world.settled(store.id)
    file = await world.file(store.id, file_id)
    assert (file.status, file.error) == ("completed", None)


async def test_a_model_that_is_not_served_delays_a_file(world: World) -> None:
    store = await world.new_store()
    world.embeddings.change([])
    file_id = await world.new_file("patience")
    await world.add_batch(store.id, file_id)

    async def error() -> str:
        file = await world.file(store.id, file_id)
        return file.error.message if file.error is not None else ""

    assert f"antiphon vector-stores reindex {store.id}" in await until(error)
    world.embeddings.change([world.embedder])
    await world.settled(store.id)
    assert (await world.file(store.id, file_id)).status == "completed"


async def test_a_text_that_the_model_refuses_fails_alone(world: World) -> None:
    store = await world.new_store()
    world.embedder.errors = [BackendRefused("too long", status=400)]
    file = await world.add(store.id, "x")
    assert file.status == "failed"
    assert file.error is not None
    assert "too long" in file.error.message
    assert (await world.add(store.id, "y")).status == "completed"


@pytest.mark.requirement("VECTOR-STORES/ingestion-bounded")
async def test_attempts_after_unexpected_errors_are_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "MAX_ATTEMPTS", 2)
    store = await world.new_store()
    world.embedder.errors = [BackendBroken("nonsense") for _ in range(9)]
    file = await world.add(store.id, "x")
    assert file.status == "failed"
    assert file.error is not None
    assert (file.error.code, file.error.message) == ("server_error", "nonsense")
    assert len(world.embedder.errors) == 7


@pytest.mark.requirement("VECTOR-STORES/ingestion-quotas")
async def test_a_quota_of_bytes_fails_a_file(stores: Stores) -> None:
    async with open_world(stores, quota=StoreQuota(stores=2, files=5, bytes=2000)) as world:
        store = await world.new_store()
        file = await world.add(store.id, LONG)
        assert file.status == "failed"
        assert file.error is not None
        assert file.error.code == "server_error"
        with pytest.raises(InvalidRequest):
            await world.add_batch(store.id, *[await world.new_file(str(number)) for number in range(6)])
        await world.new_store()
        with pytest.raises(InvalidRequest):
            await world.new_store()


@pytest.mark.requirement("VECTOR-STORES/batch-files")
async def test_a_cancelled_batch_stops(world: World) -> None:
    store = await world.new_store()
    done = await world.add(store.id, "done before")
    world.embedder.may_work.clear()
    batch = await world.add_batch(store.id, *[await world.new_file(str(number)) for number in range(5)])

    async def has_begun() -> bool:
        return len(world.embedder.calls) > 1

    await until(has_begun)
    cancelled = await world.service.files.cancel_batch(CALLER, store.id, batch.id)
    assert batch_object(cancelled).status == "cancelled"
    world.embedder.may_work.set()
    ended = await world.settled(store.id)
    assert (ended.file_counts.cancelled, ended.file_counts.completed) == (5, 1)
    assert [passage.file_id for passage in await world.search(store.id, "done")] == [done.id]


@pytest.mark.requirement("VECTOR-STORES/store-delete")
async def test_a_removed_file_is_not_found_any_more(world: World) -> None:
    store = await world.new_store("apples and pears", "stars and planets")
    [found] = await world.search(store.id, "planets", limit=1)
    await world.service.files.delete(CALLER, store.id, found.file_id)
    assert found.file_id not in {passage.file_id for passage in await world.search(store.id, "planets")}
    assert (await world.files.retrieve(CALLER, found.file_id)).id == found.file_id


@pytest.mark.requirement("VECTOR-STORES/ingestion-durable")
async def test_a_process_that_stops_is_continued_after_the_saved_portions(stores: Stores) -> None:
    async with open_world(stores) as first:
        store = await first.new_store()
        file_id = await first.new_file(LONG * 2)
        first.embedder.hold_after = 2
        await first.add_batch(store.id, file_id)

        async def is_held() -> bool:
            return len(first.embedder.calls) == 3

        await until(is_held)
    async with open_world(stores) as second:
        await second.settled(store.id)
        found = await texts(second, store.id, file_id)
    assert (await stores.vector_stores.store_file("owner", store.id, file_id)).status == "completed"
    saved = sum(map(len, first.embedder.calls[:2]))
    assert saved == 2 * PORTION_CHUNKS
    assert saved + sum(map(len, second.embedder.calls)) == len(found)
    assert all(any(f"topic{number}." in text for text in found) for number in range(120))


@pytest.mark.requirement("VECTOR-STORES/search-model")
async def test_a_store_moves_to_another_model(world: World) -> None:
    store = await world.new_store("apples and pears", "stars and planets")
    other = TestedEmbedder("other", dimensions=32)
    world.embeddings.change([other])
    with pytest.raises(InvalidRequest, match=f"antiphon vector-stores reindex {store.id}"):
        await world.search(store.id, "planets")
    await world.service.reindex(CALLER, store.id)
    moved = await world.settled(store.id)
    assert (moved.model, moved.dimensions, moved.file_counts.completed) == ("other", 32, 2)
    [found] = await world.search(store.id, "planets", limit=1)
    assert found.text == "stars and planets"


@pytest.mark.requirement("VECTOR-STORES/search-unspaced")
async def test_text_in_scripts_without_spaces_is_found(world: World) -> None:
    store = await world.new_store("東京都庁は新宿にある。", "ภาษาไทยไม่มีช่องว่าง", "这家公司成立于一九九八年。")
    for query, expected in (("新宿", "新宿"), ("ไทย", "ไทย"), ("公司", "公司")):
        [best, *_] = await world.search(store.id, query)
        assert expected in best.text


@pytest.mark.requirement("VECTOR-STORES/ingestion-mixed-documents")
async def test_mixed_documents(world: World) -> None:
    store = await world.new_store()
    made: dict[str, bytes | str] = {
        "a.pdf": pdf_file("First page about owls.", "Second page about whales."),
        "b.md": "# Guide\n\n## Setup\n\nInstall the dragonfly driver.",
        "c.csv": "name,price\nhammer,12\nsaw,9\n",
        "d.html": "<!doctype html><body><h1>Title</h1><p>Text about volcanoes</p></body>",
        "e.json": '{"planet": "Neptune"}',
        "f.docx": docx_file((("name", "price"), ("marzipan", "3"))),
        "g.pptx": pptx_file(),
        "h.xlsx": xlsx_file({"Costs": [("item", "cost"), ("gasket", 7)]}),
        "i.eml": eml_file(("notes.txt", b"the attached zebra")),
    }
    ids = {name: await world.new_file(data, name) for name, data in made.items()}
    await world.add_batch(store.id, *ids.values())
    ended = await world.settled(store.id)
    assert ended.file_counts.completed == len(made)
    for query, name, label in (
        ("whales", "a.pdf", "page 2"),
        ("dragonfly driver", "b.md", "Guide"),
        ("hammer price", "c.csv", ""),
        ("volcanoes", "d.html", "Title"),
        ("Neptune", "e.json", ""),
        ("marzipan", "f.docx", "Report"),
        ("Do not mention the delay", "g.pptx", "slide 1"),
        ("gasket", "h.xlsx", "sheet Costs"),
        ("zebra", "i.eml", "attachment notes.txt"),
    ):
        [best, *_] = await world.search(store.id, query)
        assert (best.filename, best.label) == (name, label), query
