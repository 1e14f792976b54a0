"""Files are read and cut in a child process."""

from collections.abc import AsyncGenerator

import pytest

from antiphon.documents.document import Unreadable
from antiphon.documents.reader import DocumentReader
from antiphon.isolated.pool import IsolatedPool, PoolLimits
from antiphon.retrieval.cutting import PORTION_CHUNKS, CutJob, FileCutter

LIMITS = PoolLimits(processes=1, cpu_seconds=20, wall_seconds=60.0, memory_bytes=768 * 2**20)
TEXT = "\n\n".join(f"Paragraph {number} " + "word " * 60 for number in range(100)).encode()


@pytest.fixture
async def cutter() -> AsyncGenerator[FileCutter, None]:
    pool = IsolatedPool(LIMITS)
    yield FileCutter(DocumentReader(pool))
    await pool.aclose()


async def test_chunks_come_in_portions_with_their_terms(cutter: FileCutter) -> None:
    portions = list(await cutter.cut("t", CutJob(TEXT, "a.txt", 100, 0)))
    assert [len(portion) for portion in portions[:-1]] == [PORTION_CHUNKS] * (len(portions) - 1)
    chunks = [chunk for portion in portions for chunk in portion]
    assert chunks[0].chunk.text.startswith("Paragraph 0 word")
    assert chunks[0].terms.split()[:3] == ["paragraph", "0", "word"]


async def test_the_next_attempt_skips_what_is_saved(cutter: FileCutter) -> None:
    everything = [
        chunk for portion in await cutter.cut("t", CutJob(TEXT, "a.txt", 100, 0)) for chunk in portion
    ]
    rest = [
        chunk for portion in await cutter.cut("t", CutJob(TEXT, "a.txt", 100, 0, 16)) for chunk in portion
    ]
    assert rest == everything[16:]
    assert list(await cutter.cut("t", CutJob(TEXT, "a.txt", 100, 0, len(everything)))) == []


async def test_a_file_without_text_says_why(cutter: FileCutter) -> None:
    with pytest.raises(Unreadable) as raised:
        await cutter.cut("t", CutJob(b"\x00\x01\x02\x03" * 100, "a.bin", 100, 0))
    assert raised.value.code == "unsupported_file"


async def test_a_portion_of_large_chunks_has_fewer_of_them(cutter: FileCutter) -> None:
    portions = list(await cutter.cut("t", CutJob(TEXT * 4, "a.txt", 4096, 0)))
    assert max(map(len, portions)) == 3
