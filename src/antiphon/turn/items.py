"""Open items: the state of an item while it is emitted. Each knows the order of its own events.

An open item never numbers an event: it hands class and fields to `emit`, and the machine numbers them.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import UNSET

from antiphon.protocol.content import JsonObject, Logprob, OutputText, ReasoningText, Refusal, SummaryText
from antiphon.protocol.events import (
    CompactionCompacting,
    ContentPartAdded,
    ContentPartDone,
    OutputItemAdded,
    OutputItemDone,
    OutputTextAnnotationAdded,
    OutputTextDelta,
    OutputTextDone,
    ReasoningSummaryPartAdded,
    ReasoningSummaryPartDone,
    ReasoningSummaryTextDelta,
    ReasoningSummaryTextDone,
    ReasoningTextDelta,
    ReasoningTextDone,
    RefusalDelta,
    RefusalDone,
)
from antiphon.protocol.items import Compaction, ItemStatus, Message, Reasoning
from antiphon.protocol.tool_items import ToolSearchCall, ToolSearchOutput
from antiphon.protocol.tools import declaration
from antiphon.turn.chunks import Compacted, ToolsFound
from antiphon.turn.emitting import Emit, Status
from antiphon.turn.hosted import OpenHosted
from antiphon.turn.open_calls.base import OpenCall
from antiphon.turn.provider_state import ProviderState, Seal

__all__ = ["Emit", "OpenCall", "OpenItem", "OpenMessage", "OpenReasoning", "Status"]


MAX_PIECES = 256
"""Deltas of a text that wait to be joined."""


class OpenMessage:
    """A message: text and refusal parts, one after another."""

    __slots__ = (
        "_annotations",
        "_emit",
        "_logprobs",
        "_parts",
        "_phase",
        "_text",
        "content_index",
        "id",
        "kind",
        "output_index",
        "pieces",
    )

    def __init__(self, emit: Emit, item_id: str, output_index: int, phase: str | None = None) -> None:
        self._emit = emit
        self._phase = phase or UNSET
        self.id = item_id
        self.output_index = output_index
        self.kind: Literal["text", "refusal"] | None = None
        self.content_index = -1
        self._text = ""
        """The text of the part, up to the `pieces`."""
        self.pieces: list[str] = []
        """The newest deltas of the part."""
        self._parts: list[OutputText | Refusal] = []
        self._annotations: list[JsonObject] = []
        self._logprobs: list[Logprob] = []
        emit(OutputItemAdded, output_index, self._item("in_progress"))

    def text(self, delta: str, logprobs: tuple[Logprob, ...] = ()) -> None:
        self._switch("text")
        self.pieces.append(delta)
        self._logprobs.extend(logprobs)
        self._emit(OutputTextDelta, self.id, self.output_index, self.content_index, delta, list(logprobs))

    def begin_text(self) -> None:
        """Begin a text part before its first delta."""
        self._switch("text")

    def refusal(self, delta: str) -> None:
        self._switch("refusal")
        self.pieces.append(delta)
        self._emit(RefusalDelta, self.id, self.output_index, self.content_index, delta)

    def join_pieces(self) -> None:
        """Join the deltas if there are many: to join a text of 8 MB at its end took 20 ms."""
        if len(self.pieces) > MAX_PIECES:
            self._join()

    def _join(self) -> None:
        text, self._text = self._text, ""  # CPython extends a string in place if only a local refers to it
        text += "".join(self.pieces)
        self._text = text
        self.pieces.clear()

    @property
    def extent(self) -> tuple[int, int, int]:
        """It changes whenever text is added."""
        return self.content_index, len(self._text), len(self.pieces)

    def annotate(self, annotation: JsonObject, covers: int = 0) -> None:
        """Add a citation to the current text part. Without an index, a file is cited at the end of the text
        so far. A page of the web is cited by the last `covers` characters."""
        self._switch("text")
        if annotation.get("type") == "file_citation" and "index" not in annotation:
            annotation = {**annotation, "index": self._characters()}
        elif covers:
            end = self._characters()
            annotation = {**annotation, "start_index": end - covers, "end_index": end}
        place = (self.id, self.output_index, self.content_index, len(self._annotations))
        self._annotations.append(annotation)
        self._emit(OutputTextAnnotationAdded, *place, annotation)

    def _characters(self) -> int:
        return len(self._text) + sum(map(len, self.pieces))

    def close(self, status: Status) -> Message:
        """End the part and the message. A message without content gets one empty text."""
        if self.content_index < 0:
            self._switch("text")
        self._end_part()
        item = self._item(status)
        self._emit(OutputItemDone, self.output_index, item)
        return item

    def _item(self, status: ItemStatus) -> Message:
        return Message(id=self.id, status=status, role="assistant", content=[*self._parts], phase=self._phase)

    def _switch(self, kind: Literal["text", "refusal"]) -> None:
        if self.kind == kind:
            return
        if self.kind is not None:
            self._end_part()
        self.kind = kind
        self.content_index += 1
        part = OutputText(text="") if kind == "text" else Refusal("")
        self._emit(ContentPartAdded, self.id, self.output_index, self.content_index, part)

    def _end_part(self) -> None:
        place = (self.id, self.output_index, self.content_index)
        self._join()
        text, self._text = self._text, ""
        if self.kind == "text":
            self._emit(OutputTextDone, *place, text, self._logprobs)
            self._end(OutputText(text=text, annotations=self._annotations, logprobs=self._logprobs))
        elif self.kind == "refusal":
            self._emit(RefusalDone, *place, text)
            self._end(Refusal(text))
        self.kind = None
        self._annotations, self._logprobs = [], []

    def _end(self, part: OutputText | Refusal) -> None:
        self._emit(ContentPartDone, self.id, self.output_index, self.content_index, part)
        self._parts.append(part)


class OpenReasoning:
    """Reasoning: raw text in `content`, summaries in `summary`, an envelope with both at the end."""

    __slots__ = (
        "_content",
        "_emit",
        "_part",
        "_pieces",
        "_seal",
        "_states",
        "_summary",
        "id",
        "output_index",
    )

    def __init__(self, emit: Emit, item_id: str, output_index: int, seal: Seal | None) -> None:
        self._emit = emit
        self._seal = seal
        self.id = item_id
        self.output_index = output_index
        self._part: tuple[Literal["raw", "summary"], int] | None = None
        self._pieces: list[str] = []
        self._summary: list[SummaryText] = []
        self._content: list[ReasoningText] = []
        self._states: list[ProviderState] = []
        emit(OutputItemAdded, output_index, Reasoning(id=item_id, summary=[], status="in_progress"))

    def raw(self, delta: str) -> None:
        if self._part is None or self._part[0] != "raw":
            self._end_part()
            self._part = ("raw", 0)
            place = (self.id, self.output_index, len(self._content))
            self._emit(ContentPartAdded, *place, ReasoningText(""))
        self._pieces.append(delta)
        self._emit(ReasoningTextDelta, self.id, self.output_index, len(self._content), delta)

    def summarise(self, delta: str, part: int) -> None:
        if self._part != ("summary", part):
            self._end_part()
            self._part = ("summary", part)
            place = (self.id, self.output_index, len(self._summary))
            self._emit(ReasoningSummaryPartAdded, *place, SummaryText(""))
        self._pieces.append(delta)
        self._emit(ReasoningSummaryTextDelta, self.id, self.output_index, len(self._summary), delta)

    def add_state(self, state: ProviderState) -> None:
        """Add a provider state to the envelope."""
        self._states.append(state)

    def close(self, status: Status) -> Reasoning:
        """End the part and the item."""
        self._end_part()
        raw = "".join(part.text for part in self._content)
        envelope = None if self._seal is None else self._seal(raw, tuple(self._states))
        item = Reasoning(
            id=self.id,
            summary=self._summary,
            content=self._content or UNSET,
            encrypted_content=UNSET if envelope is None else envelope,
            status=status,
        )
        self._emit(OutputItemDone, self.output_index, item)
        return item

    def _end_part(self) -> None:
        text = "".join(self._pieces)
        match self._part:
            case ("raw", _):
                place = (self.id, self.output_index, len(self._content))
                self._emit(ReasoningTextDone, *place, text)
                self._emit(ContentPartDone, *place, ReasoningText(text))
                self._content.append(ReasoningText(text))
            case ("summary", _):
                place = (self.id, self.output_index, len(self._summary))
                self._emit(ReasoningSummaryTextDone, *place, text)
                self._emit(ReasoningSummaryPartDone, *place, SummaryText(text))
                self._summary.append(SummaryText(text))
            case None:
                pass
        self._part = None
        self._pieces = []


OpenItem = OpenMessage | OpenReasoning | OpenCall | OpenHosted


def emit_compaction(emit: Emit, item_id: str, output_index: int, chunk: Compacted) -> Compaction:
    """Emit a compaction in one piece; its envelope is known from the beginning."""
    begun = Compaction(id=item_id, encrypted_content=chunk.envelope, status="in_progress")
    emit(OutputItemAdded, output_index, begun)
    if chunk.asked:
        emit(CompactionCompacting, item_id, output_index)
    item = Compaction(id=item_id, encrypted_content=chunk.envelope, status="completed")
    emit(OutputItemDone, output_index, item)
    return item


def emit_tools_found(
    emit: Emit, new_id: Callable[[str], str], output_index: int, chunk: ToolsFound
) -> tuple[ToolSearchCall, ToolSearchOutput]:
    """Emit a tool search of the server and its result: two items, each in one piece."""
    call_id, output_id = new_id("tsc"), new_id("tso")
    begun = ToolSearchCall(id=call_id, call_id=None, execution="server", arguments={}, status="in_progress")
    emit(OutputItemAdded, output_index, begun)
    call = ToolSearchCall(
        id=call_id, call_id=None, execution="server", arguments=chunk.arguments, status="completed"
    )
    emit(OutputItemDone, output_index, call)
    found = ToolSearchOutput(
        id=output_id,
        call_id=None,
        execution="server",
        tools=[declaration(tool) for tool in chunk.tools],
        status="completed",
    )
    emit(OutputItemAdded, output_index + 1, found)
    emit(OutputItemDone, output_index + 1, found)
    return call, found
