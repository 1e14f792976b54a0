"""The operations of the Containers API: containers of a tenant, and the files in them."""

import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from antiphon.caller import Caller
from antiphon.errors import Forbidden, InvalidRequest, NotFound, Unsupported
from antiphon.protocol.containers import (
    CODE_INTERPRETER,
    ContainerExpiry,
    ContainerFileObject,
    ContainerObject,
    NewContainer,
)
from antiphon.protocol.files import check_filename
from antiphon.sandbox.port import DATA_FOLDER, SLICE_BYTES, SandboxFile, SandboxFileError, SandboxSession
from antiphon.service.containers.containers import Container, Containers
from antiphon.service.containers.known_files import KnownFile
from antiphon.store.base import Page

UPLOADS_FOLDER = ".uploads"
"""Where a file is written while it arrives. Folders that begin with a dot are not listed."""
Listed = TypeVar("Listed", Container, KnownFile)


@dataclass(frozen=True, slots=True)
class ContainersApi:
    """The containers of all tenants. `containers`: None if the server runs no code."""

    containers: Containers | None = None

    def of(self, caller: Caller) -> Containers:
        """The containers. Raises if there are none, or the key may not use them."""
        if self.containers is None:
            message = (
                "This server has no containers: they need bubblewrap, a store, and `interpreter.sandbox`."
            )
            raise Unsupported(message, code="containers_not_served")
        if not caller.may_use(CODE_INTERPRETER):
            message = f"This API key may not use containers: it may not use the tool '{CODE_INTERPRETER}'."
            raise Forbidden(message, code="tool_not_allowed")
        return self.containers

    async def create(self, caller: Caller, new: NewContainer) -> ContainerObject:
        """A new container. Its files are copied when it is used for the first time."""
        containers = self.of(caller)
        memory = containers.check_memory(new.memory_limit, "memory_limit")
        try:
            await containers.check_files(caller.tenant, new.file_ids or ())
        except NotFound as error:
            raise NotFound(error.message, param="file_ids", code=error.code) from None
        container = await containers.create(
            caller.tenant,
            new.name,
            memory_limit=memory,
            idle_minutes=(new.expires_after or ContainerExpiry()).minutes,
            file_ids=tuple(new.file_ids or ()),
        )
        return _container_object(container, usable=True)

    def retrieve(self, caller: Caller, container_id: str) -> ContainerObject:
        """One container. If it has not expired, this counts as a use."""
        containers = self.of(caller)
        container = containers.retrieve(caller.tenant, container_id)
        usable = containers.is_usable(container)
        if usable:
            container = containers.usable(caller.tenant, container_id)
        return _container_object(container, usable=usable)

    def list(self, caller: Caller, page: Page, name: str | None) -> tuple[list[ContainerObject], bool]:
        """A part of the list of containers, and whether more follows."""
        containers = self.of(caller)
        owned = [found for found in containers.list(caller.tenant) if name is None or found.name == name]
        shown, has_more = _part(owned, page, lambda container: container.id)
        return [_container_object(one, usable=containers.is_usable(one)) for one in shown], has_more

    async def delete(self, caller: Caller, container_id: str) -> None:
        """End a container; its files are lost."""
        await self.of(caller).delete(caller.tenant, container_id)

    def check_usable(self, caller: Caller, container_id: str) -> int:
        """The most bytes that a file of the container may have. Raises if it cannot be used."""
        containers = self.of(caller)
        containers.usable(caller.tenant, container_id)
        return containers.disk_bytes

    async def add_file(
        self,
        caller: Caller,
        container_id: str,
        content: AsyncIterable[bytes],
        filename: Callable[[], str],
    ) -> ContainerFileObject:
        """Write a file while it arrives. `filename` is asked when the content has ended. The file is there
        when it is complete."""
        containers = self.of(caller)
        container = containers.usable(caller.tenant, container_id)
        arriving = f"{UPLOADS_FOLDER}/{secrets.token_hex(16)}"
        async with containers.session(container) as session:
            try:
                size = await _write(session, arriving, content)
                name = check_filename(filename(), "file")
                await session.move(arriving, name)
            except BaseException as error:
                with suppress(SandboxFileError):
                    await session.delete(arriving)
                if isinstance(error, SandboxFileError):
                    message = f"The file cannot be written into the container: {error}."
                    raise InvalidRequest(message, param="file", code="container_file_error") from None
                raise
            container.known.add([SandboxFile(name, size)], "user")
        return _file_object(container, container.known.by_name[name])

    async def copy_file(self, caller: Caller, container_id: str, file_id: str) -> ContainerFileObject:
        """Copy a stored file into a container."""
        containers = self.of(caller)
        container = containers.usable(caller.tenant, container_id)
        try:
            name = await containers.copy(container, file_id)
        except NotFound as error:
            raise NotFound(error.message, param="file_id", code=error.code) from None
        except InvalidRequest as error:
            raise InvalidRequest(error.message, param="file_id", code=error.code) from None
        return _file_object(container, container.known.by_name[name])

    async def files(
        self, caller: Caller, container_id: str, page: Page
    ) -> tuple[Sequence[ContainerFileObject], bool]:
        """A part of the list of files, and whether more follows."""
        container = self.of(caller).usable(caller.tenant, container_id)
        await self._update(caller, container)
        newest = sorted(container.known.by_name.values(), key=lambda file: file.id, reverse=True)
        shown, has_more = _part(newest, page, lambda file: file.id)
        return [_file_object(container, file) for file in shown], has_more

    async def file(self, caller: Caller, container_id: str, file_id: str) -> ContainerFileObject:
        """One file, without its content."""
        container = self.of(caller).usable(caller.tenant, container_id)
        return _file_object(container, await self._known(caller, container, file_id))

    async def content(self, caller: Caller, container_id: str, file_id: str) -> AsyncGenerator[bytes, None]:
        """The content of a file in slices, at least one. A file that becomes shorter ends early."""
        containers = self.of(caller)
        container = containers.usable(caller.tenant, container_id)
        known = await self._known(caller, container, file_id)
        offset = 0
        async with containers.session(container) as session:
            while True:
                try:
                    piece = await session.read(known.name, offset)
                except SandboxFileError as error:
                    message = f"The file '{file_id}' cannot be read: {error}."
                    raise InvalidRequest(message, param="file_id", code="container_file_error") from None
                if offset == 0 or piece:
                    yield piece
                offset += len(piece)
                if len(piece) < SLICE_BYTES or offset > containers.disk_bytes:
                    return

    async def delete_file(self, caller: Caller, container_id: str, file_id: str) -> None:
        """Delete a file."""
        containers = self.of(caller)
        container = containers.usable(caller.tenant, container_id)
        known = await self._known(caller, container, file_id)
        async with containers.session(container) as session:
            try:
                await session.delete(known.name)
            except SandboxFileError:
                raise _no_file(file_id) from None
        container.known.by_name.pop(known.name, None)

    async def _update(self, caller: Caller, container: Container) -> None:
        async with self.of(caller).session(container) as session:
            container.known.update(await session.files())

    async def _known(self, caller: Caller, container: Container, file_id: str) -> KnownFile:
        await self._update(caller, container)
        found = container.known.find(file_id)
        if found is None:
            raise _no_file(file_id)
        return found


