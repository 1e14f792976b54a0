"""Traces as clients see them: rendered from the stored record, without what may be a credential.

Texts are redacted as log lines are: without the secrets of this process, and without credentials in URLs. In
addition, headers that hold credentials are hidden by their name, and so are members of JSON bodies in which
clients declare the credentials of tools.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.known_secrets import HIDDEN, KNOWN_SECRETS, is_secret_header, without_url_secrets
from antiphon.turn.trace import RecordedBody, RecordedTrace, RecordedTurn

_SECRET_MEMBERS = re.compile(
    r'("(?:authorization|api_key|apikey|access_token|refresh_token|client_secret|password|secret)"\s*:\s*)'
    r'"(?:[^"\\]|\\.)*(?:"|\Z)',
    re.IGNORECASE | re.ASCII,
)
_HEADERS_MEMBER = re.compile(r'("headers"\s*:\s*)\{[^{}]*(?:\}|\Z)', re.IGNORECASE | re.ASCII)
_HOSTED_CALLS = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "image_generation_call"}
)
_ITEM_ADDED, _ITEM_DONE = "response.output_item.added", "response.output_item.done"

JsonObject = dict[str, Any]


class ShownEvent(Struct, frozen=True):
    """An event of a response; `at_ms`: when it was made, if a trace tells."""

    sequence_number: int
    at_ms: int | None
    event: Any


def render_trace(trace: RecordedTrace, response_id: str, request_id: str | None) -> bytes:
    """The trace as JSON. `request_id`: of the request that has created the response, for a trace without."""
    return msgspec.json.encode(
        {
            "object": "response.trace",
            "response_id": response_id,
            "request_id": trace.request_id or request_id,
            "client_request": _request_body(trace.client),
            "clock": _clock(trace),
            "rounds": [_round(index, turn, trace) for index, turn in enumerate(trace.turns)],
            "events": events_of(trace),
        }
    )


def events_of(trace: RecordedTrace) -> list[ShownEvent]:
    """The events one by one, with their times."""
    recorded = trace.events.decode()
    is_redacted = _redacted(recorded) != recorded
    return [
        ShownEvent(
            event["sequence_number"],
            _made_ms(event["sequence_number"], trace),
            _parsed(_redacted(msgspec.json.encode(event).decode())) if is_redacted else event,
        )
        for event in msgspec.json.decode(recorded)
    ]


def _made_ms(number: int, trace: RecordedTrace) -> int:
    """When the event with this number was made."""
    times = trace.event_times
    return _ms(times[bisect_right(times, number, key=_first_number) - 1][0], trace)


def _first_number(batch: tuple[float, int]) -> int:
    return batch[1]


def _ms(at: float, trace: RecordedTrace) -> int:
    """Milliseconds since the recording has begun."""
    return round(1000 * (at - trace.started_at))


def _round(index: int, turn: RecordedTurn, trace: RecordedTrace) -> JsonObject:
    request = None
    if turn.sent_at is not None:
        line, *headers = turn.head.split("\r\n")
        sent = (header.partition(": ") for header in headers)
        request = {
            "method": line.partition(" ")[0],
            "url": _scrubbed(turn.url),
            "headers": _headers((name, value) for name, _, value in sent),
            **_request_body(turn.request),
        }
    answer = None
    if turn.status is not None:
        answer = {
            "status": turn.status,
            "headers": _headers(turn.headers.items()),
            "body": _text(turn.answer),
            "truncated": turn.answer.truncated,
            "chunks": [{"at_ms": _ms(at, trace), "bytes": size} for at, size in turn.chunks],
        }
    return {
        "index": index,
        "upstream": turn.upstream,
        "kind": turn.kind,
        "model": turn.model,
        "request": request,
        "answer": answer,
        "downgrades": turn.downgrades,
        "attempts": [{"error": _scrubbed(message)} for message in turn.attempts],
    }


def _clock(trace: RecordedTrace) -> list[JsonObject]:
    """The parts of the time, in the order in which they began."""
    spans: list[JsonObject] = []
    if trace.read_at is not None:
        spans.append(_span("store", "history", 0, _ms(trace.read_at, trace)))
    for index, turn in enumerate(trace.turns):
        spans += _turn_spans(index, turn, trace)
    spans += _tool_spans(trace)
    return sorted(spans, key=lambda span: (span["start_ms"], span["end_ms"]))


def _turn_spans(index: int, turn: RecordedTurn, trace: RecordedTrace) -> list[JsonObject]:
    name = f"round {index + 1}"
    entered = _ms(turn.entered_at, trace)
    begun = entered if turn.sent_at is None else _ms(turn.sent_at, trace)
    opened = None if turn.opened_at is None else _ms(turn.opened_at, trace)
    first = _ms(turn.chunks[0][0], trace) if turn.chunks else None
    ended = _ms(trace.ended_at if turn.ended_at is None else turn.ended_at, trace)
    spans: list[JsonObject] = []
    if begun > entered and index == 0:
        spans.append(_span("queue", name, entered, begun))
    if opened is not None:
        spans.append(_span("connect", name, begun, opened))
    if first is not None:
        spans.append(_span("first_token", name, begun if opened is None else opened, first))
    spans.append(_span("generation", name, first or opened or begun, ended))
    return spans


def _tool_spans(trace: RecordedTrace) -> list[JsonObject]:
    """The calls of hosted tools, by the events of their items."""
    spans: list[JsonObject] = []
    begun: dict[str, int] = {}
    for event in msgspec.json.decode(trace.events):
        kind = event["type"]
        if kind not in {_ITEM_ADDED, _ITEM_DONE} or event["item"]["type"] not in _HOSTED_CALLS:
            continue
        item, at = event["item"], _made_ms(event["sequence_number"], trace)
        called = item.get("id") or ""
        if kind == _ITEM_ADDED:
            begun[called] = at
        else:
            label = _scrubbed(item.get("name") or item["type"].removesuffix("_call"))
            spans.append({**_span("tool", label, begun.get(called, at), at), "item_id": called})
    return spans


def _span(name: str, label: str, start: int, end: int) -> JsonObject:
    return {"name": name, "label": label, "start_ms": start, "end_ms": max(start, end)}


def _headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: HIDDEN if is_secret_header(name) else _scrubbed(value) for name, value in headers if name}


def _request_body(recorded: RecordedBody) -> JsonObject:
    """The body of a request, parsed if it is complete JSON."""
    return {"body": _parsed(_text(recorded)), "truncated": recorded.truncated}


def _text(recorded: RecordedBody) -> str:
    return _redacted(recorded.data.decode("utf-8", "replace"))


def _redacted(text: str) -> str:
    return _HEADERS_MEMBER.sub(rf'\1"{HIDDEN}"', _SECRET_MEMBERS.sub(rf'\1"{HIDDEN}"', _scrubbed(text)))


def _scrubbed(text: str) -> str:
    """As a line of the log is scrubbed."""
    return without_url_secrets(KNOWN_SECRETS.scrub(text))


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text
