"""`TurnTool`: a tool of any kind as a model sees it."""

from typing import Literal

from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.protocol.tools import HostedTool, NamespaceTool, TextFormatGrammar, Tool

ToolKind = Literal[
    "function", "custom", "tool_search", "apply_patch", "shell", "local_shell", "computer", "hosted"
]
"""The kind of item that a call of the tool becomes. Calls of `hosted` tools are run by this server, and each
tool has an item of its own."""

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
    hosted_type: str | None = None
    """The type of a hosted tool that this server runs."""
    requests: tuple[str, ...] = ()
    """See `HostedForm`."""


class HostedForm(Struct, frozen=True, kw_only=True):
    """A function that the model is shown for a hosted tool that this server runs.

    `key` identifies it among those of a response; a tool may have several functions.
    """

    key: str
    declared: HostedTool
    name: str
    description: str
    parameters: JsonObject
    requests: tuple[str, ...] = ()
    """Requests of users that need the function. A model that cannot call functions is shown them as examples,
    because it compares a request with the description by its words alone."""
    server_label: str = ""
    """The server of a tool that has several; two servers may have tools of the same name."""


def mcp_key(server_label: str, name: str) -> str:
    """The key of the function of an MCP tool."""
    return f"mcp/{server_label}/{name}"


def hosted_tool_as_function(form: HostedForm, name: str) -> TurnTool:
    """A function of a hosted tool, under a name that no other tool has."""
    return TurnTool(
        name=name,
        origin=form.key,
        kind="hosted",
        description=form.description,
        parameters=form.parameters,
        hosted_type=form.declared.type,
        requests=form.requests,
    )


def flat_name(namespace: str, name: str) -> str:
    """The name of a tool in a namespace for backends without namespaces."""
    return f"{namespace}__{name}"[:MAX_NAME_CHARACTERS]
