"""The ASGI application: guard, authenticate, route; whatever goes wrong leaves as the error object."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from antiphon.errors import AntiphonError, MethodNotAllowed, NotFound
from antiphon.server.auth import Keys
from antiphon.server.exchange import Exchange
from antiphon.server.guard import Head, HostGuard, read_head
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.routes.health import HealthRoutes
from antiphon.server.routes.models import ModelsRoutes
from antiphon.server.routes.responses import ResponsesRoutes
from antiphon.server.types import Receive, Scope, Send
from antiphon.service.create import Creator

logger = logging.getLogger(__name__)

Handler = Callable[[Exchange], Awaitable[None]]
OpenCreator = Callable[[], AbstractAsyncContextManager[Creator]]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
MODEL_PREFIX = "/v1/models/"
ROUTES = (
    "POST /v1/responses",
    "GET /v1/models",
    "GET /v1/models/{id}",
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


class App:
    """The application. `open_creator` gives the service for as long as the lifespan lasts."""

    def __init__(
        self,
        open_creator: OpenCreator,
        new_request_id: Callable[[], str],
        options: AppOptions,
        on_started: "Callable[[App], None] | None" = None,
    ) -> None:
        self._open_creator = open_creator
        self._new_request_id = new_request_id
        self._options = options
        self._on_started = on_started or _nothing
        self.lifetimes = Lifetimes()
        self._routes: dict[str, dict[str, Handler]] = {}
        self._models: ModelsRoutes | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    def mount(self, creator: Creator) -> None:
        """Serve this service."""
        options = self._options
        responses = ResponsesRoutes(
            creator, self.lifetimes, max_body=options.max_body, body_timeout=options.body_timeout
        )
        health = HealthRoutes(self.lifetimes)
        self._models = ModelsRoutes(creator.router)
        self._routes = {
            "/v1/responses": {"POST": responses.create},
            "/v1/models": {"GET": self._models.list},
            "/healthz": {"GET": health.alive},
            "/readyz": {"GET": health.ready},
        }

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, head=Head(), request_id=self._new_request_id())
        try:
            exchange.head = read_head(scope["headers"])
            self._options.hosts.check(exchange.head.host)
            if exchange.path not in OPEN_PATHS:
                self._options.keys.check(exchange.head.authorization)
            await self._find(exchange)(exchange)
        except ClientGone:
            logger.info("request %s: the client left", exchange.request_id)
        except MethodNotAllowed as error:
            allowed = ", ".join(self._routes.get(exchange.path, {"GET": None}))
            await exchange.send_error(error, ((b"allow", allowed.encode()),))
        except AntiphonError as error:
            _log(exchange, error)
            await exchange.send_error(error)
        except Exception:
            logger.exception("request %s broke", exchange.request_id)
            if exchange.started:
                raise
            await exchange.send_error(
                AntiphonError("Antiphon has a bug; the log knows more.", code="internal_error")
            )

    def _find(self, exchange: Exchange) -> Handler:
        methods = self._routes.get(exchange.path)
        if methods is None:
            return self._find_model(exchange)
        handler = methods.get(exchange.method)
        if handler is None:
            raise MethodNotAllowed(
                f"{exchange.path} does not take {exchange.method}; use {', '.join(methods)}."
            )
        return handler

    def _find_model(self, exchange: Exchange) -> Handler:
        models = self._models
        if not exchange.path.startswith(MODEL_PREFIX) or models is None:
            hint = " The base URL ends in /v1." if not exchange.path.startswith("/v1/") else ""
            raise NotFound(
                f"There is nothing at {exchange.method} {exchange.path[:200]}.{hint}", code="unknown_url"
            )
        if exchange.method != "GET":
            raise MethodNotAllowed(f"{exchange.path[:200]} does not take {exchange.method}; use GET.")
        model_id = exchange.path.removeprefix(MODEL_PREFIX)
        return lambda exchange: models.retrieve(exchange, model_id)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self._open_creator() as creator:
                self.mount(creator)
                self._on_started(self)
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except AntiphonError as error:
            await send({"type": "lifespan.startup.failed", "message": error.message})
            return
        await send({"type": "lifespan.shutdown.complete"})


def _nothing(_app: "App") -> None:
    pass


def _log(exchange: Exchange, error: AntiphonError) -> None:
    level = logging.WARNING if error.status >= 500 else logging.INFO
    logger.log(level, "request %s: %d %s", exchange.request_id, error.status, error.message)
