"""Tools that a request declares, and the choice it makes among them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from antiphon.protocol.content import JsonObject

ToolName = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,128}$")]


class FunctionTool(Struct, tag_field="type", tag="function", frozen=True, omit_defaults=False, kw_only=True):
    """A function with a JSON Schema. Responses always contain description, parameters and strict."""

    name: ToolName
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    defer_loading: bool | UnsetType = UNSET


class TextFormatGrammar(Struct, frozen=True, omit_defaults=True):
    """The format of a custom tool's input: free text, or text of a grammar."""

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
    defer_loading: bool | UnsetType = UNSET
    """Whether all of its tools are deferred, regardless of their own `defer_loading`."""


class ToolSearchTool(
    Struct, tag_field="type", tag="tool_search", frozen=True, omit_defaults=True, kw_only=True
):
    """Finds deferred tools. `execution` names who searches; the other members are for a client that does."""

    execution: Literal["server", "client"] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    parameters: JsonObject | UnsetType = UNSET

    @property
    def by_client(self) -> bool:
        """Whether the client searches; the default is the server."""
        return self.execution == "client"


class ApplyPatchTool(
    Struct, tag_field="type", tag="apply_patch", frozen=True, omit_defaults=True, kw_only=True
):
    """The client applies the model's patches to files."""

    allowed_callers: list[str] | UnsetType = UNSET


class ShellTool(Struct, tag_field="type", tag="shell", frozen=True, omit_defaults=True, kw_only=True):
    """The client runs the model's commands. A shell in a container is a `HostedTool`."""

    environment: JsonObject | UnsetType = UNSET
    allowed_callers: list[str] | UnsetType = UNSET


class LocalShellTool(Struct, tag_field="type", tag="local_shell", frozen=True):
    """The client runs one command at a time: the older form of the shell."""


class ComputerTool(Struct, tag_field="type", tag="computer", frozen=True):
    """The client operates a screen, a mouse and a keyboard for the model."""


class ComputerUsePreviewTool(
    Struct, tag_field="type", tag="computer_use_preview", frozen=True, omit_defaults=True, kw_only=True
):
    """The older form of the computer tool, with the size of the screen."""

    environment: str
    display_width: int
    display_height: int


class HostedTool(Struct, frozen=True):
    """A tool that a server runs. `body` is its public declaration."""

    type: str
    body: JsonObject
    private: JsonObject | None = None
    """The complete declaration, if `body` omits secrets. Only the server that runs the tool receives it."""

    @property
    def complete(self) -> JsonObject:
        """The declaration as the client sent it."""
        return self.body if self.private is None else self.private

    def __repr__(self) -> str:
        """Omits the private side, because logs may contain it."""
        return f"HostedTool(type={self.type!r}, body={self.body!r})"


ClientTool = (
    ToolSearchTool | ApplyPatchTool | ShellTool | LocalShellTool | ComputerTool | ComputerUsePreviewTool
)
"""Tools that are identified by their type. The client runs them, except a tool search of the server."""
Tool = FunctionTool | CustomTool | NamespaceTool | ClientTool | HostedTool

CLIENT_TOOLS: dict[str, type[ClientTool]] = {
    str(kind.__struct_config__.tag): kind for kind in ClientTool.__args__
}
HOSTED_TOOLS = frozenset(
    {
        "code_interpreter",
        "file_search",
        "image_generation",
        "mcp",
        "programmatic_tool_calling",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)


class ToolRef(Struct, frozen=True, omit_defaults=True):
    """A reference to a declared tool: by type and name, or by type if that is unique. A reference to a
    namespace means all of its tools."""

    type: str
    name: str | UnsetType = UNSET
    server_label: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET


class AllowedTools(Struct, tag_field="type", tag="allowed_tools", frozen=True):
    """The model may use these tools and no others."""

    mode: Literal["auto", "required"]
    tools: list[ToolRef]


def tool_type(tool: Tool) -> str:
    """The wire type of a tool."""
    return tool.type if isinstance(tool, HostedTool) else str(tool.__struct_config__.tag)


def declaration(tool: Tool) -> JsonObject:
    """The public declaration of a tool."""
    return tool.body if isinstance(tool, HostedTool) else to_builtins(tool)


ToolChoice = Literal["none", "auto", "required"] | ToolRef | AllowedTools
"""A `ToolRef` forces that one tool."""
