"""Builds backends and routes from the settings."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import msgspec

from antiphon.backends.base import Backend
from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.backends.local.backend import LocalBackend
from antiphon.backends.registry import (
    Dialect,
    Endpoint,
    default_endpoint,
    describing,
    endpoint_kind,
)
from antiphon.http.target import Deadlines
from antiphon.known_secrets import KNOWN_SECRETS, header_secrets
from antiphon.service.routing.limits import Limits
from antiphon.service.routing.names import LOCAL_ALIAS
from antiphon.service.routing.router import Route
from antiphon.service.routing.turn_slot import TurnDeadlines
from antiphon.settings import NO_API_KEY, ModelRow, Settings, TextCalls, UpstreamSettings
from antiphon.wiring.folders import models_folder

# Imports inside functions: a dialect that no upstream uses is not loaded. All together would cost a fifth of
# the start.


def _anthropic(endpoint: Endpoint) -> Backend:
    from antiphon.backends.anthropic_messages.client import AnthropicMessagesBackend  # noqa: PLC0415

    return AnthropicMessagesBackend(endpoint)


def _gemini(endpoint: Endpoint) -> Backend:
    from antiphon.backends.gemini.client import GeminiBackend  # noqa: PLC0415

    return GeminiBackend(endpoint)


def _responses(endpoint: Endpoint) -> Backend:
    from antiphon.backends.responses.client import ResponsesBackend  # noqa: PLC0415

    return ResponsesBackend(endpoint)


def _codex(settings: Settings) -> Backend:
    from antiphon.wiring.codex import make_codex_backend  # noqa: PLC0415

    return make_codex_backend(settings)


DIALECTS: Mapping[Dialect, Callable[[Endpoint], Backend]] = {
    "anthropic_messages": _anthropic,
    "chat_completions": ChatCompletionsBackend,
    "gemini": _gemini,
    "responses": _responses,
}
NO_DEADLINES = TurnDeadlines()


class BuiltBackend(NamedTuple):
    """A backend, and the settings that it was made from."""

    source: object
    backend: Backend


class BackendSet:
    """The routes of the settings. A backend of `earlier` settings with the same source is reused."""

    def __init__(self, settings: Settings, earlier: Sequence[BuiltBackend] = ()) -> None:
        self.routes: list[Route] = []
        self.made: list[BuiltBackend] = []
        self.left = list(earlier)
        """Earlier backends that are no longer needed."""
        heartbeat = settings.server.heartbeat
        for row in settings.upstreams:
            self._open_upstream(row, heartbeat)
        if settings.codex.enabled:
            source = (msgspec.structs.replace(settings.codex, models=()), heartbeat)
            codex = self._take(source, partial(_codex, settings))
            routes = [_route(model, codex) for model in settings.codex.models]
            self.routes += [replace(route, dialect="codex_app_server") for route in routes]
        if settings.serves_local_model:
            source = (msgspec.structs.replace(settings.local, enabled=None), heartbeat)
            local = self._take(source, partial(make_local_backend, settings))
            assert isinstance(local, LocalBackend)
            route = Route(local.model, local, dialect="local", strict_schemas="trusted")
            self.routes += [route, replace(route, model=LOCAL_ALIAS, upstream=local.model)]

    def _open_upstream(self, row: UpstreamSettings, heartbeat: float) -> None:
        kind, endpoint = endpoint_kind(row.kind), make_endpoint(row, heartbeat)
        KNOWN_SECRETS.add(endpoint.api_key or "", *header_secrets(endpoint.headers.items()))
        backends: dict[bool, Backend] = {}
        for model in row.models:
            described = _describes_tools(row, model)
            if described not in backends:
                source = describing(endpoint) if described else endpoint
                backends[described] = self._take(source, partial(DIALECTS[kind.dialect], source))
            text_calls = row.text_calls or kind.text_calls
            route = _route(model, backends[described], text_calls, _narrowed(row, endpoint))
            route = replace(
                route,
                total_seconds=_as_row(model).total_timeout or row.total_timeout,
                strict_schemas=row.strict_schemas or kind.strict_schemas,
            )
            if described and route.text_calls == "off":
                route = replace(
                    route, text_calls="hermes"
                )  # a model that sees its tools in the prompt writes calls as text
            self.routes.append(replace(route, dialect=kind.dialect))

    def _take(self, source: object, make: Callable[[], Backend]) -> Backend:
        same = next((made for made in self.left if made.source == source), None)
        if same is None:
            same = BuiltBackend(source, make())
        else:
            self.left.remove(same)
        self.made.append(same)
        return same.backend


def _route(
    model: str | ModelRow,
    backend: Backend,
    text_calls: TextCalls = "off",
    usual: TurnDeadlines = NO_DEADLINES,
) -> Route:
    row = _as_row(model)
    deadlines = TurnDeadlines(
        first_byte=row.first_byte_timeout or usual.first_byte,
        answer=row.answer_timeout or usual.answer,
        total=row.total_timeout or usual.total,
    )
    return Route(
        row.name,
        backend,
        row.upstream,
        row.weight,
        row.priority,
        text_calls=row.text_calls or text_calls,
        limits=Limits(
            max_concurrent=row.max_concurrent,
            max_concurrent_per_tenant=row.max_concurrent_per_tenant,
            queue_timeout=row.queue_timeout,
            requests_per_minute=row.requests_per_minute,
        ),
        deadlines=deadlines if deadlines.any else None,
        context_window=row.context_window,
        listed=row.listed,
    )


def _describes_tools(row: UpstreamSettings, model: str | ModelRow) -> bool:
    own = _as_row(model).describe_tools
    return row.describe_tools if own is None else own


def _as_row(model: str | ModelRow) -> ModelRow:
    return ModelRow(model) if isinstance(model, str) else model


def _widest(row: UpstreamSettings) -> Deadlines:
    """The longest deadlines of all models of an upstream, because they share its connections. Routes apply
    the shorter ones."""
    models = [_as_row(model) for model in row.models]
    first = [model.first_byte_timeout or row.first_byte_timeout for model in models]
    answer = [model.answer_timeout or row.answer_timeout for model in models]
    total = [model.total_timeout or row.total_timeout for model in models]
    return Deadlines(
        connect=row.connect_timeout,
        first_byte=max(first, default=row.first_byte_timeout),
        between=row.between_timeout,
        answer=max(answer, default=row.answer_timeout),
        total=max(total, default=row.total_timeout),
    )


def _narrowed(row: UpstreamSettings, endpoint: Endpoint) -> TurnDeadlines:
    """The upstream's own deadlines, where its connections wait longer."""
    widest = endpoint.deadlines
    return TurnDeadlines(
        first_byte=row.first_byte_timeout if widest.first_byte > row.first_byte_timeout else math.inf,
        answer=row.answer_timeout if widest.answer > row.answer_timeout else math.inf,
        total=row.total_timeout if widest.total > row.total_timeout else math.inf,
    )


