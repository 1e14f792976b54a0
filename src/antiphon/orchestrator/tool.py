"""The agent's side of tools: the context of a call, and the results of tools.

Declaration and invocation are in `antiphon.tools`; the names are here as well for users' own tools.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.orchestrator.models import AgentExecuteRequest, FileBundleItem
from antiphon.tools.declaration import CallContext, Run, ServerTool, Tool, ToolCall, ToolOutput

__all__ = ["Run", "ServerTool", "Tool", "ToolCall", "ToolContext", "ToolResult"]


class ToolResult(ToolOutput, frozen=True, kw_only=True):
    """A tool may return it to do more than answer the model."""

    files: tuple[FileBundleItem, ...] = ()
    """Changes for the file bundle of the response."""
    mode: str | None = None
    """The mode to switch to."""


@dataclass(frozen=True, slots=True)
class ToolContext(CallContext):
    """The agent's facts about a call."""

    request: AgentExecuteRequest
    mode: str = ""
    files: Mapping[str, FileBundleItem] = field(default_factory=dict[str, FileBundleItem])
    """The file bundle so far, by path."""
