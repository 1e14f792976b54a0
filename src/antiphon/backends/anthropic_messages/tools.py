"""Tools and the choice among them, for the upstream."""

from antiphon.backends.anthropic_messages.models import Traits
from antiphon.backends.anthropic_messages.schemas import as_input_schema, enforceable
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.turn.context import TurnRequest, TurnTool

_MAX_STRICT_TOOLS = 20
"""The maximum of the API."""


def declared_tools(turn: TurnRequest, traits: Traits, downgrades: Downgrades) -> list[JsonObject]:
    """The tools that the model sees."""
    tools: list[JsonObject] = []
    strict = 0
    for tool in turn.tools:
        declared = _declared(tool)
        if tool.strict:
            schema = _strict_schema(tool, traits) if strict < _MAX_STRICT_TOOLS else None
            if schema is None:
                downgrades.add(
                    "not_enforced",
                    "'strict' of a tool is not sent: this model's server cannot enforce it",
                    "tools",
                )
            else:
                declared |= {"input_schema": schema, "strict": True}
                strict += 1
        tools.append(declared)
    return tools


def remembered_tools(messages: list[JsonObject]) -> list[JsonObject]:
    """Tools that were called and can no longer be called: the API rejects calls of undeclared tools."""
    names = {
        block["name"]: None
        for message in messages
        for block in message["content"]
        if block["type"] == "tool_use"
    }
    return [{"name": name, "input_schema": as_input_schema(None)} for name in names]


def tool_choice(
    turn: TurnRequest, traits: Traits, downgrades: Downgrades, asks: list[str]
) -> JsonObject | None:
    """The choice; None if it equals the default. A choice that the model does not support is described in the
    prompt."""
    alone: JsonObject = (
        {"disable_parallel_tool_use": True} if turn.params.parallel_tool_calls is False else {}
    )
    if turn.choice in ("auto", "none"):
        return {"type": "auto", **alone} if alone else None
    if not traits.forced:
        names = ", ".join(tool.name for tool in turn.tools)
        asks.append(f"You must answer by calling one of these tools, and not with text: {names}.")
        downgrades.add(
            "not_enforced",
            "{param} is asked for in the prompt: this model's server does not enforce it",
            "tool_choice",
        )
        return {"type": "auto", **alone} if alone else None
    if isinstance(turn.choice, TurnTool):
        return {"type": "tool", "name": turn.choice.name, **alone}
    return {"type": "any", **alone}


def _declared(tool: TurnTool) -> JsonObject:
    declared: JsonObject = {"name": tool.name, "input_schema": as_input_schema(tool.parameters)}
    if tool.description:
        declared["description"] = tool.description
    return declared


def _strict_schema(tool: TurnTool, traits: Traits) -> JsonObject | None:
    """Only if it is equivalent: the arguments are not checked afterwards."""
    if not traits.schemas or not tool.parameters or not tool.parameters.get("properties"):
        return None
    enforced = enforceable(as_input_schema(tool.parameters))
    return enforced.schema if enforced is not None and enforced.exact else None
