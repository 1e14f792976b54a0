"""The server's tools by name, and how tools are loaded from a user's module."""

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, cast

from antiphon.errors import SettingsError
from antiphon.protocol.content import JsonObject
from antiphon.tools.declaration import ServerTool, Tool

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Registrable = Tool | Callable[..., Any]
"""A server tool. A plain tool or a typed function becomes one, with the defaults."""


class ToolSelection(Protocol):
    """Selects tools: by name, or those that are bound to its key and those that are not bound at all."""

    @property
    def key(self) -> str: ...

    @property
    def tools(self) -> tuple[str, ...] | None: ...


class ToolRegistry:
    """The server tools, in the order in which they were registered."""

    def __init__(self, tools: Iterable[Registrable] = ()) -> None:
        self._tools: dict[str, ServerTool] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: Registrable) -> None:
        """Add a tool. Raises `SettingsError` for one that cannot be called, and for a duplicate name."""
        made = as_server_tool(tool)
        _check(made)
        if made.name in self._tools:
            raise SettingsError(f"There are two tools '{made.name}'. Rename one of them.")
        self._tools[made.name] = made

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def get(self, name: str) -> ServerTool | None:
        return self._tools.get(name)

    def for_tenant(self, tenant: str) -> "ToolRegistry":
        """The tools that a tenant may use; an empty tenant, the only user, may use all."""
        if not tenant or all(tool.tenants is None for tool in self._tools.values()):
            return self
        return ToolRegistry(
            tool for tool in self._tools.values() if tool.tenants is None or tenant in tool.tenants
        )

    def for_mode(self, mode: ToolSelection) -> list[ServerTool]:
        """The tools of a mode: those that it names, else all that are not bound to other modes."""
        if mode.tools is not None:
            return [self._tools[name] for name in mode.tools if name in self._tools]
        return [tool for tool in self._tools.values() if tool.modes is None or mode.key in tool.modes]

    def missing(self, mode: ToolSelection) -> list[str]:
        """The names in a mode's list that no tool has."""
        return [name for name in mode.tools or () if name not in self._tools]

    def schemas(self, tools: Iterable[Tool]) -> list[JsonObject]:
        """The tools as entries of a request's `tools`."""
        return [tool.declaration() for tool in tools]

    def usage(self, tools: Iterable[ServerTool]) -> list[tuple[str, str]]:
        """Name and guidance of each tool that has guidance, for the usage block."""
        return [(tool.name, tool.usage) for tool in tools if tool.usage.strip()]


def as_server_tool(tool: Registrable) -> ServerTool:
    match tool:
        case ServerTool():
            return tool
        case Tool():
            return ServerTool(tool.name, tool.description, tool.parameters, tool.run, strict=tool.strict)
        case _:
            return ServerTool.from_function(tool)


def load_tools(specs: Sequence[str]) -> list[ServerTool]:
    """Import a user's tools: `module:name` of a tool, a list of tools, or a typed function.

    The current folder is searched too.
    """
    return [tool for spec in specs for tool in _load(spec)]


def _check(tool: ServerTool) -> None:
    if NAME.fullmatch(tool.name) is None:
        raise SettingsError(
            f"The tool '{tool.name}' has an invalid name: use 1 to 64 letters, digits, '_' and '-'.",
            param="name",
        )
    tool.check()
    if tool.run is None and tool.final == "server":
        raise SettingsError(f"The tool '{tool.name}' has no function to run: pass 'run'.", param="run")


def _load(spec: str) -> list[ServerTool]:
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise SettingsError(f"The tool '{spec}' is not of the form 'module:name'.", param="agent.tools")
    found = _import(spec, module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            raise SettingsError(
                f"The tool '{spec}' was not found: the module '{module_name}' has no '{name}'.",
                param="agent.tools",
            )
        found = getattr(found, part)
    several = cast("Sequence[object]", found) if isinstance(found, list | tuple) else (found,)
    return [_loaded(spec, one) for one in several]


def _import(spec: str, module_name: str) -> Any:
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise  # the user interrupts a slow import
    except BaseException as error:  # a module may raise anything while it is imported, even SystemExit
        raise SettingsError(
            f"The tool '{spec}' cannot be loaded: importing '{module_name}' failed with "
            f"{type(error).__name__}: {error}",
            param="agent.tools",
        ) from error


def _loaded(spec: str, found: object) -> ServerTool:
    if isinstance(found, Tool) or (callable(found) and not isinstance(found, type)):
        tool = as_server_tool(found)
        _check(tool)
        return tool
    raise SettingsError(
        f"The tool '{spec}' is of type {type(found).__name__}. Name a ServerTool, a Tool, a list of them, "
        "or a typed function.",
        param="agent.tools",
    )
