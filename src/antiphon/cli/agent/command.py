"""`antiphon agent`: runs of the agent in the background."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from antiphon.cli.agent.approvals import approve_run, list_approvals
from antiphon.cli.agent.inputs import Task, read_task
from antiphon.cli.agent.output import print_run, print_runs
from antiphon.cli.agent.running import (
    ID_ARGUMENT,
    RUN_OPTIONS,
    SERVER_OPTION,
    WORKER_OPTIONS,
    AgentOptions,
    announce,
    finish,
    follow,
    note,
    run_here,
)
from antiphon.cli.agent.runs import RunClient, RunDetails, open_server_runs
from antiphon.cli.failure import WrongUsage
from antiphon.cli.log import configure_logging
from antiphon.cli.options import CONFIG_OPTION, JSON_OPTION, LOG_OPTION, with_options
from antiphon.cli.terminal import output, print_json, print_table
from antiphon.orchestrator.agent import ModeSummary
from antiphon.orchestrator.run_tree import run_json, run_object
from antiphon.wiring import make_ids
from antiphon.wiring.agent import make_agent

T = TypeVar("T")


@click.group("agent")
def command() -> None:
    """Run agents in the background; list, follow and cancel runs.

    A run survives its process: another process with the same store resumes it.

    \b
    Examples:
      antiphon agent run task.toml
      antiphon agent run task.toml --base-url http://127.0.0.1:8080 --detach
      antiphon agent list
      antiphon agent show run_0194f3a6c1b8
    """


@command.command("run", short_help="Start a run and follow it.")
@click.argument("source", metavar="TASK.toml")
@SERVER_OPTION
@click.option("--detach", is_flag=True, help="With --base-url: do not follow the run.")
@WORKER_OPTIONS
def run_task(source: str, detach: bool, **options: Any) -> None:
    """Run the task in the file TASK.toml ("-": standard input) and follow it to its end.

    Without --base-url, this process executes the run: Ctrl-C leaves it unfinished, and `antiphon agent
    resume` continues it. With --base-url, the server executes it: after Ctrl-C it continues there, `antiphon
    agent follow` shows it again, and `antiphon agent cancel` cancels it.

    \b
    A task has the fields of a request, plus title, instruction_file, tools and files:
      title = "Find the leak"
      mode = "general"
      instruction = "Find out why connections are not closed."
      files = ["src/pool.py", "src/client.py"]

    \b
    Examples:
      antiphon agent run task.toml
      antiphon agent run task.toml --base-url http://127.0.0.1:8080 --detach

    \b
    Exit codes:
      0 done   1 failed   2 wrong usage or configuration
      3 the answer is incomplete   130 interrupted
    """
    chosen = AgentOptions(**options)
    if detach and chosen.base_url is None:
        raise WrongUsage("--detach needs a server that executes the run: name it with --base-url.")
    configure_logging(chosen.log_level or "warning")
    task = read_task(source)
    if chosen.base_url is None:
        settings = chosen.load_to_run()
        finish(asyncio.run(run_here(lambda runs: runs.submit(task), settings, chosen.tenant)))
    elif detach:
        asyncio.run(_submit_at(chosen.base_url, task))
    else:
        finish(asyncio.run(_follow_at(chosen.base_url, task)))


@command.command("resume", short_help="Continue an unfinished run.")
@ID_ARGUMENT
@WORKER_OPTIONS
def resume_run(run_id: str, **options: Any) -> None:
    """Continue the run ID in this process, and follow it to its end.

    A server with the same store does so by itself.

    \b
    Example:
      antiphon agent resume run_0194f3a6c1b8
    """
    chosen = AgentOptions(**options)
    settings = chosen.load_to_run()
    finish(asyncio.run(run_here(lambda runs: runs.resume(run_id), settings, chosen.tenant)))


@command.command("list", short_help="List the newest runs.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100),
    default=20,
    show_default=True,
    metavar="N",
    help="How many, newest first.",
)
@JSON_OPTION
@RUN_OPTIONS
def list_runs(limit: int, machine: bool, **options: Any) -> None:
    """List the newest runs.

    \b
    Examples:
      antiphon agent list
      antiphon agent list --base-url http://127.0.0.1:8080 --json
    """
    runs = _call(AgentOptions(**options), lambda runs: runs.list_runs(limit))
    if machine:
        print_json([run_object(run) for run in runs])
    elif runs:
        print_runs(runs, make_ids().clock())
    else:
        output().print("There are no runs.", style="dim")


@command.command("show", short_help="Show a run as a tree of turns and tool calls.")
@ID_ARGUMENT
@JSON_OPTION
@RUN_OPTIONS
def show_run(run_id: str, machine: bool, **options: Any) -> None:
    """Show the run ID: its status, its turns, and the tool calls of each turn.

    \b
    Examples:
      antiphon agent show run_0194f3a6c1b8
      antiphon agent show run_0194f3a6c1b8 --json
    """
    details = _call(AgentOptions(**options), lambda runs: runs.show(run_id))
    if machine:
        click.echo(
            msgspec.json.format(run_json(details.run, details.response, details.tree, "camel"), indent=2)
        )
        return
    print_run(details, make_ids().clock(), output())


@command.command("follow", short_help="Print the events of a run until it ends.")
@ID_ARGUMENT
@RUN_OPTIONS
def follow_run(run_id: str, **options: Any) -> None:
    """Print the events of the run ID, from the first until it ends. Ctrl-C does not end the run.

    \b
    Example:
      antiphon agent follow run_0194f3a6c1b8
    """
    finish(_call(AgentOptions(**options), lambda runs: follow(runs, run_id)))


@command.command("cancel", short_help="Cancel a run.")
@ID_ARGUMENT
@RUN_OPTIONS
def cancel_run(run_id: str, **options: Any) -> None:
    """Cancel the run ID, whichever process executes it. An ended run stays as it is.

    \b
    Example:
      antiphon agent cancel run_0194f3a6c1b8
    """
    run = _call(AgentOptions(**options), lambda runs: runs.cancel(run_id))
    click.echo(f"{run.id} is {run.status}.")


@command.command("delete", short_help="Delete a run.")
@ID_ARGUMENT
@click.option("--yes", is_flag=True, help="Do not ask.")
@RUN_OPTIONS
def delete_run(run_id: str, yes: bool, **options: Any) -> None:
    """Delete the run ID and its log. An unfinished run is cancelled first.

    \b
    Example:
      antiphon agent delete --yes run_0194f3a6c1b8
    """
    chosen = AgentOptions(**options)
    _call(chosen, lambda runs: runs.show(run_id))
    if not yes:
        click.confirm("Delete the run permanently?", abort=True, err=True)
    _call(chosen, lambda runs: runs.delete(run_id))
    click.echo(f"Deleted {run_id}.")


command.add_command(list_approvals)
command.add_command(approve_run)


@command.command("modes", short_help="List the modes of the agent.")
@JSON_OPTION
@with_options(SERVER_OPTION, CONFIG_OPTION, LOG_OPTION)
def list_modes(machine: bool, **options: Any) -> None:
    """List the modes of the agent, when to use them, and their tools.

    \b
    Examples:
      antiphon agent modes
      antiphon agent modes --base-url http://127.0.0.1:8080
    """
    chosen = AgentOptions(**options)
    configure_logging(chosen.log_level or "warning")
    modes = asyncio.run(_modes(chosen))
    if machine:
        print_json(modes)
        return
    rows = [
        (f"{mode.key}*" if mode.default else mode.key, mode.when_to_use, ", ".join(mode.tools))
        for mode in modes
    ]
    print_table(("mode", "when to use", "tools"), rows)


async def _modes(options: AgentOptions) -> list[ModeSummary]:
    if options.base_url is None:
        return make_agent(options.load_to_ask().agent).list_modes()
    async with open_server_runs(options.base_url) as runs:
        return list(await runs.modes())


async def _follow_at(base_url: str, task: Task) -> RunDetails:
    async with open_server_runs(base_url) as runs:
        run = await runs.submit(task)
        announce(run)
        try:
            return await follow(runs, run.id)
        except asyncio.CancelledError:
            note(
                f"The run continues at the server. Follow it: `antiphon agent follow {run.id} --base-url "
                f"{runs.name}`. Cancel it: `antiphon agent cancel {run.id} --base-url {runs.name}`."
            )
            raise


async def _submit_at(base_url: str, task: Task) -> None:
    async with open_server_runs(base_url) as runs:
        click.echo((await runs.submit(task)).id)


def _call(options: AgentOptions, operation: Callable[[RunClient], Awaitable[T]]) -> T:
    async def call() -> T:
        async with options.open_runs() as runs:
            return await operation(runs)

    return asyncio.run(call())
