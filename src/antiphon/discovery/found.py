"""What was found, as settings: the upstreams, the names of their models, and the alias `auto`.

Every model of a found server has two names: its own, and one with the server as its prefix (`ollama/qwen3`).
If two servers have a model of the same name, the first server gets the name; both are reachable by prefix.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from antiphon.backends.local.weights import model_name
from antiphon.discovery.probe import ModelServer
from antiphon.errors import SettingsError
from antiphon.service.routing.names import LOCAL_ALIAS, is_pattern, is_served, matched
from antiphon.settings import LOOPBACK, NO_API_KEY, Listing, ModelRow, Settings, UpstreamSettings, names_of

AUTO_ALIAS = "auto"
"""The alias of the best model."""

LATEST_TAG = ":latest"
MAX_SHOWN_NAMES = 8
_LABELS = {"llama.cpp": "llamacpp", "lm-studio": "lmstudio"}
_NO_CHAT = re.compile(r"embed|rerank|minilm|\bbge\b|whisper|\btts\b|\bclip\b", re.IGNORECASE)
"""Models that do not answer questions, by their usual names. They are served, but not listed."""
_REMOTE = re.compile(r"[:-]cloud$")
"""Models that Ollama forwards to its own cloud. They come last in the list."""


class Found(Struct, frozen=True):
    """The result of a look. `seen`: all servers since the start, with all models that each has had."""

    servers: tuple[ModelServer, ...] = ()
    providers: tuple[UpstreamSettings, ...] = ()
    seen: tuple[ModelServer, ...] = ()


NOTHING_FOUND = Found()


class FoundModels(Struct, frozen=True):
    """The names that one found server serves. `contested`: its models whose name another upstream has, and
    the name of that upstream."""

    server: ModelServer
    upstream: UpstreamSettings
    contested: Mapping[str, str] = {}


def with_found(settings: Settings, found: Found) -> Settings:
    """The settings, with everything that was found as upstreams, and with the alias `auto`."""
    if not settings.discovers:
        found = NOTHING_FOUND
    upstreams = (
        *(models.upstream for models in found_models(settings, found)),
        *_names_of_missing_models(settings, found),
        *_usable_providers(settings, found.providers),
    )
    merged = replace(
        settings,
        upstreams=(*settings.upstreams, *(upstream for upstream in upstreams if upstream.models)),
        # Unset, it depends on whether upstreams are configured.
        local=replace(settings.local, enabled=settings.serves_local_model),
    )
    best = best_model(settings, found)
    if best is not None:
        merged = replace(merged, aliases={**merged.aliases, AUTO_ALIAS: best})
    return _without_unserved_names(merged) if settings.discovers else merged


def best_model(settings: Settings, found: Found) -> str | None:
    """The model of `auto`: the first that a found server lists and runs itself, else the embedded one, else
    the first configured one. None if there is no alias `auto`."""
    taken = AUTO_ALIAS in settings.aliases or AUTO_ALIAS in settings.model_names
    if taken or (settings.names_models and not settings.discovers):
        return None
    for models in found_models(settings, found) if settings.discovers else ():
        names = (row.name for row in _rows(models.upstream) if row.listed == "models" and not row.priority)
        if (first := next(names, None)) is not None:
            return first
    if settings.serves_local_model:
        return LOCAL_ALIAS
    return next((name for name in settings.model_names if not is_pattern(name)), None)


def found_models(settings: Settings, found: Found) -> list[FoundModels]:
    """The names of every found server, the preferred server first."""
    taken = dict.fromkeys(_reserved_names(settings), "the configuration")
    labels = _label(found.servers)
    # Servers of which nothing is known come last: they may be anything.
    ordered = sorted(found.servers, key=lambda server: server.kind == "plain")
    return [_name(server, labels[server.address], taken) for server in ordered]


def _name(server: ModelServer, label: str, taken: dict[str, str]) -> FoundModels:
    """Give the server's models their names, and add those to `taken`."""
    rows: list[ModelRow] = []
    contested: dict[str, str] = {}
    for model in server.models:
        prefixed, is_free = f"{label}/{model}", model not in taken
        listed: Listing = "hidden" if _NO_CHAT.search(model) else "models"
        priority = 1 if _REMOTE.search(model) else 0
        if is_free:
            rows.append(ModelRow(model, priority=priority, listed=listed))
        else:
            contested[model] = taken[model]
        if prefixed not in taken:
            second: Listing = "hidden" if is_free else listed
            rows.append(ModelRow(prefixed, upstream=model, priority=priority, listed=second))
        taken.setdefault(model, label)
        taken.setdefault(prefixed, label)
    if server.kind == "ollama":
        rows += _without_tag(rows, label, taken)
    return FoundModels(server, _upstream(server, label, rows), contested)


