"""Structure-aware fuzzing of the document parsers; `python -m tests.fuzz.documents` does more of the same."""

from typing import get_args

import pytest

from antiphon.documents.detection import detect
from antiphon.documents.document import Kind
from antiphon.documents.reader import DocumentReader
from antiphon.isolated.pool import IsolatedPool
from tests.fuzz.documents.run import LIMITS, fuzz
from tests.fuzz.documents.samples import FUZZED


def test_every_parser_is_fuzzed() -> None:
    assert {detect(data, name) for name, data in FUZZED.items()} == set(get_args(Kind))


async def test_samples_of_old_and_open_spreadsheets_are_read() -> None:
    pool = IsolatedPool(LIMITS)
    reader = DocumentReader(pool)
    texts = {name: (await reader.read("t", FUZZED[name], name)).text for name in ("a.ods", "a.xls")}
    await pool.aclose()
    assert texts == {
        "a.ods": "| name | price |\n| --- | --- |\n| 3 | 3 |\n| 3 | 3 |",
        "a.xls": "| tea | 3 |\n| --- | --- |",
    }


@pytest.mark.requirement("DOCUMENTS/limits-damaged")
async def test_a_few_hundred_damaged_files_are_text_or_rejected() -> None:
    result = await fuzz(seed=2, inputs=480)
    assert result.faults == []
    assert sum(tally.inputs for tally in result.tallies.values()) == 480
    assert min(tally.texts + tally.rejected for tally in result.tallies.values()) > 15


@pytest.mark.slow
@pytest.mark.requirement("DOCUMENTS/limits-damaged")
async def test_thousands_of_damaged_files_are_text_or_rejected() -> None:
    assert (await fuzz(seed=3, inputs=3200)).faults == []
