"""The ASGI application: guard, authenticate, route; whatever goes wrong leaves as the error object."""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from antiphon.caller import DELETE, READ, WRITE
from antiphon.errors import AntiphonError, MethodNotAllowed, NotFound, UpgradeRequired
from antiphon.orchestrator.agent import AgentServices
from antiphon.protocol.gate import stateless
from antiphon.protocol.profile import DEFAULT_PROFILES, Profiles
from antiphon.protocol.shape import error_wire
from antiphon.server.auth import Keys
from antiphon.server.compat.api import CompatApi
from antiphon.server.compat.chat_completions.stream import ChatCompletionsApi
from antiphon.server.compat.messages.count import CountRoute
from antiphon.server.compat.messages.models import AnthropicModels
from antiphon.server.compat.messages.stream import MessagesApi
from antiphon.server.compat.route import CompatRoute
from antiphon.server.error_shapes import error_shape
from antiphon.server.exchange import Bodies, Exchange
from antiphon.server.guard import Head, HostGuard, check_origin, read_head
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.routes.agent import AgentRoutes
from antiphon.server.routes.agent_runs import AgentRunRoutes
from antiphon.server.routes.compact import CompactRoutes
from antiphon.server.routes.conversations import ConversationRoutes
from antiphon.server.routes.health import HealthRoutes
from antiphon.server.routes.input_tokens import InputTokensRoutes
from antiphon.server.routes.models import ModelsRoutes
from antiphon.server.routes.responses import ResponsesRoutes
from antiphon.server.routes.stored import StoredRoutes
from antiphon.server.routing import Endpoint, RouteTable
from antiphon.server.types import Receive, Scope, Send
from antiphon.server.websocket.channel import refuse
from antiphon.server.websocket.connection import WebSocketLimits
from antiphon.server.websocket.endpoint import SocketClient, WebSocketEndpoint
from antiphon.service.routing.capabilities import ServerFeatures
from antiphon.service.services import Services

logger = logging.getLogger(__name__)


class Served(NamedTuple):
    """What an application serves; without agents it has no routes for them."""

    services: Services
    agents: AgentServices | None = None


OpenServices = Callable[[], AbstractAsyncContextManager[Served]]

