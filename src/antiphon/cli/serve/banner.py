"""The banner of a server that is ready: its address, its models, and a command to try."""

import json
import shlex
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from antiphon import __version__
from antiphon.backends.local.weights import model_name
from antiphon.backends.registry import endpoint_kind
from antiphon.cli.chosen_model import better_model
from antiphon.cli.options import API_KEY_VARIABLE
from antiphon.discovery.found import (
    AUTO_ALIAS,
    MAX_SHOWN_NAMES,
    NOTHING_FOUND,
    Found,
    FoundModels,
    best_model,
    found_models,
    served_by,
    summary,
)
from antiphon.http.redact import redact
from antiphon.service.routing.names import LOCAL_ALIAS, WILDCARD, is_pattern
from antiphon.settings import ModelRow, Settings, UpstreamSettings, names_of
from antiphon.wiring import data_folder, store_path
from antiphon.wiring.profiles import make_profiles

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_STORES = {
    "memory:": "memory: (responses are lost when the server stops)",
    "none": "none (responses are not stored)",
}


@dataclass(frozen=True, slots=True)
class Banner:
    """The contents of the banner. `offered`: the names that the upstreams of patterns list."""

    settings: Settings
    port: int
    keys: bool = False
    weights: str = ""
    found: Found = NOTHING_FOUND
    offered: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The base URL for a client on this machine."""
        host = _ANY.get(self.settings.server.host, self.settings.server.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"

    @property
    def unnamed_upstreams(self) -> tuple[UpstreamSettings, ...]:
        """The upstreams to ask for a model, if the settings name none that the example could use."""
        return () if self._named_models() else self.settings.upstreams

    def print(self, console: Console) -> None:
        headline = Text.assemble(
            ("Antiphon ", "bold"), f"{__version__} is ready at ", (self.url, "bold cyan")
        )
        console.print(headline, soft_wrap=True)
        console.print()
        for name, value in self._facts():
            console.print(Text.assemble((f"  {name:<9}", "dim"), value), soft_wrap=True)
        console.print("\nTry it:\n")
        console.print(Text(self._curl(), style="green"), soft_wrap=True)
        console.print("\nCtrl-C stops the server.", style="dim")

    def _facts(self) -> list[tuple[str, str]]:
        settings = self.settings
        facts = [("model", line) for line in self._models()]
        if settings.discovers and (best := best_model(settings, self.found)):
            server = served_by(settings, self.found, best)
            facts.append(("auto", f"{best}{f' of {server}' if server else ''} (the model '{AUTO_ALIAS}')"))
        if row := better_model(settings):
            facts.append(("better", f"antiphon model use {row.name} ({row.size / 1e6:,.0f} MB)"))
        if settings.server.host in _ANY:
            facts.append(("address", f"all of this machine, port {self.port}"))
        if settings.server.page:
            facts.append(("page", self.url.removesuffix("v1")))
        facts += [
            ("profile", self._profile()),
            ("store", self._store()),
            ("keys", "on" if self.keys else "off (listening on loopback only)"),
            ("data", str(data_folder())),
        ]
        return [*facts, ("weights", self.weights)] if self.weights else facts

    def _profile(self) -> str:
        profile = make_profiles(self.settings).default
        return profile.name if profile.state else f"{profile.name} (stores no responses)"

    def _store(self) -> str:
        url = self.settings.store.url
        if url.startswith("sqlite:"):
            return f"sqlite:{store_path(self.settings)}"
        return _STORES.get(url) or redact(url)

    def _models(self) -> list[str]:
        lines = [_served_by(upstream) for upstream in self.settings.upstreams]
        lines += [_found_at(models) for models in found_models(self.settings, self.found)]
        lines += [_named_only(provider) for provider in self.found.providers]
        if self.settings.codex.enabled:
            codex = self.settings.codex
            lines.append(f"{', '.join(names_of(codex.models))} → {codex.command} app-server")
        if self.settings.serves_local_model:
            lines.append(f"{model_name(self.settings.local.model)} (embedded, also called '{LOCAL_ALIAS}')")
        return lines

    def _named_models(self) -> list[str]:
        local = [LOCAL_ALIAS] if self.settings.serves_local_model else []
        return [name for name in (*self.settings.model_names, *local) if not is_pattern(name)]

    def _curl(self) -> str:
        best = best_model(self.settings, self.found)
        model = best or next(iter([*self._named_models(), *self.offered]), "MODEL")
        body = json.dumps({"model": model, "input": "Say hello in one sentence."})
        lines = [f"curl {shlex.quote(self.url + '/responses')} -H 'Content-Type: application/json'"]
        if self.keys:
            lines.append(f'-H "Authorization: Bearer ${API_KEY_VARIABLE}"')
        return " \\\n  ".join([*lines, f"-d {shlex.quote(body)}"])


def _served_by(upstream: UpstreamSettings) -> str:
    names = names_of(upstream.models)
    what = "any name" if WILDCARD in names else ", ".join(names)
    return f"{what} → {_address(upstream)} ({upstream.kind})"


def _found_at(models: FoundModels) -> str:
    rows = [row for row in models.upstream.models if isinstance(row, ModelRow) and row.listed == "models"]
    what = summary([row.name for row in rows])
    line = f"{what} → {_address(models.upstream)} ({models.upstream.kind}, found)"
    for name, server in [*models.contested.items()][:MAX_SHOWN_NAMES]:
        line += f"; '{name}' alone is answered by {server}"
    return line


def _named_only(provider: UpstreamSettings) -> str:
    pattern, *own_names = names_of(provider.models)
    what = f"{pattern} and its own names" if own_names else pattern
    return f"{what} → {_address(provider)} ({provider.api_key_env}; only requests that name it)"


def _address(upstream: UpstreamSettings) -> str:
    return redact(upstream.base_url or endpoint_kind(upstream.kind).base_url)
