"""`/v1/uploads` on the wire."""

import hashlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from antiphon.service.files.uploads import LIFETIME_SECONDS
from antiphon.store.files import FileQuota
from antiphon.store.none import no_stores
from tests.server.stateful import NOW, JsonObject, ServerUnderTest, open_server
from tests.server.test_files import error_of
from tests.service.conftest import MakeCreator, services_of

NEW: JsonObject = {"purpose": "user_data", "filename": "a.bin", "bytes": 10, "mime_type": "application/x"}


@pytest.fixture
async def server(make_creator: MakeCreator) -> AsyncGenerator[ServerUnderTest, None]:
    async with open_server(make_creator) as running:
        yield running


async def begin(server: ServerUnderTest, **members: Any) -> JsonObject:
    answer = await server.client.post("/v1/uploads", json={**NEW, **members})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def send_part(server: ServerUnderTest, upload: JsonObject, data: bytes) -> httpx2.Response:
    return await server.client.post(f"/v1/uploads/{upload['id']}/parts", files={"data": ("part", data)})


async def add_part(server: ServerUnderTest, upload: JsonObject, data: bytes) -> str:
    answer = await send_part(server, upload, data)
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


async def complete(
    server: ServerUnderTest, upload: JsonObject, part_ids: list[str], **members: Any
) -> httpx2.Response:
    body = {"part_ids": part_ids, **members}
    return await server.client.post(f"/v1/uploads/{upload['id']}/complete", json=body)


async def cancel(server: ServerUnderTest, upload: JsonObject) -> httpx2.Response:
    return await server.client.post(f"/v1/uploads/{upload['id']}/cancel")


@pytest.mark.requirement("FILES/uploads-create", "FILES/uploads-parts")
async def test_an_upload_has_the_members_of_the_api(server: ServerUnderTest) -> None:
    upload = await begin(server)
    assert upload == {
        "id": upload["id"],
        "object": "upload",
        "bytes": 10,
        "created_at": int(NOW),
        "expires_at": int(NOW) + LIFETIME_SECONDS,
        "filename": "a.bin",
        "purpose": "user_data",
        "status": "pending",
        "file": None,
    }
    assert upload["id"].startswith("upload_")
    part = (await send_part(server, upload, b"01234")).json()
    assert part == {
        "id": part["id"],
        "object": "upload.part",
        "created_at": int(NOW),
        "upload_id": upload["id"],
    }
    assert part["id"].startswith("part_")


@pytest.mark.requirement("FILES/uploads-complete")
async def test_the_parts_are_joined_in_the_given_order(server: ServerUnderTest) -> None:
    upload = await begin(server, expires_after={"anchor": "created_at", "seconds": 7200})
    second, first = await add_part(server, upload, b"56789"), await add_part(server, upload, b"01234")
    await add_part(server, upload, b"a part that is not used")
    md5 = hashlib.md5(b"0123456789").hexdigest().upper()
    answer = await complete(server, upload, [first, second], md5=md5)
    completed = answer.json()
    assert completed == {**upload, "status": "completed", "file": completed["file"]}
    file = completed["file"]
    assert (file["bytes"], file["filename"], file["purpose"]) == (10, "a.bin", "user_data")
    assert file["expires_at"] == NOW + 7200
    content = await server.client.get(f"/v1/files/{file['id']}/content")
    assert content.content == b"0123456789"
    assert (await server.client.get(f"/v1/files/{file['id']}")).json() == file
    assert await server.services.store.files.due_objects(10) == []  # the parts are deleted


@pytest.mark.requirement("FILES/uploads-repeatable")
async def test_completing_again_gives_the_same_file(server: ServerUnderTest) -> None:
    """A client whose connection broke sends its request again."""
    upload = await begin(server)
    parts = [await add_part(server, upload, b"0123456789")]
    first = await complete(server, upload, parts)
    again = await complete(server, upload, parts)
    assert (again.status_code, again.json()) == (200, first.json())
    assert len((await server.client.get("/v1/files")).json()["data"]) == 1


@pytest.mark.requirement("FILES/uploads-cancel")
async def test_a_cancelled_upload_takes_nothing_more(server: ServerUnderTest) -> None:
    upload = await begin(server)
    part = await add_part(server, upload, b"0123456789")
    cancelled = await cancel(server, upload)
    assert cancelled.json() == {**upload, "status": "cancelled"}
    assert (await cancel(server, upload)).json() == cancelled.json()
    assert error_of(await send_part(server, upload, b"x")) == (400, "upload_id", "upload_cancelled")
    assert error_of(await complete(server, upload, [part])) == (400, "upload_id", "upload_cancelled")
    assert await server.services.store.files.due_objects(10) == []


async def test_a_completed_upload_takes_nothing_more(server: ServerUnderTest) -> None:
    upload = await begin(server)
    await complete(server, upload, [await add_part(server, upload, b"0123456789")])
    assert error_of(await send_part(server, upload, b"x")) == (400, "upload_id", "upload_completed")
    assert error_of(await cancel(server, upload)) == (400, "upload_id", "upload_completed")


