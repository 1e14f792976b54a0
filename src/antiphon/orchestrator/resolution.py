"""Context resolution: the mode, the tools and the prompts of a request. Sans-IO.

The system prompt has layers: the conversation's own, the mode's instructions, the list of modes (AGN-012,
AGN-013). Server tools and client tools become one list without duplicate names.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.blocks import build_tool_usage_block, json_or_none
from antiphon.orchestrator.models import AgentExecuteRequest, ConversationContext
from antiphon.orchestrator.modes import CHANGE_MODE, DEFAULT_KEY, EDITING_KEY, Mode, Modes
from antiphon.orchestrator.wire import to_strict_tool
from antiphon.protocol.content import JsonObject
from antiphon.protocol.tools import HOSTED_TOOLS
from antiphon.retrieval.scope import Scope, parse_scope
from antiphon.tools.declaration import ServerTool
from antiphon.tools.registry import ToolRegistry


class Chain(Struct, frozen=True):
    """The conversation that a request continues: its tools and its mode."""

    tools: Sequence[object]
    mode: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A request, completed with everything that the server decides."""

    mode: Mode
    request: AgentExecuteRequest
    """The request for the builder: with the resolved mode and tool choice, and without tools."""
    context: ConversationContext
    """With the complete system prompt."""
    usage_block: str
    offered: Mapping[str, ServerTool]
    """The server tools of the mode, by name."""
    taken: frozenset[str]
    """The names of all server tools, which client tools cannot have."""
    client_tools: frozenset[str]
    """The names of the tools that the client declares."""
    tools: Sequence[object] | None
    """The tools to declare: all in a first request; in a continuation all if they have changed. None: the
    request declares no tools."""
    mode_change: str
    """The message to the model if the conversation was in another mode; else empty."""
    has_hosted_tools: bool
    """Whether the conversation has tools that the server of the model runs."""
    scope: Scope
    """The chunks that may be retrieved."""
    warnings: tuple[str, ...]


def resolve(
    request: AgentExecuteRequest,
    context: ConversationContext,
    tools: ToolRegistry,
    modes: Modes,
    chain: Chain | None = None,
) -> Plan:
    """Resolve a request. Raises `InvalidRequest` for an invalid scope.

    `chain` is the conversation that the request continues, if known.
    """
    warnings: list[str] = []
    mode = _mode_of(request, modes, warnings)
    offered = offered_tools(tools, mode)
    declared = _client_tools(request, tools, offered, warnings)
    client_tools = frozenset(tool_names(declared))
    known = {*offered, *client_tools, *tool_names(chain.tools if chain else ())}
    warnings += _missing(tools, mode, client_tools)
    declared = _besides_hosted(declared, mode, warnings)
    schemas: list[object] = [*tools.schemas(list(offered.values())), *mode.hosted_tools, *declared]
    usage_block = build_tool_usage_block(tools.usage(list(offered.values())))
    layers = _layers(mode, modes, offered)
    return Plan(
        mode=mode,
        request=msgspec.structs.replace(
            request,
            mode=_spelled(request.mode, mode),
            tools_json=None,
            tool_choice_name=_choice(request, mode, known, warnings),
        ),
        context=msgspec.structs.replace(context, system=_joined(context.system, *layers)),
        usage_block=usage_block,
        offered=offered,
        taken=frozenset(tools.names),
        client_tools=client_tools,
        tools=_declared_tools(request, schemas, chain, mode, _ServerSide(tools, modes)),
        mode_change=_joined(_new_mode(mode), *layers, usage_block) if _changes_mode(chain, mode) else "",
        has_hosted_tools=any(map(hosted_key, [*schemas, *(chain.tools if chain else ())])),
        scope=_scope(request, mode),
        warnings=tuple(warnings),
    )


def check_choice(request: AgentExecuteRequest, tools: ToolRegistry, modes: Modes) -> None:
    """Raise `InvalidRequest` for a forced tool that is not offered. A continuation passes, because the
    tools of its conversation are not known here."""
    if not _chosen(request) or _continues(request):
        return
    ignored: list[str] = []
    mode = _mode_of(request, modes, ignored)
    offered = offered_tools(tools, mode)
    known = [*offered, *tool_names(_client_tools(request, tools, offered, ignored))]
    if request.tool_choice_name not in known:
        raise InvalidRequest(
            f"'tool_choice_name' is '{request.tool_choice_name}', but neither the server (in the mode "
            f"'{mode.key}') nor the request offers such a tool. Offered: {', '.join(known) or 'none'}.",
            param="tool_choice_name",
            code="unknown_tool",
        )


