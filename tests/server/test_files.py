"""`/v1/files` on the wire."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from antiphon.server.admission import LATE, MAX_BODIES_BYTES
from antiphon.server.multipart import FORM_MEMORY_BYTES
from antiphon.store.files import FileQuota
from antiphon.store.none import no_stores
from tests.server.stateful import NOW, JsonObject, ServerUnderTest, open_server
from tests.service.conftest import MakeCreator, services_of

CONTENT = b"hello world"


@pytest.fixture
async def server(make_creator: MakeCreator) -> AsyncGenerator[ServerUnderTest, None]:
    async with open_server(make_creator) as running:
        yield running


async def post(
    server: ServerUnderTest,
    content: bytes = CONTENT,
    filename: str = "a.txt",
    *,
    media_type: str = "text/plain",
    **fields: str,
) -> httpx2.Response:
    form = {"purpose": "user_data", **fields}
    return await server.client.post("/v1/files", data=form, files={"file": (filename, content, media_type)})


async def created(server: ServerUnderTest, content: bytes = CONTENT, **fields: str) -> JsonObject:
    answer = await post(server, content, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def error_of(answer: httpx2.Response) -> tuple[int, str | None, str]:
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    return answer.status_code, error["param"], error["code"]


@pytest.mark.requirement("FILES/files-create", "FILES/files-retrieve")
async def test_a_file_is_stored_with_the_members_of_the_api(server: ServerUnderTest) -> None:
    file = await created(server)
    assert file == {
        "id": file["id"],
        "object": "file",
        "bytes": 11,
        "created_at": int(NOW),
        "expires_at": None,
        "filename": "a.txt",
        "purpose": "user_data",
        "status": "processed",
        "status_details": None,
    }
    assert file["id"].startswith("file-")
    assert (await server.client.get(f"/v1/files/{file['id']}")).json() == file


@pytest.mark.requirement("FILES/files-content")
async def test_the_content_comes_back(server: ServerUnderTest) -> None:
    file = await created(server, filename='naïve "x".html')
    answer = await server.client.get(f"/v1/files/{file['id']}/content")
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == "11"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"] == f'"{hashlib.sha256(CONTENT).hexdigest()}"'
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''na%C3%AFve%20%22x%22.html"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.requirement("FILES/files-content")
@pytest.mark.parametrize(
    ("range_", "content", "sent"),
    [
        ("bytes=0-4", b"hello", "bytes 0-4/11"),
        ("bytes=6-", b"world", "bytes 6-10/11"),
        ("bytes=6-1000", b"world", "bytes 6-10/11"),
        ("bytes=-5", b"world", "bytes 6-10/11"),
        ("bytes=-1000", CONTENT, "bytes 0-10/11"),
        ("Bytes = 4 - 4", b"o", "bytes 4-4/11"),
    ],
)
async def test_a_range_is_sent_alone(server: ServerUnderTest, range_: str, content: bytes, sent: str) -> None:
    file = await created(server)
    answer = await server.client.get(f"/v1/files/{file['id']}/content", headers={"range": range_})
    assert (answer.status_code, answer.content) == (206, content)
    assert answer.headers["content-range"] == sent
    assert answer.headers["content-length"] == str(len(content))


@pytest.mark.parametrize("range_", ["bytes=0-1,3-4", "lines=1-2"])
async def test_other_ranges_are_ignored(server: ServerUnderTest, range_: str) -> None:
    file = await created(server)
    answer = await server.client.get(f"/v1/files/{file['id']}/content", headers={"range": range_})
    assert (answer.status_code, answer.content) == (200, CONTENT)


@pytest.mark.parametrize(
    "range_", ["bytes=11-", "bytes=5-4", "bytes=-0", "bytes=-", "bytes=a-b", "bytes", "bytes=1-2x"]
)
async def test_a_range_that_cannot_be_sent_is_a_416(server: ServerUnderTest, range_: str) -> None:
    file = await created(server)
    answer = await server.client.get(f"/v1/files/{file['id']}/content", headers={"range": range_})
    assert error_of(answer) == (416, None, "range_not_satisfiable")
    assert answer.headers["content-range"] == "bytes */11"


@pytest.mark.requirement("FILES/files-delete")
async def test_a_deleted_file_is_gone(server: ServerUnderTest) -> None:
    file = await created(server)
    answer = await server.client.delete(f"/v1/files/{file['id']}")
    assert answer.json() == {"id": file["id"], "object": "file", "deleted": True}
    for path in (f"/v1/files/{file['id']}", f"/v1/files/{file['id']}/content"):
        answer = await server.client.get(path)
        assert error_of(answer) == (404, "id", "not_found")
        assert answer.json()["error"]["message"] == f"No such File object: {file['id']}"
    assert error_of(await server.client.delete(f"/v1/files/{file['id']}"))[0] == 404


@pytest.mark.requirement("FILES/files-list")
async def test_files_are_listed_in_pages(server: ServerUnderTest) -> None:
    files = [await created(server, b"%d" % n, purpose="batch" if n == 2 else "vision") for n in range(4)]
    listed = (await server.client.get("/v1/files")).json()
    assert listed == {
        "object": "list",
        "data": files[::-1],
        "first_id": files[3]["id"],
        "last_id": files[0]["id"],
        "has_more": False,
    }
    page = (await server.client.get("/v1/files?limit=2&order=asc")).json()
    assert (page["data"], page["has_more"]) == (files[:2], True)
    page = (await server.client.get(f"/v1/files?order=asc&after={page['last_id']}")).json()
    assert (page["data"], page["has_more"]) == (files[2:], False)
    assert (await server.client.get("/v1/files?purpose=batch")).json()["data"] == [files[2]]
    empty = (await server.client.get("/v1/files?purpose=none")).json()
    assert empty == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@pytest.mark.parametrize(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=10001", "limit"), ("order=up", "order"), ("after=resp_1", "after")],
)
async def test_a_bad_query_is_a_400(server: ServerUnderTest, query: str, param: str) -> None:
    assert error_of(await server.client.get(f"/v1/files?{query}")) == (400, param, "invalid_value")


@pytest.mark.requirement("FILES/files-expires-after")
async def test_a_file_expires_when_the_client_says_so(server: ServerUnderTest) -> None:
    fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    assert (await created(server, CONTENT, **fields))["expires_at"] == NOW + 3600


@pytest.mark.requirement("FILES/files-expires-after")
async def test_files_of_batches_expire_after_30_days(server: ServerUnderTest) -> None:
    assert (await created(server, purpose="batch"))["expires_at"] == NOW + 30 * 24 * 3600


@pytest.mark.requirement("FILES/files-names")
@pytest.mark.parametrize(
    ("filename", "stored"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\report.pdf", "report.pdf"),
        ("日本語.txt", "日本語.txt"),
        ("a" * 255, "a" * 255),
    ],
)
async def test_a_name_is_stored_without_its_folders(
    server: ServerUnderTest, filename: str, stored: str
) -> None:
    assert (await created(server, filename=filename))["filename"] == stored


Changed = dict[str, Any]


@pytest.mark.requirement("FILES/files-purposes", "FILES/files-expires-after")
@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"content": b""}, "file", "empty_file"),
        ({"purpose": "fun"}, "purpose", "invalid_value"),
        ({"filename": "a\0b"}, "file", "invalid_filename"),
        ({"filename": "a" * 10_000}, "file", "invalid_filename"),
        ({"filename": ".."}, "file", "invalid_filename"),
        ({"filename": "folder/"}, "file", "invalid_filename"),
        ({"media_type": "no media type"}, "file", "invalid_value"),
        ({"expires_after[seconds]": "3600"}, "expires_after.anchor", "missing_required_parameter"),
        ({"expires_after[anchor]": "created_at"}, "expires_after.seconds", "missing_required_parameter"),
        (
            {"expires_after[anchor]": "now", "expires_after[seconds]": "3600"},
            "expires_after.anchor",
            "invalid_value",
        ),
        *(
            (
                {"expires_after[anchor]": "created_at", "expires_after[seconds]": seconds},
                "expires_after.seconds",
                "invalid_value",
            )
            for seconds in ("3599", "2592001", "-1", "1e9", "", "９" * 4)
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_bad_input_is_a_400_and_nothing_is_stored(
    server: ServerUnderTest, changes: Changed, param: str, code: str
) -> None:
    assert error_of(await post(server, **changes)) == (400, param, code)
    assert (await server.client.get("/v1/files")).json()["data"] == []
    assert await server.services.store.files.due_objects(10) == []


async def send(server: ServerUnderTest, body: bytes, content_type: str) -> tuple[int, str | None, str]:
    answer = await server.client.post("/v1/files", content=body, headers={"content-type": content_type})
    return error_of(answer)


FORM = "multipart/form-data; boundary=x"
PURPOSE = b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\ncontent\r\n'
END = b"--x--\r\n"


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"{}", "application/json", (415, None, "unsupported_media_type")),
        (FILE + END, "multipart/form-data", (400, None, "invalid_multipart")),
        (FILE + END, f"multipart/form-data; boundary={'x' * 71}", (400, None, "invalid_multipart")),
        (b"", FORM, (400, None, "invalid_multipart")),
        (b"garbage", FORM, (400, None, "invalid_multipart")),
        (PURPOSE + FILE, FORM, (400, None, "invalid_multipart")),
        (PURPOSE + FILE[:-5], FORM, (400, None, "invalid_multipart")),
        (PURPOSE + END, FORM, (400, "file", "missing_required_parameter")),
        (FILE + END, FORM, (400, "purpose", "missing_required_parameter")),
        (PURPOSE + FILE + FILE + END, FORM, (400, "file", "invalid_multipart")),
        (PURPOSE + FILE.replace(b'; filename="a"', b"") + END, FORM, (400, "file", "invalid_filename")),
        (PURPOSE.replace(b"user_data", b"x" * 5000) + END, FORM, (400, "purpose", "invalid_multipart")),
        (FILE + END, FORM + ";" * 10_000, (400, None, "invalid_multipart")),
        (FILE.replace(b'"a"', b'"a"' + b";" * 10_000) + END, FORM, (400, None, "invalid_multipart")),
        (PURPOSE * 40 + FILE + END, FORM, (400, None, "invalid_multipart")),
        (PURPOSE * 200 + FILE + END, FORM, (400, None, "invalid_multipart")),
        (FILE.replace(b"content", b"\r\n--xy" * 200) + PURPOSE + END, FORM, (400, None, "invalid_multipart")),
        (
            b"".join(PURPOSE.replace(b'"purpose"', b'"p%d"' % n) for n in range(40)) + END,
            FORM,
            (400, None, "invalid_multipart"),
        ),
        (
            FILE.replace(b"\r\n\r\n", b"\r\nx: " + b"y" * 40_000 + b"\r\n\r\n") + END,
            FORM,
            (400, None, "invalid_multipart"),
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_bad_form_is_refused(
    server: ServerUnderTest, body: bytes, content_type: str, expected: tuple[int, str | None, str]
) -> None:
    assert await send(server, body, content_type) == expected
    assert await server.services.store.files.due_objects(10) == []


async def test_fields_may_follow_the_file_and_names_may_be_extended(server: ServerUnderTest) -> None:
    file = FILE.replace(b'filename="a"', b"filename=\"_\"; filename*=utf-8''%E2%82%AC.txt")
    answer = await server.client.post(
        "/v1/files", content=file + PURPOSE + END, headers={"content-type": FORM}
    )
    assert (answer.json()["filename"], answer.json()["bytes"]) == ("€.txt", 7)


async def test_content_that_looks_like_a_boundary_is_content(server: ServerUnderTest) -> None:
    content = b"--x\r\n\r\n--x-\r\n--xy--\r\n--x--" * 1000
    file = await created(server, content)
    assert (await server.client.get(f"/v1/files/{file['id']}/content")).content == content


@pytest.mark.parametrize("name", ["resp_1", "file_1", "xyz"])
async def test_an_id_of_another_form_is_a_400(server: ServerUnderTest, name: str) -> None:
    assert error_of(await server.client.get(f"/v1/files/{name}")) == (400, "file_id", "invalid_value")


@pytest.mark.requirement("FILES/files-too-large")
async def test_a_file_that_is_too_large_is_a_413(make_creator: MakeCreator) -> None:
    async with limited(make_creator, max_bytes=1000) as server:
        assert (await post(server, b"x" * 1000)).status_code == 200
        answer = await post(server, b"x" * 1001)
        assert error_of(answer) == (413, None, "request_too_large")
        assert "limit is 1,000 bytes" in answer.json()["error"]["message"]
        assert error_of(await post(server, b"x" * 3_000_000))[0] == 413  # by its Content-Length
        assert await server.services.store.files.due_objects(10) == []


@pytest.mark.requirement("FILES/files-quotas")
async def test_the_quota_of_a_tenant_is_a_400(make_creator: MakeCreator) -> None:
    async with limited(make_creator, quota=FileQuota(2, 100)) as server:
        await created(server, b"x" * 60)
        answer = await post(server, b"y" * 60)
        assert error_of(answer) == (400, "file", "file_quota_exceeded")
        file = await created(server, b"x" * 60)  # the same content counts once
        assert error_of(await post(server, b"z"))[2] == "file_quota_exceeded"
        await server.client.delete(f"/v1/files/{file['id']}")
        await created(server, b"z")


@asynccontextmanager
async def limited(
    make_creator: MakeCreator, *, max_bytes: int = 10**9, quota: FileQuota | None = None
) -> AsyncGenerator[ServerUnderTest, None]:
    async with open_server(make_creator) as server:
        files = server.services.files
        contents = replace(files.contents, quota=quota or files.contents.quota)
        files = replace(files, max_bytes=max_bytes, contents=contents)
        services = replace(server.services, files=files)
        server.app.mount(services)
        yield replace(server, services=services)


async def test_a_server_without_a_store_has_no_files(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        stores = no_stores()
        services = services_of(make_creator(stores=stores))
        server.app.mount(services)
        name = "file-1"
        for answer in (
            await post(server),
            await server.client.get("/v1/files"),
            await server.client.get(f"/v1/files/{name}"),
            await server.client.get(f"/v1/files/{name}/content"),
            await server.client.delete(f"/v1/files/{name}"),
        ):
            assert error_of(answer) == (400, None, "unsupported_parameter")
            assert "stores no files" in answer.json()["error"]["message"]


async def test_forms_are_refused_while_the_server_is_overloaded(server: ServerUnderTest) -> None:
    server.app.admission.overload = LATE
    answer = await post(server)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "server_overloaded")


async def test_a_tenant_cannot_receive_any_number_of_forms_at_once(server: ServerUnderTest) -> None:
    """Each holds some memory."""
    started = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield PURPOSE
        await started.wait()
        yield FILE + END

    def send() -> asyncio.Task[httpx2.Response]:
        headers = {"content-type": FORM}
        return asyncio.create_task(server.client.post("/v1/files", content=slow(), headers=headers))

    sent = [send() for _ in range(40)]
    await asyncio.sleep(0.2)  # all have begun
    started.set()
    answers = await asyncio.gather(*sent)
    codes = [answer.json()["error"]["code"] for answer in answers if answer.status_code == 503]
    assert codes == ["server_overloaded"] * (40 - MAX_BODIES_BYTES // 2 // FORM_MEMORY_BYTES)
    assert sum(answer.status_code == 200 for answer in answers) == 40 - len(codes)
    assert (await post(server)).status_code == 200


async def test_content_that_cannot_be_read_is_a_503(server: ServerUnderTest) -> None:
    file = await created(server)
    stored = await server.services.store.files.file("default", file["id"])
    await server.services.store.blobs.delete([stored.key])
    answer = await server.client.get(f"/v1/files/{file['id']}/content")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
    assert "content-disposition" not in answer.headers
