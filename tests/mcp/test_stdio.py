"""Servers as child processes: their streams, their environment, and their end."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.errors import McpProtocolError
from antiphon.http.egress import ALLOW_CONFIGURED
from antiphon.mcp import session, stdio
from antiphon.mcp.client import McpClient
from antiphon.mcp.port import CallOutcome, CommandServer, ExecutionErrorItem, ProtocolErrorItem
from antiphon.mcp.transport import MAX_ANSWER_BYTES
from tests.mcp.scripted_server import stdio_script

SECONDS = 30.0
ECHO = """
for message in received():
    if message["method"] == "server/discover":
        send(id=message["id"], result=DISCOVERED)
    elif message["method"] == "tools/call":
        text = eval(message["params"]["name"])
        send(id=message["id"], result={"content": [{"type": "text", "text": str(text)}]})
"""


@asynccontextmanager
async def client_of(server: CommandServer) -> AsyncGenerator[McpClient, None]:
    client = McpClient(server, ALLOW_CONFIGURED)
    try:
        yield client
    finally:
        await client.aclose()


async def call(client: McpClient, expression: str, seconds: float = SECONDS) -> CallOutcome:
    return await client.call_tool(expression, {}, seconds=seconds)


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


async def test_a_process_is_started_once_and_ends_with_its_client(tmp_path: Path) -> None:
    async with client_of(stdio_script(tmp_path, ECHO)) as client:
        first = int((await call(client, "os.getpid()")).output)
        assert int((await call(client, "os.getpid()")).output) == first
        assert is_running(first)
    assert not is_running(first)


async def test_a_process_gets_its_own_variables_and_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-server")
    async with client_of(stdio_script(tmp_path, ECHO, OWN="mine")) as client:
        assert (await call(client, "os.environ.get('OWN')")).output == "mine"
        assert (await call(client, "os.environ.get('OPENAI_API_KEY')")).output == "None"
        assert (await call(client, "os.environ.get('PATH')")).output == os.environ["PATH"]


async def test_a_secret_in_the_environment_is_not_shown(tmp_path: Path) -> None:
    async with client_of(stdio_script(tmp_path, ECHO, API_TOKEN="a-long-secret")) as client:
        assert (await call(client, "os.environ['API_TOKEN']")).output == "[redacted]"


async def test_descendants_end_with_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "GRACE_SECONDS", 0.3)
    body = "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    body += 'child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])\n'
    async with client_of(stdio_script(tmp_path, body + ECHO + "\ntime.sleep(600)")) as client:
        pids = [int((await call(client, what)).output) for what in ("os.getpid()", "child.pid")]
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))


async def test_a_cancelled_end_still_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "GRACE_SECONDS", 0.2)
    body = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ECHO + "\ntime.sleep(600)"
    client = McpClient(stdio_script(tmp_path, body), ALLOW_CONFIGURED)
    pid = int((await call(client, "os.getpid()")).output)
    task = asyncio.create_task(client.aclose())
    for _ in range(2):  # the second one reaches it while it waits for the effect of SIGTERM
        await asyncio.sleep(0.05)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(100):
        if not is_running(pid):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the process still runs")


async def test_a_process_that_dies_fails_its_calls_and_is_started_again(tmp_path: Path) -> None:
    async with client_of(stdio_script(tmp_path, ECHO)) as client:
        outcome = await call(client, "os._exit(1)")
        assert outcome.error == ProtocolErrorItem(
            -32000, "The MCP server 'script' ended. The log has its last output."
        )
        assert (await call(client, "1 + 1")).output == "2"


async def test_a_command_that_does_not_exist() -> None:
    server = CommandServer(label="none", command="/no/such/program")
    async with client_of(server) as client:
        with pytest.raises(McpProtocolError, match="cannot be started as '/no/such/program': No such file"):
            await client.list_tools()


@pytest.mark.parametrize("body", ["", "print('hello')", "sys.exit(3)"])
async def test_a_program_that_is_no_server(tmp_path: Path, body: str) -> None:
    async with client_of(stdio_script(tmp_path, body)) as client:
        with pytest.raises(McpProtocolError, match="ended"):
            await client.list_tools()


async def test_other_output_is_ignored(tmp_path: Path) -> None:
    async with client_of(stdio_script(tmp_path, "print('Welcome!')\nprint()\n" + ECHO)) as client:
        assert (await call(client, "print('progress: 3 %') or 5")).output == "5"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (f"'x' * {MAX_ANSWER_BYTES + 10}", f"sent more than {MAX_ANSWER_BYTES} bytes"),
        ("print('{nonsense') or 5", "not MCP"),
    ],
)
async def test_a_line_that_cannot_be_read_ends_the_process(
    tmp_path: Path, expression: str, reason: str
) -> None:
    async with client_of(stdio_script(tmp_path, ECHO)) as client:
        outcome = await call(client, expression)
        assert isinstance(outcome.error, ProtocolErrorItem)
        assert reason in outcome.output
        assert (await call(client, "1 + 1")).output == "2"


async def test_a_process_that_does_not_answer(tmp_path: Path) -> None:
    async with client_of(stdio_script(tmp_path, ECHO)) as client:
        await call(client, "1")
        outcome = await call(client, "time.sleep(1)", seconds=0.2)
        assert outcome.error == ProtocolErrorItem(
            -32001, "The MCP server 'script' did not answer within 0.2 s."
        )
        assert (await call(client, "1 + 1")).output == "2"


async def test_standard_error_is_logged_within_a_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_LOGGED_BYTES", 20_000)
    flood = "print('started, key=sk-abcdefghijkl', file=sys.stderr)\n"
    flood += "for _ in range(50): print('x' * 1000, file=sys.stderr, flush=True)\n"
    with caplog.at_level(logging.INFO, logger="antiphon.mcp.stdio"):
        async with client_of(stdio_script(tmp_path, flood + ECHO)) as client:
            assert (await call(client, "1 + 1")).output == "2"
    assert "MCP server 'script': started, key=[redacted]" in caplog.text
    assert caplog.text.count("further output is not logged") == 1
    assert 10_000 < len(caplog.text) < 60_000


HANDSHAKE = """
for message in received():
    method = message.get("method")
    if method == "initialize":
        send(id=message["id"], result={"protocolVersion": "2025-06-18"})
    elif method == "tools/call":
        send(id="s1", method="elicitation/create", params={})
        answer = next(received())
        send(method="notifications/progress", params={"progressToken": message["id"], "progress": 0.5})
        send(id=message["id"], result={"content": [{"type": "text", "text": json.dumps(answer["result"])}]})
    elif DISCOVER and method == "server/discover":
        send(id=message["id"], error={"code": -32601, "message": "unknown"})
