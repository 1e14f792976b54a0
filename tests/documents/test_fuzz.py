"""Damaged files of every format: always a text or an error that says why, and the process stays."""

import random
from collections.abc import AsyncGenerator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.documents.detection import glance
from antiphon.documents.document import Unreadable
from antiphon.documents.reader import DocumentReader
from antiphon.documents.reading import read_document
from antiphon.isolated.pool import IsolatedPool, PoolLimits
from tests.documents.files import SAMPLES

MUTATIONS = 40
PURE = ("a.csv", "a.html", "a.md", "a.txt", "a.json", "a.eml", "a.rtf", "a.py")
"""Formats whose parsers are in Python: they can be tried in this process."""


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, a part repeated, removed or cut off."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(changed) or 1)
        match chance.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                changed[at : at + chance.randint(1, 40)] = b""
            case 2:
                changed[at:at] = changed[at : at + chance.randint(1, 200)] * chance.randint(1, 20)
            case 3:
                changed[at:at] = chance.choice((b"\0", b"<", b"{\\", b'"', b"\xff\xfe", b"9999999999", b"|"))
            case _:
                changed = changed[: max(1, at)]
    return bytes(changed)


@pytest.fixture
async def reader() -> AsyncGenerator[DocumentReader, None]:
    pool = IsolatedPool(PoolLimits(processes=1, cpu_seconds=5, wall_seconds=60.0, memory_bytes=768 * 2**20))
    yield DocumentReader(pool)
    await pool.aclose()


@pytest.mark.requirement("DOCUMENTS/limits-damaged")
@pytest.mark.parametrize("name", SAMPLES)
async def test_a_damaged_file_is_text_or_an_error(reader: DocumentReader, name: str) -> None:
    chance = random.Random(name)
    for _ in range(MUTATIONS):
        try:
            document = await reader.read("t", mutated(SAMPLES[name], chance), name)
        except Unreadable as error:
            assert error.message.endswith((".", ")"))
            assert len(error.message) < 300
        else:
            assert document.text.strip()
            document.text.encode()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=2000), st.sampled_from(["", *SAMPLES]))
def test_any_bytes_are_text_or_an_error(data: bytes, name: str) -> None:
    try:
        document = read_document(data, name)
    except Unreadable as error:
        assert error.message
    else:
        assert document.text.strip()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=2000), st.sampled_from(PURE), st.sampled_from(["utf-8", "utf-16", "utf-32-be"]))
def test_any_text_is_text_or_an_error(text: str, name: str, encoding: str) -> None:
    data = text.encode(encoding, "replace")
    try:
        kind = glance(data, name)
        document = read_document(data, name)
    except Unreadable:
        return
    if kind in ("code", "markdown", "text"):
        assert document.text.replace(" ", "") == text.encode(encoding, "replace").decode(encoding).replace(
            "\f", " "
        ).replace(" ", "").removeprefix("\ufeff")
