"""Statistics of responses, added up in slices: a script reads a bounded number of rows, so that other reads
do not wait for the statistics of a long time."""

from collections.abc import Sequence

from antiphon.errors import InvalidRequest
from antiphon.store.database import Row, Script, Statement
from antiphon.store.summaries import MAX_USAGE_ROWS, Percentiles, UsageBucket, UsageQuery

SLICE_RESPONSES = 2_000
"""How many responses a script reads; more only if they were created in the same second."""
_FIRST_TOKEN, _TOTAL = 1, 2

Group = tuple[int, str | None, str | None, str | None]
"""The start of a bucket; model, key and upstream, if they are grouped by them."""
Times = dict[Group, dict[int, int]]
"""How many responses of a group took how many milliseconds."""


class UsageSums:
    """The sums of the slices that were read."""

    def __init__(self) -> None:
        self._sums: dict[Group, list[int]] = {}
        self._first_token: Times = {}
        self._total: Times = {}

    def add(self, sums: Sequence[Row], first_token: Sequence[Row], total: Sequence[Row]) -> None:
        """Add the rows of a slice. Raises `InvalidRequest` if there are too many groups."""
        for start, model, key_id, upstream, *numbers in sums:
            group = (start, model, key_id, upstream)
            known = self._sums.get(group)
            added = (
                numbers if known is None else [one + other for one, other in zip(known, numbers, strict=True)]
            )
            self._sums[group] = added
        if len(self._sums) > MAX_USAGE_ROWS:
            raise InvalidRequest(
                f"These are more than {MAX_USAGE_ROWS} rows. Ask for a shorter time, longer buckets or fewer "
                "groups.",
                param="group_by",
                code="too_many_rows",
            )
        for rows, times in ((first_token, self._first_token), (total, self._total)):
            for start, model, key_id, upstream, milliseconds, count in rows:
                counts = times.setdefault((start, model, key_id, upstream), {})
                counts[milliseconds] = counts.get(milliseconds, 0) + count

    def buckets(self) -> list[UsageBucket]:
        """The buckets, by time and group."""
        return [self._bucket(group) for group in sorted(self._sums, key=_order)]

    def _bucket(self, group: Group) -> UsageBucket:
        start, model, key_id, upstream = group
        count, errors, asked, cached, answered, reasoned, calls = self._sums[group]
        return UsageBucket(
            start=start,
            model=model,
            key_id=key_id,
            upstream=upstream,
            responses=count,
            errors=errors,
            input_tokens=asked,
            cached_tokens=cached,
            output_tokens=answered,
            reasoning_tokens=reasoned,
            tool_calls=calls,
            first_token_ms=_percentiles(self._first_token.get(group, {})),
            total_ms=_percentiles(self._total.get(group, {})),
        )


def add_slice(tenant: str, query: UsageQuery, now: int, sums: UsageSums) -> Script[int]:
    """Add the first responses of this time; where the next slice begins."""
    limits = (tenant, query.start, query.end, SLICE_RESPONSES)
    rows = yield Statement("end_of_usage_slice", limits)
    end = max(rows[0][0], query.start + 1) if rows else query.end
    args = (
        *(tenant, query.start, end, query.bucket),
        *(int(query.by_model), int(query.by_key), int(query.by_upstream), now),
    )
    added = yield Statement("usage_of_responses", (*args, MAX_USAGE_ROWS + 1))
    first_token = yield Statement("times_of_responses", (*args, _FIRST_TOKEN))
    total = yield Statement("times_of_responses", (*args, _TOTAL))
    sums.add(added, first_token, total)
    return end


def _order(group: Group) -> tuple[int, str, str, str]:
    start, *names = group
    model, key_id, upstream = (name or "" for name in names)
    return start, model, key_id, upstream


def _percentiles(counts: dict[int, int]) -> Percentiles:
    times, responses = sorted(counts.items()), sum(counts.values())
    return Percentiles(*(_percentile(times, each * responses) for each in (50, 95, 99)))


def _percentile(times: Sequence[tuple[int, int]], wanted: int) -> int | None:
    """A percentile of the times: `wanted` is the percentage times the number of responses."""
    counted = 0
    for milliseconds, count in times:
        counted += count
        if 100 * counted >= wanted:
            return milliseconds
    return None
