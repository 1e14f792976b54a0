"""Receipts of hosted tools: what a server did itself while it answered."""

from msgspec import UNSET, Struct, UnsetType

from antiphon.protocol.content import JsonObject


class WebSearchCall(
    Struct, tag_field="type", tag="web_search_call", frozen=True, omit_defaults=True, kw_only=True
):
    """A search, a page that was opened, or a pattern that was looked for in it."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    action: JsonObject | UnsetType = UNSET


class FileSearchCall(Struct, tag_field="type", tag="file_search_call", frozen=True, kw_only=True):
    """Files were looked up. Clients want `queries` also where there are none."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    queries: list[str] = []
    results: list[JsonObject] | UnsetType | None = UNSET


class CodeInterpreterCall(
    Struct, tag_field="type", tag="code_interpreter_call", frozen=True, omit_defaults=True, kw_only=True
):
    """Code was run."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    code: str | UnsetType | None = UNSET
    container_id: str | UnsetType = UNSET
    outputs: list[JsonObject] | UnsetType | None = UNSET


class ImageGenerationCall(
    Struct, tag_field="type", tag="image_generation_call", frozen=True, omit_defaults=True, kw_only=True
):
    """An image was made."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    result: str | UnsetType | None = UNSET
    revised_prompt: str | UnsetType | None = UNSET
    size: str | UnsetType = UNSET
    quality: str | UnsetType = UNSET
    background: str | UnsetType = UNSET
    output_format: str | UnsetType = UNSET
    action: str | UnsetType = UNSET
    error: JsonObject | UnsetType | None = UNSET


class McpListTools(Struct, tag_field="type", tag="mcp_list_tools", frozen=True, kw_only=True):
    """The tools that an MCP server offers. Clients want `tools` also where there are none."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    server_label: str
    tools: list[JsonObject] = []
    error: JsonObject | str | UnsetType | None = UNSET


class McpCall(Struct, tag_field="type", tag="mcp_call", frozen=True, omit_defaults=True, kw_only=True):
    """A tool of an MCP server was called."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    server_label: str
    name: str
    arguments: str
    output: str | UnsetType | None = UNSET
    error: JsonObject | str | UnsetType | None = UNSET
    approval_request_id: str | UnsetType | None = UNSET


class McpApprovalRequest(
    Struct, tag_field="type", tag="mcp_approval_request", frozen=True, omit_defaults=True, kw_only=True
):
    """A call that somebody has to allow first."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    server_label: str
    name: str
    arguments: str


HostedItem = (
    WebSearchCall
    | FileSearchCall
    | CodeInterpreterCall
    | ImageGenerationCall
    | McpListTools
    | McpCall
    | McpApprovalRequest
)
