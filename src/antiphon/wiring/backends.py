"""Backends from the settings."""

import os
from contextlib import AsyncExitStack
from dataclasses import replace

from antiphon.backends.base import Backend
from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.backends.local.backend import LocalBackend
from antiphon.backends.registry import Deadlines, Endpoint, default_endpoint, endpoint_kind
from antiphon.service.router import Route
from antiphon.settings import ModelRow, Settings, TextCalls, UpstreamSettings
from antiphon.wiring.codex import make_codex_backend
from antiphon.wiring.folders import models_folder


def open_routes(settings: Settings, stack: AsyncExitStack) -> list[Route]:
    """The routes that the settings name; their backends are closed with the stack."""
    routes: list[Route] = []
    for row in settings.upstreams:
        backend = ChatCompletionsBackend(make_endpoint(row, settings.server.heartbeat))
        stack.push_async_callback(backend.aclose)
        text_calls = row.text_calls or endpoint_kind(row.kind).text_calls
        routes += [_route(model, backend, text_calls) for model in row.models]
    if settings.codex.enabled:
        codex = make_codex_backend(settings)
        stack.push_async_callback(codex.aclose)
        routes += [_route(model, codex) for model in settings.codex.models]
    if settings.serves_local_model:
        local = make_local_backend(settings)
        stack.push_async_callback(local.aclose)
        routes += [Route(local.model, local), Route("local", local, upstream=local.model)]
    return routes


def _route(model: str | ModelRow, backend: Backend, text_calls: TextCalls = "off") -> Route:
    row = ModelRow(model) if isinstance(model, str) else model
    return Route(
        row.name,
        backend,
        row.upstream,
        row.weight,
        row.priority,
        text_calls=row.text_calls or text_calls,
    )


def make_endpoint(row: UpstreamSettings, heartbeat: float) -> Endpoint:
    """The endpoint that a row of the settings describes."""
    key_variable = row.api_key_env or endpoint_kind(row.kind).api_key_env
    return replace(
        default_endpoint(row.kind, row.base_url),
        name=row.name or row.kind,
        api_key=row.api_key or os.environ.get(key_variable, ""),
        headers=row.headers,
        deadlines=Deadlines(
            connect=row.connect_timeout,
            first_byte=row.first_byte_timeout,
            between=row.between_timeout,
            answer=row.answer_timeout,
            total=row.total_timeout,
        ),
        retries=row.retries,
        heartbeat=heartbeat,
    )


def make_local_backend(settings: Settings) -> LocalBackend:
    """The embedded model; it loads at its first turn."""
    local = settings.local
    return LocalBackend(
        local.model,
        models_folder(),
        context=local.context,
        parallel=local.parallel,
        threads=local.threads or max(1, (os.cpu_count() or 1) - 1),
        heartbeat=settings.server.heartbeat,
    )
