"""Create a response: resolve the history, run the turn, number the events, commit, tell.

`Run.events` is the one loop; a JSON answer is its last event's response.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from msgspec import UnsetType
from msgspec.structs import replace

from antiphon.backends.base import PreparedTurn
from antiphon.errors import AntiphonError, BackendBroken, BackendError, Unsupported
from antiphon.protocol.content import ReasoningText
from antiphon.protocol.events import Event
from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.items import Item, ItemReference, OpaqueItem, Reasoning
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response, new_response
from antiphon.service.router import Route, Router
from antiphon.store.base import Store, StoredResponse
from antiphon.turn.chunks import Chunk, Failed
from antiphon.turn.context import TurnRequest, build_turn
from antiphon.turn.machine import Machine
from antiphon.turn.sealing import Sealer

logger = logging.getLogger(__name__)

_ID_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
}


@dataclass(frozen=True, slots=True)
class Creator:
    """Starts responses. Everything that differs between installations is handed in."""

    router: Router
    store: Store
    ids: IdSource
    clock: Clock
    sealer: Sealer
    ignored_tools: frozenset[str] = frozenset()
    inherit_tools: bool = True

    def start(self, request: CreateResponse, tenant: str = "") -> "Run":
        """A run of this request; nothing happens until its events are read."""
        _refuse_unserved(request)
        return Run(self, request, tenant, self.router.routes(request.params.model))


class Run:
    """One response under way."""

    def __init__(self, creator: Creator, request: CreateResponse, tenant: str, routes: list[Route]) -> None:
        self._creator = creator
        self._request = request
        self._tenant = tenant
        self._routes = routes
        self._machine: Machine | None = None
        self.ended = False

    async def events(self) -> AsyncGenerator[list[Event], None]:
        """Batches of events; the last one holds the terminal event, and what it says is stored.

        What goes wrong before the first batch is raised: nothing was promised yet. Until a backend has said
        something, another may take its place.
        """
        history = await self._resolve()
        closing: list[Event] = []
        for route in self._routes:
            turn = self._build(route, history)
            prepared = route.backend.prepare(turn)
            said = False
            batches = prepared.chunks()
            try:
                async for chunks in batches:
                    said = said or bool(chunks)
                    yield self._machine_events(chunks, turn, prepared)
                break
            except BackendError as error:
                if self._may_go_on(route, error, said=said):
                    continue
                if self._machine is None:
                    raise
                closing = self._machine.feed([Failed(error)])
                break
            finally:
                await batches.aclose()
        if self._machine is None:
            raise BackendBroken("The backend ended the turn without an answer.")
        yield closing + await self._finish(self._machine)

    async def result(self) -> Response:
        """The final response, for callers that do not stream. A failure is raised, not returned."""
        async for _ in self.events():
            pass
        machine = self._machine
        assert machine is not None
        if machine.failure is not None:
            raise machine.failure
        return machine.response

    async def abort(self, error: AntiphonError) -> list[Event]:
        """End a run from outside: its last events, as if the backend had failed with `error`."""
        machine = self._machine
        if machine is None or self.ended:
            return []
        return machine.feed([Failed(error)]) + await self._finish(machine)

    def _build(self, route: Route, history: Sequence[Item]) -> TurnRequest:
        return build_turn(
            self._request,
            history,
            model=route.upstream_name(self._request.params.model),
            ignored_tools=self._creator.ignored_tools,
        )

    def _may_go_on(self, route: Route, error: BackendError, *, said: bool) -> bool:
        """Whether the next backend may try what this one could not do."""
        if said or not error.retryable or route is self._routes[-1]:
            return False
        logger.warning("backend %s failed, trying the next: %s", route.backend.name, error.message)
        return True

    def _machine_events(
        self, chunks: Sequence[Chunk], turn: TurnRequest, prepared: PreparedTurn
    ) -> list[Event]:
        """What these chunks mean to the client; no chunks: that the line is alive."""
        machine = self._machine
        if machine is not None:
            return machine.feed(chunks) if chunks else machine.keepalive()
        machine = self._machine = self._begin(turn, prepared)
        return machine.start() + (machine.feed(chunks) if chunks else machine.keepalive())

    def _begin(self, turn: TurnRequest, prepared: PreparedTurn) -> Machine:
        creator = self._creator
        response = new_response(self._request, id=creator.ids.new("resp"), created_at=int(creator.clock()))
        downgrades = [*turn.downgrades, *prepared.downgrades]
        if downgrades:
            response = replace(response, downgrades=downgrades)
        return Machine(
            response,
            new_id=creator.ids.new,
            tools={tool.name: tool for tool in turn.tools},
            forbidden=turn.forbidden,
            seal=creator.sealer.seal if _wants_seal(self._request) else None,
            told=self._request.streamed,
        )

    async def _finish(self, machine: Machine) -> list[Event]:
        """Commit, then tell."""
        events = machine.end(int(self._creator.clock()))
        if self._request.stored:
            await self._creator.store.save(self._tenant, self._record(machine.response))
        self.ended = True
        return events

    def _record(self, response: Response) -> StoredResponse:
        return StoredResponse(
            response=response,
            parent=self._request.params.previous_response_id,
            input=tuple(_with_id(item, self._creator.ids.new) for item in self._request.items),
            tools=self._request.tools,
        )

    async def _resolve(self) -> Sequence[Item]:
        """The history before the request's own items; references are replaced, envelopes opened."""
        store, sealer = self._creator.store, self._creator.sealer
        parent = self._request.params.previous_response_id
        history: list[Item] = []
        if parent is not None:
            history = [_opened(item, sealer) for item in await store.history(self._tenant, parent)]
            if self._creator.inherit_tools and not self._request.tools:
                stored = await store.load(self._tenant, parent)
                self._request = replace(self._request, tools=stored.tools)
        if any(isinstance(item, ItemReference | Reasoning) for item in self._request.items):
            items = [
                await store.item(self._tenant, item.id) if isinstance(item, ItemReference) else item
                for item in self._request.items
            ]
            self._request = replace(self._request, items=tuple(_opened(item, sealer) for item in items))
        return history


def _refuse_unserved(request: CreateResponse) -> None:
    """Parameters of the protocol that this build does not serve yet would change the answer: say so."""
    given = request.params
    for name, value in (
        ("background", given.background),
        ("conversation", given.conversation),
        ("prompt", given.prompt),
        ("context_management", given.context_management),
        ("moderation", given.moderation),
    ):
        if value:
            message = f"'{name}' is not supported by this server yet. Leave it out."
            raise Unsupported(message, param=name, code="unsupported_parameter")


def _wants_seal(request: CreateResponse) -> bool:
    return not request.stored or "reasoning.encrypted_content" in (request.params.include or ())


def _opened(item: Item, sealer: Sealer) -> Item:
    """A reasoning item with its sealed text readable for the backend."""
    if not isinstance(item, Reasoning) or item.content or isinstance(item.encrypted_content, UnsetType):
        return item
    text = sealer.open(item.encrypted_content)
    return item if text is None else replace(item, content=[ReasoningText(text)])


def _with_id(item: Item, new_id: Callable[[str], str]) -> Item:
    """Stored items have ids, so that they can be referred to."""
    if isinstance(item, OpaqueItem):
        if item.body.get("id"):
            return item
        return OpaqueItem(item.type, {**item.body, "id": new_id("item")})
    if not isinstance(item.id, UnsetType) or isinstance(item, ItemReference):
        return item
    return replace(item, id=new_id(_ID_PREFIXES[str(item.__struct_config__.tag)]))
