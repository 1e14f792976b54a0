"""The section `[agent]`: the agent behind `/v1/agent/execute`, and its modes."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]


class ModeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One mode of the agent."""

    when_to_use: str
    """One line for the model: when to use this mode."""
    display_name: str = ""
    """The name for people; empty: its key."""
    instructions: tuple[str, ...] = ()
    """Paragraphs that follow the system prompt."""
    tools: tuple[str, ...] | None = None
    """Its server tools; unset: all that are not bound to other modes."""
    hosted_tools: tuple[dict[str, Any], ...] = ()
    """Its hosted tools, as a request declares them."""
    tool_choice: str = ""
    """A tool that the model must call first."""
    retrieves: bool = True
    """Whether documents are searched for the instruction."""
    rag_scope: dict[str, Any] | None = None
    """The documents that it may search: a filter as in `ragScopeFilter`."""
    max_turns: Annotated[int, Meta(ge=1, le=100)] | None = None
    """Maximum number of turns of a request in this mode; unset: `agent.max_turns`."""


class AgentSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent behind `/v1/agent/execute`."""

    model: str = ""
    """The model of the agent; empty: the first served model."""
    system: str = (
        "You are a helpful assistant. Do what the text after [INSTRUCTION] asks for, in plain words. "
        "Use a tool when it helps."
    )
    """The system prompt of every conversation."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """Sampling temperature; unset: the model's own."""
    max_turns: Annotated[int, Meta(ge=1, le=100)] = 8
    """Maximum number of turns of one request."""
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Longest answer of one turn in tokens; unset: the model's own limit."""
    tool_deadline: Seconds = 60.0
    """Seconds that a tool may take, unless it declares its own deadline."""
    max_tool_output: Annotated[int, Meta(ge=1000)] = 100_000
    """Characters of a tool's output that the model is shown; the rest is cut off, with a warning."""
    max_context: Annotated[int, Meta(ge=1000)] = 60_000
    """Characters of retrieved context that the model is shown; more is left out, with a warning."""
    chunks: Annotated[int, Meta(ge=1, le=50)] = 8
    """Maximum number of chunks that are retrieved for an instruction."""
    tools: tuple[str, ...] = ()
    """Your own server tools: `module:name` of a `ServerTool`, a `Tool`, a list, or a typed function."""
    approve_tools: tuple[str, ...] = ()
    """Server tools whose calls a person must approve, besides those that are declared so."""
    documents: tuple[str, ...] = ()
    """Folders with the documents of the agent. Empty: no retrieval."""
    vector_store: str = ""
    """The name of a vector store of the tenant `default` that is kept in step with `documents`, and searched
    for the agent. Empty: an index in memory."""
    ranking: Literal["auto", "lexical", "hybrid"] = "auto"
    """How documents are ranked: `lexical` by words, `hybrid` by words and vectors of `embeddings.model`;
    `auto`: hybrid with the bundled embedding model, if it is served."""
    ddr_folder: str = "docs/ddr"
    """The folder of the design documents."""
    default_mode: str = "general"
    """The mode of a request without one."""
    modes: dict[str, ModeSettings] = {}
    """Your own modes, by key; they replace built-in modes with the same key."""
