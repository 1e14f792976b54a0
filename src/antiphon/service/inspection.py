"""What an operator and the page look at: traces, stored events, and what an id names."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.sse import SseReader
from antiphon.service.responses.trace import JsonObject, open_trace
from antiphon.store.base import EVENT_PAGE_BYTES, Events, is_full_page
from antiphon.store.ports import Stores
from antiphon.store.summaries import Found
from antiphon.turn.sealing import SealKey

MAX_LOOKED_UP_CHARACTERS = 200


class ShownEvent(Struct, frozen=True):
    """An event of a response; `at_ms`: when it was made, if a trace tells."""

    sequence_number: int
    at_ms: int | None
    event: Any


class EventPage(Struct, frozen=True):
    """A part of the events of a response, and whether more follow."""

    events: Sequence[ShownEvent]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Inspection:
    """Reads what was recorded of a tenant's responses."""

    stores: Stores
    seal_key: SealKey

    async def trace(self, caller: Caller, response_id: str) -> JsonObject:
        """The trace of a response."""
        stored = await self.stores.summaries.trace(caller.tenant, response_id)
        trace = open_trace(stored.sealed, self.seal_key.sealer(caller.tenant))
        if trace is None:
            message = f"The trace of response '{response_id}' was sealed with another key. Record a new one."
            raise NotFound(message, code="trace_not_recorded")
        return {**trace, "request_id": trace["request_id"] or stored.request_id}

    async def events(self, caller: Caller, response_id: str, after: int, limit: int) -> EventPage:
        """The events of a response with numbers above `after`: those of its log, or else of its trace."""
        logged = await self._logged_events(caller, response_id, after, limit)
        if logged.events:
            return logged
        if (traced := await self._traced_events(caller, response_id)) is not None:
            found = [event for event in traced if event.sequence_number > after]
        elif after >= 0 and (await self.stores.background.events(caller.tenant, response_id, -1))[0]:
            found = []
        else:
            raise NotFound(
                f"No events of response '{response_id}' are stored. Background responses keep theirs for "
                "some time; for others, send the header 'antiphon-trace: record' with the request.",
                code="events_not_recorded",
            )
        return EventPage(found[:limit], len(found) > limit)

    async def _logged_events(self, caller: Caller, response_id: str, after: int, limit: int) -> EventPage:
        """Those of the log: as many as are wanted, or as one page of the log holds in memory."""
        found: list[ShownEvent] = []
        read = 0
        while len(found) <= limit and read < EVENT_PAGE_BYTES:
            rows, _ = await self.stores.background.events(caller.tenant, response_id, after)
            found += _from_log(rows, after, limit + 1 - len(found))
            if not is_full_page(rows):
                return EventPage(found[:limit], len(found) > limit)
            read += sum(len(row.data) for row in rows)
            after = rows[-1].first + rows[-1].count - 1
        return EventPage(found[:limit], has_more=True)

    async def _traced_events(self, caller: Caller, response_id: str) -> list[ShownEvent] | None:
        try:
            trace = await self.trace(caller, response_id)
        except NotFound as error:
            if error.code != "trace_not_recorded":
                raise
            return None
        return [ShownEvent(**event) for event in trace["events"]]

    async def look_up(self, caller: Caller, wanted: str) -> Found:
        """What an id names, among the objects of the tenant."""
        if len(wanted) <= MAX_LOOKED_UP_CHARACTERS and "\0" not in wanted:
            try:
                found = await self._find(caller.tenant, wanted)
            except (NotFound, InvalidRequest):
                found = None
            if found is not None:
                return found
        raise NotFound(f"There is nothing with the id '{wanted[:100]}'.", code="not_found")

    async def _find(self, tenant: str, wanted: str) -> Found | None:
        stores = self.stores
        if wanted.startswith("req_"):
            response_id = await stores.summaries.of_request(tenant, wanted)
            return None if response_id is None else Found("request", response_id)
        reads: dict[str, tuple[str, Callable[[str, str], Coroutine[Any, Any, object]]]] = {
            "resp_": ("response", stores.responses.response),
            "conv_": ("conversation", stores.conversations.conversation),
            "run_": ("agent_run", stores.agent_runs.run),
            "file-": ("file", stores.files.file),
            "vs_": ("vector_store", stores.vector_stores.store),
        }
        for prefix, (kind, read) in reads.items():
            if wanted.startswith(prefix):
                await read(tenant, wanted)
                return Found(kind, wanted if kind == "response" else None)
        await stores.responses.item(tenant, wanted)
        return Found("item", await stores.summaries.of_item(tenant, wanted))


def _from_log(rows: Sequence[Events], after: int, limit: int) -> list[ShownEvent]:
    """The first events of a page of the log."""
    found: list[ShownEvent] = []
    for row in rows:
        for number, payload in enumerate(SseReader().feed(row.data), row.first):
            if number > after:
                found.append(ShownEvent(number, None, msgspec.Raw(payload)))
            if len(found) == limit:
                return found
    return found
