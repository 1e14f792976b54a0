"""Items of hosted tools: each kind has its order of events, reported step by step or all at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import (
    CodeInterpreterCallCodeDelta,
    CodeInterpreterCallCodeDone,
    CodeInterpreterCallCompleted,
    CodeInterpreterCallInProgress,
    CodeInterpreterCallInterpreting,
    Event,
    FileSearchCallCompleted,
    FileSearchCallInProgress,
    FileSearchCallSearching,
    HostedEvent,
    ImageGenerationCallCompleted,
    ImageGenerationCallGenerating,
    ImageGenerationCallInProgress,
    McpCallArgumentsDelta,
    McpCallArgumentsDone,
    McpCallCompleted,
    McpCallFailed,
    McpCallInProgress,
    McpListToolsCompleted,
    McpListToolsFailed,
    McpListToolsInProgress,
    OutputItemAdded,
    OutputItemDone,
    ShellCallCommandAdded,
    ShellCallCommandDelta,
    ShellCallCommandDone,
    ShellCallOutputContentDelta,
    ShellCallOutputContentDone,
    WebSearchCallCompleted,
    WebSearchCallInProgress,
    WebSearchCallSearching,
)
from antiphon.protocol.tool_items import (
    CodeInterpreterCall,
    FileSearchCall,
    ImageGenerationCall,
    McpApprovalRequest,
    McpCall,
    McpListTools,
    ServerItem,
    ShellCall,
    ShellCallOutput,
    WebSearchCall,
)
from antiphon.turn.emitting import Emit, Status

PREFIXES: Mapping[type[ServerItem], str] = {
    WebSearchCall: "ws",
    FileSearchCall: "fs",
    CodeInterpreterCall: "ci",
    ImageGenerationCall: "ig",
    McpListTools: "mcpl",
    McpCall: "mcp",
    McpApprovalRequest: "mcpr",
    ShellCall: "sh",
    ShellCallOutput: "sho",
}
"""Prefixes of item ids. Servers check them when they receive such an item."""

Fields = tuple[str | int | JsonObject | list[JsonObject], ...]
Step = tuple[type[Event], Fields]
"""An event, and its fields after the output index."""


class OpenHosted:
    """The item of a running hosted tool. It gets a new id: an upstream's may be missing or not unique."""

    __slots__ = ("_emit", "_emitted", "id", "index", "item", "output_index")

    def __init__(
        self, emit: Emit, item_id: str, output_index: int, item: ServerItem, index: int | None = None
    ) -> None:
        self._emit = emit
        self._emitted: set[type[Event]] = set()
        self.id = item_id
        self.output_index = output_index
        self.index = index
        self.item = replace(item, id=item_id, status="in_progress")
        emit(OutputItemAdded, output_index, self.item)
        for event, fields in _steps(self.item):
            self.step(event, fields)
            break

    def step(self, event: type[Event], fields: Fields = ()) -> None:
        """Emit a step of the tool. The events of commands contain no item id."""
        self._emitted.add(event)
        if event is McpCallArgumentsDone:
            self.item = replace(self.item, arguments=fields[0])
        item_id = (self.id,) if issubclass(event, HostedEvent) else ()
        self._emit(event, *item_id, self.output_index, *fields)

    def done(self, item: ServerItem) -> ServerItem:
        """End the item: emit the remaining steps, then the item."""
        final = replace(item, id=self.id, status=item.status or _status(item))
        for event, fields in [step for step in _steps(final) if step[0] not in self._emitted]:
            self.step(event, fields)
        self._emit(OutputItemDone, self.output_index, final)
        return final

    def close(self, _status: Status) -> ServerItem:
        """End the item of an unfinished tool: it is incomplete, regardless of how the turn ends."""
        final = replace(self.item, status="incomplete")
        self._emit(OutputItemDone, self.output_index, final)
        return final


def emit_hosted(emit: Emit, new_id: Callable[[str], str], output_index: int, item: ServerItem) -> ServerItem:
    """Emit a finished item with all events of its kind."""
    begun = replace(item, **_emptied(item))
    return OpenHosted(emit, new_id(PREFIXES[type(item)]), output_index, begun).done(item)


def _status(item: ServerItem) -> str:
    return "failed" if _failed(item) else "completed"


def _failed(item: ServerItem) -> bool:
    return item.status == "failed" or (isinstance(item, McpCall | McpListTools) and bool(item.error))


def _emptied(item: ServerItem) -> dict[str, Any]:
    """Empty values for the fields that are not known when the tool starts."""
    match item:
        case WebSearchCall():
            return {"action": UNSET}
        case FileSearchCall():
            return {"queries": [], "results": None}
        case CodeInterpreterCall():
            return {"code": "", "outputs": []}
        case ImageGenerationCall():
            known = ("id", "status")
            return {name: UNSET for name in item.__struct_fields__ if name not in known}
        case McpListTools():
            return {"tools": [], "error": UNSET}
        case McpCall():
            return {"arguments": "", "output": None, "error": None}
        case McpApprovalRequest():
            return {}
        case ShellCall():
            return {"action": {**item.action, "commands": []}}
        case ShellCallOutput():
            return {"output": []}


def _steps(item: ServerItem) -> Iterator[Step]:
    """The events between added and done, in order."""
    match item:
        case WebSearchCall():
            yield from _plain(WebSearchCallInProgress, WebSearchCallSearching, WebSearchCallCompleted)
        case FileSearchCall():
            yield from _plain(FileSearchCallInProgress, FileSearchCallSearching, FileSearchCallCompleted)
        case CodeInterpreterCall():
            yield CodeInterpreterCallInProgress, ()
            code = "" if isinstance(item.code, UnsetType) else item.code or ""
            yield from _text_events(CodeInterpreterCallCodeDelta, CodeInterpreterCallCodeDone, code)
            yield from _plain(CodeInterpreterCallInterpreting, CodeInterpreterCallCompleted)
        case ImageGenerationCall():
            yield from _plain(
                ImageGenerationCallInProgress, ImageGenerationCallGenerating, ImageGenerationCallCompleted
            )
        case McpListTools():
            yield McpListToolsInProgress, ()
            yield McpListToolsFailed if _failed(item) else McpListToolsCompleted, ()
        case McpCall():
            yield McpCallInProgress, ()
            yield from _text_events(McpCallArgumentsDelta, McpCallArgumentsDone, item.arguments)
            yield McpCallFailed if _failed(item) else McpCallCompleted, ()
        case McpApprovalRequest():
            pass
        case ShellCall():
            yield from _command_events(item.action["commands"])
        case ShellCallOutput():
            yield from _printed_events(item.output)


def _command_events(commands: Sequence[str]) -> Iterator[Step]:
    for index, command in enumerate(commands):
        yield ShellCallCommandAdded, (index, "")
        if command:
            yield ShellCallCommandDelta, (index, command)
        yield ShellCallCommandDone, (index, command)


def _printed_events(output: Sequence[JsonObject]) -> Iterator[Step]:
    for index, one in enumerate(output):
        if printed := {name: one[name] for name in ("stdout", "stderr") if one.get(name)}:
            yield ShellCallOutputContentDelta, (index, printed)
        yield ShellCallOutputContentDone, (index, [one])


def _plain(*kinds: type[HostedEvent]) -> Iterator[Step]:
    return ((kind, ()) for kind in kinds)


def _text_events(delta: type[HostedEvent], done: type[HostedEvent], text: str) -> Iterator[Step]:
    """The model's text for the tool, in one piece."""
    if text:
        yield delta, (text,)
    yield done, (text,)
