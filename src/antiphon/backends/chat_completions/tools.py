"""Tools and the choice among them, for the upstream."""

from antiphon.backends.registry import Quirks
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.turn.context import TurnRequest, TurnTool

_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


def chat_tools(turn: TurnRequest, quirks: Quirks, downgrades: Downgrades) -> list[JsonObject]:
    """The tools that the model sees."""
    return [{"type": "function", "function": _function(tool, quirks, downgrades)} for tool in turn.tools]


def chat_tool_choice(
    turn: TurnRequest, quirks: Quirks, downgrades: Downgrades, asks: list[str]
) -> JsonObject | str | None:
    """The strongest form of the choice that the endpoint obeys; None where it equals the default."""
    if turn.choice in ("auto", "none"):
        return None  # with "none" the model is shown no tools
    if quirks.tool_choice == "asked":
        names = ", ".join(tool.name for tool in turn.tools)
        asks.append(f"You must answer by calling one of these tools, and not with text: {names}.")
        downgrades.add(
            "not_enforced",
            "{param} is asked for in the prompt: this model's server does not enforce it",
            "tool_choice",
        )
        return None
    if isinstance(turn.choice, TurnTool) and quirks.tool_choice == "named":
        return {"type": "function", "function": {"name": turn.choice.name}}
    # A tool that must be called is the only one that is shown, so "required" is equivalent.
    return "required"


def _function(tool: TurnTool, quirks: Quirks, downgrades: Downgrades) -> JsonObject:
    function: JsonObject = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = _NO_PARAMETERS if tool.parameters is None else tool.parameters
    if quirks.strict_tools and tool.strict is not None:
        function["strict"] = tool.strict
    elif tool.strict:
        downgrades.add(
            "not_enforced", "'strict' of tools is not sent: this model's server does not enforce it", "tools"
        )
    if tool.grammar is not None and tool.grammar.type == "grammar":
        downgrades.add(
            "not_enforced",
            f"the grammar of the custom tool '{tool.origin}' is described to the model, not enforced",
            "tools",
        )
    return function
