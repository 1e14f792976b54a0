"""`antiphon mcp`: the configured MCP servers, their tools, and calls of them."""

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from antiphon.caller import DEFAULT_TENANT
from antiphon.cli.failure import FAILED, Failure
from antiphon.cli.log import configure_logging
from antiphon.cli.options import CONFIG_OPTION, JSON_OPTION, LOG_OPTION, with_options
from antiphon.cli.terminal import (
    errors,
    output,
    print_json,
    print_note,
    print_table,
    printable,
    shorten,
    spinner,
)
from antiphon.errors import SettingsError
from antiphon.mcp.approval import ALL_TOOLS, allowed
from antiphon.mcp.configured import ConfiguredServer
from antiphon.mcp.port import CallOutcome, CommandServer, McpProgress, McpTool
from antiphon.settings import Settings, load_settings
from antiphon.wiring.mcp import configured_servers, open_mcp

MCP_OPTIONS = with_options(JSON_OPTION, CONFIG_OPTION, LOG_OPTION)
LABEL_ARGUMENT = click.argument("label", metavar="LABEL")


@click.group("mcp")
def command() -> None:
    """List and call the tools of MCP servers.

    \b
    Examples:
      antiphon mcp list
      antiphon mcp list docs
      antiphon mcp call docs search '{"query": "timeouts"}'
    """


@command.command("list", short_help="List the servers, or the tools of one.")
@click.argument("label", metavar="[LABEL]", required=False)
@MCP_OPTIONS
def list_tools(label: str | None, machine: bool, **options: Any) -> None:
    """List the configured servers, or the tools of the server LABEL.

    \b
    Examples:
      antiphon mcp list
      antiphon mcp list docs --json
    """
    settings = _load(**options)
    if label is None:
        _list_servers(settings, machine)
        return
    chosen = _find(settings, label)

    async def listed() -> tuple[McpTool, ...]:
        async with open_mcp(settings) as servers:
            return await servers.list_tools(DEFAULT_TENANT, chosen.server)

    with spinner(f"asking {label}"):
        tools = allowed(asyncio.run(listed()), chosen.allowed_tools)
    if machine:
        print_json([_as_json(tool, chosen) for tool in tools])
    elif tools:
        rows = [
            (
                tool.name,
                "read-only" if tool.read_only else "",
                "needed" if chosen.approval.needs_approval(tool) else "not needed",
                shorten(tool.description),
            )
            for tool in tools
        ]
        print_table(("tool", "effects", "approval", "description"), rows)
    else:
        print_note(f"The MCP server {label} offers no tools.")


@command.command("call", short_help="Call a tool.")
@LABEL_ARGUMENT
@click.argument("tool", metavar="TOOL")
@click.argument("arguments", metavar="[ARGUMENTS]", default="{}")
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), metavar="SECONDS",
    help="How long it may take.  [default: mcp.servers.LABEL.timeout]",
)  # fmt: skip
@MCP_OPTIONS
def call_tool(
    label: str, tool: str, arguments: str, timeout: float | None, machine: bool, **options: Any
) -> None:
    """Call TOOL of the server LABEL with ARGUMENTS, a JSON object. You approve the call by running it.

    \b
    Examples:
      antiphon mcp call docs search '{"query": "timeouts"}'
      antiphon mcp call clock now --json
    """
    settings = _load(**options)
    chosen = _find(settings, label)
    parsed = _parse(arguments)

    async def called() -> CallOutcome:
        async with open_mcp(settings) as servers:
            if chosen.allowed_tools != ALL_TOOLS:
                found = await servers.list_tools(DEFAULT_TENANT, chosen.server)
                if tool not in {one.name for one in allowed(found, chosen.allowed_tools)}:
                    raise SettingsError(f"The tool '{tool}' is not in mcp.servers.{label}.allowed_tools.")
            return await servers.call_tool(
                DEFAULT_TENANT,
                chosen.server,
                tool,
                parsed,
                seconds=timeout or chosen.timeout_seconds,
                on_progress=_print_progress,
            )

    with spinner(f"calling {tool}"):
        outcome = asyncio.run(called())
    _print_outcome(outcome, machine)


def _load(config: Path | None, log_level: str | None) -> Settings:
    configure_logging(log_level or "info")  # what a server writes to its standard error is of interest here
    return load_settings(config)


def _find(settings: Settings, label: str) -> ConfiguredServer:
    servers = configured_servers(settings)
    if label not in servers:
        known = ", ".join(servers) or "none"
        message = (
            f"No MCP server '{label}' is configured. Configured: {known}. "
            f"Add [mcp.servers.{label}] to antiphon.toml."
        )
        raise SettingsError(message)
    return servers[label]


def _parse(arguments: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise SettingsError(f"ARGUMENTS must be a JSON object: {error}.") from None


def _list_servers(settings: Settings, machine: bool) -> None:
    servers = configured_servers(settings)
    rows = [(label, *_address(configured)) for label, configured in servers.items()]
    if machine:
        print_json([dict(zip(("label", "transport", "address"), row, strict=True)) for row in rows])
    elif rows:
        print_table(("label", "transport", "address"), rows)
    else:
        print_note("No MCP servers are configured: add [mcp.servers.NAME] to antiphon.toml.")


def _address(configured: ConfiguredServer) -> tuple[str, str]:
    server = configured.server
    if isinstance(server, CommandServer):
        return "stdio", shorten(" ".join((server.command, *server.args)))
    return "http", server.url.partition("?")[0]  # the query may hold a key


def _as_json(tool: McpTool, configured: ConfiguredServer) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "read_only": tool.read_only,
        "needs_approval": configured.approval.needs_approval(tool),
    }


def _print_progress(progress: McpProgress) -> None:
    total = f" of {progress.total:g}" if progress.total is not None else ""
    text = f"{progress.progress:g}{total} {progress.message}".strip()
    errors().print(printable(text), style="dim", markup=False, soft_wrap=True)


def _print_outcome(outcome: CallOutcome, machine: bool) -> None:
    if machine:
        print_json({"output": outcome.output, "structured": outcome.structured, "error": outcome.error})
        if outcome.error is not None:
            raise click.exceptions.Exit(FAILED)
    elif outcome.error is not None:
        raise Failure(printable(outcome.output))
    else:
        output().print(printable(outcome.output), markup=False, soft_wrap=True)
