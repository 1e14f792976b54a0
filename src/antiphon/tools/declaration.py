"""Tools as values: a function that a model may call, its JSON Schema, and the facts to run it safely."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self, cast

from msgspec import Struct

from antiphon.errors import SettingsError
from antiphon.protocol.content import JsonObject
from antiphon.tools.binding import Binding
from antiphon.tools.schema import first_paragraph, function_name, read_signature, schema_of

Run = Callable[..., Any]
"""A sync or async function. It takes the arguments by name. If it has exactly one parameter that is not a
property of the schema, that parameter takes all arguments at once: as a dict, or as raw JSON if it is
annotated `str`. A parameter annotated `CallContext`, or a subclass, receives the context of the call. The
model receives the return value: a string unchanged, anything else as JSON."""


class ToolNotRunnable(Exception):
    """The tool is declared without a function: another party runs it."""


class ToolCall(Struct, frozen=True):
    """A call that the model made. `arguments` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolOutput(Struct, frozen=True, kw_only=True):
    """The result of a call. A loop may define a subclass with more than the text for the model."""

    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Facts about a call that a tool may ask for. A loop may define a subclass with more of them."""

    call_id: str = ""
    """The same in every attempt of the call, so it can serve as an idempotency key."""
    tenant: str = ""
    key_id: str | None = None
    """The key of the request; None: none, or one of the settings."""


@dataclass(frozen=True)
class Tool:
    """A function that the model may call. Without `run` it is only declared, and another party runs it."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of an object."""
    run: Run | None = None
    strict: bool | None = field(default=None, kw_only=True)
    """Whether the model's server enforces the schema; None: the server's default."""

    @classmethod
    def from_function(
        cls, function: Run, *, name: str | None = None, description: str | None = None, **fields: Any
    ) -> Self:
        """Declare a function, with the schema of its signature and the first paragraph of its docstring.

        `Annotated[..., msgspec.Meta(description=…)]` describes a parameter. `fields` are the other fields of
        the class.
        """
        name = name or function_name(function)
        if not name:
            raise SettingsError(f"The tool has no name, because {function!r} has none: pass 'name'.")
        return cls(
            name=name,
            description=first_paragraph(function) if description is None else description,
            parameters=schema_of(read_signature(function, CallContext)),
            run=function,
            **fields,
        )

    @cached_property
    def binding(self) -> Binding:
        """How `run` takes its arguments; computed once."""
        if self.run is None:
            raise ToolNotRunnable(f"The tool '{self.name}' is only declared here: it has no function to run.")
        return Binding(read_signature(self.run, CallContext), self.parameters.get("properties"))

    def check(self) -> None:
        """Raise `SettingsError` for a tool that no model could call: at start, not at the first call."""
        if not _describes_object(self.parameters):
            raise SettingsError(
                f'The parameters of the tool \'{self.name}\' must be a JSON Schema with "type": "object".',
                param="parameters",
            )
        if self.run is not None:
            _ = self.binding

    def declaration(self) -> JsonObject:
        """The tool as an entry of a request's `tools`."""
        declared: JsonObject = {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": {"type": "object", **self.parameters},
        }
        return declared if self.strict is None else {**declared, "strict": self.strict}


def _describes_object(schema: object) -> bool:
    """Whether a schema describes an object; one without a `type` is taken for an object."""
    if not isinstance(schema, dict):
        return False
    members = cast("JsonObject", schema)
    return members.get("type", "object") == "object" and isinstance(members.get("properties", {}), dict)


@dataclass(frozen=True)
class ServerTool(Tool):
    """A tool that the server offers and runs: AGN-005."""

    usage: str = field(default="", kw_only=True)
    """Guidance for the model (`ToolUsageMetadata`). A tool without it is not in the usage block."""
    final: Literal["server", "client"] = field(default="server", kw_only=True)
    """The source of the result. `client`: `run` only checks the call, then the client receives it."""
    side_effects: bool = field(default=True, kw_only=True)
    """Whether running it twice could do harm. If so, a call that was cut off is reported as of unknown
    outcome instead of being run again."""
    needs_approval: bool = field(default=False, kw_only=True)
    """Whether a person must approve each call before it runs."""
    deadline: float | None = field(default=None, kw_only=True)
    """Seconds; None: the loop's default."""
    modes: frozenset[str] | None = field(default=None, kw_only=True)
    """The agent modes that it is bound to; None: every mode that does not list its tools."""
    tenants: frozenset[str] | None = field(default=None, kw_only=True)
    """The tenants that may use it; None: all. For others it does not exist."""
