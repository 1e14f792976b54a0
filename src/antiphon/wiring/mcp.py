"""MCP servers from the settings."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from antiphon.errors import InvalidRequest, SettingsError
from antiphon.http.egress import AllowPublic
from antiphon.known_secrets import KNOWN_SECRETS, header_secrets
from antiphon.mcp.approval import parse_allowed_tools, parse_require_approval
from antiphon.mcp.configured import ConfiguredServer
from antiphon.mcp.connections import McpConnections
from antiphon.mcp.http_server import check_address
from antiphon.mcp.port import CommandServer, McpServer, RemoteServer
from antiphon.settings import McpServerSettings, Settings


def configured_servers(
    settings: Settings, environment: Mapping[str, str] = os.environ
) -> dict[str, ConfiguredServer]:
    """The servers of the settings by label; raises `SettingsError`. Their credentials are registered as
    secrets."""
    return {label: _configured(label, row, environment) for label, row in settings.mcp.servers.items()}


def _configured(label: str, row: McpServerSettings, environment: Mapping[str, str]) -> ConfiguredServer:
    place = f"mcp.servers.{label}"
    try:
        if row.command:
            server: McpServer = CommandServer(label=label, command=row.command, args=row.args, env=row.env)
            KNOWN_SECRETS.add(*header_secrets(row.env.items()))
        else:
            server = RemoteServer(
                label=label, url=row.url, headers=_headers(place, row, environment), configured=True
            )
            check_address(server)
            KNOWN_SECRETS.add(*header_secrets(server.headers.items()))
        return ConfiguredServer(
            server,
            parse_allowed_tools(row.allowed_tools, "allowed_tools"),
            parse_require_approval(row.require_approval, "require_approval"),
            row.timeout,
        )
    except InvalidRequest as error:
        raise SettingsError(f"{place}: {error.message}") from None


def _headers(place: str, row: McpServerSettings, environment: Mapping[str, str]) -> dict[str, str]:
    if not row.authorization_env:
        return row.headers
    token = environment.get(row.authorization_env)
    if not token:
        raise SettingsError(f"{place}: the variable {row.authorization_env} of authorization_env is not set.")
    return {**row.headers, "authorization": f"Bearer {token}"}


@asynccontextmanager
async def open_mcp(settings: Settings) -> AsyncGenerator[McpConnections, None]:
    """The connections to MCP servers, for as long as the context lasts."""
    connections = McpConnections(AllowPublic(settings.egress.allow, settings.egress.deny))
    try:
        yield connections
    finally:
        await connections.aclose()
