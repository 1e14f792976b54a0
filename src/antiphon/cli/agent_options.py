"""Options of the commands about runs: where the runs are, whose they are, and who makes them."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import click
import msgspec

from antiphon.caller import DEFAULT_TENANT
from antiphon.cli.agent_doors import RunDoor, open_local
from antiphon.cli.asking import prepare_model
from antiphon.cli.failure import WrongUsage
from antiphon.cli.kept import require_lasting
from antiphon.cli.log import configure_logging
from antiphon.cli.options import (
    CONFIG_OPTION,
    LOG_OPTION,
    MODEL_OPTION,
    STORE_OPTION,
    UPSTREAM_OPTIONS,
    SettingsOptions,
    with_options,
)
from antiphon.cli.remote_runs import open_remote_runs
from antiphon.settings import Settings

SERVER_OPTION = click.option(
    "--base-url",
    metavar="URL",
    help="The server whose runs are meant, instead of those in the store. Its key: ANTIPHON_API_KEY.",
)
TENANT_OPTION = click.option(
    "--tenant", default=DEFAULT_TENANT, metavar="NAME", show_default=True, help="Whose runs, in the store."
)
STORED_OPTIONS = with_options(SERVER_OPTION, TENANT_OPTION, CONFIG_OPTION, STORE_OPTION, LOG_OPTION)
MADE_OPTIONS = with_options(
    TENANT_OPTION, MODEL_OPTION, CONFIG_OPTION, *UPSTREAM_OPTIONS, STORE_OPTION, LOG_OPTION
)
ID_ARGUMENT = click.argument("run_id", metavar="ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions(SettingsOptions):
    """Where the runs are, and whose they are."""

    base_url: str | None = None
    tenant: str = DEFAULT_TENANT

    def __post_init__(self) -> None:
        """Refuse what a server would never hear of."""
        local = {
            "--tenant": self.tenant != DEFAULT_TENANT,
            "--model": self.model is not None,
            "--upstream": self.upstream is not None or self.upstream_kind is not None,
            "--store": self.store is not None,
        }
        unheard = [option for option, is_given in local.items() if is_given]
        if self.base_url is not None and unheard:
            raise WrongUsage(f"{', '.join(unheard)} does not go with --base-url: that server decides.")

    def load_lasting(self) -> Settings:
        """The settings of a process that looks at runs."""
        configure_logging(self.log_level or "warning")
        return require_lasting(self.load_to_ask())

    def load_to_make(self) -> Settings:
        """The settings of a process that makes runs: with the model that the agent asks."""
        settings = self.load_lasting()
        model = prepare_model(settings, self.model or settings.agent.model or None)
        agent = msgspec.structs.replace(settings.agent, model=model or "")
        return msgspec.structs.replace(settings, agent=agent)

    def door(self) -> AbstractAsyncContextManager[RunDoor]:
        """The runs at the server, or in the store."""
        if self.base_url is not None:
            configure_logging(self.log_level or "warning")
            return open_remote_runs(self.base_url)
        return open_local(self.load_lasting(), self.tenant)
