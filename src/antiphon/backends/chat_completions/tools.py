"""Tools and the choice among them, for the upstream."""

from antiphon.backends.notes import Notes
from antiphon.backends.registry import Quirks
from antiphon.protocol.content import JsonObject
from antiphon.turn.context import TurnRequest, TurnTool

_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


def chat_tools(turn: TurnRequest, quirks: Quirks, notes: Notes) -> list[JsonObject]:
    """The tools that the model sees."""
    return [{"type": "function", "function": _function(tool, quirks, notes)} for tool in turn.tools]


def chat_tool_choice(
    turn: TurnRequest, quirks: Quirks, notes: Notes, asks: list[str]
) -> JsonObject | str | None:
    """The strongest form of the choice that the endpoint obeys; None where the default says the same."""
    if turn.choice in ("auto", "none"):
        return None  # with "none" the model is shown no tools
    if quirks.tool_choice == "asked":
        names = ", ".join(tool.name for tool in turn.tools)
        asks.append(f"You must answer by calling one of these tools, and not with text: {names}.")
        notes.add("tool_choice is asked for in the prompt: this model's server does not enforce it")
        return None
    if isinstance(turn.choice, TurnTool) and quirks.tool_choice == "named":
        return {"type": "function", "function": {"name": turn.choice.name}}
    # A tool that must be called is the only one that is shown, so "required" says the same.
    return "required"


def _function(tool: TurnTool, quirks: Quirks, notes: Notes) -> JsonObject:
    function: JsonObject = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = _NO_PARAMETERS if tool.parameters is None else tool.parameters
    if quirks.strict_tools and tool.strict is not None:
        function["strict"] = tool.strict
    elif tool.strict:
        notes.add("'strict' of tools is not sent: this model's server does not enforce it")
    if tool.grammar is not None and tool.grammar.type == "grammar":
        notes.add(f"the grammar of the custom tool '{tool.origin}' is described to the model, not enforced")
    return function