async def _write(session: SandboxSession, name: str, content: AsyncIterable[bytes]) -> int:
    """Write the content in slices; its size."""
    held, offset = bytearray(), 0
    await session.write(name, b"")
    async for piece in content:
        held += piece
        while len(held) >= SLICE_BYTES:
            await session.write(name, bytes(held[:SLICE_BYTES]), offset)
            offset += SLICE_BYTES
            del held[:SLICE_BYTES]
    if held:
        await session.write(name, bytes(held), offset)
    return offset + len(held)


def _part(newest: Sequence[Listed], page: Page, id_of: Callable[[Listed], str]) -> tuple[list[Listed], bool]:
    """A part of a list. Ids sort by time, so that an object that is gone still has its place."""
    ordered = list(newest) if page.order == "desc" else list(reversed(newest))
    after = page.after
    if after is not None:
        ordered = [
            one for one in ordered if (id_of(one) < after) == (page.order == "desc") and id_of(one) != after
        ]
    return ordered[: page.limit], len(ordered) > page.limit


def _no_file(file_id: str) -> NotFound:
    return NotFound(
        f"The container has no file '{file_id[:100]}'.", param="file_id", code="container_file_not_found"
    )


def _container_object(container: Container, *, usable: bool) -> ContainerObject:
    return ContainerObject(
        id=container.id,
        created_at=int(container.created_at),
        status="running" if usable else "expired",
        expires_after=ContainerExpiry(minutes=container.idle_minutes),
        last_active_at=int(container.last_active_at),
        memory_limit=container.memory_limit,
        name=container.name,
    )


def _file_object(container: Container, file: KnownFile) -> ContainerFileObject:
    return ContainerFileObject(
        id=file.id,
        bytes=file.size_bytes,
        container_id=container.id,
        created_at=int(file.created_at),
        path=f"{DATA_FOLDER}/{file.name}",
        source=file.source,
    )
