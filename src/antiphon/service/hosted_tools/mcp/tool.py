"""The tool `mcp`: lists the tools of a server when a request declares it, and runs the model's calls."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from antiphon.errors import InvalidRequest, McpProtocolError, Unsupported
from antiphon.mcp.configured import ConfiguredServer
from antiphon.mcp.messages import INVALID_RESULT
from antiphon.mcp.port import CallOutcome, ExecutionErrorItem, McpTool, McpTools, ProtocolErrorItem
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.events import McpCallArgumentsDelta, McpCallArgumentsDone
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import McpApprovalRequest, McpCall, McpListTools
from antiphon.protocol.tools import HostedTool
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools.base import HostedFunction, OpenedTool, ToolScope
from antiphon.service.hosted_tools.mcp.declaration import ServerUse, read_declaration
from antiphon.turn.chunks import Chunk, HostedItemBegun, HostedItemDone, HostedItemStep
from antiphon.turn.function_forms.mcp_calls import BYTES_PER_TOKEN, call_text, cut_text
from antiphon.turn.function_forms.reading import read_object
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.tools import HostedForm, mcp_key

MCP = "mcp"
DEFAULT_OUTPUT_TOKENS = 16_000
DEFAULT_CALL_SECONDS = 120.0
MAX_OUTPUT_BYTES = 1024 * 1024
"""Of the output of a call that the client is sent, and that is stored."""
MAX_ARGUMENTS_BYTES = 1024 * 1024
INVALID_PARAMS = -32602


@dataclass(frozen=True, slots=True)
class McpServed:
    """Serves `mcp`. `max_tokens`: of the output of one call that the model is shown."""

    tools: McpTools
    checks: Checks
    configured: Mapping[str, ConfiguredServer] = field(default_factory=dict[str, ConfiguredServer])
    max_tokens: int = DEFAULT_OUTPUT_TOKENS
    call_seconds: float = DEFAULT_CALL_SECONDS
    server_urls: bool = True
    """Whether requests may name servers by their URL."""
    types: frozenset[str] = frozenset({MCP})

    def owns(self, declared: HostedTool) -> bool:
        """Whether only this server can run it: it refers to a server of the operator."""
        label: object = declared.body.get("server_label")
        named = isinstance(label, str) and label in self.configured
        return named and declared.body.get("server_url") is None

    async def open(self, declared: HostedTool, key: str, scope: ToolScope, path: str) -> OpenedTool:
        """List the tools. Raises `McpError` if that fails."""
        use = read_declaration(declared.complete, path, self.configured)
        if declared.body.get("server_url") is not None and not self.server_urls:
            where = f"{path}.server_url"
            message = f"'{where}' cannot be used: only the MCP servers of the operator are available here."
            raise Unsupported(message, param=where, code="unsupported_parameter")
        found = use.usable(await self.tools.list_tools(scope.tenant, use.server))
        await self._check_schemas(use.label, found, scope.tenant)
        functions: list[HostedFunction] = [
            McpFunction(_form(tool, use, declared), self, use, tool, scope.tenant) for tool in found
        ]
        listed = McpListTools(server_label=use.label, tools=[_listed(tool) for tool in found], error=None)
        return OpenedTool(functions, (listed,))

    async def _check_schemas(self, label: str, tools: Sequence[McpTool], tenant: str) -> None:
        """Refuse schemas that are invalid, or too expensive for the server of a model."""
        definitions = Definitions()
        try:
            for tool in tools:
                definitions.schema(tool.input_schema, f"{tool.name}.inputSchema")
            await self.checks.definitions(tenant, definitions.unchecked)
        except InvalidRequest as error:
            message = (
                f"Error retrieving tool list from MCP server: '{label}'. A tool has a schema that cannot be "
                f"used: {error.message} Leave it out with 'allowed_tools'."
            )
            raise McpProtocolError(message, INVALID_RESULT) from None


@dataclass(frozen=True, slots=True)
class McpFunction:
    """The calls of one tool of a server, for one response."""

    form: HostedForm
    served: McpServed
    use: ServerUse
    tool: McpTool
    tenant: str

    @property
    def repeatable(self) -> bool:
        """Whether the server says that the tool changes nothing."""
        return self.tool.read_only

    def approval_request(self, call: HostedCall) -> McpApprovalRequest | None:
        """The request for an approval, if the call needs one and has none."""
        if call.approval_request_id is not None or not self.use.needs_approval(self.tool):
            return None
        return McpApprovalRequest(
            server_label=self.use.label, name=self.tool.name, arguments=_arguments(call)
        )

    async def run(self, call: HostedCall) -> AsyncGenerator[Sequence[Chunk], None]:
        """Call the tool."""
        index, arguments = call.index, _arguments(call)
        begun = self._item(call, arguments="", output=None, error=None)
        yield [
            HostedItemBegun(index, begun),
            HostedItemStep(index, McpCallArgumentsDelta, (arguments,)),
            HostedItemStep(index, McpCallArgumentsDone, (arguments,)),
        ]
        yield [self._done(call, await self._outcome(arguments))]

    def failure(self, call: HostedCall, reason: str) -> HostedItemDone:
        """A call that failed on this server; the model is shown the reason."""
        error = ExecutionErrorItem([{"type": "text", "text": reason}])
        return self._done(call, CallOutcome(reason, error=error))

    def without_model(self, items: Sequence[Item]) -> str | None:
        """Only a model can write the arguments."""
        return None

    async def _outcome(self, arguments: str) -> CallOutcome:
        body, fault = read_object(arguments)
        if fault or len(arguments.encode()) > MAX_ARGUMENTS_BYTES:
            reason = fault or f"the arguments have more than {MAX_ARGUMENTS_BYTES} bytes"
            return CallOutcome(reason, error=ProtocolErrorItem(INVALID_PARAMS, reason))
        return await self.served.tools.call_tool(
            self.tenant,
            self.use.server,
            self.tool.name,
            body,
            seconds=self.use.timeout_seconds or self.served.call_seconds,
            read_only=self.tool.read_only,
        )

    def _done(self, call: HostedCall, outcome: CallOutcome) -> HostedItemDone:
        output, error = cut_text(outcome.output, MAX_OUTPUT_BYTES), _bounded(outcome)
        item = self._item(
            call,
            status="completed" if error is None else "failed",
            output=output if error is None else None,
            error=error,
        )
        text = call_text(item)
        shown = cut_text(text, self.served.max_tokens * BYTES_PER_TOKEN)
        return HostedItemDone(item, {"output": shown} if shown != item.output else None, call.index)

    def _item(self, call: HostedCall, **fields: Any) -> McpCall:
        members: dict[str, Any] = {
            "server_label": self.use.label,
            "name": self.tool.name,
            "arguments": _arguments(call),
            "approval_request_id": call.approval_request_id,
        }
        return McpCall(**{**members, **fields})


def _bounded(outcome: CallOutcome) -> JsonObject | None:
    """The error of a call as its item has it."""
    match outcome.error:
        case None:
            return None
        case ExecutionErrorItem():
            text = cut_text(outcome.output, MAX_OUTPUT_BYTES)
            bounded = ExecutionErrorItem([{"type": "text", "text": text}])
            return msgspec.to_builtins(bounded)
        case error:
            return msgspec.to_builtins(error)


def _arguments(call: HostedCall) -> str:
    return call.arguments.strip() or "{}"


def _form(tool: McpTool, use: ServerUse, declared: HostedTool) -> HostedForm:
    description = tool.description
    if use.description:
        description = f"{description}\n\nThe server of this tool: {use.description}".strip()
    return HostedForm(
        key=mcp_key(use.label, tool.name),
        declared=declared,
        name=tool.name,
        description=description,
        parameters={"type": "object", "properties": {}, **tool.input_schema},
        server_label=use.label,
    )


def _listed(tool: McpTool) -> JsonObject:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "annotations": {"read_only": tool.read_only},
    }
