"""Options that several commands share, and the settings that result from them.

A command receives its options as keyword arguments and passes them to a frozen dataclass, whose field names
are the names of the click parameters.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from antiphon.backends.local.weights import CATALOGUE
from antiphon.backends.registry import ENDPOINTS
from antiphon.caller import DEFAULT_TENANT
from antiphon.cli.chosen_model import with_chosen_model
from antiphon.cli.log import configure_logging
from antiphon.discovery.found import with_found
from antiphon.discovery.providers import key_variable_of
from antiphon.discovery.watch import Discovery
from antiphon.errors import SettingsError
from antiphon.service.routing.names import LOCAL_ALIAS, WILDCARD
from antiphon.settings import Settings, UpstreamSettings, load_settings

API_KEY_VARIABLE = "ANTIPHON_API_KEY"
UPSTREAM_KEY_VARIABLE = "ANTIPHON_UPSTREAM_KEY"
LEVELS = ("debug", "info", "warning", "error")

Command = Callable[..., Any]
Option = Callable[[Command], Command]
Overrides = dict[str, dict[str, object]]

CONFIG_OPTION = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The configuration file.  [default: ANTIPHON_CONFIG, or antiphon.toml here]",
)
UPSTREAM_OPTIONS = (
    click.option(
        "--upstream",
        metavar="URL",
        help="An OpenAI-compatible endpoint to use instead of the configured ones. "
        f"Its key: {UPSTREAM_KEY_VARIABLE}, or the kind's usual variable.",
    ),
    click.option(
        "--upstream-kind",
        type=click.Choice(list(ENDPOINTS)),
        metavar="KIND",
        help=f"What the endpoint is: {', '.join(ENDPOINTS)}. "
        "Without --upstream, it is at its usual address.  [default: plain]",
    ),
)
MODEL_OPTION = click.option(
    "--model",
    metavar="NAME",
    help="The model to ask: one that is served or found here, of the embedded catalogue, or a GGUF file.  "
    "[default: the best one on this machine ('auto'), or the first configured one]",
)
DISCOVERY_OPTION = click.option(
    "--no-discovery",
    is_flag=True,
    help="Do not look for model servers on this machine and for keys of providers in the environment. "
    "Without this option it is done unless an upstream is configured.",
)
BASE_URL_OPTION = click.option(
    "--base-url",
    metavar="URL",
    help="Ask the Responses server at this address instead of answering in this process. "
    f"Its key: {API_KEY_VARIABLE}.",
)
SERVER_OPTIONS = (
    click.option(
        "--base-url",
        metavar="URL",
        help=f"The Responses server to ask. Its key: {API_KEY_VARIABLE}.  "
        "[default: the configured server, if it is running; otherwise this process answers]",
    ),
    click.option(
        "--in-process",
        is_flag=True,
        help="Answer in this process even if a server is running; implied by --upstream and --store.",
    ),
)
STORE_OPTION = click.option(
    "--store",
    metavar="URL",
    help="Where responses are stored: sqlite:PATH, postgresql://…, memory: or none.  "
    "[default: sqlite:, a file in the data folder]",
)
LOG_OPTION = click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    metavar="LEVEL",
    help=f"How much is logged to standard error: {', '.join(LEVELS)}.",
)
JSON_OPTION = click.option("--json", "machine", is_flag=True, help="Print JSON.")
TENANT_OPTION = click.option(
    "--tenant",
    default=DEFAULT_TENANT,
    metavar="NAME",
    show_default=True,
    help="The tenant whose data is meant.",
)


def with_options(*options: Option) -> Option:
    """A decorator that adds all these options, in the order of the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


