"""Which handler serves a method and a path. Whole paths are found at once, patterns after them.

A route is spelled as the documentation spells it: ``GET /v1/responses/{id}/input_items``. A parameter is one
segment of the path; `{model}` alone may hold slashes.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from antiphon.errors import MethodNotAllowed, NotFound

Handler = Callable[..., Awaitable[None]]
"""Takes the exchange, and then the parameters of the path."""


class Endpoint(NamedTuple):
    """A handler, and what a key must be allowed to do for it; None: any key will do. `stateful`: it is about
    things that are kept between requests."""

    handler: Handler
    scope: str | None = None
    stateful: bool = False


Methods = dict[str, Endpoint]


class RouteTable:
    """Finds endpoints."""

    def __init__(self, routes: Mapping[str, Endpoint]) -> None:
        self.names = tuple(routes)
        self._exact: dict[str, Methods] = {}
        self._patterns: dict[re.Pattern[str], Methods] = {}
        for name, endpoint in routes.items():
            method, path = name.split(" ")
            table: dict[Any, Methods] = self._patterns if "{" in path else self._exact
            table.setdefault(_pattern(path) if "{" in path else path, {})[method] = endpoint

    def find(self, method: str, path: str) -> tuple[Endpoint, tuple[str, ...]]:
        """The endpoint and the parameters of the path; `NotFound` or `MethodNotAllowed`."""
        methods, parameters = self._match(path)
        endpoint = methods.get(method)
        if endpoint is not None:
            return endpoint, parameters
        if methods:
            raise MethodNotAllowed(f"{path[:200]} does not take {method}; use {', '.join(methods)}.")
        raise NotFound(f"There is nothing at {method} {path[:200]}.{_hint(path)}", code="unknown_url")

    def methods(self, path: str) -> str:
        """What a path takes, as the Allow header says it."""
        return ", ".join(self._match(path)[0])

    def _match(self, path: str) -> tuple[Methods, tuple[str, ...]]:
        methods = self._exact.get(path)
        if methods is not None:
            return methods, ()
        for pattern, methods in self._patterns.items():
            found = pattern.fullmatch(path)
            if found is not None:
                return methods, found.groups()
        return {}, ()


def _hint(path: str) -> str:
    if path.startswith("/v1/v1/"):
        return " The base URL has a /v1 too many: clients of Anthropic's API put it in themselves."
    return "" if path.startswith("/v1/") else " The base URL ends in /v1."


def _pattern(path: str) -> re.Pattern[str]:
    """The template as a pattern; its fixed parts hold nothing that a pattern would read otherwise."""
    return re.compile(
        path.replace("{model}", "(.+)").replace("{id}", "([^/]+)").replace("{item_id}", "([^/]+)")
    )
