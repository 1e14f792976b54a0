"""The route table: declarations of routes, and route matching."""

from types import SimpleNamespace
from typing import ClassVar

import pytest

from antiphon.caller import ALL_SCOPES, READ
from antiphon.errors import MethodNotAllowed, NotFound
from antiphon.server.error_shapes import ANTHROPIC_ERRORS, CHAT_ERRORS, OPENAI_ERRORS
from antiphon.server.exchange import Exchange
from antiphon.server.mcp.rpc import MCP_ERRORS
from antiphon.server.routes.table import ROUTES
from antiphon.server.routing import Route, RouteGroup, RouteTable


class RecordingHandlers:
    """Handlers that record their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    async def one(self, _exchange: Exchange, *parameters: str) -> None:
        self.calls.append(("one", *parameters))

    async def part(self, _exchange: Exchange, *parameters: str) -> None:
        self.calls.append(("part", *parameters))

    ROUTES: ClassVar = (
        Route("GET /v1/things/{id}", one, READ, errors=ANTHROPIC_ERRORS),
        Route("POST /v1/things/{id}", one, errors=ANTHROPIC_ERRORS),
        Route("GET /v1/things/{id}/parts/{item_id}", part),
        Route("GET /v1/models/{model}/capabilities", part, versioned_errors=ANTHROPIC_ERRORS),
        Route("GET /v1/models/{model}", one),
        Route("GET /open", one, keyless=True),
    )


@pytest.mark.parametrize(
    ("path", "called"),
    [
        ("/v1/things/t1", ("one", "t1")),
        ("/v1/things/t1/parts/p1", ("part", "t1", "p1")),
        ("/v1/models/a/b", ("one", "a/b")),
        ("/v1/models/a/b/capabilities", ("part", "a/b")),
        ("/open", ("one",)),
    ],
)
async def test_a_handler_is_called_with_the_parameters_of_the_path(
    path: str, called: tuple[str, ...]
) -> None:
    group = RecordingHandlers()
    match = RouteTable([group]).match(path)
    exchange: Exchange = SimpleNamespace()  # pyright: ignore[reportAssignmentType] -- the handlers do not use it
    await match.endpoint("GET", path).handler(exchange, *match.parameters)
    assert group.calls == [called]
    assert match.keyless == (path == "/open")


def test_unknown_paths_and_methods_are_rejected() -> None:
    table = RouteTable([RecordingHandlers()])
    with pytest.raises(NotFound, match="nothing at GET /v1/other"):
        table.match("/v1/other").endpoint("GET", "/v1/other")
    with pytest.raises(MethodNotAllowed, match="use GET, POST"):
        table.match("/v1/things/t1").endpoint("DELETE", "/v1/things/t1")
    assert table.match("/v1/things/t1").allow == "GET, POST"


@pytest.mark.parametrize(
    ("path", "errors", "versioned"),
    [
        ("/v1/things/t1", ANTHROPIC_ERRORS, ANTHROPIC_ERRORS),
        ("/v1/things/t1/unknown", ANTHROPIC_ERRORS, ANTHROPIC_ERRORS),
        ("/v1/things/t1/parts/p1", OPENAI_ERRORS, OPENAI_ERRORS),
        ("/v1/models/m/capabilities", OPENAI_ERRORS, ANTHROPIC_ERRORS),
        ("/v1/models/m", OPENAI_ERRORS, OPENAI_ERRORS),
        ("/v1/other", OPENAI_ERRORS, ANTHROPIC_ERRORS),
        ("other", OPENAI_ERRORS, ANTHROPIC_ERRORS),
    ],
)
def test_a_path_has_the_error_shapes_that_its_route_declares(
    path: str, errors: object, versioned: object
) -> None:
    match = RouteTable([RecordingHandlers()]).match(path)
    assert (match.errors, match.versioned_errors) == (errors, versioned)


STATEFUL = (
    "/v1/containers",
    "/v1/conversations",
    "/v1/files",
    "/v1/lookup",
    "/v1/uploads",
    "/v1/usage",
    "/v1/vector_stores",
)


def test_the_table_declares_everything_once() -> None:
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)
    assert {route.scope for route in ROUTES} == {None, *ALL_SCOPES}
    assert [route.path for route in ROUTES if route.keyless] == [
        *("/healthz", "/readyz"),
        *["/v1/session"] * 3,
        *("/", "/assets/{name}"),
    ]
    assert [route.name for route in ROUTES if route.websocket] == ["GET /v1/responses"]
    recorded = ("/chain", "/events", "/trace")
    assert {route.name for route in ROUTES if route.stateful} == {
        route.name for route in ROUTES if route.path.startswith(STATEFUL) or route.path.endswith(recorded)
    } | {"GET /v1/responses"}


def test_routes_of_one_path_agree_on_errors_and_keys() -> None:
    """The table takes both from the first route of a path."""
    shared: dict[str, set[object]] = {}
    for route in ROUTES:
        shared.setdefault(route.path, set()).add((route.errors, route.versioned_errors, route.keyless))
    assert [path for path, kinds in shared.items() if len(kinds) > 1] == []


def test_the_compatible_endpoints_have_the_error_shape_of_their_api() -> None:
    shapes = {route.path: route.errors for route in ROUTES if route.errors is not OPENAI_ERRORS}
    assert shapes == {
        "/v1/chat/completions": CHAT_ERRORS,
        "/v1/messages": ANTHROPIC_ERRORS,
        "/v1/messages/count_tokens": ANTHROPIC_ERRORS,
        "/mcp": MCP_ERRORS,
    }


def test_every_group_of_routes_is_one() -> None:
    groups: list[RouteGroup] = [RecordingHandlers()]
    assert RouteTable(groups).names == tuple(route.name for route in RecordingHandlers.ROUTES)
