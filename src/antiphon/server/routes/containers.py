"""``/v1/containers``: containers, and the files in them."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing
from typing import ClassVar

import msgspec
from msgspec import Struct

from antiphon.caller import DELETE, READ, WRITE
from antiphon.errors import InvalidRequest
from antiphon.protocol.containers import (
    ContainerFileObject,
    ContainerObject,
    parse_new_container,
    parse_stored_file,
)
from antiphon.protocol.files import OCTETS
from antiphon.protocol.ids import CONTAINER_ID
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.multipart import FormReader, MultipartForm
from antiphon.server.query import Query
from antiphon.server.routing import Route
from antiphon.service.containers.api import ContainersApi
from antiphon.store.base import Page

_JSON = b"application/json"
_ONE = "/v1/containers/{id}"
_FILE = f"{_ONE}/files/{{file_id}}"
_NO_SNIFFING = ((b"content-disposition", b"attachment"), (b"x-content-type-options", b"nosniff"))


class _List(Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: Sequence[ContainerObject] | Sequence[ContainerFileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ContainerRoutes:
    """The routes of containers."""

    def __init__(self, api: ContainersApi, bodies: BodyReader) -> None:
        self._api = api
        self._bodies = bodies

    async def create(self, exchange: Exchange) -> None:
        """A new container."""
        new = parse_new_container(await self._bodies.read(exchange))
        await exchange.send_json(msgspec.json.encode(await self._api.create(exchange.caller, new)))

    async def list(self, exchange: Exchange) -> None:
        """A part of the list of containers."""
        query = exchange.query()
        shown, has_more = self._api.list(exchange.caller, _page(query, "cntr_"), query.text("name"))
        await _send_list(exchange, shown, has_more=has_more)

    async def retrieve(self, exchange: Exchange, container_id: str) -> None:
        """One container."""
        await exchange.send_json(msgspec.json.encode(self._api.retrieve(exchange.caller, container_id)))

    async def delete(self, exchange: Exchange, container_id: str) -> None:
        """End a container."""
        await self._api.delete(exchange.caller, container_id)
        await _send_deleted(exchange, container_id, "container.deleted")

    ROUTES: ClassVar = (
        Route("POST /v1/containers", create, WRITE, stateful=True),
        Route("GET /v1/containers", list, READ, stateful=True),
        Route(f"GET {_ONE}", retrieve, READ, stateful=True, id_form=CONTAINER_ID),
        Route(f"DELETE {_ONE}", delete, DELETE, stateful=True, id_form=CONTAINER_ID),
    )


class ContainerFileRoutes:
    """The routes of the files in a container."""

    def __init__(self, api: ContainersApi, bodies: BodyReader, forms: FormReader) -> None:
        self._api = api
        self._bodies = bodies
        self._forms = forms

    async def add(self, exchange: Exchange, container_id: str) -> None:
        """Add a file: a form with the file, or JSON with the id of a stored one."""
        caller, head = exchange.caller, exchange.head
        max_bytes = self._api.check_usable(caller, container_id)
        if head.content_type.lower().startswith(_JSON):
            file_id = parse_stored_file(await self._bodies.read(exchange))
            with self._bodies.lifetimes.lease():
                file = await self._api.copy_file(caller, container_id, file_id)
        else:
            with self._forms.receive(exchange, max_bytes) as pieces:
                form = MultipartForm(pieces, head.content_type, "file", int(head.content_length or 0))
                file = await self._api.add_file(caller, container_id, form.content(), lambda: _filename(form))
        await exchange.send_json(msgspec.json.encode(file))

    async def list(self, exchange: Exchange, container_id: str) -> None:
        """A part of the list of files."""
        page = _page(exchange.query(), "cfile_")
        with self._bodies.lifetimes.lease(exchange.receive):
            shown, has_more = await self._api.files(exchange.caller, container_id, page)
        await _send_list(exchange, shown, has_more=has_more)

    async def retrieve(self, exchange: Exchange, container_id: str, file_id: str) -> None:
        """One file, without its content."""
        with self._bodies.lifetimes.lease(exchange.receive):
            file = await self._api.file(exchange.caller, container_id, file_id)
        await exchange.send_json(msgspec.json.encode(file))

    async def content(self, exchange: Exchange, container_id: str, file_id: str) -> None:
        """The content of a file."""
        with self._bodies.lifetimes.lease(exchange.receive):
            async with aclosing(self._api.content(exchange.caller, container_id, file_id)) as pieces:
                first = await anext(pieces)  # errors are an answer of their own
                await exchange.send_media(_chained(first, pieces), OCTETS, 200, _NO_SNIFFING)

    async def delete(self, exchange: Exchange, container_id: str, file_id: str) -> None:
        """Delete a file."""
        await self._api.delete_file(exchange.caller, container_id, file_id)
        await _send_deleted(exchange, file_id, "container.file.deleted")

    ROUTES: ClassVar = (
        Route(f"POST {_ONE}/files", add, WRITE, stateful=True, id_form=CONTAINER_ID),
        Route(f"GET {_ONE}/files", list, READ, stateful=True, id_form=CONTAINER_ID),
        Route(f"GET {_FILE}", retrieve, READ, stateful=True, id_form=CONTAINER_ID),
        Route(f"GET {_FILE}/content", content, READ, stateful=True, id_form=CONTAINER_ID),
        Route(f"DELETE {_FILE}", delete, DELETE, stateful=True, id_form=CONTAINER_ID),
    )


def _filename(form: MultipartForm) -> str:
    if form.filename is None:
        raise InvalidRequest(
            "'file' must be sent as a file, with a filename.", param="file", code="invalid_filename"
        )
    return form.filename


def _page(query: Query, prefix: str) -> Page:
    page = query.page()
    if page.after is not None and not page.after.startswith(prefix):
        message = f"Invalid 'after': '{page.after[:100]}'. Expected an ID that begins with '{prefix}'."
        raise InvalidRequest(message, param="after", code="invalid_value")
    return page


async def _chained(first: bytes, rest: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    yield first
    async for piece in rest:
        yield piece


async def _send_list(
    exchange: Exchange,
    shown: Sequence[ContainerObject] | Sequence[ContainerFileObject],
    *,
    has_more: bool,
) -> None:
    wire = _List(
        data=shown,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
        has_more=has_more,
    )
    await exchange.send_json(msgspec.json.encode(wire))


async def _send_deleted(exchange: Exchange, id_: str, kind: str) -> None:
    await exchange.send_json(msgspec.json.encode({"id": id_, "object": kind, "deleted": True}))
