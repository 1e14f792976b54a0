"""Traces as they are stored: one record, without the secrets of this process, sealed with the tenant's key.

Recording costs every response, and few traces are read: everything else, also hiding what may be a
credential of the client, is done when a trace is read (`service/responses/trace_view.py`). Known secrets
cannot wait: the process that reads the trace may not know them any more.
"""

import zlib
from typing import Any, cast

import msgspec

from antiphon.known_secrets import KNOWN_SECRETS
from antiphon.protocol.events import OutputItemDone
from antiphon.protocol.stored_items import item_type
from antiphon.turn.sealing import Sealer
from antiphon.turn.trace import RecordedTrace, TraceRecorder

_COMPRESSION_LEVEL = 1
_COMPRESSED_FROM_BYTES = 8 * 1024
"""To compress less takes longer than to store it."""
_PLAIN, _COMPRESSED = b"\0", b"\1"
"""The first byte of a stored trace."""
_MAX_OPENED_BYTES = 64 * 1024 * 1024
_OWN_ITEMS = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})
"""What a model says: it is as long as the recorded answer. Results of hosted tools may be longer."""
_SHORT_BYTES = 64 * 1024
_decoder = msgspec.msgpack.Decoder(RecordedTrace)


def is_short(trace: TraceRecorder) -> bool:
    """Whether a trace is sealed faster than a thread is started for it."""
    if trace.size > _SHORT_BYTES:
        return False
    done = [event for event in trace.events if type(event) is OutputItemDone]
    return all(item_type(event.item) in _OWN_ITEMS for event in done)


def seal_trace(trace: TraceRecorder, request_id: str | None, sealer: Sealer) -> bytes:
    """The trace as it is stored."""
    record = trace.record(request_id, _encoded(trace))
    for turn in record.turns:  # the key of the upstream is in nearly every head, and nowhere else
        turn.head = KNOWN_SECRETS.scrub(turn.head)
    if trace.is_cut:
        _cut_open_secrets(record)
    data = msgspec.msgpack.encode(record)
    if KNOWN_SECRETS.are_in_bytes(data):
        data = msgspec.msgpack.encode(_scrubbed(msgspec.msgpack.decode(data)))
    if len(data) < _COMPRESSED_FROM_BYTES:
        return sealer.seal_bytes(_PLAIN + data)
    return sealer.seal_bytes(_COMPRESSED + zlib.compress(data, _COMPRESSION_LEVEL, -zlib.MAX_WBITS))


def open_trace(sealed: bytes, sealer: Sealer) -> RecordedTrace | None:
    """A stored trace; None if it cannot be read."""
    data = sealer.open_bytes(sealed)
    if data is None:
        return None
    try:
        if data.startswith(_PLAIN):
            return _decoder.decode(memoryview(data)[1:])
        unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(memoryview(data)[1:], _MAX_OPENED_BYTES)
        return _decoder.decode(unpacked)
    except (zlib.error, msgspec.MsgspecError):
        return None


def _encoded(trace: TraceRecorder) -> bytes:
    """The events as JSON. If they are beyond the budget, they are taken one by one."""
    encoded = msgspec.json.encode(trace.events)
    left = trace.max_event_bytes
    if len(encoded) <= left:
        return encoded
    held: list[msgspec.Raw] = []
    for event in trace.events:
        body = msgspec.json.encode(event)
        if len(body) <= left:
            left -= len(body)
            held.append(msgspec.Raw(body))
    return msgspec.json.encode(held)


def _cut_open_secrets(record: RecordedTrace) -> None:
    """Remove beginnings of secrets that were cut off with the rest of a body."""
    for body in (record.client, *(body for turn in record.turns for body in (turn.request, turn.answer))):
        if body.truncated:
            text = body.data.decode("utf-8", "surrogateescape")
            body.data = text[: KNOWN_SECRETS.hidden_from(text)].encode("utf-8", "surrogateescape")


def _scrubbed(value: Any) -> Any:
    """The value without the secrets of this process."""
    if isinstance(value, str):
        return KNOWN_SECRETS.scrub(value)
    if isinstance(value, bytes):
        text = value.decode("utf-8", "surrogateescape")
        return KNOWN_SECRETS.scrub(text).encode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return [_scrubbed(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _scrubbed(each) for name, each in cast("dict[str, Any]", value).items()}
    return value
