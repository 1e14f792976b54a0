"""Golden pairs: from a request and an upstream's bytes to the upstream's payload and our events.

Each folder of ``tests/golden/anthropic_messages`` is a case: ``request.json`` (the create body),
``upstream.sse`` or ``upstream.json`` (the upstream's answer), ``sent.json`` (the payload sent upstream) and
``events.jsonl`` (the events sent to the client). ``ANTIPHON_GOLDEN=rewrite`` rewrites the last two; review
the difference.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.backends.anthropic_messages.request import build_payload
from antiphon.backends.anthropic_messages.stream import StreamReader
from antiphon.backends.anthropic_messages.thinking import wants_summary
from antiphon.backends.registry import default_endpoint
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.sse import SseReader
from antiphon.turn.chunks import Chunk
from antiphon.turn.context import build_turn
from tests.golden_cases import check_case, events_of, read_upstream

FOLDER = Path(__file__).parents[2] / "golden" / "anthropic_messages"
CASES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
STREAMED = [name for name in CASES if (FOLDER / name / "upstream.sse").exists()]
ENDPOINT = default_endpoint("anthropic")


def run_case(case: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The payload sent upstream, and the events for the answer."""
    request = parse_create((case / "request.json").read_bytes())
    turn = build_turn(request, model=request.params.model)
    payload = build_payload(turn, ENDPOINT)
    batches = read_upstream(case, StreamReader(ENDPOINT, summarised=wants_summary(request.params)))
    sent = {
        "body": payload.body,
        "unenforced": sorted(payload.unenforced),
        "betas": [*payload.headers.values()],
    }
    return sent, events_of(request, turn, payload.downgrades, batches)


@pytest.mark.parametrize("name", CASES)
def test_a_documented_answer_becomes_the_expected_events(name: str) -> None:
    case = FOLDER / name
    check_case(case, *run_case(case))


@pytest.mark.parametrize("name", STREAMED)
def test_line_endings_and_comments_do_not_change_the_chunks(name: str, tmp_path: Path) -> None:
    case = FOLDER / name
    for file in case.iterdir():
        data = file.read_bytes()
        if file.suffix == ".sse":
            data = data.replace(b"\n\n", b"\n\n: keep-alive\n\n").replace(b"\n", b"\r\n")
        (tmp_path / file.name).write_bytes(data)
    assert run_case(tmp_path) == run_case(case)


def read_cut(data: bytes, cuts: list[int]) -> list[Chunk]:
    reader, sse = StreamReader(ENDPOINT), SseReader()
    edges = [0, *sorted(cuts), len(data)]
    chunks: list[Chunk] = []
    for start, end in pairwise(edges):
        chunks += reader.feed(sse.feed(data[start:end]))
    return chunks + list(reader.end(sse.finish()))


@pytest.mark.parametrize("name", STREAMED)
def test_every_split_of_the_bytes_yields_the_same_chunks(name: str) -> None:
    data = (FOLDER / name / "upstream.sse").read_bytes()
    expected = [msgspec.to_builtins(chunk, enc_hook=str) for chunk in read_cut(data, [])]
    for cut in range(len(data)):
        found = [msgspec.to_builtins(chunk, enc_hook=str) for chunk in read_cut(data, [cut])]
        assert found == expected


@given(name=st.sampled_from(STREAMED), data=st.data())
def test_many_splits_of_the_bytes_yield_the_same_chunks(name: str, data: st.DataObject) -> None:
    body = (FOLDER / name / "upstream.sse").read_bytes()
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=30))
    assert list(map(str, read_cut(body, cuts))) == list(map(str, read_cut(body, [])))
