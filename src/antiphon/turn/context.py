"""`TurnRequest`: everything a backend needs to run one turn, neutral of any dialect.

`build_turn` finds the tools (`toolbox.py`), applies the choice among them (`choice.py`), shows the
conversation as the backend takes it (`function_forms/`), and reports what was emulated or left out.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from antiphon.protocol.downgrade import Downgrade, Downgrades
from antiphon.protocol.items import Item, Message
from antiphon.protocol.requests import CreateBody, CreateResponse, Thinking
from antiphon.protocol.tools import HostedTool, TextFormatGrammar, Tool
from antiphon.protocol.unknown_params import unknown_downgrades
from antiphon.turn.choice import Chosen, Offer, choose, narrowed
from antiphon.turn.function_forms.file_searches import Sources
from antiphon.turn.function_forms.history import show_as_functions
from antiphon.turn.profile_view import apply_profile
from antiphon.turn.toolbox import NO_HOSTED_TOOLS, HostedToolset, Toolbox, declares_tools
from antiphon.turn.tools import FUNCTIONS, ToolKind, TurnTool, flat_name
from antiphon.turn.trace import TurnTrace

__all__ = ["FUNCTIONS", "ToolKind", "TurnRequest", "TurnTool", "build_turn"]

_EMULATED = ("tool_search", "apply_patch", "shell", "local_shell", "computer")
"""The kinds whose function differs from the declared tool so much that it is reported."""


class TurnRequest(Struct, frozen=True, kw_only=True):
    """One turn: the model's name upstream, the complete history with the new input last, the visible tools.

    `choice` is a mode, or the one tool that must be called. `forbidden` are declared tools that the choice
    excludes: the model does not see them, and a call to one is an error.
    """

    model: str
    params: CreateBody
    items: tuple[Item, ...]
    tools: tuple[TurnTool, ...] = ()
    hosted: tuple[HostedTool, ...] = ()
    """Tools that the backend's own server runs; only types that are native there."""
    choice: Literal["none", "auto", "required"] | TurnTool = "auto"
    forbidden: frozenset[str] = frozenset()
    deferred: tuple[Tool, ...] = ()
    """Tools that are not shown until a search finds them."""
    history: int = 0
    """How many of the items precede the input of this request."""
    places: tuple[int, ...] = ()
    """The index of each item in `input`, negative for the history. Empty if the items are in order."""
    grammar: TextFormatGrammar | None = None
    """The grammar of the answer's text; only for backends whose `constrained_text` is native."""
    tenant: str = ""
    """For backends that have a state between turns."""
    thinking: Thinking | None = None
    """Options of thinking that an effort cannot express."""
    left_out: tuple[Downgrade, ...] = ()
    """The tools that the profile omits; the log contains a warning about them."""
    downgrades: tuple[Downgrade, ...] = ()
    input_bytes: int = 0
    """The size of the client's request, and of a long history; 0 if it is not known."""
    spent: frozenset[str] = frozenset()
    """Names of hosted tools that are not shown any more, because they were called often enough. A model may
    remember them: such calls are ignored."""
    sources: Sources = Sources()
    """The passages that the model has been shown, and can cite."""
    trace: TurnTrace | None = None
    """Records what is sent and received, if somebody asked for that."""

    @property
    def streamed(self) -> bool:
        """Whether the caller streams; if not, a backend may answer in one piece."""
        return self.params.stream is True

    @property
    def has_demands(self) -> bool:
        """Whether it offers or forbids tools, or demands a format."""
        return bool(self.tools or self.hosted or self.forbidden or self.spent or self.params.text is not None)

    def param(self, index: int) -> str:
        """The parameter that an item came from, for error messages."""
        return _param(self.places[index] if self.places else index - self.history, self.params)

    def flat_name(self, name: str, namespace: str | UnsetType) -> str:
        """The name under which the model sees a tool of the caller; for calls in the history."""
        if isinstance(namespace, UnsetType):
            return name
        for tool in self.tools:
            if tool.namespace == namespace and tool.origin == name:
                return tool.name
        return flat_name(namespace, name)


