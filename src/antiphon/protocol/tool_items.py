"""Items of tools: calls and outputs of tools that a client runs, declarations, and items of hosted tools.

Each has its own item on the wire; most models see them as functions (`turn/function_forms/`).
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from antiphon.protocol.content import JsonObject

ItemStatus = Literal["in_progress", "completed", "incomplete"]
Execution = Literal["server", "client"]

OUTCOME_UNKNOWN = (
    "The server was interrupted after the approval: this call may have run, and its outcome is unknown. Do "
    "not call it again unless it is safe to run it twice."
)
"""The reason of an `McpApprovalResponse` that only keeps an approved call from running twice."""


class ToolSearchCall(Struct, tag_field="type", tag="tool_search_call", frozen=True, kw_only=True):
    """The model looks for tools that were not shown to it. Without a `call_id` the server looked itself."""

    id: str | UnsetType = UNSET
    call_id: str | None
    execution: Execution = "server"
    arguments: JsonObject
    status: ItemStatus | UnsetType = UNSET


class ToolSearchOutput(Struct, tag_field="type", tag="tool_search_output", frozen=True, kw_only=True):
    """The tools that were found, as they would be declared; from here on the model sees them."""

    id: str | UnsetType = UNSET
    call_id: str | None
    execution: Execution = "server"
    tools: list[JsonObject]
    status: ItemStatus | UnsetType = UNSET


class AdditionalTools(Struct, tag_field="type", tag="additional_tools", frozen=True, kw_only=True):
    """Tools that an item declares, instead of the request."""

    id: str | UnsetType = UNSET
    role: str = "developer"
    tools: list[JsonObject]


class ApplyPatchCall(
    Struct, tag_field="type", tag="apply_patch_call", frozen=True, omit_defaults=True, kw_only=True
):
    """A change to one file: `create_file` and `update_file` have path and diff, `delete_file` a path."""

    id: str | UnsetType = UNSET
    call_id: str
    operation: JsonObject
    status: ItemStatus | UnsetType = UNSET


class ApplyPatchCallOutput(
    Struct, tag_field="type", tag="apply_patch_call_output", frozen=True, omit_defaults=True, kw_only=True
):
    """The outcome of the change."""

    id: str | UnsetType = UNSET
    call_id: str
    status: Literal["completed", "failed"]
    output: str | UnsetType | None = UNSET


class ShellCall(Struct, tag_field="type", tag="shell_call", frozen=True, omit_defaults=True, kw_only=True):
    """Commands to run: `action` has commands, timeout_ms and max_output_length."""

    id: str | UnsetType = UNSET
    call_id: str
    action: JsonObject
    environment: JsonObject | UnsetType | None = UNSET
    status: ItemStatus | UnsetType = UNSET


class ShellCallOutput(
    Struct, tag_field="type", tag="shell_call_output", frozen=True, omit_defaults=True, kw_only=True
):
    """For each command stdout, stderr and how it ended."""

    id: str | UnsetType = UNSET
    call_id: str
    output: list[JsonObject]
    max_output_length: int | UnsetType | None = UNSET
    status: ItemStatus | UnsetType = UNSET


class LocalShellCall(
    Struct, tag_field="type", tag="local_shell_call", frozen=True, omit_defaults=True, kw_only=True
):
    """One command: `action` has command (a list), env, timeout_ms, user and working_directory."""

    id: str | UnsetType = UNSET
    call_id: str
    action: JsonObject
    status: ItemStatus | UnsetType = UNSET


class LocalShellCallOutput(
    Struct, tag_field="type", tag="local_shell_call_output", frozen=True, omit_defaults=True, kw_only=True
):
    """The output of the command. Some clients name the call by `id`, others by `call_id`."""

    id: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    output: str
    status: ItemStatus | UnsetType = UNSET


class ComputerCall(Struct, tag_field="type", tag="computer_call", frozen=True, kw_only=True):
    """Something to do with mouse, keyboard or screen."""

    id: str | UnsetType = UNSET
    call_id: str
    action: JsonObject | UnsetType = UNSET
    actions: list[JsonObject] | UnsetType = UNSET
    pending_safety_checks: list[JsonObject] = []
    status: ItemStatus | UnsetType = UNSET


class ComputerCallOutput(
    Struct, tag_field="type", tag="computer_call_output", frozen=True, omit_defaults=True, kw_only=True
):
    """The screen afterwards."""

    id: str | UnsetType = UNSET
    call_id: str
    output: JsonObject
    acknowledged_safety_checks: list[JsonObject] | UnsetType | None = UNSET
    status: str | UnsetType = UNSET


class WebSearchCall(
    Struct, tag_field="type", tag="web_search_call", frozen=True, omit_defaults=True, kw_only=True
):
    """A search, a page that was opened, or a pattern that was looked for in it."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    action: JsonObject | UnsetType = UNSET
    results: list[JsonObject] | UnsetType | None = UNSET
    """What a model is shown, if this server has searched."""


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
    """A call that a person must approve first."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    server_label: str
    name: str
    arguments: str


class McpApprovalResponse(
    Struct, tag_field="type", tag="mcp_approval_response", frozen=True, omit_defaults=True, kw_only=True
):
    """The client's answer to an `McpApprovalRequest`."""

    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    approval_request_id: str
    approve: bool
    reason: str | UnsetType | None = UNSET


HostedItem = (
    WebSearchCall
    | FileSearchCall
    | CodeInterpreterCall
    | ImageGenerationCall
    | McpListTools
    | McpCall
    | McpApprovalRequest
)
ServerItem = HostedItem | ShellCall | ShellCallOutput
"""Items of tools that a server runs. Those of the shell are of a client's shell, too."""
