"""Real child processes: hostile files cost one of them, and give an error that says why."""

import asyncio
import os
import zlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from antiphon.documents.document import Unreadable
from antiphon.documents.reader import BlockingReader, DocumentReader, read_blocking
from antiphon.isolated.pool import IsolatedPool, PoolLimits
from tests.documents.files import (
    SAMPLES,
    docx_file,
    hide_package,
    rezipped,
    scanned_pdf,
    xlsx_file,
    zip_file,
)
from tests.documents.pdf_file import pdf_file
from tests.fuzz.documents.samples import xls_file

LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    + ']><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r>'
    "<w:t>&a11;</w:t></w:r></w:p></w:body></w:document>"
).encode()


@pytest.fixture
async def reader() -> AsyncGenerator[DocumentReader, None]:
    pool = IsolatedPool(PoolLimits(processes=1, cpu_seconds=5, wall_seconds=60.0, memory_bytes=512 * 2**20))
    yield DocumentReader(pool)
    await pool.aclose()


async def fault(reader: DocumentReader, data: bytes, name: str = "") -> str:
    with pytest.raises(Unreadable) as caught:
        await reader.read("t", data, name)
    return caught.value.message


@pytest.mark.parametrize("name", SAMPLES)
async def test_every_format_is_read(reader: DocumentReader, name: str) -> None:
    assert (await reader.read("t", SAMPLES[name], name)).text.strip()


@pytest.mark.requirement("DOCUMENTS/limits-hostile")
async def test_a_zip_bomb_is_rejected(reader: DocumentReader) -> None:
    bomb = zip_file({"word/document.xml": bytes(300 * 2**20)})
    assert len(bomb) < 2**20
    assert "would unpack to too much data" in await fault(reader, bomb)
    assert await reader.read("t", docx_file())


async def test_a_zip_bomb_that_lies_about_its_size_is_rejected(reader: DocumentReader) -> None:
    size = 150 * 2**20
    bomb = zip_file({"word/document.xml": bytes(size)})
    lying = bomb.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    assert lying != bomb
    assert await fault(reader, lying)
    assert await reader.read("t", docx_file())


@pytest.mark.requirement("DOCUMENTS/limits-hostile")
async def test_a_billion_laughs_cost_nothing(reader: DocumentReader) -> None:
    laughing = rezipped(docx_file(), {"word/document.xml": LAUGHS})
    assert await fault(reader, laughing)
    assert await reader.read("t", docx_file())


async def test_a_sheet_that_pretends_to_be_huge_is_an_error_or_small(reader: DocumentReader) -> None:
    sheet = (
        b'<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        b'<sheetData><row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
        b"</sheetData></worksheet>"
    )
    huge = rezipped(xlsx_file({"S": [[1]]}), {"xl/worksheets/sheet1.xml": sheet})
    assert "too much" in await fault(reader, huge)
    assert await reader.read("t", xlsx_file({"S": [[1]]}))


@pytest.mark.requirement("DOCUMENTS/limits-hostile")
async def test_ten_thousand_pages_are_too_many(reader: DocumentReader) -> None:
    data = pdf_file(*[""] * 10_000)
    assert "has 10,000 pages; the limit is 5,000" in await fault(reader, data)


async def test_a_file_that_is_too_large_is_rejected(
    reader: DocumentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.documents.reader.MAX_FILE_BYTES", 10)
    assert "has 11 bytes; the limit is 10" in await fault(reader, b"x" * 11)


@pytest.mark.requirement("DOCUMENTS/limits-hostile")
@pytest.mark.parametrize(
    ("work", "why"),
    [
        ("while True: pass", "too much time"),
        ("x = []\nwhile True: x.append(bytes(2**22))", "too much memory"),
        ("import os; os.kill(os.getpid(), 11)", "crash"),
    ],
)
async def test_a_parser_that_fails_costs_one_child(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: str, why: str
) -> None:
    (tmp_path / "docx.py").write_text(work)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    pool = IsolatedPool(PoolLimits(processes=1, cpu_seconds=1, wall_seconds=60.0, memory_bytes=256 * 2**20))
    reader = DocumentReader(pool)
    assert why in await fault(reader, docx_file())
    assert (await reader.read("t", pdf_file("Hello cat"))).text == "Hello cat"
    await pool.aclose()


@pytest.mark.requirement("DOCUMENTS/types-extra")
async def test_without_the_extra_the_error_says_what_to_install(
    reader: DocumentReader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hide_package(monkeypatch, tmp_path, "docx")
    message = await fault(reader, docx_file())
    assert message.startswith("This server cannot read DOCX files. To enable it: ")
    assert (await reader.read("t", b"a,b\n1,2\n", "a.csv")).kind == "csv"


async def test_short_texts_need_no_child() -> None:
    pool = IsolatedPool()
    await pool.aclose()
    reader = DocumentReader(pool)
    assert (await reader.read("t", "Größe".encode(), "a.txt")).text == "Größe"
    assert (await reader.read("t", b"def f(): ...", "a.py")).kind == "code"
    assert "image" in await fault(reader, b"\x89PNG\r\n\x1a\n....")


async def test_pages_are_drawn(reader: DocumentReader) -> None:
    images = await reader.draw("t", scanned_pdf(3), [1, 3, 9])
    assert [image[:3] for image in images] == [b"\xff\xd8\xff"] * 2


async def test_a_damaged_page_that_cannot_be_drawn_is_an_error(reader: DocumentReader) -> None:
    damaged = pdf_file("Hello cat", "Hello dog").replace(b"/Kids [4 0 R", b"/Kids [9 0 R")
    with pytest.raises(Unreadable, match="cannot be drawn"):
        await reader.draw("t", damaged, [1, 2])
    assert (await reader.read("t", damaged)).sections[1].text == "Hello dog"


async def test_a_parser_that_panics_is_an_error(reader: DocumentReader) -> None:
    book = xls_file()
    record = book.index(b"\x85\0")
    lying = book[: record + 4] + (65577).to_bytes(4, "little") + book[record + 8 :]
    assert await fault(reader, lying) == "The XLS file is damaged: it cannot be read."


async def test_a_thread_may_read_while_an_event_loop_runs() -> None:
    assert read_blocking(pdf_file("Hello cat")).text == "Hello cat"

    def read() -> list[str]:
        with BlockingReader() as blocking:
            return [blocking.read(SAMPLES[name], name).kind for name in ("a.pdf", "a.docx")]

    assert await asyncio.to_thread(read) == ["pdf", "docx"]


async def test_a_stream_that_inflates_without_end_is_survived(reader: DocumentReader) -> None:
    stream = zlib.compress(bytes(200 * 2**20))
    head = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] "
    page = b"/Count 1 >>\nendobj\n3 0 obj\n<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>\nendobj\n4 0 obj\n"
    data = head + page + b"<< /Filter /FlateDecode /Length %d >>\nstream\n" % len(stream) + stream
    assert await fault(reader, data + b"\nendstream\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n")
    assert (await reader.read("t", pdf_file("Hello cat"))).text == "Hello cat"
