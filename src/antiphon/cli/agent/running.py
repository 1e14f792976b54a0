"""Shared by the commands about agent runs: their options, and following a run to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass

import click
import msgspec

from antiphon.caller import DEFAULT_TENANT
from antiphon.cli.agent.output import exit_with, print_notes, print_tree
from antiphon.cli.agent.progress import TextPrinter
from antiphon.cli.agent.runs import RunClient, RunDetails, StoredRuns, open_server_runs, open_stored_runs
from antiphon.cli.failure import INCOMPLETE, Failure, WrongUsage
from antiphon.cli.log import configure_logging
from antiphon.cli.models import prepare_model
from antiphon.cli.options import (
    CONFIG_OPTION,
    LOG_OPTION,
    MODEL_OPTION,
    STORE_OPTION,
    UPSTREAM_OPTIONS,
    SettingsOptions,
    require_durable_store,
    with_options,
)
from antiphon.cli.terminal import errors, printable
from antiphon.orchestrator.events import AgentWaiting
from antiphon.settings import Settings
from antiphon.store.agent_runs import AgentRun

SERVER_OPTION = click.option(
    "--base-url",
    metavar="URL",
    help="Use the runs of this server instead of those in the store. Its key: ANTIPHON_API_KEY.",
)
TENANT_OPTION = click.option(
    "--tenant",
    default=DEFAULT_TENANT,
    metavar="NAME",
    show_default=True,
    help="The tenant whose runs in the store are meant.",
)
RUN_OPTIONS = with_options(SERVER_OPTION, TENANT_OPTION, CONFIG_OPTION, STORE_OPTION, LOG_OPTION)
WORKER_OPTIONS = with_options(
    TENANT_OPTION, MODEL_OPTION, CONFIG_OPTION, *UPSTREAM_OPTIONS, STORE_OPTION, LOG_OPTION
)
ID_ARGUMENT = click.argument("run_id", metavar="ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions(SettingsOptions):
    """Selects the runs of a server, or those of a tenant in the store."""

    base_url: str | None = None
    tenant: str = DEFAULT_TENANT

    def __post_init__(self) -> None:
        """Raise `WrongUsage` for options that have no effect on a server."""
        given_here = {
            "--tenant": self.tenant != DEFAULT_TENANT,
            "--model": self.model is not None,
            "--upstream": self.upstream is not None or self.upstream_kind is not None,
            "--store": self.store is not None,
        }
        local_options = [option for option, is_given in given_here.items() if is_given]
        if self.base_url is not None and local_options:
            raise WrongUsage(
                f"{', '.join(local_options)} cannot be combined with --base-url: the server decides that."
            )

    def load_with_store(self) -> Settings:
        configure_logging(self.log_level or "warning")
        return require_durable_store(self.load_to_ask())

    def load_to_run(self) -> Settings:
        """The settings of a process that executes runs, with the model that the agent uses."""
        settings = self.load_with_store()
        model = prepare_model(settings, self.model or settings.agent.model or None)
        agent = msgspec.structs.replace(settings.agent, model=model or "")
        return msgspec.structs.replace(settings, agent=agent)

    def open_runs(self) -> AbstractAsyncContextManager[RunClient]:
        """A client of the runs at the server, or in the store."""
        if self.base_url is not None:
            configure_logging(self.log_level or "warning")
            return open_server_runs(self.base_url)
        return open_stored_runs(self.load_with_store(), self.tenant)


Begin = Callable[[StoredRuns], Awaitable[AgentRun]]


async def follow(runs: RunClient, run_id: str, *, leaves_waiting: bool = False) -> RunDetails:
    """Print the events of a run until it ends, and return it; with `leaves_waiting` also if it waits for a
    person."""
    printer = TextPrinter()
    try:
        async with aclosing(runs.follow(run_id)) as events:
            async for event in events:
                printer.print(event)
                if isinstance(event, AgentWaiting):
                    details = await runs.show(run_id)
                    if details.run.status == "waiting":
                        if leaves_waiting:
                            return details
                        note(
                            f"Answer with `antiphon agent approve {run_id}{runs.option}`; it continues then."
                        )
    finally:
        printer.close()
    return await runs.show(run_id)


async def run_here(begin: Begin, settings: Settings, tenant: str) -> RunDetails:
    """Execute a run in this process and follow it. An interrupted run can be resumed."""
    async with open_stored_runs(settings, tenant) as runs:
        run = await begin(runs)
        announce(run)
        try:
            return await follow(runs, run.id, leaves_waiting=True)
        except asyncio.CancelledError:
            note(
                f"The run is unfinished. Resume it with `antiphon agent resume {run.id}`; "
                "a server on the same store resumes it by itself."
            )
            raise


def announce(run: AgentRun) -> None:
    """Print the id and the title of a run."""
    note(f"{run.id}  {run.title}")


def finish(details: RunDetails) -> None:
    """Print the tree of a run, and exit with the code that matches its end."""
    print_tree(details.tree, errors())
    if details.run.status == "waiting":
        note(
            f"The run waits. Answer with `antiphon agent approve {details.run.id}`, then continue it with "
            f"`antiphon agent resume {details.run.id}`."
        )
        click.get_current_context().exit(INCOMPLETE)
    if details.run.status == "cancelled":
        raise Failure("The run was cancelled.")
    if details.response is not None:
        print_notes(details.response)
        exit_with(details.response)


def note(line: str) -> None:
    """Print a remark on standard error."""
    errors().print(printable(line), style="dim", markup=False, soft_wrap=True)
