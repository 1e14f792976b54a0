"""Routes: each class of handlers declares its own in `ROUTES`; `RouteTable` finds the one for a request.

A route is named as the documentation spells it: ``GET /v1/responses/{id}/input_items``. A parameter is one
segment of the path; only `{model}` may contain slashes.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MethodType
from typing import ClassVar, NamedTuple, Protocol

from msgspec import Struct

from antiphon.errors import MethodNotAllowed, NotFound
from antiphon.protocol.ids import IdForm
from antiphon.server.error_shapes import ANTHROPIC_ERRORS, OPENAI_ERRORS, ErrorShape

Handler = Callable[..., Awaitable[None]]
"""A method of a route group. It takes the exchange, then the parameters of the path."""


_PARAMETER = re.compile(r"\{\w+\}")


class Route(Struct, frozen=True):
    """One endpoint of the HTTP API."""

    name: str
    handler: Handler
    scope: str | None = None
    """The scope that the key must have; None: any key."""
    errors: ErrorShape = OPENAI_ERRORS
    versioned_errors: ErrorShape | None = None
    """The shape for requests with an `anthropic-version` header; None: `errors`."""
    stateful: bool = False
    """Works on stored objects, so profiles without state reject it."""
    keyless: bool = False
    """Served without an API key."""
    websocket: bool = False
    """Also accepts WebSocket connections."""
    id_form: IdForm | None = None
    """The form of the first parameter of the path."""

    @property
    def method(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.name.partition(" ")[2]


class RouteGroup(Protocol):
    """An object whose class declares the routes that its methods handle."""

    ROUTES: ClassVar[tuple[Route, ...]]


class Endpoint(NamedTuple):
    """A route with its handler bound to a route group."""

    route: Route
    handler: Handler


class Match(NamedTuple):
    """The endpoints of one path by method, and the path's parameters. No endpoints: the path is unknown."""

    endpoints: Mapping[str, Endpoint]
    parameters: tuple[str, ...]
    errors: ErrorShape
    versioned_errors: ErrorShape
    keyless: bool = False

    def endpoint(self, method: str, path: str) -> Endpoint:
        """The endpoint for a method; raises `NotFound` or `MethodNotAllowed`."""
        found = self.endpoints.get(method)
        if found is not None:
            return found
        if self.endpoints:
            raise MethodNotAllowed(f"{path[:200]} does not take {method}; use {self.allow}.")
        raise NotFound(f"There is nothing at {method} {path[:200]}.{_hint(path)}", code="unknown_url")

    @property
    def allow(self) -> str:
        """The value of the Allow header."""
        return ", ".join(self.endpoints)


_UNKNOWN = Match({}, (), OPENAI_ERRORS, ANTHROPIC_ERRORS)


class RouteTable:
    """Finds endpoints: exact paths by lookup, then patterns in the order of declaration."""

    def __init__(self, groups: Iterable[RouteGroup]) -> None:
        endpoints = [
            Endpoint(route, MethodType(route.handler, group)) for group in groups for route in group.ROUTES
        ]
        self.names = tuple(endpoint.route.name for endpoint in endpoints)
        paths: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            paths.setdefault(endpoint.route.path, {})[endpoint.route.method] = endpoint
        self._exact = {path: _match(methods) for path, methods in paths.items() if "{" not in path}
        self._patterns = {_pattern(path): _match(methods) for path, methods in paths.items() if "{" in path}

    def match(self, path: str) -> Match:
        """The endpoints of a path. An unknown path below a known one has the error shapes of that one."""
        found = self._exact.get(path) or self._find(path)
        if found is not None:
            return found
        parent = path.rpartition("/")[0]
        while parent:
            above = self._find(parent)
            if above is not None:
                return _UNKNOWN._replace(errors=above.errors)
            parent = parent.rpartition("/")[0]
        return _UNKNOWN

    def _find(self, path: str) -> Match | None:
        match = self._exact.get(path)
        if match is not None:
            return match
        for pattern, match in self._patterns.items():
            found = pattern.fullmatch(path)
            if found is not None:
                return match._replace(parameters=found.groups())
        return None


def _match(methods: Mapping[str, Endpoint]) -> Match:
    """The match of one path; its routes share error shapes and openness."""
    route = next(iter(methods.values())).route
    return Match(methods, (), route.errors, route.versioned_errors or route.errors, route.keyless)


def _hint(path: str) -> str:
    if path.startswith("/v1/v1/"):
        return " The base URL has a /v1 too many: clients of Anthropic's API append it themselves."
    if path.startswith("/mcp/"):
        return " The endpoint of MCP is /mcp."
    return "" if path.startswith("/v1/") else " The base URL ends in /v1."


def _pattern(path: str) -> re.Pattern[str]:
    """The path as a pattern; its fixed parts contain no special characters."""
    return re.compile(_PARAMETER.sub("([^/]+)", path.replace("{model}", "(.+)")))
