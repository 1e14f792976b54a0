"""The real Claude Code uses Antiphon as its model and as an MCP server, with a key."""

import asyncio
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from antiphon import Route, ScriptedBackend, Settings
from antiphon.backends.scripted import Step
from antiphon.settings import SealSettings, ServerSettings, StoreSettings
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from antiphon.wiring import build_app
from tests.clients.test_claude_code import QUIET, TEST_TIMEOUT_SECONDS, call, find_claude, outputs
from tests.uvicorn_here import serve_here

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.xdist_group("claude-code")]

KEY = "sk-of-the-client"
TOOL = "mcp__antiphon__ask_model"
SETTINGS = Settings(
    seal=SealSettings(key="test"),
    store=StoreSettings(url="memory:"),
    server=ServerSettings(api_keys=(KEY,)),
)


def mcp_config(port: int) -> str:
    """The configuration of the client: the server at `/mcp`, with the key."""
    headers = {"Authorization": f"Bearer {KEY}"}
    server = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": headers}
    return json.dumps({"mcpServers": {"antiphon": server}})


async def run_claude(command: str, folder: Path, port: int, prompt: str) -> dict[str, Any]:
    """The result of one prompt."""
    home, config = folder / "home", folder / "mcp.json"
    home.mkdir()
    config.write_text(mcp_config(port))
    options = ("--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", TOOL)
    process = await asyncio.create_subprocess_exec(
        command,
        *("-p", prompt, "--model", "m", "--output-format", "json", *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            "ANTHROPIC_API_KEY": KEY,
            **QUIET,
        },
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), TEST_TIMEOUT_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert output, errors.decode()
    return json.loads(output)


async def test_it_asks_another_model_over_mcp(tmp_path: Path) -> None:
    command = find_claude()
    if command is None or shutil.which(command) is None:
        pytest.skip("Claude Code is not installed: `make test-clients` installs it")

    def steps_for(turn: TurnRequest) -> Iterable[Step]:
        if not outputs(turn):
            return call("call_1", TOOL, model="other", input="What is the answer?")
        return [[TextDelta(f"The other model says: {outputs(turn)[-1]}")], [Finished("stop")]]

    model, other = ScriptedBackend(steps_for), ScriptedBackend.saying("Forty-two")

    def app() -> Any:
        return build_app(SETTINGS, routes=[Route("m", model), Route("other", other)])

    async with serve_here(app) as here:
        result = await run_claude(command, tmp_path, here.port, "Ask the other model.")
    assert TOOL in {tool.name for tool in model.turns[0].tools}
    assert "What is the answer?" in repr(other.turns[-1].items)
    assert not result["is_error"]
    assert "Forty-two" in result["result"]
