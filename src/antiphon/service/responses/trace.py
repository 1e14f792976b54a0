"""Traces: rendered without secrets, compressed and sealed for the store, and opened again.

Texts are redacted as log lines are: without the secrets of this process, and without credentials in URLs. In
addition, headers that hold credentials are hidden by their name, and so are members of JSON bodies in which
clients declare the credentials of tools.
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.known_secrets import HIDDEN, KNOWN_SECRETS, is_secret_header, without_url_secrets
from antiphon.protocol.events import Event, OutputItemAdded, OutputItemDone, OutputTextDelta
from antiphon.protocol.items import Item, OpaqueItem
from antiphon.protocol.stored_items import item_id, item_type
from antiphon.turn.sealing import Sealer
from antiphon.turn.trace import Recorded, TraceRecorder, TurnTrace

_COMPRESSION_LEVEL = 1
_MAX_OPENED_BYTES = 64 * 1024 * 1024
_SECRET_MEMBERS = re.compile(
    r'("(?:authorization|api_key|apikey|access_token|refresh_token|client_secret|password|secret)"\s*:\s*)'
    r'"(?:[^"\\]|\\.)*(?:"|\Z)',
    re.IGNORECASE | re.ASCII,
)
_HEADERS_MEMBER = re.compile(r'("headers"\s*:\s*)\{[^{}]*(?:\}|\Z)', re.IGNORECASE | re.ASCII)
_MEMBER_WORDS = tuple(b"authorization api _token secret password headers".split())
"""One of them is in whatever these patterns match. To look for the words is much faster."""
_HOSTED_CALLS = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "image_generation_call"}
)
_OWN_ITEMS = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})
"""What a model says: it is as long as the recorded answer. Results of hosted tools may be longer."""
_ITEM_EVENTS = (OutputItemAdded, OutputItemDone)
_SHORT_BYTES = 64 * 1024

JsonObject = dict[str, Any]


def is_short(trace: TraceRecorder) -> bool:
    """Whether a trace is rendered faster than a thread is started for it."""
    return trace.size <= _SHORT_BYTES and not any(
        isinstance(event, _ITEM_EVENTS) and item_type(event.item) not in _OWN_ITEMS
        for _, event in trace.events()
    )


def render_trace(trace: TraceRecorder, response_id: str, request_id: str | None, sealer: Sealer) -> str:
    """The trace as it is stored."""
    rendered: JsonObject = {
        "object": "response.trace",
        "response_id": response_id,
        "request_id": request_id,
        "client_request": _body(trace.client),
        "clock": _clock(trace),
        "rounds": [_round(index, turn) for index, turn in enumerate(trace.turns)],
        "events": _events(trace),
    }
    return sealer.seal_bytes(zlib.compress(msgspec.json.encode(rendered), _COMPRESSION_LEVEL))


def open_trace(sealed: str, sealer: Sealer) -> JsonObject | None:
    """A stored trace, with its bodies and events as JSON where they are that; None if it does not open."""
    packed = sealer.open_bytes(sealed)
    if packed is None:
        return None
    data = zlib.decompressobj().decompress(packed, _MAX_OPENED_BYTES)
    trace: JsonObject = msgspec.json.decode(data)
    client = trace["client_request"]
    client["body"] = _parsed(client["body"])
    for each in trace["rounds"]:
        if each["request"] is not None:
            each["request"]["body"] = _parsed(each["request"]["body"])
        if each["answer"] is not None:
            each["answer"]["chunks"] = [{"at_ms": at, "bytes": size} for at, size in each["answer"]["chunks"]]
    trace["events"] = _opened_events(trace["events"])
    return trace


def _events(trace: TraceRecorder) -> msgspec.Raw | list[JsonObject]:
    """The events with their times. Most have no secrets and are within the budget: they are encoded and
    searched as one, and one by one only if that is not so."""
    encoded = msgspec.json.encode(_with_runs(trace.events()))
    if len(encoded) <= trace.max_bytes and _text(encoded) == encoded.decode():
        return msgspec.Raw(encoded)
    found, left = list[JsonObject](), trace.max_bytes
    for at, event in trace.events():
        body = msgspec.json.encode(event)
        if len(body) <= left:
            left -= len(body)
            shown = {"sequence_number": event.sequence_number, "at_ms": at, "event": _parsed(_text(body))}
            found.append(shown)
    return found


class _TimedEvent(Struct):
    """An event for the client."""

    sequence_number: int
    at_ms: int
    event: Event


class _DeltaRun(Struct):
    """Pieces of one text that follow one another, as most events do: the first event, and the times and
    pieces of all."""

    event: OutputTextDelta
    times: list[int]
    deltas: list[str]


def _with_runs(events: Iterable[tuple[int, Event]]) -> list[_TimedEvent | _DeltaRun]:
    found: list[_TimedEvent | _DeltaRun] = []
    run: _DeltaRun | None = None
    for at, event in events:
        if type(event) is not OutputTextDelta or event.logprobs:
            run = None
            found.append(_TimedEvent(event.sequence_number, at, event))
        elif run is not None and _continues(event, run):
            run.times.append(at)
            run.deltas.append(event.delta)
        else:
            run = _DeltaRun(event, [at], [event.delta])
            found.append(run)
    return found


def _continues(event: OutputTextDelta, run: _DeltaRun) -> bool:
    first = run.event
    return (
        event.sequence_number == first.sequence_number + len(run.deltas)
        and event.item_id == first.item_id
        and event.output_index == first.output_index
        and event.content_index == first.content_index
    )


def _opened_events(recorded: Sequence[JsonObject]) -> list[JsonObject]:
    """The events one by one."""
    found: list[JsonObject] = []
    for each in recorded:
        if "deltas" not in each:
            found.append(each)
            continue
        first = each["event"]
        for number, (at, delta) in enumerate(
            zip(each["times"], each["deltas"], strict=True), first["sequence_number"]
        ):
            event = {**first, "sequence_number": number, "delta": delta}
            found.append({"sequence_number": number, "at_ms": at, "event": event})
    return found


def _round(index: int, turn: TurnTrace) -> JsonObject:
    request = None
    if turn.sent_ms is not None:
        line, *headers = turn.head.decode("latin-1").split("\r\n")
        sent = (header.partition(": ") for header in headers)
        request = {
            "method": line.partition(" ")[0],
            "url": without_url_secrets(turn.url),
            "headers": _headers((name, value) for name, _, value in sent),
            **_body(turn.request),
        }
    answer = None
    if turn.status is not None:
        answer = {
            "status": turn.status,
            "headers": _headers(turn.headers.items()),
            **_body(turn.answer),
            "chunks": turn.chunks,
        }
    return {
        "index": index,
        "upstream": turn.upstream,
        "kind": turn.kind,
        "model": turn.model,
        "request": request,
        "answer": answer,
        "downgrades": list(turn.downgrades),
        "attempts": [{"error": _scrubbed(message)} for message in turn.attempts],
    }


def _clock(trace: TraceRecorder) -> list[JsonObject]:
    """The parts of the time, in the order in which they began."""
    spans: list[JsonObject] = []
    if trace.read_ms is not None:
        spans.append(_span("store", "history", 0, trace.read_ms))
    for index, turn in enumerate(trace.turns):
        name = f"round {index + 1}"
        begun = turn.sent_ms if turn.sent_ms is not None else turn.entered_ms
        if begun > turn.entered_ms and index == 0:
            spans.append(_span("queue", name, turn.entered_ms, begun))
        first = turn.chunks[0][0] if turn.chunks else None
        opened = turn.opened_ms
        ended = turn.ended_ms if turn.ended_ms is not None else trace.elapsed_ms()
        if opened is not None:
            spans.append(_span("connect", name, begun, opened))
        if first is not None:
            spans.append(_span("first_token", name, begun if opened is None else opened, first))
        spans.append(_span("generation", name, first or opened or begun, ended))
    spans += _tool_spans(trace)
    return sorted(spans, key=lambda span: (span["start_ms"], span["end_ms"]))


def _tool_spans(trace: TraceRecorder) -> list[JsonObject]:
    """The calls of hosted tools, by the events of their items."""
    spans: list[JsonObject] = []
    begun: dict[str, int] = {}
    for at, content in trace.events():
        if not isinstance(content, _ITEM_EVENTS):
            continue
        kind, called = item_type(content.item), item_id(content.item)
        if kind not in _HOSTED_CALLS:
            continue
        if isinstance(content, OutputItemAdded):
            begun[called] = at
        else:
            label = _scrubbed(_name(content.item) or kind.removesuffix("_call"))
            spans.append({**_span("tool", label, begun.get(called, at), at), "item_id": called})
    return spans


def _name(item: Item) -> str | None:
    """The name of the function or tool that was called."""
    name = item.body.get("name") if isinstance(item, OpaqueItem) else getattr(item, "name", None)
    return name if isinstance(name, str) else None


def _span(name: str, label: str, start: int, end: int) -> JsonObject:
    return {"name": name, "label": label, "start_ms": start, "end_ms": max(start, end)}


def _headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: HIDDEN if is_secret_header(name) else _scrubbed(value) for name, value in headers if name}


def _body(recorded: Recorded) -> JsonObject:
    text = _text(recorded.data)
    if recorded.truncated:
        text = text[: KNOWN_SECRETS.hidden_from(text)]
    return {"body": text, "truncated": recorded.truncated}


def _text(data: bytes) -> str:
    text = _scrubbed(data.decode("utf-8", "replace"))
    lowered = data.lower()
    if not any(word in lowered for word in _MEMBER_WORDS):
        return text
    return _HEADERS_MEMBER.sub(rf'\1"{HIDDEN}"', _SECRET_MEMBERS.sub(rf'\1"{HIDDEN}"', text))


def _scrubbed(text: str) -> str:
    """As a line of the log is scrubbed."""
    return without_url_secrets(KNOWN_SECRETS.scrub(text))


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text