@pytest.mark.parametrize(
    ("members", "param", "code"),
    [
        ({"purpose": "fun"}, "purpose", "invalid_value"),
        ({"bytes": 0}, "bytes", "invalid_value"),
        ({"bytes": -1}, "bytes", "invalid_value"),
        ({"bytes": 8 * 2**30 + 1}, "bytes", "invalid_value"),
        ({"bytes": "10"}, "bytes", "invalid_type"),
        ({"filename": ""}, "filename", "invalid_filename"),
        ({"filename": "a\0"}, "filename", "invalid_filename"),
        ({"filename": "a" * 10_000}, "filename", "invalid_filename"),
        ({"mime_type": "nonsense"}, "mime_type", "invalid_value"),
        ({"mime_type": "a/b\r\nx: y"}, "mime_type", "invalid_value"),
        ({"expires_after": {"anchor": "created_at", "seconds": 1}}, "expires_after.seconds", "invalid_value"),
        ({"expires_after": {"anchor": "now", "seconds": 3600}}, "expires_after.anchor", "invalid_value"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_bad_upload_is_a_400(
    server: ServerUnderTest, members: JsonObject, param: str, code: str
) -> None:
    assert error_of(await server.client.post("/v1/uploads", json={**NEW, **members})) == (400, param, code)


@pytest.mark.parametrize("name", list(NEW))
async def test_every_member_is_required(server: ServerUnderTest, name: str) -> None:
    body = {key: value for key, value in NEW.items() if key != name}
    answer = await server.client.post("/v1/uploads", json=body)
    assert error_of(answer) == (400, name, "missing_required_parameter")


@pytest.mark.requirement("FILES/uploads-byte-count", "FILES/uploads-md5")
async def test_parts_of_the_wrong_size_or_order_are_a_400_and_can_be_corrected(
    server: ServerUnderTest,
) -> None:
    upload = await begin(server)
    first, second = await add_part(server, upload, b"01234"), await add_part(server, upload, b"56789")
    md5 = hashlib.md5(b"0123456789").hexdigest()
    for part_ids, members, expected in (
        ([first], {}, ("part_ids", "byte_count_mismatch")),
        ([second, first], {"md5": md5}, ("md5", "md5_mismatch")),
        ([first, second], {"md5": "xyz"}, ("md5", "invalid_value")),
        ([first, first], {}, ("part_ids", "invalid_value")),
        ([first, "part_none"], {}, ("part_ids[1]", "invalid_value")),
        ([], {}, ("part_ids", "invalid_value")),
    ):
        assert error_of(await complete(server, upload, part_ids, **members)) == (400, *expected)
        assert await server.services.store.files.due_objects(10) == []
    assert (await server.client.get("/v1/files")).json()["data"] == []
    assert (await complete(server, upload, [first, second], md5=md5)).status_code == 200


async def test_the_part_of_another_upload_is_unknown(server: ServerUnderTest) -> None:
    upload, other = await begin(server), await begin(server)
    part = await add_part(server, other, b"0123456789")
    assert error_of(await complete(server, upload, [part])) == (400, "part_ids[0]", "invalid_value")


@pytest.mark.requirement("FILES/uploads-parts")
async def test_bad_parts_are_refused(server: ServerUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = await begin(server)
    assert error_of(await send_part(server, upload, b"")) == (400, "data", "empty_file")
    path = f"/v1/uploads/{upload['id']}/parts"
    answer = await server.client.post(path, files={"file": ("part", b"x")})
    assert error_of(answer) == (400, "data", "missing_required_parameter")
    assert error_of(await server.client.post(path, json={}))[0] == 415
    monkeypatch.setattr("antiphon.service.files.uploads.MAX_PART_BYTES", 100)
    assert error_of(await send_part(server, upload, b"x" * 101)) == (413, None, "request_too_large")


async def test_parts_count_for_the_quota(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        files = server.services.files
        files = replace(files, contents=replace(files.contents, quota=FileQuota(1, 15)))
        uploads = replace(server.services.uploads, files=files)
        server.app.mount(replace(server.services, files=files, uploads=uploads))
        upload = await begin(server)
        part = await add_part(server, upload, b"0123456789")
        assert error_of(await send_part(server, upload, b"0123456789"))[2] == "file_quota_exceeded"
        assert (await complete(server, upload, [part])).status_code == 200  # the file replaces the part
        assert error_of(await send_part(server, await begin(server), b"x"))[2] == "file_quota_exceeded"


async def test_a_server_without_a_store_has_no_uploads(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        server.app.mount(services_of(make_creator(stores=no_stores())))
        upload = {"id": "upload_1"}
        for answer in (
            await server.client.post("/v1/uploads", json=NEW),
            await send_part(server, upload, b"x"),
            await complete(server, upload, ["part_1"]),
            await cancel(server, upload),
        ):
            assert error_of(answer) == (400, None, "unsupported_parameter")
