"""`antiphon doctor`: checks the installation and advises what to do."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec
from rich.table import Table
from rich.text import Text

from antiphon.cli.doctor.fix import Fix, fix_files
from antiphon.cli.doctor.hosted_tools import check_hosted_tools
from antiphon.cli.doctor.models import (
    check_codex,
    check_discovery,
    check_embeddings,
    check_engine,
    check_generation,
    check_weights,
)
from antiphon.cli.doctor.setup import (
    check_address,
    check_configuration,
    check_packages,
    check_python,
    check_terminal,
)
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
from antiphon.cli.startup.check import Check, check_folder
from antiphon.cli.startup.checks import startup_checks
from antiphon.cli.startup.upstreams import ask_upstream
from antiphon.cli.terminal import output, spinner
from antiphon.settings import Settings
from antiphon.wiring import data_folder

SYMBOLS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}
PIPE_WIDTH = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(SettingsOptions):
    machine: bool = False
    fix: bool = False


@click.command("doctor")
@click.option("--json", "machine", is_flag=True, help="Print the checks as JSON.")
@click.option(
    "--fix",
    is_flag=True,
    help="Repair what is safe to repair first: create the data folder, correct the modes of private files, "
    "remove files that a killed process left.",
)
@with_options(CONFIG_OPTION, *UPSTREAM_OPTIONS, MODEL_OPTION, STORE_OPTION, LOG_OPTION)
def command(**values: Any) -> None:
    """Check the installation and advise what to do.

    Checks the packages, the configuration, the address, the store, the folders, the hosted tools, every
    upstream, the model servers that a server would find, the embedding models, and the embedded model, which
    is loaded and generates a few tokens.
    Secrets are never shown. The exit code is 1 if a check failed. `antiphon serve` runs the same checks of
    the configuration, the folders, the keys and the store: it does not start if one of them failed.

    \b
    Examples:
      antiphon doctor
      antiphon doctor --upstream http://localhost:11434/v1 --upstream-kind ollama
      antiphon doctor --json
      antiphon doctor --fix
    """
    options = DoctorOptions(**values)
    configure_logging(options.log_level or "error")
    encoding = sys.stdout.encoding  # the spinner replaces sys.stdout
    fixes = fix_files(data_folder()) if options.fix else []
    with spinner("checking"):
        checks = examine(options, encoding)
    if options.machine:
        click.echo(msgspec.json.format(_to_json(checks, fixes), indent=2))
    else:
        _print_fixes(fixes)
        _print(checks)
    if not _succeeded(checks):
        click.get_current_context().exit(FAILED)


def examine(options: SettingsOptions, encoding: str) -> list[Check]:
    """Run all checks; if the settings are invalid, only those that do not need them."""
    configuration, settings = check_configuration(options)
    checks = [check_python(), check_packages(), configuration]
    terminal = check_terminal(encoding)
    if terminal is not None:
        checks.append(terminal)
    if settings is None:
        return [*checks, check_folder("data folder", data_folder())]
    startup = startup_checks(settings)
    checks += [*startup, check_address(settings), asyncio.run(check_hosted_tools(settings))]
    if any(check.name == "models" and check.status == "failed" for check in startup):
        return checks
    return checks + _examine_models(settings)


def _examine_models(settings: Settings) -> list[Check]:
    checks = asyncio.run(_ask_upstreams(settings))
    checks += [asyncio.run(check_discovery(settings))] if settings.discovers else []
    checks += [asyncio.run(check_codex(settings))] if settings.codex.enabled else []
    checks += _examine_local(settings) if settings.serves_local_model else []
    return [*checks, check_embeddings(settings)]


async def _ask_upstreams(settings: Settings) -> list[Check]:
    return [answer.check for answer in await asyncio.gather(*map(ask_upstream, settings.upstreams))]


def _examine_local(settings: Settings) -> list[Check]:
    checks = [check_engine(), check_weights(settings)]
    if all(check.status == "ok" for check in checks):
        checks.append(asyncio.run(check_generation(settings)))
    return checks


def _succeeded(checks: Sequence[Check]) -> bool:
    return all(check.status != "failed" for check in checks)


def _to_json(checks: Sequence[Check], fixes: Sequence[Fix]) -> bytes:
    return msgspec.json.encode({"ok": _succeeded(checks), "checks": checks, "fixes": fixes})


def _print_fixes(fixes: Sequence[Fix]) -> None:
    for fix in fixes:
        output().print(f"fixed: {fix}", markup=False, soft_wrap=True)
    if fixes:
        output().print()


def _print(checks: Sequence[Check]) -> None:
    console = output()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = Table.grid(padding=(0, 2))
    for check in checks:
        symbol, colour = SYMBOLS[check.status]
        found = Text(check.found)
        if check.advice:
            found.append(f"\n→ {check.advice}", style=colour)
        table.add_row(Text(symbol, style=colour), Text(check.name, style="bold"), found)
    console.print(table)
    console.print()
    console.print(_verdict(checks), style="bold")


def _verdict(checks: Sequence[Check]) -> str:
    if not _succeeded(checks):
        return "Some checks failed; see ✗ above."
    if any(check.status == "warning" for check in checks):
        return "There are warnings; see ! above."
    return "All checks passed."
