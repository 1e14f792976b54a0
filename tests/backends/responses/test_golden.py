"""Golden pairs. Each folder of `tests/golden/responses` has the files `request.json` (the client's request),
`kind` (the row of the upstream; absent: `openai-responses`), `sent.json` (the payload sent upstream, and the
omitted params), `upstream.sse` or `upstream.json` (the upstream's answer) and `events.jsonl` (the events
sent to the client).

`ANTIPHON_GOLDEN=rewrite` rewrites `sent.json` and `events.jsonl`; review the difference before you commit
it.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.backends.registry import Endpoint, default_endpoint
from antiphon.backends.responses.request import build_payload
from antiphon.backends.responses.stream import StreamReader
from antiphon.backends.responses.tools import Names, names_of
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.sse import SseReader
from antiphon.turn.chunks import Chunk
from antiphon.turn.context import build_turn
from tests.golden_cases import check_case, events_of, read_upstream

FOLDER = Path(__file__).parents[2] / "golden" / "responses"
CASES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
STREAMED = [name for name in CASES if (FOLDER / name / "upstream.sse").exists()]


def endpoint_of(case: Path) -> Endpoint:
    kind = case / "kind"
    return default_endpoint(kind.read_text().strip() if kind.exists() else "openai-responses")


def run_case(case: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The payload sent upstream, and the events for the answer."""
    endpoint = endpoint_of(case)
    request = parse_create((case / "request.json").read_bytes())
    turn = build_turn(request, model=request.params.model, native=endpoint.natives)
    payload = build_payload(turn, endpoint)
    batches = read_upstream(case, StreamReader(endpoint, names_of(turn, endpoint.natives)))
    sent = {"body": payload.body, "unenforced": sorted(payload.unenforced)}
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


def read_cut(name: str, data: bytes, cuts: list[int]) -> list[str]:
    reader, sse = StreamReader(endpoint_of(FOLDER / name), Names({}, {})), SseReader()
    chunks: list[Chunk] = []
    for start, end in pairwise([0, *sorted(cuts), len(data)]):
        chunks += reader.feed(sse.feed(data[start:end]))
    return [repr(chunk) for chunk in [*chunks, *reader.end(sse.finish())]]


@pytest.mark.parametrize("name", STREAMED)
def test_every_split_of_the_bytes_yields_the_same_chunks(name: str) -> None:
    data = (FOLDER / name / "upstream.sse").read_bytes()
    expected = read_cut(name, data, [])
    assert all(read_cut(name, data, [cut]) == expected for cut in range(len(data)))


@given(name=st.sampled_from(STREAMED), data=st.data())
def test_many_splits_of_the_bytes_yield_the_same_chunks(name: str, data: st.DataObject) -> None:
    body = (FOLDER / name / "upstream.sse").read_bytes()
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=30))
    assert read_cut(name, body, cuts) == read_cut(name, body, [])
