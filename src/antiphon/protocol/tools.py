"""Tools that a request declares, and the choice it makes among them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from antiphon.protocol.content import JsonObject

ToolName = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,128}$")]


class FunctionTool(Struct, tag_field="type", tag="function", frozen=True, omit_defaults=False, kw_only=True):
    """A function with a JSON Schema; description, parameters and strict are always echoed."""

    name: ToolName
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    defer_loading: bool | UnsetType = UNSET


class TextFormatGrammar(Struct, frozen=True, omit_defaults=True):
    """How the input of a custom tool is written."""

    type: Literal["text", "grammar"]
    syntax: Literal["lark", "regex"] | UnsetType = UNSET
    definition: str | UnsetType = UNSET


class CustomTool(Struct, tag_field="type", tag="custom", frozen=True, omit_defaults=True, kw_only=True):
    """A tool whose input is free text."""

    name: ToolName
    description: str | UnsetType = UNSET
    format: TextFormatGrammar | UnsetType = UNSET
    defer_loading: bool | UnsetType = UNSET


class NamespaceTool(Struct, tag_field="type", tag="namespace", frozen=True, omit_defaults=True, kw_only=True):
    """Function and custom tools under a common name."""

    name: ToolName
    description: str | UnsetType = UNSET
    tools: list[FunctionTool | CustomTool]


class HostedTool(Struct, frozen=True):
    """A tool that a server runs; `body` is the whole declaration as it came."""

    type: str
    body: JsonObject


Tool = FunctionTool | CustomTool | NamespaceTool | HostedTool

TYPED_TOOLS = frozenset({"function", "custom", "namespace"})
HOSTED_TOOLS = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)


class ToolRef(Struct, frozen=True, omit_defaults=True):
    """Names one declared tool: by type and name, or by type alone where a type is enough."""

    type: str
    name: str | UnsetType = UNSET
    server_label: str | UnsetType = UNSET


class AllowedTools(Struct, tag_field="type", tag="allowed_tools", frozen=True):
    """The model may use these tools and no others."""

    mode: Literal["auto", "required"]
    tools: list[ToolRef]


ToolChoice = Literal["none", "auto", "required"] | ToolRef | AllowedTools
"""A `ToolRef` forces that one tool."""