def make_backend(row: UpstreamSettings, heartbeat: float) -> Backend:
    """The backend of an upstream, with its dialect."""
    return DIALECTS[endpoint_kind(row.kind).dialect](make_endpoint(row, heartbeat))


def make_endpoint(row: UpstreamSettings, heartbeat: float) -> Endpoint:
    """The endpoint that a row of the settings describes."""
    return replace(
        default_endpoint(row.kind, row.base_url),
        name=row.name or row.kind,
        api_key=row.api_key or os.environ.get(key_variable(row), ""),
        key_source=key_source(row),
        headers=row.headers,
        deadlines=_widest(row),
        retries=row.retries,
        heartbeat=heartbeat,
    )


def key_variable(row: UpstreamSettings) -> str:
    """The environment variable with the key of an upstream; empty: it has none."""
    name = row.api_key_env or endpoint_kind(row.kind).api_key_env
    return "" if name == NO_API_KEY else name


def key_source(row: UpstreamSettings) -> str:
    """Where the key of an upstream is configured, for the operator; empty: nowhere."""
    return "api_key of this upstream" if row.api_key else key_variable(row)


def make_local_backend(settings: Settings) -> LocalBackend:
    """The embedded model; it is loaded at its first turn."""
    local = settings.local
    return LocalBackend(
        local.model,
        models_folder(),
        context=local.context,
        max_output=local.max_output,
        parallel=local.parallel,
        threads=local.threads or max(1, (os.cpu_count() or 1) - 1),
        heartbeat=settings.server.heartbeat,
    )