STORE_OPTIONS = with_options(CONFIG_OPTION, STORE_OPTION, LOG_OPTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsOptions:
    """The options that change the settings."""

    config: Path | None = None
    upstream: str | None = None
    upstream_kind: str | None = None
    model: str | None = None
    store: str | None = None
    log_level: str | None = None

    def load_to_serve(self) -> Settings:
        """Load the settings of a server: `model` is the only model of `--upstream`, or the embedded one."""
        upstreams = self.upstreams(self.model or WILDCARD)
        return load_settings(self.config, overrides=self.overrides_to_serve(), upstreams=upstreams)

    def load_to_ask(self) -> Settings:
        """Load the settings of a client: `model` is the model to ask, or without an upstream to load."""
        upstreams = self.upstreams(WILDCARD)
        settings = load_settings(self.config, overrides=self._overrides(), upstreams=upstreams)
        if self.model in (None, LOCAL_ALIAS) or settings.upstreams:
            return with_chosen_model(settings)
        overrides = {**self._overrides(), "local": {"model": self.model}}
        return load_settings(self.config, overrides=overrides, upstreams=upstreams)

    def overrides_to_serve(self) -> Overrides:
        """The settings that the command line overrides, by section."""
        overrides = self._overrides()
        if self.model and not self._names_upstream:
            overrides["local"] = {"model": self.model, "enabled": True}
        return overrides

    def upstreams(self, model: str) -> tuple[UpstreamSettings, ...]:
        """The upstream that the command line names, with this model; empty if it names none."""
        if not self._names_upstream:
            return ()
        return (
            UpstreamSettings(
                kind=self.upstream_kind or "plain",
                base_url=self.upstream or "",
                api_key_env=UPSTREAM_KEY_VARIABLE if os.environ.get(UPSTREAM_KEY_VARIABLE) else "",
                models=(model,),
            ),
        )

    def _overrides(self) -> Overrides:
        sections = {"store": given(url=self.store), "server": given(log_level=self.log_level)}
        return {section: keys for section, keys in sections.items() if keys}

    @property
    def _names_upstream(self) -> bool:
        return self.upstream is not None or self.upstream_kind is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingOptions(SettingsOptions):
    """The options of a command that asks a server, or answers in its own process."""

    base_url: str | None = None
    in_process: bool = False
    no_discovery: bool = False
    runs_here: bool = False
    """Whether `base_url` is the configured server, which was found running."""

    @property
    def wants_own_service(self) -> bool:
        """Whether these options are about a service in this process."""
        return self.in_process or self._names_upstream or self.store is not None

    def load_to_answer(self) -> Settings:
        """Load the settings of a service in this process, with the models that are found on this machine."""
        settings = replace(self, model=None).load_to_ask()
        found = asyncio.run(Discovery().look(settings))
        merged = with_found(settings, found)
        if self.model is None or self.model in merged.aliases:
            return merged
        if is_embedded(self.model):
            return with_found(self.load_to_ask(), found)
        if not merged.model_names and self.model != LOCAL_ALIAS:
            raise SettingsError(_unknown_model(self.model))
        return merged

    def _overrides(self) -> Overrides:
        overrides = SettingsOptions._overrides(self)
        return {**overrides, "discovery": {"enabled": False}} if self.no_discovery else overrides

    def load_to_find(self) -> Settings:
        """Load the settings of the server to look for; the model is not part of them."""
        return load_settings(self.config)


def _unknown_model(model: str) -> str:
    """The error where there are only embedded models."""
    variable = key_variable_of(model)
    provider = f"set {variable} for this one, " if variable else ""
    return (
        f"--model: unknown model '{model}': no model server was found on this machine. Start one, {provider}"
        f"name another with --upstream URL, or use an embedded model ({', '.join(CATALOGUE)}) or the path of "
        "a GGUF file."
    )


def is_embedded(model: str) -> bool:
    """Whether this is a model of the catalogue, or the path of a file."""
    return model in CATALOGUE or Path(model).expanduser().is_file()


def given(**values: object) -> dict[str, object]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def load_with_store(**options: Any) -> Settings:
    """The settings that `STORE_OPTIONS` lead to; raises `SettingsError` unless their store is durable."""
    chosen = SettingsOptions(**options)
    configure_logging(chosen.log_level or "warning")
    return require_durable_store(chosen.load_to_ask())


def require_durable_store(settings: Settings) -> Settings:
    """Raise `SettingsError` for a store that loses its responses with the process, or stores none."""
    if not settings.lasting:
        raise SettingsError(
            f"The store '{settings.store.url}' does not persist responses. "
            "Use one that does: --store sqlite:PATH or --store postgresql://HOST/DATABASE."
        )
    return settings
