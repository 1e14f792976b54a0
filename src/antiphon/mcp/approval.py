"""Which tools may be used, and which calls need an approval: `allowed_tools` and `require_approval`."""

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.mcp.port import McpTool

MAX_FILTER_NAMES = 1000


class ToolFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """Matches tools that fulfil all of its conditions."""

    tool_names: tuple[str, ...] | None = None
    read_only: bool | None = None
    """Whether the server says that the tool changes nothing."""

    def matches(self, tool: McpTool) -> bool:
        if self.tool_names is not None and tool.name not in self.tool_names:
            return False
        return self.read_only is None or self.read_only == tool.read_only

    @property
    def is_empty(self) -> bool:
        return self.tool_names is None and self.read_only is None


class ApprovalPolicy(Struct, frozen=True):
    """Which calls need an approval. A tool that both filters match does."""

    always: ToolFilter = ToolFilter()
    never: ToolFilter = ToolFilter()
    otherwise: bool = True
    """Whether a call needs one if no filter matches its tool. An empty filter matches none."""

    def needs_approval(self, tool: McpTool) -> bool:
        if not self.always.is_empty and self.always.matches(tool):
            return True
        if not self.never.is_empty and self.never.matches(tool):
            return False
        return self.otherwise


class _Filters(Struct, frozen=True, forbid_unknown_fields=True):
    always: ToolFilter | None = None
    never: ToolFilter | None = None


ALL_TOOLS = ToolFilter()
ALWAYS = ApprovalPolicy()
NEVER = ApprovalPolicy(otherwise=False)


def parse_require_approval(value: object, param: str) -> ApprovalPolicy:
    """`require_approval` of a tool: `always`, `never`, or filters; None: always. Raises `InvalidRequest`."""
    try:
        found = msgspec.convert(value, Literal["always", "never"] | _Filters | None)
    except msgspec.ValidationError as error:
        message = f"'{param}' must be 'always', 'never', or an object with 'always' and 'never': {error}."
        raise InvalidRequest(message, param=param) from None
    if not isinstance(found, _Filters):
        return NEVER if found == "never" else ALWAYS
    always, never = found.always or ToolFilter(), found.never or ToolFilter()
    _check_names(always, f"{param}.always.tool_names")
    _check_names(never, f"{param}.never.tool_names")
    return ApprovalPolicy(always, never)


def parse_allowed_tools(value: object, param: str) -> ToolFilter:
    """`allowed_tools` of a tool: names, or a filter; None: all tools. Raises `InvalidRequest`."""
    try:
        found = msgspec.convert(value, tuple[str, ...] | ToolFilter | None)
    except msgspec.ValidationError as error:
        message = (
            f"'{param}' must be a list of names, or an object with 'tool_names' and 'read_only': {error}."
        )
        raise InvalidRequest(message, param=param) from None
    if found is None:
        return ALL_TOOLS
    which = found if isinstance(found, ToolFilter) else ToolFilter(tool_names=found)
    _check_names(which, param)
    return which


def allowed(tools: Iterable[McpTool], which: ToolFilter) -> tuple[McpTool, ...]:
    """The tools that a filter matches."""
    return tuple(tool for tool in tools if which.matches(tool))


def _check_names(which: ToolFilter, param: str) -> None:
    if which.tool_names is not None and len(which.tool_names) > MAX_FILTER_NAMES:
        raise InvalidRequest(f"'{param}' may have at most {MAX_FILTER_NAMES} names.", param=param)
