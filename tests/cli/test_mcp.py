"""`antiphon mcp`: the configured servers, their tools, and calls of them."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.mcp.scripted_server import stdio_script

SERVER = """
def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, "description": f"The tool\\x1b[31m {name}.", **more}
TOOLS = [tool("write"), tool("read", annotations={"readOnlyHint": True}), tool("hidden")]
for message in received():
    if message["method"] == "server/discover":
        print("ready", file=sys.stderr, flush=True)
        send(id=message["id"], result=DISCOVERED)
    elif message["method"] == "tools/list":
        send(id=message["id"], result={"tools": TOOLS})
    elif message["method"] == "tools/call":
        params = message["params"]
        token = params["_meta"]["progressToken"]
        send(method="notifications/progress", params={"progressToken": token, "progress": 1, "total": 2})
        text = "\\x1b[2Jgot " + json.dumps(params["arguments"])
        result = {"content": [{"type": "text", "text": text}], "isError": params["name"] == "write"}
        send(id=message["id"], result=result)
"""


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    server = stdio_script(tmp_path, SERVER)
    path = tmp_path / "antiphon.toml"
    path.write_text(
        f"""
        [mcp.servers.own]
        command = {json.dumps(server.command)}
        args = {json.dumps(server.args)}
        allowed_tools = ["read", "write"]
        require_approval = {{ never = {{ read_only = true }} }}
        [mcp.servers.gone]
        url = "http://127.0.0.1:9/mcp?key=a-secret"
        """,
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    return path


def test_the_servers_without_their_secrets(run: Run) -> None:
    result = run("mcp", "list")
    assert result.exit_code == 0
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["label", "transport"],
        ["own", "stdio"],
        ["gone", "http"],
    ]
    assert "a-secret" not in result.output
    assert json.loads(run("mcp", "list", "--json").stdout)[1] == {
        "label": "gone",
        "transport": "http",
        "address": "http://127.0.0.1:9/mcp",
    }


def test_the_allowed_tools_of_a_server(run: Run) -> None:
    result = run("mcp", "list", "own")
    assert result.exit_code == 0
    assert [line.split(maxsplit=4)[:3] for line in result.stdout.splitlines()[1:]] == [
        ["read", "read-only", "not"],
        ["write", "needed", "The"],
    ]
    assert "\x1b" not in result.stdout
    assert "MCP server 'own': ready" in result.stderr
    tools = json.loads(run("mcp", "list", "own", "--json").stdout)
    assert [(tool["name"], tool["read_only"], tool["needs_approval"]) for tool in tools] == [
        ("read", True, False),
        ("write", False, True),
    ]


def test_a_call(run: Run) -> None:
    result = run("mcp", "call", "own", "read", '{"path": "a"}')
    assert result.exit_code == 0
    assert result.stdout == '[2Jgot {"path": "a"}\n'
    assert "1 of 2" in result.stderr
    found = json.loads(run("mcp", "call", "own", "read", "--json").stdout)
    assert found == {"output": "\x1b[2Jgot {}", "structured": None, "error": None}


def test_a_call_that_fails(run: Run) -> None:
    result = run("mcp", "call", "own", "write")
    assert result.exit_code == 1
    assert "Error: [2Jgot {}" in result.stderr
    failed = run("mcp", "call", "own", "write", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["error"]["type"] == "mcp_tool_execution_error"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["list", "other"], 2, "No MCP server 'other' is configured. Configured: own, gone."),
        (["list", "gone"], 1, "The MCP server 'gone' cannot be reached"),
        (["call", "own", "hidden"], 2, "The tool 'hidden' is not in mcp.servers.own.allowed_tools."),
        (["call", "own", "read", "[]"], 2, "ARGUMENTS must be a JSON object"),
        (["call", "gone", "x", "--timeout", "5"], 1, "cannot be reached"),
    ],
)
def test_failures(run: Run, arguments: list[str], code: int, message: str) -> None:
    result = run("mcp", *arguments)
    assert result.exit_code == code
    assert message in result.stderr
    assert "a-secret" not in result.output


def test_no_servers(run: Run, configuration: Path) -> None:
    configuration.write_text("", encoding="utf-8")
    assert "No MCP servers are configured" in run("mcp", "list").stdout
