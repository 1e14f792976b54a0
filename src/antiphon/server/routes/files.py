"""``/v1/files``: files and their content."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing
from typing import ClassVar
from urllib.parse import quote

import msgspec

from antiphon.caller import DELETE, READ, WRITE
from antiphon.errors import InvalidRequest, RangeNotSatisfiable
from antiphon.protocol.files import (
    OCTETS,
    FileList,
    NewFile,
    check_filename,
    check_lifetime,
    check_media_type,
    check_purpose,
    lifetime_of,
)
from antiphon.protocol.ids import FILE_ID
from antiphon.protocol.parse import missing
from antiphon.server.byte_ranges import parse_range
from antiphon.server.exchange import Exchange
from antiphon.server.multipart import FormReader, MultipartForm
from antiphon.server.query import Query
from antiphon.server.routing import Route
from antiphon.service.files.files import Files, file_object
from antiphon.store.files import FilePage, StoredFile

MAX_LIMIT = 10_000
_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"


class FileForm(MultipartForm):
    """The form that creates a file."""

    def add_field(self, name: str, value: str) -> None:
        """Check the purpose when it arrives: in most forms that is before the content."""
        if name == "purpose":
            check_purpose(value)
        super().add_field(name, value)

    def description(self) -> NewFile:
        """What the client says about the file."""
        if self.filename is None:
            raise InvalidRequest(
                "'file' must be sent as a file, with a filename.", param="file", code="invalid_filename"
            )
        purpose = self.fields.get("purpose")
        if purpose is None:
            raise missing("purpose")
        lifetime = check_lifetime(self.fields.get(_ANCHOR), self.fields.get(_SECONDS))
        return NewFile(
            filename=check_filename(self.filename, "file"),
            purpose=purpose,
            media_type=check_media_type(self.media_type or OCTETS, "file"),
            lifetime=lifetime_of(purpose, lifetime),
        )


class FileRoutes:
    """The routes of `/v1/files`."""

    def __init__(self, files: Files, forms: FormReader) -> None:
        self._files = files
        self._forms = forms

    async def create(self, exchange: Exchange) -> None:
        """Store a file while it arrives."""
        with self._forms.receive(exchange, self._files.max_bytes) as pieces:
            head = exchange.head
            form = FileForm(pieces, head.content_type, "file", int(head.content_length or 0))
            file = await self._files.create(exchange.caller, form)
        await exchange.send_json(msgspec.json.encode(file_object(file)))

    async def list(self, exchange: Exchange) -> None:
        """A part of the list of files."""
        files, has_more = await self._files.list(exchange.caller, _page(exchange.query()))
        await exchange.send_json(msgspec.json.encode(_list_wire(files, has_more=has_more)))

    async def retrieve(self, exchange: Exchange, file_id: str) -> None:
        """One file, without its content."""
        file = await self._files.retrieve(exchange.caller, file_id)
        await exchange.send_json(msgspec.json.encode(file_object(file)))

    async def content(self, exchange: Exchange, file_id: str) -> None:
        """The content, or a range of it."""
        file = await self._files.retrieve(exchange.caller, file_id)
        headers = (
            (b"accept-ranges", b"bytes"),
            (b"etag", b'"%b"' % file.hash.encode()),
            (b"content-disposition", f"attachment; filename*=UTF-8''{quote(file.filename)}".encode()),
            (b"x-content-type-options", b"nosniff"),
        )
        try:
            wanted = parse_range(exchange.head.range, file.bytes)
        except RangeNotSatisfiable as error:
            await exchange.send_error(error, ((b"content-range", b"bytes */%d" % file.bytes),))
            return
        start, end = wanted or (0, file.bytes)
        if wanted is not None:
            headers = (*headers, (b"content-range", b"bytes %d-%d/%d" % (start, end - 1, file.bytes)))
        status = 200 if wanted is None else 206
        with self._forms.bodies.lifetimes.lease(exchange.receive):
            async with aclosing(self._files.read(file, start, end)) as pieces:
                first = await anext(pieces)  # a blob store that fails is a 503, not half an answer
                await exchange.send_media(
                    _chained(first, pieces), OCTETS, status, headers, length=end - start
                )

    async def delete(self, exchange: Exchange, file_id: str) -> None:
        """Delete a file."""
        await self._files.delete(exchange.caller, file_id)
        deleted = {"id": file_id, "object": "file", "deleted": True}
        await exchange.send_json(msgspec.json.encode(deleted))

    _ONE = "/v1/files/{id}"
    ROUTES: ClassVar = (
        Route("POST /v1/files", create, WRITE, stateful=True),
        Route("GET /v1/files", list, READ, stateful=True),
        Route(f"GET {_ONE}", retrieve, READ, stateful=True, id_form=FILE_ID),
        Route(f"DELETE {_ONE}", delete, DELETE, stateful=True, id_form=FILE_ID),
        Route(f"GET {_ONE}/content", content, READ, stateful=True, id_form=FILE_ID),
    )


async def _chained(first: bytes, rest: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    yield first
    async for piece in rest:
        yield piece


def _list_wire(files: Sequence[StoredFile], *, has_more: bool) -> FileList:
    return FileList(
        data=[file_object(file) for file in files],
        first_id=files[0].id if files else None,
        last_id=files[-1].id if files else None,
        has_more=has_more,
    )


def _page(query: Query) -> FilePage:
    after = query.text("after")
    if after is not None:
        FILE_ID._replace(param="after").check(after)
    limit = query.number("limit", least=1, most=MAX_LIMIT)
    return FilePage(
        after=after,
        limit=MAX_LIMIT if limit is None else limit,
        order=query.order(),
        purpose=query.text("purpose"),
    )
