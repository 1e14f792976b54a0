"""`ConfiguredServer`: a server of the operator, and how its tools may be used."""

from dataclasses import dataclass

from antiphon.mcp.approval import ApprovalPolicy, ToolFilter
from antiphon.mcp.port import McpServer


@dataclass(frozen=True, slots=True)
class ConfiguredServer:
    """A server of the operator, and how its tools may be used."""

    server: McpServer
    allowed_tools: ToolFilter
    approval: ApprovalPolicy
    timeout_seconds: float
