"""Tools and the choice among them, for the upstream."""

import re
from collections.abc import Mapping, Sequence

from antiphon.backends.gemini.models import Traits
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.turn.context import TurnRequest, TurnTool

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.:-]")
_FIRST = re.compile(r"[a-zA-Z_]")
_MAX_NAME_CHARACTERS = 64

Names = Mapping[str, str]
"""The API's name of each tool."""


def wire_name(name: str) -> str:
    """A name that the API accepts: it begins with a letter or an underscore."""
    plain = _NOT_IN_NAMES.sub("_", name) or "_"
    return (plain if _FIRST.match(plain) else f"_{plain}")[:_MAX_NAME_CHARACTERS]


def wire_names(tools: Sequence[TurnTool]) -> Names:
    """Unique names for all tools."""
    names: dict[str, str] = {}
    for tool in tools:
        plain = made = wire_name(tool.name)
        number = 1
        while made in names.values():
            number += 1
            made = f"{plain[: _MAX_NAME_CHARACTERS - 3]}_{number}"
        names[tool.name] = made
    return names


def declared_tools(turn: TurnRequest, names: Names) -> list[JsonObject]:
    """The tools that the model sees."""
    return [{"functionDeclarations": [_declared(tool, names[tool.name]) for tool in turn.tools]}]


def tool_config(turn: TurnRequest, traits: Traits, names: Names, downgrades: Downgrades) -> JsonObject | None:
    """The choice; None if it equals the default."""
    if turn.params.parallel_tool_calls is False:
        downgrades.add(
            "not_sent",
            "'{param}' is not sent: this model's server cannot forbid several calls",
            "parallel_tool_calls",
        )
    if isinstance(turn.choice, TurnTool):
        return _calling("ANY", allowedFunctionNames=[names[turn.choice.name]])
    if turn.choice == "required":
        return _calling("ANY")
    if not any(tool.strict for tool in turn.tools):
        return None
    if not traits.validated:
        downgrades.add(
            "not_enforced", "'strict' of a tool is not sent: this model's server cannot enforce it", "tools"
        )
        return None
    # It applies to all tools or none, and is harmless for tools without 'strict'.
    return _calling("VALIDATED")


def _calling(mode: str, **members: object) -> JsonObject:
    return {"functionCallingConfig": {"mode": mode, **members}}


def _declared(tool: TurnTool, name: str) -> JsonObject:
    declared: JsonObject = {"name": name}
    if tool.description:
        declared["description"] = tool.description
    parameters = tool.parameters or {}
    if parameters.keys() - {"type", "properties", "required", "additionalProperties", "$schema"} or (
        parameters.get("properties")
    ):
        declared["parametersJsonSchema"] = (
            parameters if "type" in parameters else {**parameters, "type": "object"}
        )
    return declared
