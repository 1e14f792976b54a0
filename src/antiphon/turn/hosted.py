"""Items of tools that the backend ran itself: told when they are whole, in the order of their kind."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from antiphon.protocol.events import OutputItemAdded, OutputItemDone
from antiphon.protocol.hosted_events import (
    CodeInterpreterCallCodeDelta,
    CodeInterpreterCallCodeDone,
    CodeInterpreterCallCompleted,
    CodeInterpreterCallInProgress,
    CodeInterpreterCallInterpreting,
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
    WebSearchCallCompleted,
    WebSearchCallInProgress,
    WebSearchCallSearching,
)
from antiphon.protocol.hosted_items import (
    CodeInterpreterCall,
    FileSearchCall,
    HostedItem,
    ImageGenerationCall,
    McpApprovalRequest,
    McpCall,
    McpListTools,
    WebSearchCall,
)
from antiphon.turn.emitting import Emit

PREFIXES: Mapping[type[HostedItem], str] = {
    WebSearchCall: "ws",
    FileSearchCall: "fs",
    CodeInterpreterCall: "ci",
    ImageGenerationCall: "ig",
    McpListTools: "mcpl",
    McpCall: "mcp",
    McpApprovalRequest: "mcpr",
}
"""What the ids begin with: servers that read such an item look at it."""

Step = tuple[type[HostedEvent], tuple[str, ...]]
"""An event, and what it says besides naming the item."""


def emit_hosted(emit: Emit, new_id: Callable[[str], str], output_index: int, item: HostedItem) -> HostedItem:
    """The item, begun and ended. It gets an id of ours: the upstream's may be used twice, or not at all."""
    whole = replace(item, id=new_id(PREFIXES[type(item)]), status=item.status or _status(item))
    emit(OutputItemAdded, output_index, replace(whole, status="in_progress", **_emptied(whole)))
    for kind, words in _steps(whole):
        emit(kind, whole.id, output_index, *words)
    emit(OutputItemDone, output_index, whole)
    return whole


def _status(item: HostedItem) -> str:
    return "failed" if _failed(item) else "completed"


def _failed(item: HostedItem) -> bool:
    return item.status == "failed" or (isinstance(item, McpCall | McpListTools) and bool(item.error))


def _emptied(item: HostedItem) -> dict[str, Any]:
    """What is not known yet when the work begins."""
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


def _steps(item: HostedItem) -> Iterator[Step]:
    """How the work went on."""
    match item:
        case WebSearchCall():
            yield from _plain(WebSearchCallInProgress, WebSearchCallSearching, WebSearchCallCompleted)
        case FileSearchCall():
            yield from _plain(FileSearchCallInProgress, FileSearchCallSearching, FileSearchCallCompleted)
        case CodeInterpreterCall():
            yield CodeInterpreterCallInProgress, ()
            code = "" if isinstance(item.code, UnsetType) else item.code or ""
            yield from _written(CodeInterpreterCallCodeDelta, CodeInterpreterCallCodeDone, code)
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
            yield from _written(McpCallArgumentsDelta, McpCallArgumentsDone, item.arguments)
            yield McpCallFailed if _failed(item) else McpCallCompleted, ()
        case McpApprovalRequest():
            pass


def _plain(*kinds: type[HostedEvent]) -> Iterator[Step]:
    return ((kind, ()) for kind in kinds)


def _written(delta: type[HostedEvent], done: type[HostedEvent], text: str) -> Iterator[Step]:
    """What the model wrote for it: in one piece, because it is told when it is whole."""
    if text:
        yield delta, (text,)
    yield done, (text,)
