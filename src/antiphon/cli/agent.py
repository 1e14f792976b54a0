"""`antiphon agent`: have an agent work in the background, and see what it does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from antiphon.cli.agent_doors import RunDoor, ShownRun
from antiphon.cli.agent_following import announce, finish, follow, make, note
from antiphon.cli.agent_options import (
    ID_ARGUMENT,
    MADE_OPTIONS,
    SERVER_OPTION,
    STORED_OPTIONS,
    AgentOptions,
)
from antiphon.cli.agent_task import Task, read_task
from antiphon.cli.failure import WrongUsage
from antiphon.cli.kept import JSON_OPTION, print_table
from antiphon.cli.log import configure_logging
from antiphon.cli.options import CONFIG_OPTION, LOG_OPTION, with_options
from antiphon.cli.remote_runs import open_remote_runs
from antiphon.cli.run_view import print_run, print_runs
from antiphon.cli.terminal import output
from antiphon.orchestrator.agent import ModeSummary
from antiphon.orchestrator.run_tree import run_json, run_object
from antiphon.wiring import make_ids
from antiphon.wiring.agent import make_agent

T = TypeVar("T")


@click.group("agent")
def command() -> None:
    """Run agents in the background; list, follow and cancel them.

    A run survives the process that makes it: whoever works on the same store takes it up.

    \b
    Examples:
      antiphon agent run task.toml
      antiphon agent run task.toml --base-url http://127.0.0.1:8080 --detach
      antiphon agent list
      antiphon agent show run_0194f3a6c1b8
    """


@command.command("run", short_help="Begin a run and follow it.")
@click.argument("source", metavar="TASK.toml")
@SERVER_OPTION
@click.option("--detach", is_flag=True, help="With --base-url: do not follow the run.")
@MADE_OPTIONS
def run_task(source: str, detach: bool, **options: Any) -> None:
    """Do the task in the file TASK.toml ("-": standard input) and follow it to its end.

    Without --base-url, this process makes the run: Ctrl-C leaves it unfinished, `antiphon agent resume` goes
    on with it. With --base-url it belongs to the server and goes on whatever happens here: after Ctrl-C,
    `antiphon agent follow` shows it again, `antiphon agent cancel` calls it off.

    \b
    A task has the fields of a request, and title, instruction_file, tools and files:
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
      3 the answer was cut short   130 interrupted
    """
    chosen = AgentOptions(**options)
    if detach and chosen.base_url is None:
        raise WrongUsage("--detach needs a server that goes on without us: name it with --base-url.")
    configure_logging(chosen.log_level or "warning")
    task = read_task(source)
    if chosen.base_url is None:
        settings = chosen.load_to_make()
        finish(asyncio.run(make(lambda door: door.submit(task), settings, chosen.tenant)))
    elif detach:
        asyncio.run(_leave_at(chosen.base_url, task))
    else:
        finish(asyncio.run(_follow_at(chosen.base_url, task)))


@command.command("resume", short_help="Go on with a run that was left unfinished.")
@ID_ARGUMENT
@MADE_OPTIONS
def resume_run(run_id: str, **options: Any) -> None:
    """Go on with the run ID in this process, and follow it to its end.

    A server on the same store does so by itself.

    \b
    Example:
      antiphon agent resume run_0194f3a6c1b8
    """
    chosen = AgentOptions(**options)
    settings = chosen.load_to_make()
    finish(asyncio.run(make(lambda door: door.resume(run_id), settings, chosen.tenant)))


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
@STORED_OPTIONS
def list_runs(limit: int, machine: bool, **options: Any) -> None:
    """List the newest runs.

    \b
    Examples:
      antiphon agent list
      antiphon agent list --base-url http://127.0.0.1:8080 --json
    """
    runs = _ask(AgentOptions(**options), lambda door: door.list_runs(limit))
    if machine:
        _print_json([run_object(run) for run in runs])
    elif runs:
        print_runs(runs, make_ids().clock())
    else:
        output().print("There are no runs.", style="dim")


@command.command("show", short_help="Show a run as a tree of turns and tool calls.")
@ID_ARGUMENT
@JSON_OPTION
@STORED_OPTIONS
def show_run(run_id: str, machine: bool, **options: Any) -> None:
    """Show the run ID: how it stands, its turns, and the tool calls of each turn.

    \b
    Examples:
      antiphon agent show run_0194f3a6c1b8
      antiphon agent show run_0194f3a6c1b8 --json
    """
    shown = _ask(AgentOptions(**options), lambda door: door.show(run_id))
    if machine:
        click.echo(msgspec.json.format(run_json(shown.run, shown.response, shown.tree, "camel"), indent=2))
        return
    print_run(shown, make_ids().clock(), output())


@command.command("follow", short_help="Print what a run does, until its end.")
@ID_ARGUMENT
@STORED_OPTIONS
def follow_run(run_id: str, **options: Any) -> None:
    """Print what the run ID has done and does, until its end. Leaving does not end it.

    \b
    Example:
      antiphon agent follow run_0194f3a6c1b8
    """
    finish(_ask(AgentOptions(**options), lambda door: follow(door, run_id)))


@command.command("cancel", short_help="Call off a run.")
@ID_ARGUMENT
@STORED_OPTIONS
def cancel_run(run_id: str, **options: Any) -> None:
    """Call off the run ID, wherever it is made. One that has ended stays as it is.

    \b
    Example:
      antiphon agent cancel run_0194f3a6c1b8
    """
    run = _ask(AgentOptions(**options), lambda door: door.cancel(run_id))
    click.echo(f"{run.id} is {run.status}.")


@command.command("delete", short_help="Delete a run.")
@ID_ARGUMENT
@click.option("--yes", is_flag=True, help="Do not ask.")
@STORED_OPTIONS
def delete_run(run_id: str, yes: bool, **options: Any) -> None:
    """Delete the run ID and its log; one that is still going on is cancelled first.

    \b
    Example:
      antiphon agent delete --yes run_0194f3a6c1b8
    """
    chosen = AgentOptions(**options)
    _ask(chosen, lambda door: door.show(run_id))
    if not yes:
        click.confirm("Delete the run for good?", abort=True, err=True)
    _ask(chosen, lambda door: door.delete(run_id))
    click.echo(f"Deleted {run_id}.")


@command.command("modes", short_help="List the modes of the agent.")
@JSON_OPTION
@with_options(SERVER_OPTION, CONFIG_OPTION, LOG_OPTION)
def list_modes(machine: bool, **options: Any) -> None:
    """List the modes of the agent, with when to use them and their tools.

    \b
    Examples:
      antiphon agent modes
      antiphon agent modes --base-url http://127.0.0.1:8080
    """
    chosen = AgentOptions(**options)
    configure_logging(chosen.log_level or "warning")
    modes = asyncio.run(_modes(chosen))
    if machine:
        _print_json(modes)
        return
    rows = [
        (f"{mode.key}*" if mode.default else mode.key, mode.when_to_use, ", ".join(mode.tools))
        for mode in modes
    ]
    print_table(("mode", "when to use", "tools"), rows)


async def _modes(options: AgentOptions) -> list[ModeSummary]:
    if options.base_url is None:
        return make_agent(options.load_to_ask().agent).list_modes()
    async with open_remote_runs(options.base_url) as door:
        return list(await door.modes())


async def _follow_at(base_url: str, task: Task) -> ShownRun:
    async with open_remote_runs(base_url) as door:
        run = await door.submit(task)
        announce(run)
        try:
            return await follow(door, run.id)
        except asyncio.CancelledError:
            note(
                f"The run goes on at the server. Follow it: `antiphon agent follow {run.id} --base-url "
                f"{door.name}`. Call it off: `antiphon agent cancel {run.id} --base-url {door.name}`."
            )
            raise


async def _leave_at(base_url: str, task: Task) -> None:
    async with open_remote_runs(base_url) as door:
        click.echo((await door.submit(task)).id)


def _ask(options: AgentOptions, question: Callable[[RunDoor], Awaitable[T]]) -> T:
    async def ask() -> T:
        async with options.door() as door:
            return await question(door)

    return asyncio.run(ask())


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
