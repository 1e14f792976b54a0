"""MCP servers from the settings."""

from pathlib import Path

import pytest

from antiphon.errors import SettingsError
from antiphon.known_secrets import KNOWN_SECRETS
from antiphon.mcp.port import CommandServer, HttpErrorItem, McpTool, RemoteServer
from antiphon.settings import EgressSettings, McpServerSettings, McpSettings, Settings, load_settings
from antiphon.wiring.mcp import configured_servers, open_mcp
from tests.mcp.scripted_server import replying, scripted_server, texts


def settings_of(**servers: McpServerSettings) -> Settings:
    return Settings(mcp=McpSettings(servers))


def load(folder: Path, text: str) -> Settings:
    path = folder / "antiphon.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path, environment={})


def test_servers_of_the_file(tmp_path: Path) -> None:
    text = """
    [mcp.servers.docs]
    url = "https://mcp.example/mcp"
    headers = { "x-team" = "blue" }
    authorization_env = "DOCS_TOKEN"
    allowed_tools = ["search"]
    timeout = 5

    [mcp.servers.files]
    command = "files-server"
    args = ["--read", "/srv"]
    env = { LANG = "C" }
    allowed_tools = { read_only = true }
    require_approval = { never = { tool_names = ["read"] } }
    """
    found = configured_servers(load(tmp_path, text), {"DOCS_TOKEN": "a-token-of-the-operator"})
    headers = {"x-team": "blue", "authorization": "Bearer a-token-of-the-operator"}
    assert found["docs"].server == RemoteServer(
        label="docs", url="https://mcp.example/mcp", headers=headers, configured=True
    )
    assert found["docs"].timeout_seconds == 5
    assert found["docs"].allowed_tools.matches(McpTool("search", {}))
    assert not found["docs"].allowed_tools.matches(McpTool("delete", {}))
    assert found["docs"].approval.needs_approval(McpTool("search", {}))
    assert found["files"].server == CommandServer(
        label="files", command="files-server", args=("--read", "/srv"), env={"LANG": "C"}
    )
    assert not found["files"].approval.needs_approval(McpTool("read", {}))
    assert not found["files"].allowed_tools.matches(McpTool("read", {}))
    assert KNOWN_SECRETS.scrub("a-token-of-the-operator") == "[redacted]"


@pytest.mark.parametrize("row", ["", 'url = "http://a/"\ncommand = "b"'])
def test_a_server_needs_a_url_or_a_command(tmp_path: Path, row: str) -> None:
    with pytest.raises(SettingsError, match=r"mcp\.servers\.x needs either a url or a command"):
        load(tmp_path, f"[mcp.servers.x]\n{row}\n")


def test_a_label_must_be_a_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="servers"):
        load(tmp_path, '[mcp.servers."a b"]\ncommand = "x"\n')


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (McpServerSettings(url="ftp://x"), "must begin with"),
        (McpServerSettings(url="http://x", headers={"host": "y"}), "header 'host'"),
        (McpServerSettings(url="http://x", authorization_env="NO_SUCH"), "variable NO_SUCH"),
        (McpServerSettings(command="x", require_approval={"sometimes": {}}), "require_approval"),
        (McpServerSettings(command="x", allowed_tools={"names": []}), "allowed_tools"),
    ],
)
def test_settings_that_cannot_be_used(server: McpServerSettings, reason: str) -> None:
    with pytest.raises(SettingsError, match=rf"mcp\.servers\.own: .*{reason}"):
        configured_servers(settings_of(own=server), {})


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_egress_settings_apply_to_servers_of_requests(allowed: bool) -> None:
    settings = Settings(egress=EgressSettings(("127.0.0.1",) if allowed else ()))
    handlers = {"tools/call": replying(texts("done"))}
    async with scripted_server(handlers) as (server, _), open_mcp(settings) as connections:
        outcome = await connections.call_tool("t", server, "act", {}, seconds=10)
    if allowed:
        assert outcome.output == "done"
    else:
        assert isinstance(outcome.error, HttpErrorItem)
        assert outcome.error.code == 403