def offered_tools(tools: ToolRegistry, mode: Mode) -> dict[str, ServerTool]:
    """The tools of the mode, and always the one that switches modes (AGN-011)."""
    offered = {tool.name: tool for tool in tools.for_mode(mode)}
    switch = tools.get(CHANGE_MODE)
    if switch is not None:
        offered.setdefault(CHANGE_MODE, switch)
    return offered


def mode_block(mode: Mode, modes: Modes) -> str:
    """The list of modes for a model that can switch (AGN-013)."""
    lines = [f"Current Mode: {mode.key}", "", "Available Modes:"]
    lines += [f"- {each.key}: {each.when_to_use.strip()}" for each in modes.all()]
    lines += [
        "",
        "Mode Switching:",
        f"- Call {CHANGE_MODE} when another mode of this list fits the task better.",
        "- Say why in its reason. The new mode holds from the next request on.",
        "- Stay in the current mode when in doubt, or ask the user.",
    ]
    return "\n".join(lines)


def tool_name(tool: object) -> str:
    """The name of a declared function, flat or as chat completions have it; empty for a hosted tool."""
    members = cast("JsonObject", tool) if isinstance(tool, dict) else {}
    nested = members.get("function")
    name = (cast("JsonObject", nested) if isinstance(nested, dict) else members).get("name")
    return name if isinstance(name, str) else ""


def tool_names(tools: Iterable[object]) -> Iterator[str]:
    """The names of declared functions."""
    return (name for name in map(tool_name, tools) if name)


def _mode_of(request: AgentExecuteRequest, modes: Modes, warnings: list[str]) -> Mode:
    """The requested mode; else the default, or the editing mode if there are active files."""
    named = request.mode is not None and bool(request.mode.strip())
    if not named and request.active_files and modes.default.key == DEFAULT_KEY:
        return modes.find(EDITING_KEY) or modes.default
    mode = modes.find(request.mode)
    if mode is None:
        known = ", ".join(modes)
        warnings.append(f"Unknown mode '{request.mode}': '{modes.default.key}' is used. Known: {known}.")
        return modes.default
    return mode


def _client_tools(
    request: AgentExecuteRequest,
    tools: ToolRegistry,
    offered: Mapping[str, ServerTool],
    warnings: list[str],
) -> list[object]:
    declared = _read_tools(request.tools_json, warnings)
    for name in [name for name in map(tool_name, declared) if name in tools]:
        used = "the server's is used" if name in offered else "it is left out"
        warnings.append(f"The client's tool '{name}' has the name of a server tool: {used}.")
    return [tool for tool in declared if tool_name(tool) not in tools]


def hosted_key(tool: object) -> tuple[str, str] | None:
    """What identifies a hosted tool in a request: its type and the label of its server. None: a function."""
    members = cast("JsonObject", tool) if isinstance(tool, dict) else {}
    kind, label = members.get("type"), members.get("server_label")
    if not isinstance(kind, str) or kind not in HOSTED_TOOLS:
        return None
    return kind, label if isinstance(label, str) else ""


def _besides_hosted(declared: Sequence[object], mode: Mode, warnings: list[str]) -> list[object]:
    """The client's tools without those that the mode has as well."""
    taken = set(map(hosted_key, mode.hosted_tools))
    for kind, label in filter(None, map(hosted_key, declared)):
        if (kind, label) in taken:
            name = f"{kind}' of the server '{label}" if label else kind
            warnings.append(f"The mode has the hosted tool '{name}' itself: the client's is left out.")
    return [tool for tool in declared if (hosted_key(tool) or ("", "")) not in taken]


def _read_tools(tools_json: str | None, warnings: list[str]) -> list[object]:
    if tools_json is None or not tools_json.strip():
        return []
    found = json_or_none(tools_json)
    if not isinstance(found, list):
        warnings.append("The client's tools are left out: toolsJson is not a JSON array.")
        return []
    return cast("list[object]", found)


