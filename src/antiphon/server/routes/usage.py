"""``GET /v1/usage``: tokens, times, errors and calls of what is stored, as JSON or CSV."""

import csv
import io
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from antiphon.caller import READ
from antiphon.errors import InvalidRequest
from antiphon.protocol.ids import Clock
from antiphon.server.exchange import Exchange
from antiphon.server.query import Query
from antiphon.server.routing import Route
from antiphon.store.summaries import Percentiles, SummaryStore, UsageBucket, UsageQuery

BUCKET_SECONDS = {"hour": 3600, "day": 24 * 3600}
GROUPS = ("model", "key_id", "upstream")
DEFAULT_SPAN_SECONDS = 30 * 24 * 3600
MAX_BUCKETS = 2000
_LATEST = 2**53
_NUMBERS = (
    "responses",
    "errors",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "reasoning_tokens",
    "tool_calls",
)
_TIMES = ("first_token_ms", "total_ms")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class UsageRoutes:
    """Statistics of the responses of a tenant."""

    def __init__(self, summaries: SummaryStore, clock: Clock) -> None:
        self._summaries = summaries
        self._clock = clock

    async def usage(self, exchange: Exchange) -> None:
        """Sums and percentiles per hour or day, and per model, key and upstream."""
        query = exchange.query()
        wanted = _wanted(query, int(self._clock()))
        buckets = await self._summaries.usage(exchange.caller.tenant, wanted)
        if _wants_csv(exchange, query):
            named: tuple[tuple[bytes, bytes], ...] = (
                (b"content-disposition", b'attachment; filename="usage.csv"'),
            )
            await exchange.send_media(_csv(buckets, wanted.bucket), "text/csv; charset=utf-8", headers=named)
            return
        data = [_wire(each, wanted.bucket) for each in buckets]
        payload = {"object": "list", "data": data, "first_id": None, "last_id": None, "has_more": False}
        await exchange.send_json(msgspec.json.encode(payload))

    ROUTES: ClassVar = (Route("GET /v1/usage", usage, READ, stateful=True),)


def _wanted(query: Query, now: int) -> UsageQuery:
    name = query.text("bucket") or "day"
    if name not in BUCKET_SECONDS:
        raise _refusal("bucket", f"Invalid value for 'bucket': '{name[:100]}'; use 'hour' or 'day'.")
    bucket = BUCKET_SECONDS[name]
    end = query.number("end", least=0, most=_LATEST)
    end = now + 1 if end is None else end
    start = query.number("start", least=0, most=_LATEST)
    start = max(0, end - DEFAULT_SPAN_SECONDS) if start is None else start
    if start > end:
        raise _refusal("start", "'start' is after 'end'.")
    if (end - start) / bucket > MAX_BUCKETS:
        message = f"From 'start' to 'end' there are more than {MAX_BUCKETS} buckets. Choose a shorter time."
        raise _refusal("start", message)
    groups = [each.strip() for each in (query.text("group_by") or "").split(",") if each.strip()]
    for group in groups:
        if group not in GROUPS:
            known = ", ".join(f"'{each}'" for each in GROUPS)
            raise _refusal("group_by", f"Invalid value for 'group_by': '{group[:100]}'; use {known}.")
    return UsageQuery(
        start=start,
        end=end,
        bucket=bucket,
        by_model="model" in groups,
        by_key="key_id" in groups,
        by_upstream="upstream" in groups,
    )


def _wants_csv(exchange: Exchange, query: Query) -> bool:
    form = query.text("format")
    if form not in (None, "json", "csv"):
        raise _refusal("format", f"Invalid value for 'format': '{form[:100]}'; use 'json' or 'csv'.")
    accepted = ",".join(exchange.header_values("accept")).lower()
    return form == "csv" or (form is None and "text/csv" in accepted)


def _wire(bucket: UsageBucket, seconds: int) -> dict[str, Any]:
    fields = msgspec.structs.asdict(bucket)
    return {"object": "usage.bucket", **fields, "end": bucket.start + seconds}


def _csv(buckets: Sequence[UsageBucket], seconds: int) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    times = [f"{name}_{each}" for name in _TIMES for each in Percentiles.__struct_fields__]
    writer.writerow(("start", "end", *GROUPS, *_NUMBERS, *times))
    for bucket in buckets:
        groups = [_cell(getattr(bucket, name)) for name in GROUPS]
        numbers = [getattr(bucket, name) for name in _NUMBERS]
        values = [value for name in _TIMES for value in msgspec.structs.astuple(getattr(bucket, name))]
        writer.writerow((bucket.start, bucket.start + seconds, *groups, *numbers, *values))
    return out.getvalue().encode()


def _cell(text: str | None) -> str:
    """A text that no spreadsheet takes for a formula: clients choose the names of models."""
    return f"'{text}" if text is not None and text.startswith(_FORMULA_STARTS) else text or ""


def _refusal(name: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, param=name, code="invalid_value")