def build_turn(
    request: CreateResponse,
    items: Sequence[Item] | None = None,
    *,
    model: str,
    history: int = 0,
    native: frozenset[str] = FUNCTIONS,
    hosted: HostedToolset = NO_HOSTED_TOOLS,
    downgrades: Iterable[Downgrade] = (),
    tenant: str = "",
) -> TurnRequest:
    """The turn that answers `request`. The model sees `items`, whose first `history` precede the request's
    input; without `items` it sees those of the request.

    The backend accepts the tool types in `native` unchanged; all others become functions, also the hosted
    tools that this server runs (`hosted`). Hosted tools that no server here runs are rejected, or omitted and
    reported.
    """
    if hosted.opened:
        native -= {tool.type for tool in hosted.opened}
    found, profile, params = Downgrades(downgrades), request.profile, request.params
    if request.unused:
        found.add("not_used", f"not used in the profile '{profile.name}': {{param}}", *request.unused)
    if request.foreign_params:
        found.add("not_used", "not used, because it belongs to another API: {param}", *request.foreign_params)
    if request.unknown.names:
        found += unknown_downgrades(request.unknown)
    given = request.items if items is None else items
    tools = _find_tools(request, given, native, hosted, found)
    start = history
    given_params = params

    def path(index: int) -> str:
        return _param(index - start, given_params)

    seen, places, sources = show_as_functions(
        given,
        tools.known,
        native,
        found,
        path=path,
        result_tokens=hosted.result_tokens,
        served=hosted.served,
    )
    if places:
        history = sum(1 for place in places if place < start)
        places = tuple(place - start for place in places)
    seen = apply_profile(seen, profile, found)
    if profile.roles == "user" and params.instructions:
        seen = (Message(role="user", content=params.instructions), *seen)
        places = (-1, *places) if places else ()
        params, history = replace(params, instructions=None), history + 1
    return TurnRequest(
        model=model,
        params=params,
        items=seen,
        tools=tools.chosen.tools,
        hosted=tools.chosen.hosted,
        choice=tools.chosen.choice,
        history=history,
        places=places,
        forbidden=tools.chosen.ruled_out,
        deferred=tools.deferred,
        tenant=tenant,
        thinking=request.thinking,
        left_out=tools.left_out,
        downgrades=tuple(found),
        input_bytes=request.input_bytes,
        sources=sources,
    )


class _Tools(NamedTuple):
    """The tools of a turn: those that the model may call, all of them, and the deferred ones."""

    chosen: Chosen = Chosen((), "auto")
    known: Sequence[TurnTool] = ()
    deferred: tuple[Tool, ...] = ()
    left_out: tuple[Downgrade, ...] = ()


_NO_TOOLS = _Tools()


def _find_tools(
    request: CreateResponse,
    items: Sequence[Item],
    native: frozenset[str],
    hosted: HostedToolset,
    found: Downgrades,
) -> _Tools:
    """The tools of the request and of the items, and the choice among them; most turns have no tools."""
    if not request.tools and request.tool_choice == "auto" and not declares_tools(items):
        return _NO_TOOLS
    box = Toolbox(native, hosted, functions_only=request.profile.tools == "functions")
    box.declare(request.tools)
    box.gather(items)
    shown, hidden = box.turn_tools()
    found += [*box.left_out, *box.downgrades, *_emulated(shown, native)]
    offer = Offer(shown, hidden, box)
    chosen = choose(narrowed(request.tool_choice, offer, request.profile, found), offer)
    return _Tools(chosen, [*shown, *hidden], box.deferred if hidden else (), tuple(box.left_out))


def _param(place: int, params: CreateBody) -> str:
    if place >= 0:
        return f"input[{place}]"
    return "previous_response_id" if params.conversation is None else "conversation"


def _emulated(tools: Sequence[TurnTool], native: frozenset[str]) -> list[Downgrade]:
    return [
        Downgrade("emulated", f"the tool '{tool.origin}' is shown to the model as a function", ("tools",))
        for tool in tools
        if tool.kind in _EMULATED and tool.origin not in native
    ]
