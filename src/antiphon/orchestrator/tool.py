"""Tools: a function that a model may call, with its schema and what must be known to run it safely."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self, cast

from msgspec import Struct

from antiphon.errors import SettingsError
from antiphon.orchestrator.binding import Binding
from antiphon.orchestrator.models import AgentExecuteRequest, FileBundleItem
from antiphon.orchestrator.schema import first_paragraph, function_name, read_signature, schema_of
from antiphon.protocol.content import JsonObject

Run = Callable[..., Any]
"""Sync or async. It takes the arguments by name; or, if it has one parameter that is no property of the
schema, all of them at once: as a dict, or as the raw JSON if that parameter is annotated `str`. A parameter
annotated `ToolContext` gets the context of the call. What it returns is told to the model: a string as it is,
anything else as JSON."""


class ToolNotRunnable(Exception):
    """Somebody else runs this tool."""


class ToolCall(Struct, frozen=True):
    """A call that the model made. `arguments` is JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolResult(Struct, frozen=True, kw_only=True):
    """What a tool may return when it does more than answer."""

    output: str
    files: tuple[FileBundleItem, ...] = ()
    """Changes for the file bundle of the response."""
    mode: str | None = None
    """The mode to switch to."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a server tool may know about the call."""

    request: AgentExecuteRequest
    call_id: str = ""
    tenant: str = ""
    mode: str = ""
    files: Mapping[str, FileBundleItem] = field(default_factory=dict[str, FileBundleItem])
    """The file bundle so far, by path."""


@dataclass(frozen=True)
class Tool:
    """A function that the model may call. Without `run` it is only declared: somebody else runs it."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of an object."""
    run: Run | None = None
    strict: bool | None = field(default=None, kw_only=True)
    """Whether the model's server holds the model to the schema; None: as the server likes."""

    @classmethod
    def from_function(
        cls, function: Run, *, name: str | None = None, description: str | None = None, **fields: Any
    ) -> Self:
        """A tool with the schema of the function's signature, described by its docstring.

        `Annotated[..., msgspec.Meta(description=…)]` describes a parameter. `fields` are the further members
        of the class.
        """
        name = name or function_name(function)
        if not name:
            raise SettingsError(f"The tool has no name, since {function!r} has none: give one as 'name'.")
        return cls(
            name=name,
            description=first_paragraph(function) if description is None else description,
            parameters=schema_of(read_signature(function, ToolContext)),
            run=function,
            **fields,
        )

    @cached_property
    def binding(self) -> Binding:
        """How `run` takes its arguments; decided once."""
        if self.run is None:
            raise ToolNotRunnable(f"The tool '{self.name}' is only declared here: it has nothing to run.")
        return Binding(read_signature(self.run, ToolContext), self.parameters.get("properties"))

    def check(self) -> None:
        """Refuse what no model could call: to be told at the start, and not by the first call."""
        if not _describes_object(self.parameters):
            raise SettingsError(
                f'The parameters of the tool \'{self.name}\' must be a JSON Schema with "type": "object".',
                param="parameters",
            )
        if self.run is not None:
            _ = self.binding

    def declaration(self) -> JsonObject:
        """The tool as a request declares it."""
        declared: JsonObject = {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": {"type": "object", **self.parameters},
        }
        return declared if self.strict is None else {**declared, "strict": self.strict}


def _describes_object(schema: object) -> bool:
    """A schema that does not say of what it is one is taken for that of an object."""
    if not isinstance(schema, dict):
        return False
    members = cast("JsonObject", schema)
    return members.get("type", "object") == "object" and isinstance(members.get("properties", {}), dict)


@dataclass(frozen=True)
class ServerTool(Tool):
    """A tool that the server offers to every agent: AGN-005."""

    usage: str = field(default="", kw_only=True)
    """Guidance for the model (`ToolUsageMetadata`); without it the tool is not in the usage block."""
    final: Literal["server", "client"] = field(default="server", kw_only=True)
    """Who gives the result. `client`: `run` only checks the call, then it is handed to the client."""
    side_effects: bool = field(default=True, kw_only=True)
    """Whether running it again could do harm. If so, a run that broke off in the middle of it says so
    instead of running it twice."""
    deadline: float | None = field(default=None, kw_only=True)
    """Seconds; None: the default of the agent."""
    modes: frozenset[str] | None = field(default=None, kw_only=True)
    """The modes that it is bound to; None: every mode that does not choose its tools."""
    tenants: frozenset[str] | None = field(default=None, kw_only=True)
    """Who may use it; None: everybody. For others it does not exist."""
