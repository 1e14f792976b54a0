"""The ports on a SQL database, one class each: every call is one script, run as one transaction."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from antiphon.protocol.ids import Clock
from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.store import agent_scripts, approvals, conversations, jobs, keys, responses, runs, upkeep
from antiphon.store.agent_runs import AgentRun, RunClaim, RunEvent, RunStatus
from antiphon.store.approvals import OpenApproval
from antiphon.store.base import (
    ANY_LENGTH,
    NONE_PRIVATE,
    ApiKey,
    Claim,
    Continuation,
    Conversation,
    EventRows,
    Events,
    HistoryRoom,
    ItemPage,
    Job,
    JobLimit,
    NewJob,
    Page,
    PrivateSides,
    Settled,
    StoredItem,
    StoredResponse,
)
from antiphon.store.blobs.rows import RowBlobs
from antiphon.store.chains import AlreadyStored
from antiphon.store.database import Database
from antiphon.store.histories import Beginning, Histories
from antiphon.store.ports import Stores
from antiphon.store.postgres_vectors import PostgresVectors
from antiphon.store.signals import Signals
from antiphon.store.sql_files import SqlFiles
from antiphon.store.sql_summaries import SqlSummaries
from antiphon.store.sql_vector_stores import SqlVectorStores
from antiphon.store.sqlite_vectors import SqliteVectors
from antiphon.store.vector_search import VectorSearch

LOG_LIFETIME_SECONDS = 3600.0
"""How long the events of an ended response can be read again."""


def sql_stores(
    database: Database,
    signals: Signals,
    clock: Clock,
    *,
    limit: int | None = None,
    log_lifetime: float = LOG_LIFETIME_SECONDS,
    trace_lifetime: float = upkeep.TRACE_LIFETIME_SECONDS,
) -> Stores:
    """The ports on this database. `clock` decides what has expired; leases run by the database's own clock.

    With a `limit`, only about so many finished responses and agent runs stay: the oldest are deleted.
    """
    trim, reader = Trim(database, limit), Histories(database)
    return Stores(
        responses=SqlResponses(database, clock, trim, reader),
        conversations=SqlConversations(database, clock, reader),
        background=SqlBackground(database, clock, trim, reader),
        agent_runs=SqlAgentRuns(database, clock, limit=limit),
        files=SqlFiles(database, clock),
        blobs=RowBlobs(database),
        vector_stores=SqlVectorStores(database, _vector_search(database), clock),
        jobs=SqlJobs(database),
        keys=SqlKeys(database),
        summaries=SqlSummaries(database, clock),
        upkeep=SqlUpkeep(database, clock, log_lifetime, trace_lifetime),
        signals=signals,
        aclose=database.aclose,
    )


def _vector_search(database: Database) -> VectorSearch:
    return SqliteVectors(database) if database.dialect == "sqlite" else PostgresVectors(database)


class Trim:
    """Deletes the oldest finished responses beyond a limit.

    Not after every save, since counting costs something: up to a twentieth more may be there meanwhile.
    """

    def __init__(self, database: Database, limit: int | None) -> None:
        self._db = database
        self._limit = limit
        self._saved = 0

    async def after_save(self) -> None:
        """Count one more response, and delete if it is time."""
        if self._limit is None:
            return
        self._saved += 1
        if self._saved > self._limit // 20:
            self._saved = 0
            await self._db.write(upkeep.trim(self._limit), durable=False)


class _SqlPort:
    """A port on a database, with a clock."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db = database
        self._clock = clock

    def _now(self) -> int:
        return int(self._clock())


