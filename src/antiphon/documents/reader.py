"""`DocumentReader`: the text of files on behalf of tenants. Cheap texts are read at once, all others in a
child process with limits: a hostile file costs one child."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import msgspec

from antiphon.documents.detection import glance
from antiphon.documents.document import MAX_TEXT_CHARS, Document, Unreadable
from antiphon.documents.formats.texts import read_text
from antiphon.documents.reading import ImageJob, ImageResult, ReadFault, ReadJob, ReadResult
from antiphon.isolated.frames import encode_in_pieces
from antiphon.isolated.pool import IsolatedPool, PoolLimits, WorkExceeded

READ = "antiphon.documents.reading:read_encoded"
DRAW = "antiphon.documents.reading:draw_encoded"
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TEXT_AT_ONCE_BYTES = 256 * 1024
DEFAULT_LIMITS = PoolLimits(processes=2, cpu_seconds=20, wall_seconds=60.0, memory_bytes=768 * 2**20)
_RESULTS = msgspec.msgpack.Decoder(ReadResult | ReadFault)
_IMAGES = msgspec.msgpack.Decoder(ImageResult | ReadFault)
_EXCEEDED: dict[str, str] = {
    "cpu": "The file takes too much time to read.",
    "time": "The file takes too much time to read.",
    "memory": "The file takes too much memory to read.",
    "crash": "The file cannot be read: it makes its parser crash.",
}


class DocumentReader:
    """Reads files. The pool belongs to the caller."""

    def __init__(self, pool: IsolatedPool) -> None:
        self._pool = pool

    async def read(
        self, tenant: str, data: bytes, name: str = "", max_chars: int = MAX_TEXT_CHARS
    ) -> Document:
        """The text of a file; the text of a large file is cut off after `max_chars`: to decode 40 MB of it
        would hold the event loop. Raises `Unreadable`, or `Overloaded` if too many files wait."""
        check_size(len(data))
        if (document := read_at_once(data, name)) is not None:
            return document
        encoded = encode_in_pieces(ReadJob(b"", name, max_chars), data)
        result = _RESULTS.decode(await self.run(tenant, READ, *encoded))
        if isinstance(result, ReadFault):
            raise Unreadable(result.code, result.message)
        return result.document

    async def draw(self, tenant: str, data: bytes, pages: list[int]) -> list[bytes]:
        """Pages of a PDF file as JPEG images. Raises the same."""
        encoded = encode_in_pieces(ImageJob(b"", pages), data)
        result = _IMAGES.decode(await self.run(tenant, DRAW, *encoded))
        if isinstance(result, ReadFault):
            raise Unreadable(result.code, result.message)
        return result.images

    async def run(self, tenant: str, function: str, *payload: bytes) -> memoryview:
        """The result of a function that reads a file, in a child process. Raises the same."""
        self._pool.check_room(tenant)
        try:
            return await self._pool.run(tenant, function, *payload)
        except WorkExceeded as error:
            raise Unreadable("invalid_file", _EXCEEDED[error.reason]) from None


class BlockingReader:
    """The same for a thread without an event loop; use it in a `with` statement."""

    def __init__(self, limits: PoolLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)
        self._pool = IsolatedPool(self._limits)
        return self

    def __exit__(self, *raised: object) -> None:
        self._runner.run(self._pool.aclose())
        self._runner.close()

    def read(self, data: bytes, name: str = "") -> Document:
        """The text of a file. Raises `Unreadable`."""
        return self._runner.run(DocumentReader(self._pool).read("", data, name))


def read_blocking(data: bytes, name: str = "") -> Document:
    """The text of one file. Raises `Unreadable`."""

    def read() -> Document:
        with BlockingReader() as reader:
            return reader.read(data, name)

    with ThreadPoolExecutor(1) as thread:  # the caller's own thread may run an event loop
        return thread.submit(read).result()


def check_size(size: int) -> None:
    """Raise `Unreadable` for a file that is too large to be read."""
    if size > MAX_FILE_BYTES:
        raise Unreadable("invalid_file", f"The file has {size:,} bytes; the limit is {MAX_FILE_BYTES:,}.")


def read_at_once(data: bytes, name: str) -> Document | None:
    """A short text in UTF-8; None: a child reads it. Raises `Unreadable` for what no reader is for."""
    kind = glance(data, name)
    if kind not in ("code", "markdown", "text") or len(data) > MAX_TEXT_AT_ONCE_BYTES:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return read_text(data, name, kind)