SOCKET_PATH = "/v1/responses"
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
ROUTES = (
    "POST /v1/responses",
    "GET /v1/responses",
    "POST /v1/responses/input_tokens",
    "POST /v1/responses/compact",
    "GET /v1/responses/{id}",
    "DELETE /v1/responses/{id}",
    "POST /v1/responses/{id}/cancel",
    "GET /v1/responses/{id}/input_items",
    "POST /v1/chat/completions",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1/conversations",
    "GET /v1/conversations/{id}",
    "POST /v1/conversations/{id}",
    "DELETE /v1/conversations/{id}",
    "POST /v1/conversations/{id}/items",
    "GET /v1/conversations/{id}/items",
    "GET /v1/conversations/{id}/items/{item_id}",
    "DELETE /v1/conversations/{id}/items/{item_id}",
    "POST /v1/agent/execute",
    "GET /v1/agent/modes",
    "POST /v1/agent/runs",
    "GET /v1/agent/runs",
    "GET /v1/agent/runs/{id}",
    "DELETE /v1/agent/runs/{id}",
    "POST /v1/agent/runs/{id}/cancel",
    "GET /v1/models",
    "GET /v1/models/{model}/capabilities",
    "GET /v1/models/{model}",
    "GET /healthz",
    "GET /readyz",
)
"""Every route, as the documentation spells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """What an operator can choose."""

    keys: Keys
    hosts: HostGuard
    max_body: int = 32 * 1024 * 1024
    body_timeout: float = 30.0
    websocket: bool = True
    heartbeat: float = 10.0
    keeps: bool = True
    """Whether responses are kept."""
    profiles: Profiles = DEFAULT_PROFILES


class App:
    """The application. `open_services` gives the services for as long as the lifespan lasts."""

    def __init__(
        self,
        open_services: OpenServices,
        new_request_id: Callable[[], str],
        options: AppOptions,
        on_started: "Callable[[App], None] | None" = None,
    ) -> None:
        self._open_services = open_services
        self._new_request_id = new_request_id
        self._options = options
        self._on_started = on_started or _nothing
        self.lifetimes = Lifetimes()
        self.routes = RouteTable({})
        self._door: WebSocketEndpoint | None = None

    @property
    def guarded(self) -> bool:
        """Whether a key is asked for."""
        return not self._options.keys.empty

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self._open_socket(scope, receive, send)

    def mount(self, services: Services, agents: AgentServices | None = None) -> None:
        """Serve these services."""
        if self._options.websocket:
            self._door = WebSocketEndpoint(services.creator, self.lifetimes, limits=WebSocketLimits())
        self.routes = RouteTable(
            {
                **self._response_routes(services),
                **self._door_routes(services),
                **self._conversation_routes(services),
                **({} if agents is None else self._agent_routes(agents)),
                **self._other_routes(services),
            }
        )

    def _response_routes(self, services: Services) -> dict[str, Endpoint]:
        max_body, body_timeout = self._options.max_body, self._options.body_timeout
        stored = StoredRoutes(services.stored, self.lifetimes)
        created = ResponsesRoutes(
            services.creator,
            services.background,
            stored,
            self.lifetimes,
            max_body=max_body,
            body_timeout=body_timeout,
        )
        compaction = CompactRoutes(
            services.compactor, self.lifetimes, max_body=max_body, body_timeout=body_timeout
        )
        tokens = InputTokensRoutes(services.tokens, self._bodies())
        return {
            "POST /v1/responses": Endpoint(created.create, WRITE),
            "GET /v1/responses": Endpoint(_want_upgrade, WRITE),
            "POST /v1/responses/input_tokens": Endpoint(tokens.count, READ),
            "POST /v1/responses/compact": Endpoint(compaction.compact, WRITE),
            "GET /v1/responses/{id}": Endpoint(stored.retrieve, READ),
            "DELETE /v1/responses/{id}": Endpoint(stored.delete, DELETE),
            "POST /v1/responses/{id}/cancel": Endpoint(stored.cancel, WRITE),
            "GET /v1/responses/{id}/input_items": Endpoint(stored.input_items, READ),
        }

    def _door_routes(self, services: Services) -> dict[str, Endpoint]:
        """The same engine, for clients of other APIs."""
        opened = services.sealer.open
        count = CountRoute(services.tokens, self._bodies(), opened)
        return {
            "POST /v1/chat/completions": Endpoint(
                self._door_route(ChatCompletionsApi(), services).create, WRITE
            ),
            "POST /v1/messages": Endpoint(self._door_route(MessagesApi(opened), services).create, WRITE),
            "POST /v1/messages/count_tokens": Endpoint(count.count, READ),
        }

    def _door_route(self, door: CompatApi, services: Services) -> CompatRoute:
        return CompatRoute(
            door,
            services.creator,
            self.lifetimes,
            max_body=self._options.max_body,
            body_timeout=self._options.body_timeout,
        )

    def _conversation_routes(self, services: Services) -> dict[str, Endpoint]:
        routes = ConversationRoutes(services.conversations, self._bodies())
        one, items = "/v1/conversations/{id}", "/v1/conversations/{id}/items"
        return {
            "POST /v1/conversations": Endpoint(routes.create, WRITE, stateful=True),
            f"GET {one}": Endpoint(routes.retrieve, READ, stateful=True),
            f"POST {one}": Endpoint(routes.update, WRITE, stateful=True),
            f"DELETE {one}": Endpoint(routes.delete, DELETE, stateful=True),
            f"POST {items}": Endpoint(routes.add_items, WRITE, stateful=True),
            f"GET {items}": Endpoint(routes.list_items, READ, stateful=True),
            f"GET {items}/{{item_id}}": Endpoint(routes.retrieve_item, READ, stateful=True),
            f"DELETE {items}/{{item_id}}": Endpoint(routes.delete_item, DELETE, stateful=True),
        }

    def _agent_routes(self, agents: AgentServices) -> dict[str, Endpoint]:
        routes = AgentRoutes(agents.agent, self.lifetimes, self._bodies(), self._options.heartbeat)
        runs = AgentRunRoutes(agents, self.lifetimes, self._bodies())
        one = "/v1/agent/runs/{id}"
        return {
            "POST /v1/agent/execute": Endpoint(routes.execute, WRITE),
            "GET /v1/agent/modes": Endpoint(routes.modes, READ),
            "POST /v1/agent/runs": Endpoint(runs.submit, WRITE),
            "GET /v1/agent/runs": Endpoint(runs.list, READ),
            f"GET {one}": Endpoint(runs.retrieve, READ),
            f"DELETE {one}": Endpoint(runs.delete, DELETE),
            f"POST {one}/cancel": Endpoint(runs.cancel, WRITE),
        }

    def _other_routes(self, services: Services) -> dict[str, Endpoint]:
        models, health = self._models(services), HealthRoutes(self.lifetimes)
        anthropic = AnthropicModels(services.router)
        return {
            "GET /v1/models": Endpoint(anthropic.list_or(models.list)),
            "GET /v1/models/{model}/capabilities": Endpoint(models.capabilities),
            "GET /v1/models/{model}": Endpoint(anthropic.retrieve_or(models.retrieve)),
            "GET /healthz": Endpoint(health.alive),
            "GET /readyz": Endpoint(health.ready),
        }

    def _models(self, services: Services) -> ModelsRoutes:
        around = ServerFeatures(
            keeps=self._options.keeps,
            websocket=self._options.websocket,
            ignored_tools=services.ignored_tools,
        )
        return ModelsRoutes(services.router, around)

    def _bodies(self) -> Bodies:
        return Bodies(self.lifetimes, self._options.max_body, self._options.body_timeout)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        profiles = self._options.profiles
        request_id = self._new_request_id()
        exchange = Exchange(
            scope, receive, send, head=Head(), request_id=request_id, profile=profiles.default
        )
        try:
            exchange.errors = error_shape(exchange.path, exchange.head)
            exchange.head = read_head(scope["headers"])
            if exchange.head.anthropic_version:
                routed = bool(self.routes.methods(exchange.path))
                exchange.errors = error_shape(exchange.path, exchange.head, routed=routed)
            exchange.profile = profiles.named(exchange.head.profile)
            await self._answer(exchange)
        except ClientGone:
            logger.info("request %s: the client left", exchange.request_id)
        except MethodNotAllowed as error:
            await exchange.send_error(error, ((b"allow", self.routes.methods(exchange.path).encode()),))
        except AntiphonError as error:
            _log(exchange, error)
            await _tell(exchange, error)
        except Exception:
            logger.exception("request %s broke", exchange.request_id)
            if exchange.started:
                raise
            await exchange.send_error(
                AntiphonError("Antiphon has a bug; the log knows more.", code="internal_error")
            )

    async def _answer(self, exchange: Exchange) -> None:
        """Let those in who may, and hand over to the route."""
        self._options.hosts.check(exchange.head.host)
        if not self.guarded:  # a page cannot send a key that it does not know
            check_origin(exchange.head)
        if exchange.path in OPEN_PATHS:
            endpoint, _ = self.routes.find(exchange.method, exchange.path)
            return await endpoint.handler(exchange)
        caller = self._options.keys.check(exchange.head.authorization)
        exchange.tenant = caller.tenant
        endpoint, parameters = self.routes.find(exchange.method, exchange.path)
        if endpoint.scope is not None:
            caller.require(endpoint.scope)
        if endpoint.stateful and not exchange.profile.state:
            raise stateless(exchange.path)
        await endpoint.handler(exchange, *parameters)

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a WebSocket in, or say with an HTTP status why not."""
        request_id = self._new_request_id()
        try:
            head = read_head(scope["headers"])
            door = self._door_at(scope["path"], head)
            profile = self._options.profiles.named(head.profile)
        except AntiphonError as error:
            logger.info("request %s: %d %s", request_id, error.status, error.message)
            await refuse(scope, send, error, request_id)
            return
        admit = partial(self._socket_tenant, head)
        await door.serve(scope, receive, send, SocketClient(admit, profile, request_id))

    def _door_at(self, path: str, head: Head) -> WebSocketEndpoint:
        self._options.hosts.check(head.host)
        check_origin(head)
        caller = self._options.keys.check(head.authorization)
        if path != SOCKET_PATH:
            raise NotFound(f"No WebSocket is served at {path[:200]}.", code="unknown_url")
        caller.require(WRITE)
        if self._door is None:
            raise UpgradeRequired
        return self._door

    def _socket_tenant(self, head: Head) -> str:
        caller = self._options.keys.check(head.authorization)
        caller.require(WRITE)
        return caller.tenant

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self._open_services() as served:
                self.mount(*served)
                self._on_started(self)
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except AntiphonError as error:
            await send({"type": "lifespan.startup.failed", "message": error.message})
            return
        await send({"type": "lifespan.shutdown.complete"})


async def _want_upgrade(_exchange: Exchange) -> None:
    raise UpgradeRequired(
        "GET /v1/responses opens a WebSocket, and this was a plain request. Use `POST /v1/responses`."
    )


async def _tell(exchange: Exchange, error: AntiphonError) -> None:
    """As the answer; or, if a stream has begun, by ending it without the mark of its end."""
    if not exchange.started:
        await exchange.send_error(error)
    elif exchange.phase == "streaming":
        await exchange.end_stream(b"")


def _nothing(_app: "App") -> None:
    pass


def _log(exchange: Exchange, error: AntiphonError) -> None:
    status, _ = error_wire(error, exchange.profile)
    level = logging.WARNING if status >= 500 else logging.INFO
    logger.log(level, "request %s: %d %s", exchange.request_id, status, error.message)
