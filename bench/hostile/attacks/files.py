"""Requests with small bodies that name large files."""

import asyncio

from bench.hostile.client import HostileClient
from bench.hostile.registry import attack

MB = 2**20
BOUNDARY = "hostile"
UNKNOWN = 404
_uploading = asyncio.Lock()
_uploaded: dict[str, str] = {}
"""The id of the file of a tenant, by key. It is uploaded once."""


async def large_file(client: HostileClient, size: int) -> str:
    """The id of a file of so many bytes: a text, which no model takes as a file."""
    async with _uploading:
        if client.key not in _uploaded:
            disposition = 'Content-Disposition: form-data; name="{}"'
            parts = (
                f"--{BOUNDARY}\r\n{disposition.format('purpose')}\r\n\r\nuser_data\r\n",
                f'--{BOUNDARY}\r\n{disposition.format("file")}; filename="a.txt"\r\n\r\n',
                "word " * (size // 5),
                f"\r\n--{BOUNDARY}--\r\n",
            )
            media = f"multipart/form-data; boundary={BOUNDARY}"
            answer = await client.post("/v1/files", "".join(parts).encode(), media=media)
            if answer.status != 200:
                return "file-unknown"
            _uploaded[client.key] = str(answer.json["id"])
        return _uploaded[client.key]


@attack("files of 40 MB, 16 at once", parallel=16)
async def files_at_once(client: HostileClient) -> None:
    """Requests of 200 bytes, each with a stored file of 40 MB."""
    part = {"type": "input_file", "file_id": await large_file(client, 40 * MB)}
    answer = await client.create(input=[{"role": "user", "content": [part]}])
    if answer.status == UNKNOWN:  # the server has a new store
        _uploaded.pop(client.key, None)