class SqlResponses(_SqlPort):
    """See `ResponseStore`."""

    def __init__(self, database: Database, clock: Clock, trim: Trim, reader: Histories) -> None:
        super().__init__(database, clock)
        self._trim = trim
        self._histories = reader

    async def check(self) -> None:
        """Raise at once if a response could not be saved right now."""
        await self._db.check()

    async def save(self, tenant: str, stored: StoredResponse) -> None:
        """Save a finished response. Saving it again changes nothing."""
        with suppress(AlreadyStored):
            await self._db.write(responses.save(tenant, stored))
        await self._trim.after_save()

    async def response(self, tenant: str, response_id: str) -> Response:
        """One response."""
        return await self._db.read(responses.find(tenant, response_id, self._now()))

    async def continuation(
        self, tenant: str, response_id: str, room: HistoryRoom = ANY_LENGTH
    ) -> Continuation:
        """Everything up to and including a response's output."""
        found = await self._db.read(responses.continuation(tenant, response_id, self._now()))
        return await self._histories.complete(
            tenant, found, room, lambda: responses.end_of(tenant, response_id)
        )

    async def open_approvals(self, tenant: str, limit: int) -> Sequence[OpenApproval]:
        """Approval requests that wait."""
        return await self._db.read(approvals.open_ones(tenant, limit, self._now()))

    async def take_approvals(self, tenant: str, request_ids: Sequence[str]) -> None:
        """Record answers before their calls run."""
        await self._db.write(approvals.take(tenant, request_ids, self._now()))

    async def item(self, tenant: str, item_id: str) -> StoredItem:
        """One stored item."""
        return await self._db.read(responses.item(tenant, item_id, self._now()))

    async def input_items(self, tenant: str, response_id: str, page: Page) -> ItemPage:
        """What went into a response."""
        return await self._db.read(responses.input_items(tenant, response_id, page, self._now()))

    async def delete(self, tenant: str, response_id: str) -> None:
        """Delete a response."""
        await self._db.write(responses.delete(tenant, response_id, self._now()))

    async def list_responses(
        self, tenant: str, *, limit: int, after: str | None = None, conversation: str | None = None
    ) -> Sequence[StoredResponse]:
        """Responses, newest first."""
        return await self._db.read(responses.newest(tenant, limit, after, conversation, self._now()))


