"""Apply `tool_choice`, as a hard constraint: a tool that must not be called is not shown."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from antiphon.errors import InvalidRequest
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.profile import Profile
from antiphon.protocol.tools import CLIENT_TOOLS, AllowedTools, HostedTool, ToolChoice, ToolRef
from antiphon.turn.toolbox import Toolbox, is_ignored, not_served
from antiphon.turn.tools import TurnTool, mcp_key

_COMPUTERS = ("computer", "computer_use", "computer_use_preview")


class Chosen(NamedTuple):
    """The tools that the model sees, and whether it must call one, or which one. `ruled_out`: the names of
    tools that it must not call; a model may guess the name of a deferred tool."""

    tools: tuple[TurnTool, ...]
    choice: Literal["none", "auto", "required"] | TurnTool
    hosted: tuple[HostedTool, ...] = ()
    ruled_out: frozenset[str] = frozenset()


class Offer(NamedTuple):
    shown: Sequence[TurnTool]
    hidden: Sequence[TurnTool]
    box: Toolbox


def narrowed(choice: ToolChoice, offer: Offer, profile: Profile, downgrades: Downgrades) -> ToolChoice:
    """The choice in a profile without named choices, or with functions only."""
    if isinstance(choice, AllowedTools) and profile.tools == "functions":
        allowed = [ref for ref in choice.tools if ref.type == "function"]
        return AllowedTools(choice.mode, allowed) if allowed else "none"
    if profile.named_choice == "named" or not isinstance(choice, ToolRef):
        return choice
    if profile.tools == "functions" and choice.type != "function":
        downgrades.add(
            "value_changed",
            f"{{param}} names the tool '{choice.type}', which was left out: the model chooses",
            "tool_choice",
        )
        return "auto"
    _find(choice, offer, "tool_choice")
    return "required"


def choose(choice: ToolChoice, offer: Offer) -> Chosen:
    shown, hosted = tuple(offer.shown), tuple(offer.box.hosted)
    match choice:
        case "none":
            return Chosen((), "none", ruled_out=_others((), offer))
        case "auto":
            return Chosen(shown, "auto", hosted)
        case "required":
            if not shown and not hosted:
                message = "'tool_choice' is 'required', but 'tools' declares no tool that is served here."
                raise InvalidRequest(message, param="tool_choice", code="invalid_value")
            return Chosen(shown, "required", hosted)
        case ToolRef():
            tools, served = _find(choice, offer, "tool_choice")
            only = tools[0] if len(tools) == 1 else "required"
            return Chosen(tuple(tools), only, tuple(served), _others(tools, offer))
        case AllowedTools():
            return _allowed(choice, offer)


def _allowed(choice: AllowedTools, offer: Offer) -> Chosen:
    """Deferred tools stay deferred: they may be called once a search has found them."""
    tools: list[TurnTool] = []
    hosted: list[HostedTool] = []
    for index, ref in enumerate(choice.tools):
        if _is_left_out(ref, offer):
            continue
        found, served = _find(ref, offer, f"tool_choice.tools[{index}]")
        tools += found
        hosted += served
    names, identities = {tool.name for tool in tools}, set(map(id, hosted))
    visible = tuple(tool for tool in offer.shown if tool.name in names)
    served = tuple(tool for tool in offer.box.hosted if id(tool) in identities)
    mode = choice.mode if visible or served else "none"
    return Chosen(visible, mode, served, _others(tools, offer))


def _others(tools: Sequence[TurnTool], offer: Offer) -> frozenset[str]:
    return frozenset(tool.name for tool in (*offer.shown, *offer.hidden)) - {tool.name for tool in tools}


def _is_left_out(ref: ToolRef, offer: Offer) -> bool:
    """Whether it names a hosted tool that was already omitted and reported."""
    kind = ref.type
    own = kind in ("function", "custom", "namespace", *_COMPUTERS) or kind in CLIENT_TOOLS
    if own or kind in offer.box.native or kind in offer.box.toolset.served:
        return False
    return is_ignored(kind, offer.box.toolset.ignored)


def _find(ref: ToolRef, offer: Offer, path: str) -> tuple[list[TurnTool], list[HostedTool]]:
    """The tools that the reference names: one, or all of a namespace."""
    every = [*offer.shown, *offer.hidden]
    match ref.type:
        case "function" | "custom":
            found = _named(ref, [tool for tool in every if tool.kind == ref.type], path)
        case "namespace":
            found = [tool for tool in every if tool.namespace == ref.name]
        case kind if kind in CLIENT_TOOLS or kind in _COMPUTERS:
            wanted = "computer" if kind in _COMPUTERS else kind
            found = [
                tool
                for tool in every
                if (tool.kind == wanted or tool.hosted_type == kind) and tool.namespace is None
            ]
            if not found and any(tool.type == kind for tool in offer.box.hosted):
                return [], [tool for tool in offer.box.hosted if tool.type == kind]
        case kind if any(tool.hosted_type == kind for tool in every):
            found = [tool for tool in every if tool.hosted_type == kind and _is_meant(ref, tool)]
        case kind:
            served = [tool for tool in offer.box.hosted if _is_hosted(ref, tool)]
            if not served:
                raise _not_offered(kind, offer, path)
            return [], served
    if not found:
        named = f"the {ref.type} '{ref.name}'" if ref.name else f"the tool '{ref.type}'"
        if ref.server_label:
            named = f"{named} of the server '{ref.server_label}'"
        message = f"'{path}' names {named}, which is not declared in 'tools'."
        raise InvalidRequest(message, param=path, code="invalid_value")
    return found, []


def _not_offered(kind: str, offer: Offer, path: str) -> InvalidRequest:
    """The error for a hosted tool that is not declared, or that nothing here runs."""
    if kind not in offer.box.toolset.served:
        return not_served(kind, f"{path}.type")
    message = f"'{path}' names the tool '{kind}', which is not declared in 'tools'."
    return InvalidRequest(message, param=path, code="invalid_value")


def _named(ref: ToolRef, tools: Sequence[TurnTool], path: str) -> list[TurnTool]:
    """The tool of this name: in the namespace of the reference if it has one; else by the model's name for
    it; else the only one of that name in any namespace."""
    if ref.namespace:
        return [tool for tool in tools if (tool.namespace, tool.origin) == (ref.namespace, ref.name)]
    found = [tool for tool in tools if tool.name == ref.name]
    found = found or [tool for tool in tools if tool.origin == ref.name]
    if len(found) > 1:
        names = ", ".join(f"'{tool.namespace}'" for tool in found)
        message = f"'{path}' names '{ref.name}', which is in several namespaces. Add 'namespace': {names}."
        raise InvalidRequest(message, param=path, code="invalid_value")
    return found


def _is_meant(ref: ToolRef, tool: TurnTool) -> bool:
    """Whether the reference names this function of a hosted tool: by its server, and its name there."""
    if not ref.server_label:
        return True
    if not ref.name:
        return tool.origin.startswith(mcp_key(ref.server_label, ""))
    return tool.origin == mcp_key(ref.server_label, ref.name)


def _is_hosted(ref: ToolRef, tool: HostedTool) -> bool:
    label = ref.server_label
    return tool.type == ref.type and (not label or tool.body.get("server_label") == label)
