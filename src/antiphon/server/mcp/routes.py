"""``POST /mcp``: streamable HTTP, without sessions, in both eras of the protocol."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

from msgspec import Raw, Struct

from antiphon.errors import AntiphonError, Forbidden, drop_tracebacks
from antiphon.mcp.messages import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from antiphon.protocol.content import JsonObject
from antiphon.server.error_shapes import internal_error
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.guard import check_origin
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.mcp.eras import (
    RequestEra,
    discovered,
    header_era,
    initialized,
    names_modern,
    refuse_batch,
    request_era,
)
from antiphon.server.mcp.reply import Reply
from antiphon.server.mcp.rpc import (
    MCP_ERRORS,
    RpcFault,
    RpcMessage,
    fault_reply,
    read_body,
    read_message,
    read_params,
    result_reply,
)
from antiphon.server.mcp.tool import McpTool, McpTools, ToolCall, ToolWork, failed_call
from antiphon.server.routing import Route

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Of a body. It is decoded at once, so it is smaller than that of other routes may be."""


class _CallParams(Struct):
    name: str
    arguments: Raw = Raw(b"{}")


class _Incoming(NamedTuple):
    """A request that is being answered."""

    exchange: Exchange
    reply: Reply
    message: RpcMessage
    era: RequestEra


class McpRoutes:
    """Answers messages of MCP. GET and DELETE, which are about sessions, are a 405."""

    def __init__(
        self, tools: McpTools, lifetimes: Lifetimes, bodies: BodyReader, heartbeat_seconds: float
    ) -> None:
        self._tools = tools
        self._lifetimes = lifetimes
        self._bodies = replace(bodies, max_bytes=min(bodies.max_bytes, MAX_MESSAGE_BYTES))
        self._heartbeat = heartbeat_seconds

    async def receive(self, exchange: Exchange) -> None:
        """Answer a message, or a batch where the version has batches."""
        check_origin(exchange.head)
        reply = Reply(exchange, self._heartbeat)
        body = await self._bodies.read(exchange)
        try:
            found = read_body(body)
            del body
            if isinstance(found, list):
                refuse_batch(header_era(exchange))
                await self._answer_batch(exchange, reply, found)
            elif found.is_request:
                await self._answer(exchange, reply, found)
            else:
                _check_unanswered(found, header_era(exchange))
                await exchange.send_json(b"", 202)
        except RpcFault as fault:
            await reply.finish(fault_reply(None, fault), fault.status(modern=True))

    async def _answer(self, exchange: Exchange, reply: Reply, message: RpcMessage) -> None:
        modern = names_modern(exchange)
        try:
            era = request_era(exchange, message)
            result = await self._result(_Incoming(exchange, reply, message, era))
        except RpcFault as fault:
            await reply.finish(fault_reply(message.id, fault), fault.status(modern=modern))
            return
        await reply.finish(result_reply(message.id, result))

    async def _answer_batch(self, exchange: Exchange, reply: Reply, messages: Sequence[Raw]) -> None:
        """Answer the messages one after another, with one array. A batch has no progress."""
        replies: list[bytes] = []
        for raw in messages:
            message = None
            try:
                message = read_message(raw)
                if message.is_request:
                    era = request_era(exchange, message)._replace(progress_token=None)
                    result = await self._result(_Incoming(exchange, reply, message, era), batched=True)
                    replies.append(result_reply(message.id, result))
            except RpcFault as fault:
                replies.append(fault_reply(None if message is None else message.id, fault))
        if replies:
            await reply.finish(b"[%b]" % b",".join(replies))
        else:
            await exchange.send_json(b"", 202)

    async def _result(self, incoming: _Incoming, *, batched: bool = False) -> JsonObject:
        """The result of a request. Raises `RpcFault`."""
        exchange, _, message, era = incoming
        match message.method:
            case "tools/list":
                listed = self._tools.list(exchange.caller, exchange.profile)
                return era.dressed_list({"tools": listed})
            case "tools/call":
                return era.dressed(await self._call(incoming))
            case "server/discover" if era.modern:
                return era.dressed_list(discovered())
            case "initialize" if not era.modern:
                if batched:
                    raise RpcFault(INVALID_REQUEST, "'initialize' must not be part of a batch.")
                return initialized(message)
            case "ping" if not era.modern:
                return {}
            case method:
                message = f"The method '{method[:100]}' is not served in the version {era.version}."
                raise RpcFault(METHOD_NOT_FOUND, message)

    async def _call(self, incoming: _Incoming) -> JsonObject:
        exchange = incoming.exchange
        params = read_params(incoming.message, _CallParams)
        arguments = bytes(params.arguments)
        if arguments == b"null":
            arguments = b"{}"
        if arguments[:1] != b"{":
            raise RpcFault(INVALID_PARAMS, "'params.arguments' must be an object.")
        try:
            tool = self._tools.find(params.name, exchange.caller, exchange.profile)
            return await self._run(incoming, tool, arguments)
        except Forbidden as error:
            raise RpcFault(INVALID_PARAMS, error.message, dict(error.to_wire()), error.status) from None
        except AntiphonError as error:
            drop_tracebacks(error)
            level = logging.WARNING if error.status >= 500 else logging.INFO
            logger.log(level, "request %s: %s failed: %s", exchange.request_id, params.name, error.message)
            return failed_call(error)

    async def _run(self, incoming: _Incoming, tool: McpTool, arguments: bytes) -> JsonObject:
        """Run a tool until it has ended or its client has left."""
        exchange, reply, _, era = incoming

        async def report(line: str) -> None:
            if era.progress_token is not None:
                await reply.report(era.progress_token, line)

        work: ToolWork | None = None
        try:
            with self._lifetimes.lease(exchange.receive) as lease:
                lease.expect_disconnect()
                work = ToolWork(lease)
                call = ToolCall(exchange.caller, exchange.profile, arguments, report, work)
                async with reply.alive():
                    return (await tool.run(call)).wire()
        except (ClientGone, AntiphonError):
            if work is not None:
                await work.abandon()
            raise
        except Exception:
            logger.exception("request %s: %s failed", exchange.request_id, tool.name)
            raise RpcFault(INTERNAL_ERROR, internal_error(exchange.request_id).message) from None

    ROUTES: ClassVar = (Route("POST /mcp", receive, errors=MCP_ERRORS),)


def _check_unanswered(message: RpcMessage, era: RequestEra) -> None:
    """Notifications are accepted, and change nothing. Replies have no place in the newest era."""
    if not message.method and era.modern:
        raise RpcFault(INVALID_REQUEST, "Unexpected JSON-RPC response: this server sends no requests.")
