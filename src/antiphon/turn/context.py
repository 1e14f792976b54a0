"""`TurnRequest`: everything a backend needs to run one turn, neutral of any dialect.

`build_turn` flattens namespaces into plain names, applies the tool choice as a hard constraint (a tool
that must not be called is not shown to the model) and says what was left out.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item, Message
from antiphon.protocol.profile import Profile
from antiphon.protocol.requests import CreateBody, CreateResponse
from antiphon.protocol.tools import (
    AllowedTools,
    CustomTool,
    FunctionTool,
    HostedTool,
    NamespaceTool,
    TextFormatGrammar,
    Tool,
    ToolChoice,
    ToolRef,
)
from antiphon.turn.wording import worded


class TurnTool(Struct, frozen=True, kw_only=True):
    """A tool as the model sees it: one flat name. `origin` and `namespace` restore the caller's names."""

    name: str
    origin: str
    namespace: str | None = None
    kind: Literal["function", "custom"] = "function"
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    grammar: TextFormatGrammar | None = None


class TurnRequest(Struct, frozen=True, kw_only=True):
    """One turn: the model's name upstream, the whole history with the new input last, the visible tools.

    `choice` is a mode, or the one tool that must be called. `forbidden` are declared tools that the choice
    rules out: the model is not shown them, and a call to one is a fault.
    """

    model: str
    params: CreateBody
    items: tuple[Item, ...]
    tools: tuple[TurnTool, ...] = ()
    choice: Literal["none", "auto", "required"] | TurnTool = "auto"
    forbidden: frozenset[str] = frozenset()
    history: int = 0
    """How many of the items were there before this request."""
    left_out: tuple[str, ...] = ()
    """What the profile left out, of which the log must warn."""
    downgrades: tuple[str, ...] = ()

    @property
    def streamed(self) -> bool:
        """Whether somebody watches the tokens; if not, a backend may answer in one piece."""
        return self.params.stream is True

    def param(self, index: int) -> str:
        """What the caller knows an item by, for error messages."""
        if index >= self.history:
            return f"input[{index - self.history}]"
        return "previous_response_id" if self.params.conversation is None else "conversation"

    def flat_name(self, name: str, namespace: str | UnsetType) -> str:
        """What the model knows a caller's tool by; for calls in the history."""
        if isinstance(namespace, UnsetType):
            return name
        for tool in self.tools:
            if tool.namespace == namespace and tool.origin == name:
                return tool.name
        return f"{namespace}__{name}"


def build_turn(
    request: CreateResponse,
    items: Sequence[Item] | None = None,
    *,
    model: str,
    history: int = 0,
    ignored_tools: frozenset[str] = frozenset(),
    downgrades: Sequence[str] = (),
) -> TurnRequest:
    """The turn that answers `request`. The model sees `items`, of which the first `history` were there before
    the request; without any, it sees those of the request.

    Hosted tools that nothing serves are refused, or left out and reported if their type is in
    `ignored_tools`.
    """
    notes, profile, params = list(downgrades), request.profile, request.params
    if request.unused:
        notes.append(f"not used in the profile '{profile.name}': {', '.join(request.unused)}")
    declared, left_out = _functions(request.tools) if profile.tools == "functions" else (request.tools, ())
    notes += left_out
    tools = _flatten(declared, ignored_tools, notes)
    visible, choice = _choose(_narrowed(request.tool_choice, tools, profile, notes), tools)
    shown = worded(request.items if items is None else items, profile)
    if profile.roles == "user" and params.instructions:
        shown = (Message(role="user", content=params.instructions), *shown)
        params, history = replace(params, instructions=None), history + 1
    return TurnRequest(
        model=model,
        params=params,
        items=shown,
        tools=visible,
        choice=choice,
        history=history,
        forbidden=frozenset(tool.name for tool in tools) - frozenset(tool.name for tool in visible),
        left_out=left_out,
        downgrades=tuple(notes),
    )


def _functions(tools: Sequence[Tool]) -> tuple[list[Tool], tuple[str, ...]]:
    """The functions among the tools, and what is to be said about the others."""
    functions: list[Tool] = []
    left_out: list[str] = []
    for tool in tools:
        if isinstance(tool, FunctionTool):
            functions.append(tool)
        else:
            kind = tool.type if isinstance(tool, HostedTool) else str(tool.__struct_config__.tag)
            left_out.append(f"tool '{kind}' is not a function and was left out")
    return functions, tuple(left_out)


