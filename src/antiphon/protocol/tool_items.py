"""Calls of the tools that a client runs itself, and their outputs; and tools that come as items.

Each has its own item on the wire; to a model they are functions (`turn/function_forms/`).
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from antiphon.protocol.content import JsonObject

ItemStatus = Literal["in_progress", "completed", "incomplete"]
Execution = Literal["server", "client"]


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
    """Tools that are declared in the conversation, instead of beside it."""

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
    """What came of the change."""

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
    """What the command printed. Some clients name the call by `id`, others by `call_id`."""

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
