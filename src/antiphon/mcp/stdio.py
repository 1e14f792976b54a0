"""A server as a child process, with messages as lines on its standard input and output."""

import asyncio
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

from antiphon.errors import McpError, McpProtocolError
from antiphon.http.redact import redact
from antiphon.mcp.messages import (
    CONNECTION_CLOSED,
    INVALID_RESULT,
    Message,
    Outgoing,
    connection_closed,
    decode_message,
    encode_cancellation,
)
from antiphon.mcp.port import CommandServer
from antiphon.mcp.transport import MAX_ANSWER_BYTES, WaitingRequests

logger = logging.getLogger(__name__)

GRACE_SECONDS = 2.0
"""The time for each step of the end: closed input, SIGTERM, SIGKILL."""
EXIT_POLL_SECONDS = 0.02
MAX_LOGGED_BYTES = 64 * 1024
"""Of the standard error of one process; the rest is dropped."""
MAX_UNSENT_BYTES = 16 * 1024 * 1024
"""A process that does not read its input is ended beyond this."""
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""Variables that a child inherits. The others may hold keys of the server."""


class StdioProcess:
    """A running server."""

    stateful = True

    def __init__(self, label: str, process: Process) -> None:
        assert process.stdin is not None
        self._label = label
        self._process = process
        self._stdin = process.stdin
        self._waiting = WaitingRequests(label)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._log_errors())]

    @classmethod
    async def start(cls, server: CommandServer) -> "StdioProcess":
        """Start the command; raises `McpProtocolError` if that is not possible."""
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                server.command,
                *server.args,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={**inherited, **server.env},
                limit=MAX_ANSWER_BYTES,
                start_new_session=True,  # so that its own children can be ended with it
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            message = (
                f"The MCP server '{server.label}' cannot be started as '{server.command}': {reason}. "
                f"Correct mcp.servers.{server.label}.command."
            )
            raise McpProtocolError(message, CONNECTION_CLOSED) from None
        return cls(server.label, process)

    @property
    def usable(self) -> bool:
        return self._waiting.error is None

    @property
    def pid(self) -> int:
        """The process, which is also its process group."""
        return self._process.pid

    async def request(self, outgoing: Outgoing) -> Message:
        reply = self._waiting.add(outgoing)
        try:
            self._send(outgoing.data)
            return await reply
        except asyncio.CancelledError:
            if outgoing.method != "initialize":
                self._send(encode_cancellation(outgoing.id))
            raise
        finally:
            self._waiting.remove(outgoing)
            reply.cancel()

    async def notify(self, data: bytes, headers: dict[str, str]) -> None:
        self._send(data)

    async def aclose(self) -> None:
        self._waiting.fail(connection_closed(self._label, "was stopped."))
        self._stdin.close()
        try:
            await self._exits(GRACE_SECONDS)
        finally:
            await asyncio.shield(self._end_group())

    def _send(self, data: bytes) -> None:
        if self._stdin.is_closing():
            return
        self._stdin.write(data + b"\n")
        if self._stdin.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._fail(connection_closed(self._label, "does not read its input."))

    def _fail(self, error: McpError) -> None:
        """The process is of no use any more; `aclose` ends it."""
        self._waiting.fail(error)
        self._stdin.close()

    async def _read(self) -> None:
        """Receive messages until the process closes its output."""
        stdout = self._process.stdout
        assert stdout is not None
        error = connection_closed(self._label, "ended. The log has its last output.")
        try:
            while line := await stdout.readline():
                # Servers also print what is not meant for us.
                if line.lstrip().startswith(b"{"):
                    answer = self._waiting.receive(decode_message(line, self._label))
                    if answer is not None:
                        self._send(answer)
        except ValueError:  # the line is longer than the limit of the reader
            why = f"sent more than {MAX_ANSWER_BYTES} bytes."
            error = McpProtocolError(f"The MCP server '{self._label}' {why}", INVALID_RESULT)
        except McpError as cause:
            error = cause
        finally:
            self._fail(error)

    async def _log_errors(self) -> None:
        """Log standard error, within a limit, and read it to its end: a full pipe would stop the process."""
        stderr = self._process.stderr
        assert stderr is not None
        logged_bytes = 0
        while data := await stderr.read(8192):
            if logged_bytes < MAX_LOGGED_BYTES:
                for line in data.decode("utf-8", "replace").splitlines():
                    if line.strip():
                        logger.info("MCP server '%s': %s", self._label, redact(line))
                logged_bytes += len(data)
                if logged_bytes >= MAX_LOGGED_BYTES:
                    logger.info("MCP server '%s': further output is not logged", self._label)

    async def _end_group(self) -> None:
        """End the process and everything that it started."""
        if self._signal(signal.SIGTERM) and not await self._exits(GRACE_SECONDS):
            logger.warning("The MCP server '%s' does not end; it is killed", self._label)
        self._signal(signal.SIGKILL)
        await self._exits(GRACE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()  # a descendant outside of the group may hold the pipes open

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal to the process group; whether there is one."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
            return True
        return False

    async def _exits(self, seconds: float) -> bool:
        """Whether the process ends in time. `Process.wait` would also wait for the pipes, which descendants
        may hold open."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._process.returncode is None:
            if loop.time() >= until:
                return False
            await asyncio.sleep(EXIT_POLL_SECONDS)
        return True
