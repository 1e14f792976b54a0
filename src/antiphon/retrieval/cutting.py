"""`FileCutter`: the chunks of a file with their terms, read and cut in a child process, unless it is short.

All of it is expensive, and nothing of it may hold the event loop. So the result stays encoded, in portions
that are decoded one by one.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from msgspec import Raw, Struct

from antiphon.documents.document import Document, Unreadable
from antiphon.documents.reader import DocumentReader, check_size, read_at_once
from antiphon.documents.reading import ReadFault, read_document
from antiphon.isolated.frames import encode_in_pieces
from antiphon.retrieval.token_chunks import TextChunk, cut_document

CUT = "antiphon.retrieval.cutting:cut_encoded"
PORTION_CHUNKS = 16
PORTION_TOKENS = 12_800
"""A portion of large chunks has fewer of them: to decode and to save one takes a few milliseconds."""
MAX_AT_ONCE_BYTES = 8 * 1024
"""A short text is cut at once, which takes a few milliseconds: to pass it to a child takes longer."""


class CutJob(Struct, frozen=True, array_like=True):
    """A file to read and to cut; the first `skipped` chunks are not wanted."""

    data: bytes
    name: str
    max_tokens: int
    overlap_tokens: int
    skipped: int = 0


class CutChunk(Struct, frozen=True, array_like=True):
    """A chunk; its terms are separated by spaces."""

    chunk: TextChunk
    terms: str


class CutResult(Struct, frozen=True, array_like=True, tag="cut"):
    """The chunks of a file in portions, each of them encoded."""

    portions: list[Raw]


_JOBS = msgspec.msgpack.Decoder(CutJob)
_RESULTS = msgspec.msgpack.Decoder(CutResult | ReadFault)
_PORTIONS = msgspec.msgpack.Decoder(list[CutChunk])


class FileCutter:
    """Cuts files on behalf of tenants."""

    def __init__(self, reader: DocumentReader) -> None:
        self._reader = reader

    async def cut(self, tenant: str, job: CutJob) -> Iterator[Sequence[CutChunk]]:
        """The chunks, in portions. Raises `Unreadable`, or `Overloaded` if too many files wait."""
        check_size(len(job.data))
        if len(job.data) <= MAX_AT_ONCE_BYTES and (document := read_at_once(job.data, job.name)) is not None:
            return iter(list(_portions(document, job)))
        encoded = encode_in_pieces(msgspec.structs.replace(job, data=b""), job.data)
        result = _RESULTS.decode(await self._reader.run(tenant, CUT, *encoded))
        if isinstance(result, ReadFault):
            raise Unreadable(result.code, result.message)
        return map(_PORTIONS.decode, result.portions)


def cut_encoded(payload: bytes) -> bytes:
    """The work of a child: a `CutJob`."""
    job = _JOBS.decode(payload)
    try:
        document = read_document(job.data, job.name)
    except Unreadable as error:
        return msgspec.msgpack.encode(ReadFault(error.code, error.message))
    portions = [Raw(msgspec.msgpack.encode(portion)) for portion in _portions(document, job)]
    return msgspec.msgpack.encode(CutResult(portions))


def _portions(document: Document, job: CutJob) -> Iterator[list[CutChunk]]:
    chunks = islice(cut_document(document, job.max_tokens, job.overlap_tokens), job.skipped, None)
    size = max(1, min(PORTION_CHUNKS, PORTION_TOKENS // job.max_tokens))
    while portion := [CutChunk(each, " ".join(each.terms())) for each in islice(chunks, size)]:
        yield portion
