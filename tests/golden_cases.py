"""Golden cases: the steps that all dialects share (see `tests/golden/`)."""

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from antiphon.backends.streamed_turn import Reader
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import new_response
from antiphon.protocol.sse import SseReader
from antiphon.turn.chunks import Chunk
from antiphon.turn.context import TurnRequest
from antiphon.turn.machine import Machine
from antiphon.turn.provider_state import ProviderState, Seal
from tests.turn.folding import to_wire
from tests.turn.order import check_order

REWRITE = os.environ.get("ANTIPHON_GOLDEN") == "rewrite"


def read_upstream(case: Path, reader: Reader) -> list[Sequence[Chunk]]:
    """The chunks that a reader returns for the recorded answer, per event."""
    body_file = case / "upstream.json"
    if body_file.exists():
        return [reader.read_body(body_file.read_bytes())]
    sse = SseReader()
    batches = [reader.feed([payload]) for payload in sse.feed((case / "upstream.sse").read_bytes())]
    return [*batches, reader.end(sse.finish())]


def readable_seal(reasoning: str, marks: tuple[ProviderState, ...]) -> str | None:
    """An envelope that can be read in a golden file."""
    envelope = {"reasoning": reasoning, "marks": [{mark.origin: mark.body} for mark in marks]}
    return msgspec.json.encode(envelope).decode() if marks else None


def events_of(
    request: CreateResponse,
    turn: TurnRequest,
    downgrades: Sequence[Downgrade],
    batches: Sequence[Sequence[Chunk]],
    seal: Seal | None = readable_seal,
) -> list[dict[str, Any]]:
    """The response events for these chunks."""
    response = new_response(request, id="resp_1", created_at=1)
    numbers = count(1)
    machine = Machine(
        response,
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        tools={tool.name: tool for tool in turn.tools},
        seal=seal,
    )
    machine.set_downgrades(downgrades)
    events = machine.start()
    for batch in batches:
        events += machine.feed(batch)
    return [to_wire(event) for event in events + machine.end(2)]


def check_case(case: Path, sent: dict[str, Any], events: list[dict[str, Any]]) -> None:
    """Compare the payload and the events with the case's files, or rewrite these files."""
    check_order(events)
    pretty = msgspec.json.format(msgspec.json.encode(sent), indent=2).decode() + "\n"
    lines = "".join(msgspec.json.encode(_brief(event)).decode() + "\n" for event in events)
    if REWRITE:
        (case / "sent.json").write_text(pretty, encoding="utf-8")
        (case / "events.jsonl").write_text(lines, encoding="utf-8")
    assert pretty == (case / "sent.json").read_text(encoding="utf-8")
    assert lines == (case / "events.jsonl").read_text(encoding="utf-8")


def _brief(event: dict[str, Any]) -> dict[str, Any]:
    """Drop the echo of the request, which has its own tests."""
    if "response" not in event:
        return event
    members = ("id", "status", "error", "incomplete_details", "output", "usage", "downgrades")
    return {
        **event,
        "response": {key: event["response"][key] for key in members if key in event["response"]},
    }
