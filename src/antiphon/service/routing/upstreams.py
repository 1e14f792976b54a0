"""The upstreams of a router: which models they serve, and how they are."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from antiphon.backends.base import Backend
from antiphon.service.routing.circuits import Phase
from antiphon.service.routing.limits import ConcurrencyLimit
from antiphon.service.routing.turn_slot import TurnCount


class _Located(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def base_url(self) -> str: ...


@runtime_checkable
class _Remote(Protocol):
    """A backend that sends its turns to a server."""

    @property
    def endpoint(self) -> _Located: ...


class Concurrency(Struct, frozen=True):
    """The turns of an upstream: the limit of concurrent ones, those under way, and those that wait."""

    limit: int | None
    in_use: int
    waiting: int


class UpstreamState(Struct, frozen=True, kw_only=True):
    """An upstream of this process, and what it has done since the settings were loaded."""

    name: str
    kind: str
    base_url: str | None
    models: Sequence[str]
    circuit: Phase
    retry_in: float | None
    last_error: str | None
    requests: int
    failures: int
    first_token_ms: Sequence[int | None]
    """The percentiles 50, 95 and 99 of recent turns."""
    concurrency: Concurrency


class UpstreamRow(Struct, frozen=True):
    """A configured route of an upstream, with the state of its circuit."""

    model: str
    dialect: str
    backend: Backend
    turns: TurnCount
    limit: ConcurrencyLimit | None
    circuit: Phase
    retry_in: float
    last_error: str


def upstream_state(rows: Sequence[UpstreamRow]) -> UpstreamState:
    """The state of one backend, from all its rows: the worst circuit counts."""
    first = rows[0]
    endpoint = first.backend.endpoint if isinstance(first.backend, _Remote) else None
    worst = max(rows, key=lambda row: (row.circuit != "closed", row.circuit == "open", row.retry_in))
    limits = [row.limit for row in rows if row.limit is not None]
    bounds = [limit.limits.max_concurrent for limit in limits]
    known = [bound for bound in bounds if bound is not None]
    return UpstreamState(
        name=first.backend.name,
        kind=first.dialect if endpoint is None else endpoint.kind,
        base_url=None if endpoint is None else endpoint.base_url,
        models=sorted({row.model for row in rows}),
        circuit=worst.circuit,
        retry_in=round(worst.retry_in, 1) if worst.circuit != "closed" else None,
        last_error=worst.last_error or None,
        requests=first.turns.begun,
        failures=first.turns.failed,
        first_token_ms=first.turns.first_output_percentiles(),
        concurrency=Concurrency(
            limit=sum(known) if known and len(known) == len(rows) else None,
            in_use=first.turns.turns,
            waiting=sum(limit.waiting for limit in limits),
        ),
    )
