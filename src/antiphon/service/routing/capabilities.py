"""The capabilities of a model, by feature and by tool: native, emulated or unsupported.

A model may have several routes. Each is described. The summary holds for all of them: the weakest support of
every feature, and the smallest context window. Fallbacks are described but not part of the summary: a
response reports when a fallback answered.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from msgspec import Struct

from antiphon.backends.base import Backend, TokenCounter
from antiphon.backends.features import FEATURES, NATIVE, Features, Level, Support
from antiphon.protocol.tools import CLIENT_TOOLS, HOSTED_TOOLS
from antiphon.service.routing.router import Route
from antiphon.settings import TextCalls
from antiphon.turn.toolbox import is_ignored

_STRENGTH: tuple[Level, ...] = ("unsupported", "emulated", "native")

_FLATTENED = Support("emulated", "its tools are shown to the model separately, and restored in calls")
_AS_FUNCTION = Support(
    "emulated",
    "shown to the model as a function; calls become items of its own type, run by the client",
)
_RUN_HERE = Support("emulated", "shown to the model as a function; its calls are run by this server")
_NO_TEXT_CALLS = Support("unsupported", "calls are not searched for in the text")

Toolbox = Mapping[str, Support]
Key = TypeVar("Key")


class RouteCapabilities(Struct, frozen=True):
    model: str
    backend: str
    dialect: str
    upstream: str
    context_window: int | None
    text_calls: TextCalls
    features: Mapping[str, Support]
    tools: Toolbox


class Capabilities(Struct, frozen=True, kw_only=True):
    """``GET /v1/models/{model}/capabilities``."""

    object: Literal["model.capabilities"] = "model.capabilities"
    model: str
    backend: str
    dialect: str
    context_window: int | None
    features: Mapping[str, Support]
    tools: Toolbox
    service: Mapping[str, Support]
    routes: Sequence[RouteCapabilities]
    fallbacks: Sequence[RouteCapabilities]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFeatures:
    """Features of the server that do not depend on the model."""

    keeps: bool = True
    """Whether responses are stored."""
    websocket: bool = True
    ignored_tools: frozenset[str] = frozenset()
    served_tools: frozenset[str] = frozenset()
    """Types of hosted tools that this server runs."""


async def describe(model: str, routes: Sequence[Route], server: ServerFeatures) -> Capabilities:
    """The capabilities of a model with these routes."""
    ordered = sorted(routes, key=lambda route: (bool(route.instead_of), route.priority, -route.weight))
    own = [await _describe_route(route, server) for route in ordered if not route.instead_of]
    others = [await _describe_route(route, server) for route in ordered if route.instead_of]
    return Capabilities(
        model=model,
        backend=own[0].backend,
        dialect=own[0].dialect,
        context_window=min((one.context_window for one in own if one.context_window), default=None),
        features=weakest([one.features for one in own]),
        tools=weakest([one.tools for one in own]),
        service=_service([route.backend for route in ordered if not route.instead_of], server),
        routes=own,
        fallbacks=others,
    )


def weakest(described: Sequence[Mapping[Key, Support]]) -> dict[Key, Support]:
    """The weakest support of every feature."""
    return {
        name: min((one[name] for one in described), key=lambda support: _STRENGTH.index(support.level))
        for name in described[0]
    }


async def _describe_route(route: Route, server: ServerFeatures) -> RouteCapabilities:
    backend = route.backend
    served = backend.features(route.upstream)
    features: dict[str, Support] = {name: served[name] for name in FEATURES}
    features["text_calls"] = _text_calls(route.text_calls)
    features["images"] = await route.image_support()
    return RouteCapabilities(
        model=route.model,
        backend=backend.name,
        dialect=route.dialect,
        upstream=route.upstream,
        context_window=await route.window(),
        text_calls=route.text_calls,
        features=features,
        tools={kind: _tool(kind, backend, served, server) for kind in _TOOL_TYPES},
    )


def _text_calls(dialect: TextCalls) -> Support:
    if dialect == "off":
        return _NO_TEXT_CALLS
    how = "in any known format" if dialect == "auto" else f"in the format '{dialect}'"
    return Support("emulated", f"calls that the model writes as text are parsed, {how}")


_TOOL_TYPES = ("function", "custom", "namespace", *sorted(CLIENT_TOOLS), *sorted(HOSTED_TOOLS))


def _tool(kind: str, backend: Backend, served: Features, server: ServerFeatures) -> Support:
    if kind == "function":
        return served["function_tools"]
    if kind in backend.natives:
        return NATIVE
    if kind == "namespace":
        return _FLATTENED
    if kind == "custom":
        return served["custom_tools"]
    if kind in CLIENT_TOOLS:
        return _AS_FUNCTION
    if kind in server.served_tools:
        return _RUN_HERE
    outcome = "omitted and reported" if is_ignored(kind, server.ignored_tools) else "rejected with a 400"
    return Support("unsupported", f"not served here: it is {outcome}")


def _service(backends: Iterable[Backend], server: ServerFeatures) -> dict[str, Support]:
    nothing = Support("unsupported", "this server stores no responses")
    state = NATIVE if server.keeps else nothing
    exact = all(isinstance(backend, TokenCounter) for backend in backends)
    return {
        "state": state,
        "conversations": state,
        "background": state,
        "compaction": Support("emulated", "a model writes the summary"),
        "truncation": Support("emulated", "the oldest items are dropped if the upstream refuses the length"),
        "websocket": NATIVE if server.websocket else Support("unsupported", "disabled in the settings"),
        "input_tokens": NATIVE if exact else Support("emulated", "estimated without the tokenizer"),
    }