def _narrowed(
    choice: ToolChoice, tools: tuple[TurnTool, ...], profile: Profile, downgrades: list[str]
) -> ToolChoice:
    """The choice, in a profile that knows of no named tools, or of functions only."""
    if isinstance(choice, AllowedTools) and profile.tools == "functions":
        allowed = [ref for ref in choice.tools if ref.type == "function"]
        return AllowedTools(choice.mode, allowed) if allowed else "none"
    if profile.named_choice == "named" or not isinstance(choice, ToolRef):
        return choice
    if profile.tools == "functions" and choice.type != "function":
        downgrades.append(
            f"tool_choice names the tool '{choice.type}', which was left out: the model chooses"
        )
        return "auto"
    _find(choice, tools, "tool_choice")
    return "required"


def _flatten(tools: Sequence[Tool], ignored: frozenset[str], downgrades: list[str]) -> tuple[TurnTool, ...]:
    flat: dict[str, TurnTool] = {}
    for index, tool in enumerate(tools):
        match tool:
            case FunctionTool() | CustomTool():
                flat[tool.name] = _turn_tool(tool, tool.name, None)
            case NamespaceTool():
                for member in tool.tools:
                    name = _free_name(f"{tool.name}__{member.name}", flat)
                    flat[name] = _turn_tool(member, name, tool.name)
            case HostedTool():
                if tool.type not in ignored:
                    raise _not_served(tool.type, f"tools[{index}].type")
                downgrades.append(f"tool '{tool.type}' is not available here and was left out")
    return tuple(flat.values())


def _not_served(kind: str, param: str) -> Unsupported:
    return Unsupported(
        f"The tool '{kind}' is not available on this server. Remove it from 'tools', or have the operator "
        f"add '{kind}' to the setting 'tools.ignore' to leave it out.",
        param=param,
        code="unsupported_tool",
    )


def _free_name(name: str, taken: Mapping[str, TurnTool]) -> str:
    """A name that no other tool has, within the 64 characters that upstreams take."""
    candidate, number = name[:64], 1
    while candidate in taken:
        number += 1
        candidate = f"{name[:60]}_{number}"
    return candidate


def _turn_tool(tool: FunctionTool | CustomTool, name: str, namespace: str | None) -> TurnTool:
    if isinstance(tool, FunctionTool):
        return TurnTool(
            name=name,
            origin=tool.name,
            namespace=namespace,
            description=tool.description,
            parameters=tool.parameters,
            strict=tool.strict,
        )
    description = None if isinstance(tool.description, UnsetType) else tool.description
    grammar = None if isinstance(tool.format, UnsetType) else tool.format
    return TurnTool(
        name=name,
        origin=tool.name,
        namespace=namespace,
        kind="custom",
        description=description,
        grammar=grammar,
    )


def _choose(
    choice: ToolChoice, tools: tuple[TurnTool, ...]
) -> tuple[tuple[TurnTool, ...], Literal["none", "auto", "required"] | TurnTool]:
    """The tools that the model may see, and whether it must call one."""
    match choice:
        case "none":
            return (), "none"
        case "auto":
            return tools, "auto"
        case "required":
            if not tools:
                message = "'tool_choice' is 'required', but 'tools' declares no tool that is served here."
                raise InvalidRequest(message, param="tool_choice", code="invalid_value")
            return tools, "required"
        case ToolRef():
            tool = _find(choice, tools, "tool_choice")
            return (tool,), tool
        case AllowedTools():
            allowed = [
                _find(ref, tools, f"tool_choice.tools[{index}]") for index, ref in enumerate(choice.tools)
            ]
            return tuple(tool for tool in tools if tool in allowed), choice.mode


def _find(ref: ToolRef, tools: tuple[TurnTool, ...], path: str) -> TurnTool:
    if ref.type not in ("function", "custom"):
        raise _not_served(ref.type, f"{path}.type")
    for tool in tools:
        if tool.kind == ref.type and ref.name in (tool.origin, tool.name):
            return tool
    message = f"'{path}' names the {ref.type} '{ref.name}', which is not declared in 'tools'."
    raise InvalidRequest(message, param=path, code="invalid_value")