def _without_tag(rows: Iterable[ModelRow], label: str, taken: dict[str, str]) -> list[ModelRow]:
    """`llama3.2` for `llama3.2:latest`: Ollama and its users leave that tag out."""
    short = [
        ModelRow(row.name.removesuffix(LATEST_TAG), upstream=row.upstream or row.name, listed="hidden")
        for row in rows
        if row.name.endswith(LATEST_TAG) and row.name.removesuffix(LATEST_TAG) not in taken
    ]
    taken |= dict.fromkeys((row.name for row in short), label)
    return short


def summary(names: Sequence[str]) -> str:
    """The first names, for a person."""
    shown = list(names[:MAX_SHOWN_NAMES])
    more = [f"{len(names) - len(shown)} more"] if len(names) > len(shown) else []
    return ", ".join([*shown, *more]) or "no models yet"


def served_by(settings: Settings, found: Found, name: str) -> str:
    """The found server that has this name; empty if none has."""
    for models in found_models(settings, found):
        if name in names_of(models.upstream.models):
            return models.upstream.name
    return ""


def _upstream(server: ModelServer, label: str, rows: Iterable[ModelRow]) -> UpstreamSettings:
    return UpstreamSettings(
        name=label,
        kind=server.kind,
        base_url=server.base_url,
        api_key_env=NO_API_KEY,
        models=tuple(rows),
    )


def _label(servers: Sequence[ModelServer]) -> dict[str, str]:
    """The prefix of every server, by its address: its kind, with its port if it is not the first of it."""
    labels: dict[str, str] = {}
    for server in servers:
        host, _, port = server.address.rpartition(":")
        here = f"localhost:{port}" if host in LOOPBACK else server.address
        kind = _LABELS.get(server.kind, server.kind)
        choices = (here, server.address) if kind == "plain" else (kind, f"{kind}-{port}", server.address)
        labels[server.address] = next(label for label in choices if label not in labels.values())
    return labels


def _names_of_missing_models(settings: Settings, found: Found) -> list[UpstreamSettings]:
    """Rows for models of this machine that are gone and whose names match a provider. Their requests fail, as
    for any server that cannot be reached: they were not meant for another machine."""
    patterns = [row.name for provider in found.providers for row in _rows(provider)]
    present = {name for models in found_models(settings, found) for name in names_of(models.upstream.models)}
    reserved: list[UpstreamSettings] = []
    for models in found_models(settings, replace(found, servers=found.seen)):
        rows = [
            replace(row, listed="hidden")
            for row in _rows(models.upstream)
            if row.name not in present and any(_matches(pattern, row.name) for pattern in patterns)
        ]
        reserved.append(replace(models.upstream, models=tuple(rows)))
    return reserved


def _usable_providers(settings: Settings, providers: Iterable[UpstreamSettings]) -> list[UpstreamSettings]:
    """The providers, without names that the settings use themselves."""
    taken = _reserved_names(settings)
    return [
        replace(provider, models=tuple(row for row in _rows(provider) if row.name not in taken))
        for provider in providers
    ]


def _reserved_names(settings: Settings) -> set[str]:
    """Names that a found model cannot have without its prefix."""
    return {AUTO_ALIAS, *_embedded_names(settings), *settings.aliases, *settings.model_names}


def _without_unserved_names(settings: Settings) -> Settings:
    """The settings without aliases and fallbacks whose models are not there at the moment."""
    served = {*settings.model_names, *(_embedded_names(settings) if settings.serves_local_model else ())}
    aliases = {
        alias: model
        for alias, model in settings.aliases.items()
        if is_served(model, served) or model in settings.aliases  # the latter is an error of the settings
    }
    known = served | aliases.keys()
    fallbacks = {
        model: tuple(name for name in names if is_served(name, known))
        for model, names in settings.fallbacks.items()
        if is_served(model, known)
    }
    return replace(settings, aliases=aliases, fallbacks=fallbacks)


def _embedded_names(settings: Settings) -> set[str]:
    """The names of the embedded model."""
    names = {LOCAL_ALIAS}
    with suppress(SettingsError):  # a missing file is reported when the weights are prepared
        names.add(model_name(settings.local.model))
    return names


def _rows(upstream: UpstreamSettings) -> list[ModelRow]:
    return [row for row in upstream.models if isinstance(row, ModelRow)]


def _matches(row: str, name: str) -> bool:
    return matched(row, name) is not None if is_pattern(row) else row == name
