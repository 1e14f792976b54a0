"""Golden pairs: a request and an upstream's bytes in, the upstream's payload and our events out.

Each folder of ``tests/golden/gemini`` is a case: ``request.json`` (the create body),
``upstream.sse`` or ``upstream.json`` (what the upstream answers), ``sent.json`` (what we send upstream) and
``events.jsonl`` (what the client hears). ``ANTIPHON_GOLDEN=rewrite`` writes the last two anew; review the
difference.
"""

import os
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.backends.gemini.request import build_payload
from antiphon.backends.gemini.stream import AnswerReader
from antiphon.backends.registry import default_endpoint
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.response import new_response
from antiphon.protocol.sse import SseReader
from antiphon.turn.chunks import Chunk
from antiphon.turn.context import build_turn
from antiphon.turn.machine import Machine
from antiphon.turn.thoughts import Mark
from tests.turn.folding import to_wire
from tests.turn.order import check_order

FOLDER = Path(__file__).parents[2] / "golden" / "gemini"
CASES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
STREAMED = [name for name in CASES if (FOLDER / name / "upstream.sse").exists()]
REWRITE = os.environ.get("ANTIPHON_GOLDEN") == "rewrite"
ENDPOINT = default_endpoint("gemini")


def read_upstream(case: Path) -> list[list[Chunk]]:
    """What the reader makes of the recorded answer, event by event."""
    reader = AnswerReader(ENDPOINT)
    whole = case / "upstream.json"
    if whole.exists():
        return [reader.whole(whole.read_bytes())]
    sse = SseReader()
    batches = [reader.feed([payload]) for payload in sse.feed((case / "upstream.sse").read_bytes())]
    return [*batches, reader.end(sse.finish())]


def seal(reasoning: str, marks: tuple[Mark, ...]) -> str | None:
    """An envelope that can be read in a golden file."""
    told = {"reasoning": reasoning, "marks": [{mark.origin: mark.body} for mark in marks]}
    return msgspec.json.encode(told).decode() if marks else None


def play(case: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is sent upstream, and the events that come of the answer."""
    request = parse_create((case / "request.json").read_bytes())
    turn = build_turn(request, model=request.params.model)
    payload = build_payload(turn, ENDPOINT)
    response = new_response(request, id="resp_1", created_at=1)
    if payload.downgrades:
        response = replace(response, downgrades=list(payload.downgrades))
    numbers = count(1)
    machine = Machine(
        response,
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        tools={tool.name: tool for tool in turn.tools},
        seal=seal,
    )
    events = machine.start()
    for batch in read_upstream(case):
        events += machine.feed(batch)
    events += machine.end(2)
    sent = {"body": payload.body, "unenforced": sorted(payload.unenforced)}
    return sent, [to_wire(event) for event in events]


def to_lines(events: list[dict[str, Any]]) -> str:
    """One event per line; the echo of the request is left to its own tests."""
    return "".join(msgspec.json.encode(_brief(event)).decode() + "\n" for event in events)


def _brief(event: dict[str, Any]) -> dict[str, Any]:
    if "response" not in event:
        return event
    told = ("id", "status", "error", "incomplete_details", "output", "usage", "downgrades")
    return {**event, "response": {key: event["response"][key] for key in told if key in event["response"]}}


@pytest.mark.parametrize("name", CASES)
def test_a_documented_answer_becomes_the_expected_events(name: str) -> None:
    case = FOLDER / name
    sent, events = play(case)
    check_order(events)
    pretty = msgspec.json.format(msgspec.json.encode(sent), indent=2).decode() + "\n"
    if REWRITE:
        (case / "sent.json").write_text(pretty, encoding="utf-8")
        (case / "events.jsonl").write_text(to_lines(events), encoding="utf-8")
    assert pretty == (case / "sent.json").read_text(encoding="utf-8")
    assert to_lines(events) == (case / "events.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STREAMED)
def test_line_ends_and_comments_change_nothing(name: str, tmp_path: Path) -> None:
    case = FOLDER / name
    for file in case.iterdir():
        data = file.read_bytes()
        if file.suffix == ".sse":
            data = data.replace(b"\r\n", b"\n").replace(b"\n\n", b"\n\n: keep-alive\n\n")
        (tmp_path / file.name).write_bytes(data)
    assert play(tmp_path) == play(case)


def read_cut(data: bytes, cuts: list[int]) -> list[Chunk]:
    reader, sse = AnswerReader(ENDPOINT), SseReader()
    edges = [0, *sorted(cuts), len(data)]
    chunks: list[Chunk] = []
    for start, end in pairwise(edges):
        chunks += reader.feed(sse.feed(data[start:end]))
    return chunks + list(reader.end(sse.finish()))


@pytest.mark.parametrize("name", STREAMED)
def test_every_cut_of_the_bytes_gives_the_same_chunks(name: str) -> None:
    data = (FOLDER / name / "upstream.sse").read_bytes()
    expected = [msgspec.to_builtins(chunk, enc_hook=str) for chunk in read_cut(data, [])]
    for cut in range(len(data)):
        found = [msgspec.to_builtins(chunk, enc_hook=str) for chunk in read_cut(data, [cut])]
        assert found == expected


@given(name=st.sampled_from(STREAMED), data=st.data())
def test_many_cuts_of_the_bytes_give_the_same_chunks(name: str, data: st.DataObject) -> None:
    body = (FOLDER / name / "upstream.sse").read_bytes()
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=30))
    assert list(map(str, read_cut(body, cuts))) == list(map(str, read_cut(body, [])))