"""


@pytest.mark.parametrize("answers_probe", [True, False])
async def test_an_older_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers_probe: bool) -> None:
    monkeypatch.setattr(session, "PROBE_TIMEOUT_SECONDS", 5.0 if answers_probe else 0.2)
    seen: list[float] = []
    async with client_of(stdio_script(tmp_path, f"DISCOVER = {answers_probe}\n" + HANDSHAKE)) as client:
        outcome = await client.call_tool(
            "ask", {}, seconds=SECONDS, on_progress=lambda progress: seen.append(progress.progress)
        )
    assert outcome.output == '{"action": "decline"}'
    assert seen == [0.5]


async def test_a_modern_server_that_starts_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PROBE_TIMEOUT_SECONDS", 0.1)
    body = """
    time.sleep(0.5)
    for message in received():
        if message["method"] == "initialize":
            send(id=message["id"], error={"code": -32022, "message": "2026-07-28 only"})
        elif message["method"] == "server/discover":
            send(id=message["id"], result=DISCOVERED)
        elif message["method"] == "tools/call":
            send(id=message["id"], result={"content": [], "isError": True})
    """
    async with client_of(stdio_script(tmp_path, body)) as client:
        outcome = await call(client, "fail")
    text = "The tool failed without a message."
    assert outcome == CallOutcome(text, error=ExecutionErrorItem([{"type": "text", "text": text}]))


async def test_a_process_that_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_UNSENT_BYTES", 100_000)
    monkeypatch.setattr(stdio, "GRACE_SECONDS", 0.2)
    body = (
        ECHO.replace("for message in received():", "for message in [next(received())]:") + "\ntime.sleep(600)"
    )
    async with client_of(stdio_script(tmp_path, body)) as client:
        outcome = await client.call_tool("x", {"text": "y" * 1_000_000}, seconds=SECONDS)
    assert outcome.output == "The MCP server 'script' does not read its input."
