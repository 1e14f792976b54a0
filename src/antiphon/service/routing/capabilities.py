"""What can be asked of a model, feature by feature and tool by tool: natively, by emulation, or not at all.

A model may have several routes. Each is described, and the summary is what holds whichever of them answers:
of every feature the weakest support, of all windows the smallest. Models that stand in for it are described,
too, but do not count: they are an exception, and a response says so when one of them has answered.
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

_FLATTENED = Support("emulated", "its tools are shown to the model one by one, and are restored in calls")
_AS_FUNCTION = Support(
    "emulated", "shown to the model as a function; its calls are items of their own kind, run by the client"
)
_NO_TEXT_CALLS = Support("unsupported", "calls are read where the server puts them, and not in the text")

Toolbox = Mapping[str, Support]
Key = TypeVar("Key")


class RouteCapabilities(Struct, frozen=True):
    """One way to a model."""

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
    """What the server itself brings, whichever model answers."""

    keeps: bool = True
    """Whether responses are kept."""
    websocket: bool = True
    ignored_tools: frozenset[str] = frozenset()


async def describe(model: str, routes: Sequence[Route], around: ServerFeatures) -> Capabilities:
    """The capabilities of a model with these routes; the first of them is its own."""
    ordered = sorted(routes, key=lambda route: (bool(route.instead_of), route.priority, -route.weight))
    own = [await _describe_route(route, around) for route in ordered if not route.instead_of]
    others = [await _describe_route(route, around) for route in ordered if route.instead_of]
    return Capabilities(
        model=model,
        backend=own[0].backend,
        dialect=own[0].dialect,
        context_window=min((one.context_window for one in own if one.context_window), default=None),
        features=weakest([one.features for one in own]),
        tools=weakest([one.tools for one in own]),
        service=_service([route.backend for route in ordered if not route.instead_of], around),
        routes=own,
        fallbacks=others,
    )


def weakest(described: Sequence[Mapping[Key, Support]]) -> dict[Key, Support]:
    """Of every feature the support that can be relied on."""
    return {
        name: min((one[name] for one in described), key=lambda support: _STRENGTH.index(support.level))
        for name in described[0]
    }


async def _describe_route(route: Route, around: ServerFeatures) -> RouteCapabilities:
    backend = route.backend
    served = backend.features(route.upstream)
    features: dict[str, Support] = {name: served[name] for name in FEATURES}
    features["text_calls"] = _text_calls(route.text_calls)
    return RouteCapabilities(
        model=route.model,
        backend=backend.name,
        dialect=route.dialect,
        upstream=route.upstream,
        context_window=await route.window(),
        text_calls=route.text_calls,
        features=features,
        tools={kind: _tool(kind, backend, served, around.ignored_tools) for kind in _TOOL_TYPES},
    )


def _text_calls(dialect: TextCalls) -> Support:
    if dialect == "off":
        return _NO_TEXT_CALLS
    how = "however they are written" if dialect == "auto" else f"written as '{dialect}' models do"
    return Support("emulated", f"calls that the model writes into its text are found there, {how}")


_TOOL_TYPES = ("function", "custom", "namespace", *sorted(CLIENT_TOOLS), *sorted(HOSTED_TOOLS))


def _tool(kind: str, backend: Backend, served: Features, ignored: frozenset[str]) -> Support:
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
    refusal = "left out and reported" if is_ignored(kind, ignored) else "refused with a 400"
    return Support("unsupported", f"nothing here runs it: a request that declares it has it {refusal}")


def _service(backends: Iterable[Backend], around: ServerFeatures) -> dict[str, Support]:
    """What the server does for every model."""
    nothing = Support("unsupported", "this server keeps no responses")
    kept = NATIVE if around.keeps else nothing
    exact = all(isinstance(backend, TokenCounter) for backend in backends)
    return {
        "state": kept,
        "conversations": kept,
        "background": kept,
        "compaction": Support("emulated", "a model writes the summary"),
        "truncation": Support("emulated", "the oldest items are left out when the model's server refuses"),
        "websocket": NATIVE if around.websocket else Support("unsupported", "it is switched off here"),
        "input_tokens": NATIVE
        if exact
        else Support("emulated", "estimated: the tokenizer is not at hand here"),
    }
