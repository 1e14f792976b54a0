"""`McpClient`: the tools of one server, over a session that is opened when it is needed."""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from antiphon.errors import McpError, McpHttpError
from antiphon.http.egress import EgressPolicy
from antiphon.known_secrets import header_secrets
from antiphon.mcp.http_server import MIN_SECRET_CHARACTERS, secrets_of
from antiphon.mcp.listing import ListReader, ToolList, param_headers
from antiphon.mcp.messages import HEADER_MISMATCH, ReplyError
from antiphon.mcp.port import (
    CallOutcome,
    CommandServer,
    McpServer,
    McpTool,
    OnProgress,
    RemoteServer,
    outcome_of,
)
from antiphon.mcp.results import declined_input, read_result, scrubber
from antiphon.mcp.session import Session, open_session

OPEN_TIMEOUT_SECONDS = 30.0
LIST_TIMEOUT_SECONDS = 30.0
"""For all pages together."""
MAX_INPUT_ROUNDS = 3
"""How often a call is repeated with its questions declined."""
INPUT_PAUSE_SECONDS = 0.2
"""Before a call is repeated that asked for nothing but patience."""


class McpClient:
    """One server. Calls may run at the same time."""

    def __init__(self, server: McpServer, egress: EgressPolicy) -> None:
        self._server = server
        self._egress = egress
        self._scrub = scrubber(_secrets_of(server))
        self._session: Session | None = None
        self._opening = asyncio.Lock()
        self._tools: dict[str, McpTool] = {}
        """Those of the last listing with arguments that are repeated as headers."""

    async def list_tools(self, seconds: float = LIST_TIMEOUT_SECONDS) -> ToolList:
        """All tools. Raises `McpError`, or `InvalidRequest` for an address that cannot be used."""
        try:
            found = await self._list(_now() + seconds)
        except McpError as error:
            raise self._without_secrets(error) from None
        self._tools = {tool.name: tool for tool in found.tools if tool.param_headers}
        return found

    async def _list(self, until: float) -> ToolList:
        session = await self._open(until - _now())
        reader = ListReader(self._server.label)
        params: dict[str, str] = {}
        while (
            cursor := reader.add(await session.request("tools/list", params, seconds=until - _now()))
        ) is not None:
            params = {"cursor": cursor}
        return reader.finish()

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        seconds: float,
        on_progress: OnProgress | None = None,
        read_only: bool = False,
    ) -> CallOutcome:
        """Call a tool; see `McpTools.call_tool`."""
        until = _now() + seconds
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if on_progress is not None:
            on_progress = self._scrubbing(on_progress)
        try:
            session = await self._open(seconds)
            for _ in range(MAX_INPUT_ROUNDS):
                result = await self._send(
                    session, params, seconds=until - _now(), on_progress=on_progress, resend=read_only
                )
                found = read_result(result, self._server.label, self._scrub)
                if isinstance(found, CallOutcome):
                    return found
                answers = found.answers()
                if answers is None:
                    break
                if not found.requests:
                    await asyncio.sleep(INPUT_PAUSE_SECONDS)
                params = {"name": name, "arguments": arguments, **answers}
        except McpError as error:
            return outcome_of(self._without_secrets(error))
        return declined_input(name)

    def _without_secrets(self, error: McpError) -> McpError:
        error.message = self._scrub(error.message)
        error.args = (error.message,)
        return error

    def _scrubbing(self, report: OnProgress) -> OnProgress:
        """A function that reports progress without secrets."""
        return lambda progress: report(replace(progress, message=self._scrub(progress.message)))

    async def check(self) -> bool:
        """Whether the session still works, if there is one."""
        return self._session is None or await self._session.check()

    async def aclose(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            await session.aclose()

    async def _send(
        self,
        session: Session,
        params: Mapping[str, Any],
        *,
        seconds: float,
        on_progress: OnProgress | None,
        resend: bool,
    ) -> Raw:
        """The result of a call. A server that misses headers of arguments is asked for its tools first."""
        name, arguments = params["name"], params["arguments"]
        tool = self._tools.get(name)
        headers = param_headers(tool, arguments) if tool is not None and session.modern else None
        try:
            return await session.request(
                "tools/call", params, seconds=seconds, headers=headers, on_progress=on_progress, resend=resend
            )
        except ReplyError as error:
            if error.number != HEADER_MISMATCH or headers is not None:
                raise
        until = _now() + seconds
        await self.list_tools(seconds)
        tool = self._tools.get(name)
        return await session.request(
            "tools/call",
            params,
            seconds=until - _now(),
            headers=param_headers(tool, arguments) if tool is not None else None,
            on_progress=on_progress,
            resend=resend,
        )

    async def _open(self, seconds: float) -> Session:
        """The session; a new one if there is none, or if it has ended."""
        session = self._session
        if session is not None and session.usable:
            return session
        seconds = min(seconds, OPEN_TIMEOUT_SECONDS)
        try:
            async with asyncio.timeout(seconds), self._opening:
                session = self._session
                if session is None or not session.usable:
                    await self.aclose()
                    session = self._session = await open_session(self._server, self._egress, seconds)
                return session
        except TimeoutError:
            message = f"The MCP server '{self._server.label}' did not answer within {round(seconds, 1):g} s."
            raise McpHttpError(message, 504) from None


def _secrets_of(server: McpServer) -> tuple[str, ...]:
    match server:
        case RemoteServer():
            return secrets_of(server)
        case CommandServer():
            found = header_secrets(server.env.items())
            return tuple(value for value in found if len(value) >= MIN_SECRET_CHARACTERS)


def _now() -> float:
    return asyncio.get_running_loop().time()
