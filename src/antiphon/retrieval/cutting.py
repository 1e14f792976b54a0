"""`FileCutter`: the chunks of a file with their terms, read and cut in a child process.

All of it is expensive, and nothing of it may hold the event loop. So the result stays encoded, in portions
that are decoded one by one.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from msgspec import Raw, Struct

from antiphon.documents.document import Unreadable
from antiphon.documents.reader import DocumentReader, check_size
from antiphon.documents.reading import ReadFault, read_document
from antiphon.retrieval.token_chunks import TextChunk, cut_document

CUT = "antiphon.retrieval.cutting:cut_encoded"
PORTION_CHUNKS = 16


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
        result = _RESULTS.decode(await self._reader.run(tenant, CUT, msgspec.msgpack.encode(job)))
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
    chunks = islice(cut_document(document, job.max_tokens, job.overlap_tokens), job.skipped, None)
    portions = iter(lambda: [_encodable(chunk) for chunk in islice(chunks, PORTION_CHUNKS)], [])
    return msgspec.msgpack.encode(CutResult([Raw(msgspec.msgpack.encode(portion)) for portion in portions]))


def _encodable(chunk: TextChunk) -> CutChunk:
    return CutChunk(chunk, " ".join(chunk.terms()))
