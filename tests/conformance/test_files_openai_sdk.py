"""The official SDK's calls of files and uploads, against a server process."""

import hashlib
import os
from pathlib import Path

import openai
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]

CONTENT = os.urandom(3 * 2**20)


async def test_files_are_created_listed_read_and_deleted(client: openai.AsyncOpenAI, tmp_path: Path) -> None:
    path = tmp_path / "größe.bin"
    path.write_bytes(CONTENT)
    file = await client.files.create(
        file=path, purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert (file.filename, file.bytes, file.purpose, file.status) == (
        "größe.bin",
        len(CONTENT),
        "user_data",
        "processed",
    )
    assert file.expires_at == file.created_at + 3600
    assert await client.files.retrieve(file.id) == file
    assert (await client.files.content(file.id)).content == CONTENT
    part = await client.files.content(file.id, extra_headers={"range": "bytes=10-19"})
    assert part.content == CONTENT[10:20]
    deleted = await client.files.delete(file.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (file.id, True, "file")
    with pytest.raises(openai.NotFoundError, match="No such File object"):
        await client.files.retrieve(file.id)


async def test_lists_are_paged_by_the_sdk(client: openai.AsyncOpenAI) -> None:
    files = [await client.files.create(file=("f", b"%d" % n), purpose="evals") for n in range(5)]
    listed = [file.id async for file in client.files.list(purpose="evals", limit=2)]
    assert listed == [file.id for file in files[::-1]]
    ascending = await client.files.list(purpose="evals", limit=2, order="asc")
    assert [file.id for file in ascending.data] == [file.id for file in files[:2]]
    assert ascending.has_more
    async for file in client.files.list(purpose="evals", limit=2):  # as programs clean up
        await client.files.delete(file.id)
    assert (await client.files.list(purpose="evals")).data == []


async def test_a_large_file_is_sent_in_parts(client: openai.AsyncOpenAI, tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    path.write_bytes(CONTENT)
    upload = await client.uploads.upload_file_chunked(
        file=path,
        mime_type="application/octet-stream",
        purpose="user_data",
        part_size=2**20,
        md5=hashlib.md5(CONTENT).hexdigest(),
    )
    assert upload.status == "completed"
    assert upload.file is not None
    assert (upload.file.filename, upload.file.bytes) == ("large.bin", len(CONTENT))
    assert (await client.files.content(upload.file.id)).content == CONTENT


async def test_uploads_step_by_step(client: openai.AsyncOpenAI) -> None:
    upload = await client.uploads.create(
        bytes=6, filename="a.txt", mime_type="text/plain", purpose="assistants"
    )
    assert (upload.status, upload.expires_at - upload.created_at) == ("pending", 3600)
    parts = [await client.uploads.parts.create(upload.id, data=data) for data in (b"abc", b"def")]
    assert {part.upload_id for part in parts} == {upload.id}
    with pytest.raises(openai.BadRequestError, match="3 bytes in all"):
        await client.uploads.complete(upload.id, part_ids=[parts[0].id])
    completed = await client.uploads.complete(upload.id, part_ids=[part.id for part in parts])
    assert completed.file is not None
    assert (await client.files.content(completed.file.id)).text == "abcdef"


async def test_an_upload_is_cancelled(client: openai.AsyncOpenAI) -> None:
    upload = await client.uploads.create(bytes=6, filename="a", mime_type="text/plain", purpose="vision")
    assert (await client.uploads.cancel(upload.id)).status == "cancelled"
    with pytest.raises(openai.BadRequestError) as refused:
        await client.uploads.parts.create(upload.id, data=b"abc")
    assert refused.value.code == "upload_cancelled"


async def test_errors_are_those_of_the_api(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.files.create(file=("a", b"x"), purpose="fun")  # pyright: ignore[reportArgumentType] -- on purpose
    assert (refused.value.param, refused.value.code) == ("purpose", "invalid_value")
    with pytest.raises(openai.BadRequestError) as refused:
        await client.files.create(file=("a", b""), purpose="user_data")
    assert (refused.value.param, refused.value.code) == ("file", "empty_file")
