"""A file of this machine, as it is stored."""

import asyncio
import mimetypes
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from antiphon.protocol.files import OCTETS, NewFile, check_filename, lifetime_of
from antiphon.store.blobs.port import PIECE_BYTES

Advance = Callable[[int], None]
"""Called with the number of bytes that were read."""


class LocalFile:
    """A file of this machine, as it is stored."""

    def __init__(self, path: Path, purpose: str, lifetime: int | None, advance: Advance) -> None:
        self._path = path
        self._advance = advance
        self.declared_bytes = path.stat().st_size
        self._description = NewFile(
            filename=check_filename(path.name, "file"),
            purpose=purpose,
            media_type=mimetypes.guess_type(path.name)[0] or OCTETS,
            lifetime=lifetime_of(purpose, lifetime),
        )

    async def content(self) -> AsyncGenerator[bytes, None]:
        """The content, read in a thread."""
        with self._path.open("rb", buffering=0) as file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                self._advance(len(piece))
                yield piece

    def description(self) -> NewFile:
        """What is stored about it."""
        return self._description
