"""The ASGI application: check the head, authenticate, route; errors become error objects."""

import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from antiphon.caller import WRITE, Caller
from antiphon.errors import AntiphonError, MethodNotAllowed, NotFound, UpgradeRequired, drop_tracebacks
from antiphon.orchestrator.agent import AgentServices
from antiphon.protocol.gate import stateless
from antiphon.protocol.profile import DEFAULT_PROFILES, Profiles
from antiphon.protocol.shape import error_wire
from antiphon.server.admission import MAX_BODIES_BYTES, MAX_HELD_BYTES, Admission
from antiphon.server.auth import Keys
from antiphon.server.error_shapes import internal_error
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.guard import Head, HostGuard, check_origin, read_head
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.page.bundle import load_bundle
from antiphon.server.routes.admin import ReadSettings, RunChecks
from antiphon.server.routes.table import RouteOptions, route_groups
from antiphon.server.routing import Match, Route, RouteTable
from antiphon.server.sessions import Sessions
from antiphon.server.types import Receive, Scope, Send
from antiphon.server.websocket.channel import refuse
from antiphon.server.websocket.connection import WebSocketLimits
from antiphon.server.websocket.endpoint import SocketClient, WebSocketEndpoint
from antiphon.service.services import Services

logger = logging.getLogger(__name__)

_NO_HEAD = Head()
"""Of a request whose head was not read yet."""


class Served(NamedTuple):
    """The services of an application; without agents it has no routes for them."""

    services: Services
    agents: AgentServices | None = None


OpenServices = Callable[[], AbstractAsyncContextManager[Served]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """What an operator can choose."""

    keys: Keys
    hosts: HostGuard
    max_body: int = 32 * 1024 * 1024
    websockets: WebSocketLimits = field(default_factory=WebSocketLimits)
    body_timeout: float = 30.0
    max_bodies: int = MAX_BODIES_BYTES
    max_held: int = MAX_HELD_BYTES
    max_memory: int = 0
    websocket: bool = True
    heartbeat: float = 10.0
    keeps: bool = True
    """Whether responses are stored."""
    profiles: Profiles = DEFAULT_PROFILES
    page: bool = True
    """Whether the page is served."""
    read_settings: ReadSettings = tuple
    """Reads the settings in force, for operators."""
    run_checks: RunChecks | None = None
    """Runs the conformance checker; None: it is not served."""
    session_secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """Signs the sessions of the page."""


class App:
    """The application. `open_services` opens the services for as long as the lifespan lasts."""

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
        self.admission = Admission(options.max_bodies, options.max_memory, options.max_held)
        self.routes = RouteTable(())
        self._websocket: WebSocketEndpoint | None = None
        self.sessions = Sessions(
            options.keys,
            secret=options.session_secret,
            entropy=secrets.token_bytes,
        )
        self._bundle = load_bundle() if options.page else None

    @property
    def guarded(self) -> bool:
        """Whether requests need a key."""
        return self._options.keys.needed

    def mount(self, services: Services, agents: AgentServices | None = None) -> None:
        """Serve these services."""
        options = self._options
        if options.websocket:
            self._websocket = WebSocketEndpoint(
                services.creator, self.lifetimes, self.admission.starts, limits=options.websockets
            )
        bodies = BodyReader(self.lifetimes, options.max_body, options.body_timeout, self.admission)
        self.routes = RouteTable(
            route_groups(
                services,
                agents,
                RouteOptions(
                    self.lifetimes,
                    bodies,
                    options.heartbeat,
                    options.keeps,
                    options.websocket,
                    options.keys,
                    self.sessions,
                    self._bundle,
                    options.read_settings,
                    options.run_checks,
                ),
            )
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Most calls are requests, so these are served without a further coroutine."""
        if scope["type"] != "http":
            serve_other = self._lifespan if scope["type"] == "lifespan" else self._open_socket
            return await serve_other(scope, receive, send)
        profiles = self._options.profiles
        exchange = Exchange(
            scope, receive, send, head=_NO_HEAD, request_id=self._new_request_id(), profile=profiles.default
        )
        match = self.routes.match(exchange.path)
        exchange.errors = match.errors
        try:
            exchange.head = read_head(scope["headers"])
            if exchange.head.anthropic_version:
                exchange.errors = match.versioned_errors
            exchange.profile = profiles.named(exchange.head.profile)
            try:
                await self._handle(exchange, match)
            finally:
                exchange.release_body()
        except ClientGone as gone:
            drop_tracebacks(gone)
            logger.info("request %s: the client disconnected", exchange.request_id)
        except MethodNotAllowed as error:
            await exchange.send_error(error, ((b"allow", match.allow.encode()),))
        except AntiphonError as error:
            drop_tracebacks(error)
            _log(exchange, error)
            await _send_error(exchange, error)
        except Exception:
            logger.exception("request %s failed", exchange.request_id)
            if exchange.started:
                raise
            await exchange.send_error(internal_error(exchange.request_id))

    def _handle(self, exchange: Exchange, match: Match) -> Awaitable[None]:
        """Check who asks; the call of the handler."""
        keys = self._options.keys
        self._options.hosts.check(exchange.head.host)
        if not keys.needed:  # with keys this is not needed: a web page does not know one
            check_origin(exchange.head)
        if not match.keyless:
            exchange.caller = self._caller(exchange)
        route, handler = match.endpoint(exchange.method, exchange.path)
        if route.scope is not None:
            exchange.caller.require(route.scope)
        if route.stateful and not exchange.profile.state:
            raise stateless(exchange.path)
        if route.id_form is not None:
            route.id_form.check(match.parameters[0])
        return handler(exchange, *match.parameters)

    def _caller(self, exchange: Exchange) -> Caller:
        """The caller with the key of this request, or with the session of the page."""
        authorization, keys = exchange.head.authorization, self._options.keys
        if keys.needed and not authorization:
            caller = self.sessions.authenticate(exchange.header_values)
            if caller is not None:
                check_origin(exchange.head)
                return caller
        return keys.check(authorization)

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a WebSocket, or answer its handshake with an HTTP status."""
        request_id = self._new_request_id()
        try:
            head = read_head(scope["headers"])
            self._options.hosts.check(head.host)
            check_origin(head)
            admit = partial(self._admit, head, self._socket_route(scope["path"]))
            tenant = admit().tenant
            if self._websocket is None:
                raise UpgradeRequired
            profile = self._options.profiles.named(head.profile)
        except AntiphonError as error:
            logger.info("request %s: %d %s", request_id, error.status, error.message)
            await refuse(scope, send, error, request_id)
            return
        client = SocketClient(admit, profile, request_id, tenant)
        await self._websocket.serve(scope, receive, send, client)

    def _socket_route(self, path: str) -> Route | None:
        endpoint = self.routes.match(path).endpoints.get("GET")
        return endpoint.route if endpoint is not None and endpoint.route.websocket else None

    def _admit(self, head: Head, route: Route | None) -> Caller:
        """The caller of a socket, checked again for every turn: its key may end while the socket is open."""
        caller = self._options.keys.check(head.authorization)
        self.admission.check(caller.tenant)
        if route is None:
            raise NotFound("No WebSocket is served at this path; use /v1/responses.", code="unknown_url")
        caller.require(WRITE)  # its messages create responses
        return caller

    async def _lifespan(self, _scope: Scope, receive: Receive, send: Send) -> None:
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


async def _send_error(exchange: Exchange, error: AntiphonError) -> None:
    """As the answer; a stream that has begun is ended without its `[DONE]`."""
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
