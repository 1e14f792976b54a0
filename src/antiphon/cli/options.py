"""Options that several commands share, and how they become settings.

A command takes its options as keyword arguments and puts them into a frozen dataclass; its field names
are the names of the click parameters.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from antiphon.backends.registry import ENDPOINTS
from antiphon.service.routing.names import LOCAL_ALIAS, WILDCARD
from antiphon.settings import Settings, UpstreamSettings, load_settings

UPSTREAM_KEY = "ANTIPHON_UPSTREAM_KEY"
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
        f"Its key: {UPSTREAM_KEY}, or the kind's usual variable.",
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
    help="The model to ask; without an upstream, one of the embedded catalogue or a GGUF file.  "
    "[default: the first configured one]",
)
BASE_URL_OPTION = click.option(
    "--base-url",
    metavar="URL",
    help="Ask the Responses server at this address instead of answering in this process. "
    "Its key: ANTIPHON_API_KEY.",
)
STORE_OPTION = click.option(
    "--store",
    metavar="URL",
    help="Where responses are kept: sqlite:PATH, postgresql://…, memory: or none.  "
    "[default: sqlite:, a file in the data folder]",
)
LOG_OPTION = click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    metavar="LEVEL",
    help=f"How much is logged to standard error: {', '.join(LEVELS)}.",
)


def with_options(*options: Option) -> Option:
    """All these options, in the order of the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsOptions:
    """What decides about the settings."""

    config: Path | None = None
    upstream: str | None = None
    upstream_kind: str | None = None
    model: str | None = None
    store: str | None = None
    log_level: str | None = None

    def load_to_serve(self) -> Settings:
        """Settings of a server: `model` is the only one of `--upstream`, or the embedded one."""
        upstreams = self.upstreams(self.model or WILDCARD)
        return load_settings(self.config, overrides=self.overrides_to_serve(), upstreams=upstreams)

    def load_to_ask(self) -> Settings:
        """Settings of a client: `model` is the one to ask, which may have to be loaded."""
        upstreams = self.upstreams(WILDCARD)
        settings = load_settings(self.config, overrides=self._overrides(), upstreams=upstreams)
        if self.model in (None, LOCAL_ALIAS) or settings.upstreams:
            return settings
        overrides = {**self._overrides(), "local": {"model": self.model}}
        return load_settings(self.config, overrides=overrides, upstreams=upstreams)

    def overrides_to_serve(self) -> Overrides:
        """What was said on the command line, by section of the settings."""
        overrides = self._overrides()
        if self.model and not self._names_upstream:
            overrides["local"] = {"model": self.model, "enabled": True}
        return overrides

    def upstreams(self, model: str) -> tuple[UpstreamSettings, ...]:
        """The upstream of the command line, if it names one, with this model."""
        if not self._names_upstream:
            return ()
        return (
            UpstreamSettings(
                kind=self.upstream_kind or "plain",
                base_url=self.upstream or "",
                api_key_env=UPSTREAM_KEY if os.environ.get(UPSTREAM_KEY) else "",
                models=(model,),
            ),
        )

    def _overrides(self) -> Overrides:
        sections = {"store": given(url=self.store), "server": given(log_level=self.log_level)}
        return {section: keys for section, keys in sections.items() if keys}

    @property
    def _names_upstream(self) -> bool:
        return self.upstream is not None or self.upstream_kind is not None


def given(**values: object) -> dict[str, object]:
    """The options that were given."""
    return {name: value for name, value in values.items() if value is not None}
