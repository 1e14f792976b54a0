"""`TurnTool`: a tool of any kind as a model sees it."""

from typing import Literal

from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.protocol.tools import NamespaceTool, TextFormatGrammar, Tool

ToolKind = Literal["function", "custom", "tool_search", "apply_patch", "shell", "local_shell", "computer"]
"""The kind of item that a call of the tool becomes."""

FUNCTIONS = frozenset({"function"})
"""The tool types of a backend that knows functions only."""
MAX_NAME_CHARACTERS = 64
"""The longest name of a function that upstreams accept."""


class TurnTool(Struct, frozen=True, kw_only=True):
    """A tool as the model sees it: one flat name. `origin` and `namespace` restore the caller's names.

    `description` and `parameters` show any kind of tool as a function (`turn/function_forms/`). `declared` is
    the tool as it was declared, for backends that take it natively, and `within` the namespace that it is in.
    """

    name: str
    origin: str
    namespace: str | None = None
    kind: ToolKind = "function"
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    grammar: TextFormatGrammar | None = None
    declared: Tool | None = None
    within: NamespaceTool | None = None


def flat_name(namespace: str, name: str) -> str:
    """The name of a tool in a namespace for backends without namespaces."""
    return f"{namespace}__{name}"[:MAX_NAME_CHARACTERS]
