"""`antiphon doctor`: is everything in order, and if not, what to do."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec
from rich.table import Table
from rich.text import Text

from antiphon.cli.checks.agent import check_agent
from antiphon.cli.checks.base import Check
from antiphon.cli.checks.codex import check_codex
from antiphon.cli.checks.configuration import check_address, check_configuration
from antiphon.cli.checks.installation import check_folder, check_packages, check_python, check_terminal
from antiphon.cli.checks.local import check_engine, check_generation, check_weights
from antiphon.cli.checks.store import check_store
from antiphon.cli.checks.upstreams import check_upstream
from antiphon.cli.failure import FAILED
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
from antiphon.cli.terminal import at_work, output
from antiphon.settings import Settings
from antiphon.wiring import data_folder

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}
PIPE_WIDTH = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(SettingsOptions):
    """What was said on the command line."""

    machine: bool = False


@click.command("doctor")
@click.option("--json", "machine", is_flag=True, help="Print the checks as JSON.")
@with_options(CONFIG_OPTION, *UPSTREAM_OPTIONS, MODEL_OPTION, STORE_OPTION, LOG_OPTION)
def command(**values: Any) -> None:
    """Check the installation and say what to do.

    Looks at the packages, the configuration, the address, the store, the folders, every upstream and the
    embedded model, which is loaded and asked for a few words. Secrets are never shown. The exit code is 1
    if something will not work.

    \b
    Examples:
      antiphon doctor
      antiphon doctor --upstream http://localhost:11434/v1 --upstream-kind ollama
      antiphon doctor --json
    """
    options = DoctorOptions(**values)
    configure_logging(options.log_level or "error")
    encoding = sys.stdout.encoding  # while something is shown to be at work, this is not the terminal
    with at_work("checking"):
        checks = examine(options, encoding)
    if options.machine:
        click.echo(msgspec.json.format(_to_json(checks), indent=2))
    else:
        _print(checks)
    if not _well(checks):
        click.get_current_context().exit(FAILED)


def examine(options: SettingsOptions, encoding: str) -> list[Check]:
    """Everything that can be checked; without settings, that is less."""
    configuration, settings = check_configuration(options)
    checks = [check_python(), check_packages(), configuration]
    terminal = check_terminal(encoding)
    if terminal is not None:
        checks.append(terminal)
    checks.append(check_folder("data folder", data_folder()))
    if settings is not None:
        checks += [check_address(settings), asyncio.run(check_store(settings)), check_agent(settings)]
        checks += asyncio.run(_ask_upstreams(settings))
        checks += [asyncio.run(check_codex(settings))] if settings.codex.enabled else []
        checks += _examine_local(settings) if settings.serves_local_model else []
    return checks


async def _ask_upstreams(settings: Settings) -> list[Check]:
    return await asyncio.gather(*(check_upstream(upstream) for upstream in settings.upstreams))


def _examine_local(settings: Settings) -> list[Check]:
    checks = [check_engine(), check_weights(settings)]
    if all(check.status == "ok" for check in checks):
        checks.append(asyncio.run(check_generation(settings)))
    return checks


def _well(checks: Sequence[Check]) -> bool:
    return all(check.status != "failed" for check in checks)


def _to_json(checks: Sequence[Check]) -> bytes:
    return msgspec.json.encode({"ok": _well(checks), "checks": checks})


def _print(checks: Sequence[Check]) -> None:
    console = output()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = Table.grid(padding=(0, 2))
    for check in checks:
        mark, colour = MARKS[check.status]
        found = Text(check.found)
        if check.advice:
            found.append(f"\n→ {check.advice}", style=colour)
        table.add_row(Text(mark, style=colour), Text(check.name, style="bold"), found)
    console.print(table)
    console.print()
    console.print(_verdict(checks), style="bold")


def _verdict(checks: Sequence[Check]) -> str:
    if not _well(checks):
        return "Something will not work; see ✗ above."
    if any(check.status == "warning" for check in checks):
        return "It should work; see ! above."
    return "Everything is in order."
