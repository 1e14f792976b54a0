"""Files: stored, listed, read and deleted."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.caller import Caller
from antiphon.errors import InvalidRequest
from antiphon.protocol.files import FileObject, NewFile
from antiphon.protocol.ids import Clock, IdSource
from antiphon.service.files.contents import Contents
from antiphon.store.files import FilePage, FileStore, StoredFile

DEFAULT_MAX_FILE_BYTES = 512 * 1024 * 1024


class IncomingFile(Protocol):
    """A file that arrives. What the client says about it may follow its content."""

    @property
    def declared_bytes(self) -> int:
        """About how many bytes will arrive; 0 if that is not known."""
        ...

    def content(self) -> AsyncIterable[bytes]:
        """The content, in pieces of any size."""
        ...

    def description(self) -> NewFile:
        """What the client says about it, when the content has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Files:
    """The operations on files."""

    store: FileStore
    contents: Contents
    ids: IdSource
    clock: Clock
    max_bytes: int = DEFAULT_MAX_FILE_BYTES

    async def create(self, caller: Caller, incoming: IncomingFile) -> StoredFile:
        """Store a file while it arrives. If it does not arrive completely, nothing is stored."""
        expected = min(incoming.declared_bytes, self.max_bytes)
        async with self.contents.write(caller.tenant, self.max_bytes, expected) as writer:
            async for piece in incoming.content():
                await writer.write(piece)
            new = incoming.description()
            if not writer.size:
                raise InvalidRequest("The file is empty.", param="file", code="empty_file")
            hash_ = await writer.finish()
            file = self.new_file(new, writer.key, writer.size, hash_)
            unneeded = await self.store.add_file(caller.tenant, file, self.contents.quota)
        await self.contents.delete(unneeded)
        return file

    def new_file(self, new: NewFile, key: str, size: int, hash_: str) -> StoredFile:
        """The row of a file whose object is written."""
        now = int(self.clock())
        return StoredFile(
            id=self.ids.new("file", "-"),
            filename=new.filename,
            purpose=new.purpose,
            media_type=new.media_type,
            bytes=size,
            hash=hash_,
            created_at=now,
            expires_at=None if new.lifetime is None else now + new.lifetime,
            key=key,
        )

    async def retrieve(self, caller: Caller, file_id: str) -> StoredFile:
        """One file."""
        return await self.store.file(caller.tenant, file_id)

    async def list(self, caller: Caller, page: FilePage) -> tuple[Sequence[StoredFile], bool]:
        """A part of the list of files, and whether more follows."""
        return await self.store.list_files(caller.tenant, page)

    def read(self, file: StoredFile, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes [start, end) of a retrieved file."""
        return self.contents.read(file.key, start, file.bytes if end is None else end)

    async def content(self, tenant: str, file_id: str, max_bytes: int) -> tuple[str, bytes]:
        """The name and the whole content of a file. Raises `InvalidRequest` if it is larger than this."""
        file = await self.store.file(tenant, file_id)
        if file.bytes > max_bytes:
            message = (
                f"The file '{file_id}' has {file.bytes:,} bytes; at most {max_bytes:,} can be used here."
            )
            raise InvalidRequest(message, param="file_id", code="file_too_large")
        return file.filename, b"".join([piece async for piece in self.read(file)])

    async def size(self, tenant: str, file_id: str) -> int:
        """The bytes of a file."""
        return (await self.store.file(tenant, file_id)).bytes

    async def delete(self, caller: Caller, file_id: str) -> None:
        """Delete a file; its content too, unless another file of the tenant has the same."""
        await self.contents.delete(await self.store.delete_file(caller.tenant, file_id))


def file_object(file: StoredFile) -> FileObject:
    """The wire form of a file."""
    return FileObject(
        id=file.id,
        bytes=file.bytes,
        created_at=file.created_at,
        expires_at=file.expires_at,
        filename=file.filename,
        purpose=file.purpose,
    )