class SqlConversations(_SqlPort):
    """See `ConversationStore`."""

    def __init__(self, database: Database, clock: Clock, reader: Histories) -> None:
        super().__init__(database, clock)
        self._histories = reader

    async def add_conversation(
        self,
        tenant: str,
        conversation: Conversation,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """Save a new conversation."""
        await self._db.write(conversations.add(tenant, conversation, items, private))

    async def conversation(self, tenant: str, conversation_id: str) -> Conversation:
        """Return one conversation."""
        return await self._db.read(conversations.find(tenant, conversation_id))

    async def set_metadata(
        self, tenant: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation:
        """Replace the metadata of a conversation."""
        return await self._db.write(conversations.set_metadata(tenant, conversation_id, metadata))

    async def delete_conversation(self, tenant: str, conversation_id: str) -> None:
        """Delete a conversation."""
        await self._db.write(conversations.delete(tenant, conversation_id))

    async def add_items(
        self,
        tenant: str,
        conversation_id: str,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """Append items to a conversation."""
        await self._db.write(conversations.add_items(tenant, conversation_id, items, private))

    async def conversation_items(self, tenant: str, conversation_id: str, page: Page) -> ItemPage:
        """The items of a conversation."""
        return await self._db.read(conversations.list_items(tenant, conversation_id, page))

    async def conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Item:
        """One item of a conversation."""
        return await self._db.read(conversations.item(tenant, conversation_id, item_id))

    async def delete_item(self, tenant: str, conversation_id: str, item_id: str) -> None:
        """Remove one item from a conversation."""
        await self._db.write(conversations.delete_item(tenant, conversation_id, item_id))

    async def history(
        self, tenant: str, conversation_id: str, room: HistoryRoom = ANY_LENGTH
    ) -> Continuation:
        """What a conversation holds."""
        found = await self._db.read(conversations.history(tenant, conversation_id))
        return await self._complete(tenant, conversation_id, found, room)

    async def enter(
        self,
        tenant: str,
        conversation_id: str,
        response_id: str,
        lease: float,
        room: HistoryRoom = ANY_LENGTH,
    ) -> Continuation:
        """Lock a conversation for a response. A lock need not survive a power failure."""
        script = conversations.enter(tenant, conversation_id, response_id, lease, self._now())
        found = await self._db.write(script, durable=False)
        return await self._complete(tenant, conversation_id, found, room)

    async def _complete(
        self, tenant: str, conversation_id: str, found: Beginning, room: HistoryRoom
    ) -> Continuation:
        return await self._histories.complete(
            tenant, found, room, lambda: conversations.head_of(tenant, conversation_id)
        )

    async def renew(self, tenant: str, conversation_id: str, response_id: str, lease: float) -> None:
        """Renew the lock of a response."""
        script = conversations.renew(tenant, conversation_id, response_id, lease)
        await self._db.write(script, durable=False)

    async def leave(self, tenant: str, conversation_id: str, response_id: str) -> None:
        """Release the lock of a response that was abandoned."""
        await self._db.write(conversations.leave(tenant, conversation_id, response_id), durable=False)


class SqlBackground(_SqlPort):
    """See `BackgroundStore`."""

    def __init__(self, database: Database, clock: Clock, trim: Trim, reader: Histories) -> None:
        super().__init__(database, clock)
        self._trim = trim
        self._histories = reader

    async def submit(
        self, tenant: str, stored: StoredResponse, request: bytes, events: Events, owner: str | None = None
    ) -> None:
        """Save a queued response. Submitting it again changes nothing."""
        with suppress(AlreadyStored):
            await self._db.write(runs.submit(tenant, stored, request, events, owner))

    async def claim(self, tenant: str, response_id: str, job: Job | None = None) -> Claim | None:
        """Claim an unfinished response."""
        return await self._db.write(runs.claim(tenant, response_id, job, self._now()))

    async def base(self, tenant: str, response_id: str, room: HistoryRoom = ANY_LENGTH) -> Continuation:
        """The history that an unfinished response continues."""
        found = await self._db.read(runs.base(tenant, response_id))
        return await self._histories.complete(
            tenant, found, room, lambda: runs.check_base(tenant, response_id)
        )

    async def append(self, tenant: str, response_id: str, token: int, events: Events) -> None:
        """Append to the event log, durably: followers have received what is in it."""
        await self._db.write(runs.append(tenant, response_id, token, events))

    async def finish(self, tenant: str, token: int, stored: StoredResponse, events: EventRows) -> None:
        """Save the last events and the final response together."""
        await self._db.write(runs.finish(tenant, token, stored, events), large=events.large)
        await self._trim.after_save()

    async def events(self, tenant: str, response_id: str, after: int) -> tuple[Sequence[Events], bool]:
        """What the log holds beyond an event, and whether the response has ended."""
        return await self._db.read(runs.events(tenant, response_id, after, self._now()))


class SqlAgentRuns(_SqlPort):
    """See `AgentRunStore`. With a `limit`, only so many ended runs stay: the oldest are deleted."""

    def __init__(self, database: Database, clock: Clock, *, limit: int | None = None) -> None:
        super().__init__(database, clock)
        self._limit = limit

    async def submit(self, tenant: str, run: AgentRun, request: bytes, owner: str | None = None) -> None:
        """Save a queued run. Submitting it again changes nothing."""
        await self._db.write(agent_scripts.submit(tenant, run, request, owner))

    async def claim(self, tenant: str, run_id: str, job: Job | None = None) -> RunClaim | None:
        """Claim an unfinished run."""
        return await self._db.write(agent_scripts.claim(tenant, run_id, job, self._now()))

    async def append(self, tenant: str, run_id: str, token: int, events: Sequence[RunEvent]) -> None:
        """Append to the log, durably."""
        await self._db.write(agent_scripts.append(tenant, run_id, token, events))

    async def wait(self, tenant: str, run_id: str, token: int, events: Sequence[RunEvent]) -> None:
        """Append to the log; the run waits."""
        await self._db.write(agent_scripts.wait(tenant, run_id, token, events))

    async def answer(
        self, tenant: str, run_id: str, token: int, events: Sequence[RunEvent], *, proceed: bool
    ) -> None:
        """Append to the log of a waiting run."""
        await self._db.write(agent_scripts.answer(tenant, run_id, token, events, proceed=proceed))

    async def waiting(self, tenant: str, limit: int) -> Sequence[AgentRun]:
        """The runs that wait."""
        return await self._db.read(agent_scripts.waiting(tenant, limit, self._now()))

    async def finish(
        self, tenant: str, run_id: str, token: int, status: RunStatus, events: Sequence[RunEvent]
    ) -> None:
        """Save the last events and the final status together."""
        await self._db.write(agent_scripts.finish(tenant, run_id, token, status, events, now=self._now()))
        if self._limit is not None:
            await self._db.write(upkeep.trim_agent_runs(self._limit), durable=False)

    async def run(self, tenant: str, run_id: str) -> AgentRun:
        """One run."""
        return await self._db.read(agent_scripts.find(tenant, run_id, self._now()))

    async def events(self, tenant: str, run_id: str, after: int = -1) -> tuple[Sequence[RunEvent], bool]:
        """What the log holds beyond an event, and whether the run has ended."""
        return await self._db.read(agent_scripts.events(tenant, run_id, after, self._now()))

    async def list_runs(self, tenant: str, *, limit: int, after: str | None = None) -> Sequence[AgentRun]:
        """Runs, newest first."""
        return await self._db.read(agent_scripts.newest(tenant, limit, after, self._now()))

    async def delete(self, tenant: str, run_id: str) -> None:
        """Delete a run and its log."""
        await self._db.write(agent_scripts.delete(tenant, run_id, self._now()))


class SqlJobs:
    """See `JobStore`. Only new jobs have to survive a power failure: their rows are the truth."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, job: NewJob) -> None:
        """Add a job, or nothing if it is there."""
        await self._db.write(jobs.add(job))

    async def claim(self, owner: str, limits: Sequence[JobLimit]) -> Sequence[Job]:
        """Claim due jobs."""
        return await self._db.write(jobs.claim(owner, limits), durable=False)

    async def claim_one(self, owner: str, kind: str, tenant: str, job_id: str, lease: float) -> Job | None:
        """Claim one job."""
        return await self._db.write(jobs.claim_one(owner, kind, tenant, job_id, lease), durable=False)

    async def look(self, kinds: Sequence[str]) -> tuple[bool, float | None]:
        """Whether a job is due, and the seconds until the next one will be."""
        return await self._db.read(jobs.look(kinds))

    async def free_lapsed(self, owner: str, lease: float) -> int:
        """Take their jobs from lapsed owners. It writes only if there are any."""
        if not await self._db.read(jobs.lapsed(owner, lease)):
            return 0
        return await self._db.write(jobs.free_lapsed(owner, lease), durable=False)

    async def held(self, owner: str) -> Sequence[Job]:
        """The jobs of an owner."""
        return await self._db.read(jobs.held(owner))

    async def settle(self, settled: Sequence[Settled]) -> None:
        """Record what became of claimed jobs."""
        await self._db.write(jobs.settle(settled), durable=False)

    async def beat(self, owner: str) -> None:
        """Record a sign of life."""
        await self._db.write(jobs.beat(owner), durable=False)

    async def release(self, owner: str) -> None:
        """Release everything that this owner holds."""
        await self._db.write(jobs.release(owner), durable=False)


class SqlKeys:
    """See `KeyStore`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def add_key(self, key: ApiKey) -> None:
        """Save a key."""
        await self._db.write(keys.add(key))

    async def list_keys(self) -> Sequence[ApiKey]:
        """All keys."""
        return await self._db.read(keys.everything())

    async def revoke_key(self, key_id: str, now: int) -> None:
        """Refuse the key from now on."""
        await self._db.write(keys.revoke(key_id, now))

    async def delete_keys(self, key_ids: Sequence[str]) -> None:
        """Remove the keys."""
        await self._db.write(keys.delete(key_ids))

    async def record_seal_key(self, fingerprint: str) -> str:
        """The fingerprint of the sealing key of this database."""
        return await self._db.write(keys.record_seal_key(fingerprint))

    async def replace_seal_key(self, fingerprint: str) -> None:
        """Record another sealing key."""
        await self._db.write(keys.replace_seal_key(fingerprint))


class SqlUpkeep(_SqlPort):
    """See `UpkeepStore`."""

    def __init__(self, database: Database, clock: Clock, log_lifetime: float, trace_lifetime: float) -> None:
        super().__init__(database, clock)
        self._log_lifetime = log_lifetime
        self._trace_lifetime = trace_lifetime

    async def sweep(self) -> int:
        """Erase some of what has expired."""
        script = upkeep.sweep(self._log_lifetime, self._now(), self._trace_lifetime)
        return await self._db.write(script, durable=False, large=True)

    async def shrink(self) -> bool:
        """Return some of the unused space."""
        return await self._db.shrink()
