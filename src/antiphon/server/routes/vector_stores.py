"""``/v1/vector_stores``: stores, their files, batches of files, and searches."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, cast, get_args

import msgspec
from msgspec import Struct

from antiphon.caller import DELETE, READ, WRITE
from antiphon.errors import InvalidRequest
from antiphon.protocol.ids import VECTOR_STORE_ID
from antiphon.protocol.parse import decode
from antiphon.protocol.vector_stores import (
    FileBatchObject,
    FileStatus,
    FoundText,
    StoreFileObject,
    VectorStoreObject,
    parse_attributes,
    parse_file_batch,
    parse_new_store,
    parse_search,
    parse_store_change,
    parse_store_file,
)
from antiphon.server.exchange import BodyReader, Exchange, Header
from antiphon.server.lifetime import Lifetimes
from antiphon.server.query import Query
from antiphon.server.routing import Route
from antiphon.service.embeddings import AUTO
from antiphon.service.vector_stores.files import StoreFiles
from antiphon.service.vector_stores.objects import (
    batch_object,
    search_result,
    store_file_object,
    store_object,
)
from antiphon.service.vector_stores.search import passage_query
from antiphon.service.vector_stores.stores import VectorStoreService
from antiphon.store.vector_stores import FoundChunk, VectorStoreFile

POLL_AFTER_MS = 500
"""When a client should ask again for an object in progress."""
JSON = "application/json"

_ONE = "/v1/vector_stores/{id}"
_FILE = f"{_ONE}/files/{{file_id}}"
_BATCH = f"{_ONE}/file_batches/{{batch_id}}"


class _List(Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: Sequence[VectorStoreObject] | Sequence[StoreFileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class _Deleted(Struct, frozen=True, kw_only=True):
    id: str
    object: str
    deleted: bool = True


class _Found(Struct, frozen=True, kw_only=True):
    object: str = "vector_store.search_results.page"
    search_query: Sequence[str]
    data: Sequence[Any]
    has_more: bool = False
    next_page: str | None = None


class _Reindex(Struct, frozen=True):
    model: str = AUTO


class VectorStoreRoutes:
    """The routes of stores."""

    def __init__(self, stores: VectorStoreService, lifetimes: Lifetimes, bodies: BodyReader) -> None:
        self._stores = stores
        self._lifetimes = lifetimes
        self._bodies = bodies

    async def create(self, exchange: Exchange) -> None:
        """A new store."""
        new = parse_new_store(await self._bodies.read(exchange))
        await _send(exchange, store_object(await self._stores.create(exchange.caller, new)))

    async def list(self, exchange: Exchange) -> None:
        """A part of the list of stores."""
        stores, has_more = await self._stores.list(exchange.caller, exchange.query().page())
        await _send_list(exchange, [store_object(store) for store in stores], has_more=has_more)

    async def retrieve(self, exchange: Exchange, store_id: str) -> None:
        """One store."""
        await _send(exchange, store_object(await self._stores.retrieve(exchange.caller, store_id)))

    async def change(self, exchange: Exchange, store_id: str) -> None:
        """Change a store."""
        change = parse_store_change(await self._bodies.read(exchange))
        await _send(exchange, store_object(await self._stores.change(exchange.caller, store_id, change)))

    async def delete(self, exchange: Exchange, store_id: str) -> None:
        """Delete a store."""
        await self._stores.delete(exchange.caller, store_id)
        await _send_deleted(exchange, store_id, "vector_store.deleted")

    async def search(self, exchange: Exchange, store_id: str) -> None:
        """Find passages."""
        with self._lifetimes.lease(exchange.receive) as lease:
            query = passage_query(parse_search(await self._bodies.read_within(exchange, lease)))
            lease.expect_disconnect()
            found = await self._stores.search.search(exchange.caller.tenant, [store_id], query)
        wire = _Found(search_query=query.queries, data=[search_result(passage) for passage in found])
        await exchange.send_json(msgspec.json.encode(wire))

    async def reindex(self, exchange: Exchange, store_id: str) -> None:
        """Add all files anew, for another embedding model."""
        wanted = decode(await self._bodies.read(exchange) or b"{}", _Reindex)
        store = await self._stores.reindex(exchange.caller, store_id, wanted.model)
        await _send(exchange, store_object(store))

    ROUTES: ClassVar = (
        Route("POST /v1/vector_stores", create, WRITE, stateful=True),
        Route("GET /v1/vector_stores", list, READ, stateful=True),
        Route(f"GET {_ONE}", retrieve, READ, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"POST {_ONE}", change, WRITE, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"DELETE {_ONE}", delete, DELETE, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"POST {_ONE}/search", search, READ, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"POST {_ONE}/reindex", reindex, WRITE, stateful=True, id_form=VECTOR_STORE_ID),
    )


class StoreFileRoutes:
    """The routes of the files of a store."""

    def __init__(self, files: StoreFiles, bodies: BodyReader) -> None:
        self._files = files
        self._bodies = bodies

    async def add(self, exchange: Exchange, store_id: str) -> None:
        """Add a file."""
        new = parse_store_file(await self._bodies.read(exchange))
        await _send(exchange, store_file_object(await self._files.add(exchange.caller, store_id, new)))

    async def list(self, exchange: Exchange, store_id: str) -> None:
        """A part of the list of files."""
        query = exchange.query()
        files, has_more = await self._files.list(
            exchange.caller, store_id, query.page(), status=_status(query)
        )
        await _send_files(exchange, files, has_more=has_more)

    async def retrieve(self, exchange: Exchange, store_id: str, file_id: str) -> None:
        """One file."""
        file = await self._files.retrieve(exchange.caller, store_id, file_id)
        await _send(exchange, store_file_object(file))

    async def set_attributes(self, exchange: Exchange, store_id: str, file_id: str) -> None:
        """Replace the attributes."""
        attributes = parse_attributes(await self._bodies.read(exchange))
        file = await self._files.set_attributes(exchange.caller, store_id, file_id, attributes)
        await _send(exchange, store_file_object(file))

    async def content(self, exchange: Exchange, store_id: str, file_id: str) -> None:
        """The text of a file, in chunks."""
        with self._bodies.lifetimes.lease(exchange.receive):
            async with aclosing(self._files.content(exchange.caller, store_id, file_id)) as portions:
                first = await anext(portions, ())  # errors are an answer of their own
                await exchange.send_media(_rendered(first, portions), JSON)

    async def delete(self, exchange: Exchange, store_id: str, file_id: str) -> None:
        """Remove a file from the store."""
        await self._files.delete(exchange.caller, store_id, file_id)
        await _send_deleted(exchange, file_id, "vector_store.file.deleted")

    ROUTES: ClassVar = (
        Route(f"POST {_ONE}/files", add, WRITE, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"GET {_ONE}/files", list, READ, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"GET {_FILE}", retrieve, READ, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"POST {_FILE}", set_attributes, WRITE, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"DELETE {_FILE}", delete, DELETE, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"GET {_FILE}/content", content, READ, stateful=True, id_form=VECTOR_STORE_ID),
    )


class FileBatchRoutes:
    """The routes of batches of files."""

    def __init__(self, files: StoreFiles, bodies: BodyReader) -> None:
        self._files = files
        self._bodies = bodies

    async def add(self, exchange: Exchange, store_id: str) -> None:
        """Add many files."""
        with self._bodies.lifetimes.lease(exchange.receive) as lease:
            new = parse_file_batch(await self._bodies.read_decodable(exchange, lease))
        await _send(exchange, batch_object(await self._files.add_batch(exchange.caller, store_id, new)))

    async def retrieve(self, exchange: Exchange, store_id: str, batch_id: str) -> None:
        """One batch."""
        batch = await self._files.batch(exchange.caller, store_id, batch_id)
        await _send(exchange, batch_object(batch))

    async def cancel(self, exchange: Exchange, store_id: str, batch_id: str) -> None:
        """Cancel the files that are in progress."""
        batch = await self._files.cancel_batch(exchange.caller, store_id, batch_id)
        await _send(exchange, batch_object(batch))

    async def list_files(self, exchange: Exchange, store_id: str, batch_id: str) -> None:
        """A part of the list of its files."""
        query = exchange.query()
        files, has_more = await self._files.list(
            exchange.caller, store_id, query.page(), status=_status(query), batch=batch_id
        )
        await _send_files(exchange, files, has_more=has_more)

    ROUTES: ClassVar = (
        Route(f"POST {_ONE}/file_batches", add, WRITE, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"GET {_BATCH}", retrieve, READ, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"POST {_BATCH}/cancel", cancel, WRITE, stateful=True, id_form=VECTOR_STORE_ID),
        Route(f"GET {_BATCH}/files", list_files, READ, stateful=True, id_form=VECTOR_STORE_ID),
    )


def _status(query: Query) -> FileStatus | None:
    status = query.text("filter")
    if status is not None and status not in get_args(FileStatus):
        known = ", ".join(f"'{name}'" for name in get_args(FileStatus))
        message = f"Invalid value for 'filter': '{status[:100]}'; use one of {known}."
        raise InvalidRequest(message, param="filter", code="invalid_value")
    return cast("FileStatus | None", status)


async def _send(exchange: Exchange, wire: VectorStoreObject | StoreFileObject | FileBatchObject) -> None:
    headers: tuple[Header, ...] = ()
    if wire.status == "in_progress":
        headers = ((b"openai-poll-after-ms", b"%d" % POLL_AFTER_MS),)
    await exchange.send_json(msgspec.json.encode(wire), headers=headers)


async def _send_files(exchange: Exchange, files: Sequence[VectorStoreFile], *, has_more: bool) -> None:
    await _send_list(exchange, [store_file_object(file) for file in files], has_more=has_more)


async def _send_list(
    exchange: Exchange, data: Sequence[VectorStoreObject] | Sequence[StoreFileObject], *, has_more: bool
) -> None:
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    wire = _List(data=data, first_id=first, last_id=last, has_more=has_more)
    await exchange.send_json(msgspec.json.encode(wire))


async def _send_deleted(exchange: Exchange, object_id: str, kind: str) -> None:
    await exchange.send_json(msgspec.json.encode(_Deleted(id=object_id, object=kind)))


async def _rendered(
    first: Sequence[FoundChunk], rest: AsyncGenerator[Sequence[FoundChunk], None]
) -> AsyncGenerator[bytes, None]:
    yield b'{"object":"vector_store.file_content.page","data":['
    yield _texts(first)
    async for portion in rest:
        yield b"," + _texts(portion)
    yield b'],"has_more":false,"next_page":null}'


def _texts(chunks: Sequence[FoundChunk]) -> bytes:
    return b",".join(msgspec.json.encode(FoundText(text=chunk.text)) for chunk in chunks)
