"""Golden pairs: a request and an upstream's bytes in, the upstream's payload and our events out.

Each folder of ``tests/golden/chat_completions`` is a case: ``request.json`` (the create body), ``upstream.sse``
or ``upstream.json`` (what the upstream answers), ``kind`` (which row of the registry it is; absent: plain),
``sent.json`` (what we send upstream, and the downgrades) and ``events.jsonl`` (what the client hears).
``ANTIPHON_GOLDEN=rewrite`` writes the last two anew; review the difference.
"""

import os
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.chat_completions.stream import ChunkReader
from antiphon.backends.registry import Endpoint, default_endpoint
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.response import new_response
from antiphon.protocol.sse import SseReader
from antiphon.turn.chunks import Chunk
from antiphon.turn.context import build_turn
from antiphon.turn.machine import Machine
from tests.turn.folding import to_wire
from tests.turn.order import check_order

FOLDER = Path(__file__).parents[2] / "golden" / "chat_completions"
CASES = sorted(path.name for path in FOLDER.iterdir())
REWRITE = os.environ.get("ANTIPHON_GOLDEN") == "rewrite"


def read_upstream(case: Path, endpoint: Endpoint) -> list[list[Chunk]]:
    """What the reader makes of the recorded answer, event by event."""
    reader = ChunkReader(endpoint)
    whole = case / "upstream.json"
    if whole.exists():
        return [reader.whole(whole.read_bytes())]
    sse = SseReader()
    batches = [reader.feed([payload]) for payload in sse.feed((case / "upstream.sse").read_bytes())]
    return [*batches, reader.end(sse.finish())]


def play(case: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is sent upstream, and the events that come of the answer."""
    kind = case / "kind"
    endpoint = default_endpoint(kind.read_text().strip() if kind.exists() else "plain")
    request = parse_create((case / "request.json").read_bytes())
    turn = build_turn(request, model=request.params.model)
    payload = build_payload(turn, endpoint.quirks)
    response = new_response(request, id="resp_1", created_at=1)
    if turn.downgrades or payload.downgrades:
        response = replace(response, downgrades=[*turn.downgrades, *payload.downgrades])
    numbers = count(1)
    machine = Machine(
        response,
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        tools={tool.name: tool for tool in turn.tools},
    )
    events = machine.start()
    for batch in read_upstream(case, endpoint):
        events += machine.feed(batch)
    events += machine.end(2)
    return payload.body, [to_wire(event) for event in events]


def to_lines(events: list[dict[str, Any]]) -> str:
    """One event per line; the echo of the request is left to its own tests."""
    return "".join(msgspec.json.encode(_brief(event)).decode() + "\n" for event in events)


def _brief(event: dict[str, Any]) -> dict[str, Any]:
    if "response" not in event:
        return event
    told = ("id", "status", "error", "incomplete_details", "output", "usage", "downgrades")
    return {**event, "response": {key: event["response"][key] for key in told if key in event["response"]}}


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_answer_becomes_the_expected_events(name: str) -> None:
    case = FOLDER / name
    sent, events = play(case)
    check_order(events)
    pretty = msgspec.json.format(msgspec.json.encode(sent), indent=2).decode() + "\n"
    if REWRITE:
        (case / "sent.json").write_text(pretty, encoding="utf-8")
        (case / "events.jsonl").write_text(to_lines(events), encoding="utf-8")
    assert pretty == (case / "sent.json").read_text(encoding="utf-8")
    assert to_lines(events) == (case / "events.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in CASES if (FOLDER / name / "upstream.sse").exists()])
def test_line_ends_and_comments_change_nothing(name: str, tmp_path: Path) -> None:
    case = FOLDER / name
    for file in case.iterdir():
        data = file.read_bytes()
        if file.suffix == ".sse":
            data = data.replace(b"\n\n", b"\n\n: keep-alive\n\n").replace(b"\n", b"\r\n")
        (tmp_path / file.name).write_bytes(data)
    assert play(tmp_path) == play(case)