def _choice(
    request: AgentExecuteRequest, mode: Mode, known: Container[str], warnings: list[str]
) -> str | None:
    """The client's choice; else the mode's, if there is an instruction. Results alone force no call."""
    if _chosen(request):
        return request.tool_choice_name
    if mode.tool_choice is None or not (request.instruction or "").strip():
        return None
    if mode.tool_choice not in known:
        warnings.append(
            f"The mode '{mode.key}' requires a call of '{mode.tool_choice}', "
            "but neither the server nor the client offers it."
        )
        return None
    return mode.tool_choice


def _chosen(request: AgentExecuteRequest) -> bool:
    return bool(request.tool_choice_name and request.tool_choice_name.strip())


def _missing(tools: ToolRegistry, mode: Mode, client_tools: Container[str]) -> list[str]:
    missing = [name for name in tools.missing(mode) if name not in client_tools]
    return [f"The mode '{mode.key}' names tools that do not exist: {', '.join(missing)}."] if missing else []


def _continues(request: AgentExecuteRequest) -> bool:
    return bool((request.response_continuation_id or "").strip())


def _declared_tools(
    request: AgentExecuteRequest,
    schemas: Sequence[object],
    chain: Chain | None,
    mode: Mode,
    ours: "_ServerSide",
) -> Sequence[object] | None:
    if chain is not None:
        return _changed_tools(schemas, chain, mode, ours)
    return None if _continues(request) else schemas or None


def _changed_tools(
    schemas: Sequence[object], chain: Chain, mode: Mode, ours: "_ServerSide"
) -> Sequence[object] | None:
    """The tools to send with a continuation: all if some are new or the mode removes some, else None. A list
    replaces the previous one, so it repeats what the client declared earlier."""
    named = frozenset(tool_names(schemas))
    known = all(any(_same(tool, old) for old in chain.tools) for tool in schemas)
    hosted = frozenset(filter(None, map(hosted_key, schemas)))
    stale = [old for old in chain.tools if ours.has(old) and not _is_among(old, named, hosted)]
    if known and not (stale and _changes_mode(chain, mode)):
        return None
    earlier = [
        old
        for old in chain.tools
        if not _is_among(old, named, hosted)
        and not ours.has(old)
        and not any(_same(tool, old) for tool in schemas)
    ]
    return [*schemas, *earlier]


class _ServerSide(NamedTuple):
    """The tools that the server declares: its own, and the hosted tools of its modes."""

    tools: ToolRegistry
    modes: Modes

    def has(self, tool: object) -> bool:
        if hosted_key(tool) is None:
            return tool_name(tool) in self.tools
        return any(_same(each, tool) for mode in self.modes.all() for each in mode.hosted_tools)


def _is_among(tool: object, named: Container[str], hosted: Container[object]) -> bool:
    """Whether a tool is declared anew, perhaps in another form."""
    return tool_name(tool) in named or hosted_key(tool) in hosted


def _same(tool: object, old: object) -> bool:
    """Whether a tool equals one of the response, which may have more members."""
    strict = to_strict_tool(tool)
    if not isinstance(strict, dict) or not isinstance(old, dict):
        return strict == old
    wanted, found = cast("JsonObject", strict), cast("JsonObject", old)
    return all(found.get(member) == value for member, value in wanted.items())


def _changes_mode(chain: Chain | None, mode: Mode) -> bool:
    """Whether the conversation was in another mode."""
    return chain is not None and chain.mode is not None and chain.mode != mode.key


def _new_mode(mode: Mode) -> str:
    return f"From now on the mode is '{mode.key}'. Instructions of another mode no longer apply."


def _spelled(name: str | None, mode: Mode) -> str:
    """The mode in the client's spelling, if the request names it."""
    return name if name is not None and name.strip().lower() == mode.key else mode.key


def _layers(mode: Mode, modes: Modes, offered: Mapping[str, ServerTool]) -> list[str]:
    """The mode's additions to the system prompt."""
    return [*mode.instructions, mode_block(mode, modes) if CHANGE_MODE in offered else ""]


def _joined(*layers: str) -> str:
    return "\n\n".join(layer.strip() for layer in layers if layer.strip())


def _scope(request: AgentExecuteRequest, mode: Mode) -> Scope:
    scope = Scope()
    if mode.rag_scope is not None:
        scope = parse_scope(mode.rag_scope, f"agent.modes.{mode.key}.rag_scope")
    if request.rag_scope_filter is not None:
        scope = scope.both(parse_scope(request.rag_scope_filter))
    return scope
