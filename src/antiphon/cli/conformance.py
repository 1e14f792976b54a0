"""`antiphon conformance`: checks whether a Responses server conforms to the protocol."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.status import Status
from rich.table import Table
from rich.text import Text

from antiphon import __version__
from antiphon.cli.failure import FAILED, WrongUsage
from antiphon.cli.options import API_KEY_VARIABLE
from antiphon.cli.terminal import errors, output, printable
from antiphon.conformance.checks import CHECKS, GROUPS
from antiphon.conformance.probe import Check
from antiphon.conformance.results import Report, Result
from antiphon.conformance.run import CannotRun, prepare, run
from antiphon.conformance.target import Target

SYMBOLS = {"pass": ("✓", "green"), "fail": ("✗", "red"), "skip": ("–", "yellow")}
PIPE_WIDTH = 160
MAX_EVIDENCE_LINES = 3
"""In the table; the JSON report has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceOptions:
    base_url: str | None
    model: str | None
    api_key: str | None
    json: str | None
    only: tuple[str, ...]
    listed: bool
    timeout: float


@click.command("conformance")
@click.option("--base-url", metavar="URL", help="The server to check, such as http://127.0.0.1:8080/v1.")
@click.option("--model", metavar="NAME", help="The model to ask.  [default: the first that is listed]")
@click.option(
    "--api-key",
    envvar=API_KEY_VARIABLE,
    metavar="KEY",
    help=f"The server's key.  [default: {API_KEY_VARIABLE}]",
)
@click.option("--json", metavar="FILE", help="Write the report as JSON to a file, or to standard output (-).")
@click.option(
    "--only", multiple=True, metavar="GROUP", help="A group of checks, or one check; may be repeated."
)
@click.option("--list", "listed", is_flag=True, help="List the checks without running them.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1, max=3600),
    default=60.0,
    metavar="SECONDS",
    show_default=True,
    help="Timeout of one request.",
)
def command(**values: Any) -> None:
    """Check whether a Responses server conforms to the protocol.

    Sends a few dozen small requests and checks the responses: order and numbers of events, ids, state, tools,
    errors, background, WebSocket. It creates and deletes its own responses on the server. A check is skipped,
    not failed, if the server lacks the feature or the model does not do what the check needs. The exit code
    is 1 if a check failed and 2 if the server cannot be checked.

    \b
    Examples:
      antiphon conformance --base-url http://127.0.0.1:8080/v1
      antiphon conformance --base-url http://127.0.0.1:8000/v1 --model qwen3 --only order
      antiphon conformance --base-url http://127.0.0.1:8080/v1 --json report.json
      antiphon conformance --list
    """
    options = ConformanceOptions(**values)
    checks = _chosen(options.only)
    if options.listed:
        _print_list(checks)
        return
    if not options.base_url:
        raise WrongUsage("Name the server to check with --base-url.")
    if options.json and options.json != "-":
        _require_writable(options.json)
    try:
        report = asyncio.run(_check(options, options.base_url, checks))
    except CannotRun as error:
        raise WrongUsage(error.message) from None
    if options.json:
        _write(report, options.json)
    if options.json != "-":
        _print(report)
    if report.summary.failed:
        click.get_current_context().exit(FAILED)


async def _check(options: ConformanceOptions, base_url: str, checks: Sequence[Check]) -> Report:
    target = Target(
        base_url, model=options.model or "", api_key=options.api_key or None, timeout=options.timeout
    )
    try:
        await prepare(target)
        with _Progress(len(checks)) as progress:
            return await run(target, checks, progress=progress.show, checker=f"antiphon {__version__}")
    finally:
        target.close()


def _chosen(only: Sequence[str]) -> list[Check]:
    """The checks with these ids or of these groups; all checks if `only` is empty."""
    known = {*GROUPS, *(check.id for check in CHECKS)}
    for name in only:
        if name not in known:
            raise WrongUsage(f"There is no group '{name}'. Groups: {', '.join(GROUPS)}.")
    return [check for check in CHECKS if not only or check.group in only or check.id in only]


class _Progress:
    """Shows the current check on standard error: a status line on a terminal, otherwise a line per group."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._group = ""
        self._console = errors()
        self._status: Status | None = None

    def __enter__(self) -> "_Progress":
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, check: Check) -> None:
        self._number += 1
        if self._status is not None:
            self._status.update(Text(f"{self._number}/{self._total} {check.id}", style="dim"))
        elif check.group != self._group:
            self._console.print(f"{self._number}/{self._total} {check.group}", soft_wrap=True)
        self._group = check.group


def _require_writable(where: str) -> None:
    """Raise `WrongUsage` before the checks, which take minutes, if the report cannot be written."""
    try:
        with Path(where).open("ab"):
            pass
    except OSError as error:
        raise WrongUsage(f"The report cannot be written to '{where}': {error.strerror}.") from None


def _write(report: Report, where: str) -> None:
    body = msgspec.json.format(msgspec.json.encode(report), indent=2)
    if where == "-":
        click.echo(body)
    else:
        Path(where).write_bytes(body + b"\n")


def _print(report: Report) -> None:
    console = output()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = Table.grid(padding=(0, 2))
    group = ""
    for result in report.checks:
        if result.group != group:
            group = result.group
            table.add_row("", Text(group, style="bold"), "")
        symbol, colour = SYMBOLS[result.verdict]
        table.add_row(Text(symbol, style=colour), Text(f"  {result.id}"), _details(result, colour))
    console.print(table)
    console.print()
    console.print(Text(_verdict(report), style="bold"), soft_wrap=True)


def _details(result: Result, colour: str) -> Text:
    text = Text(result.title)
    if result.why:
        text.append(f"\n→ {printable(result.why)}", style=colour)
    for line in result.evidence[:MAX_EVIDENCE_LINES]:
        text.append(f"\n  {printable(line)}", style="dim")
    return text


def _verdict(report: Report) -> str:
    found = report.summary
    return (
        f"{found.passed} passed, {found.failed} failed, {found.skipped} skipped: "
        f"{printable(report.base_url)}, model {printable(report.model)}, "
        f"{report.requests} requests in {report.seconds:.1f} s."
    )


def _print_list(checks: Sequence[Check]) -> None:
    width = max(len(check.id) for check in checks)
    for check in checks:
        sys.stdout.write(f"{check.id:<{width}}  {check.title}  [{check.rule}]\n")
