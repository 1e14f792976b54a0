"""Open items: what the machine keeps while an item is being said. Each knows the order of its own events.

An open item never numbers an event: it hands class and fields to `emit`, and the machine numbers them.
"""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import msgspec
from msgspec import UNSET

from antiphon.protocol.content import JsonObject, Logprob, OutputText, ReasoningText, Refusal, SummaryText
from antiphon.protocol.events import (
    CompactionCompacting,
    ContentPartAdded,
    ContentPartDone,
    CustomToolCallInputDelta,
    CustomToolCallInputDone,
    Event,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
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
from antiphon.protocol.items import Compaction, CustomToolCall, FunctionCall, ItemStatus, Message, Reasoning
from antiphon.turn.chunks import Compacted
from antiphon.turn.context import TurnTool

Status = Literal["completed", "incomplete"]
Seal = Callable[[str], str]


class Emit(Protocol):
    """Numbers an event and sends it on its way."""

    def __call__(self, kind: Callable[..., Event], /, *fields: object) -> None: ...


class OpenMessage:
    """A message: text and refusal parts, one after another."""

    __slots__ = (
        "_annotations",
        "_emit",
        "_logprobs",
        "_parts",
        "content_index",
        "id",
        "kind",
        "output_index",
        "pieces",
    )

    def __init__(self, emit: Emit, item_id: str, output_index: int) -> None:
        self._emit = emit
        self.id = item_id
        self.output_index = output_index
        self.kind: Literal["text", "refusal"] | None = None
        self.content_index = -1
        self.pieces: list[str] = []
        self._parts: list[OutputText | Refusal] = []
        self._annotations: list[JsonObject] = []
        self._logprobs: list[Logprob] = []
        emit(OutputItemAdded, output_index, self._item("in_progress"))

    def text(self, delta: str, logprobs: tuple[Logprob, ...] = ()) -> None:
        """More text."""
        self._switch("text")
        self.pieces.append(delta)
        self._logprobs.extend(logprobs)
        self._emit(OutputTextDelta, self.id, self.output_index, self.content_index, delta, list(logprobs))

    def begin_text(self) -> None:
        """Begin a text before its first word."""
        self._switch("text")

    def refusal(self, delta: str) -> None:
        """More of a refusal."""
        self._switch("refusal")
        self.pieces.append(delta)
        self._emit(RefusalDelta, self.id, self.output_index, self.content_index, delta)

    def annotate(self, annotation: JsonObject) -> None:
        """A citation for the text so far."""
        self._switch("text")
        place = (self.id, self.output_index, self.content_index, len(self._annotations))
        self._annotations.append(annotation)
        self._emit(OutputTextAnnotationAdded, *place, annotation)

    def close(self, status: Status) -> Message:
        """End the part and the message. A message without a word is one empty text."""
        if self.content_index < 0:
            self._switch("text")
        self._end_part()
        item = self._item(status)
        self._emit(OutputItemDone, self.output_index, item)
        return item

    def _item(self, status: ItemStatus) -> Message:
        return Message(id=self.id, status=status, role="assistant", content=[*self._parts])

    def _switch(self, kind: Literal["text", "refusal"]) -> None:
        if self.kind == kind:
            return
        self._end_part()
        self.kind = kind
        self.content_index += 1
        part = OutputText(text="") if kind == "text" else Refusal("")
        self._emit(ContentPartAdded, self.id, self.output_index, self.content_index, part)

    def _end_part(self) -> None:
        place = (self.id, self.output_index, self.content_index)
        text = "".join(self.pieces)
        if self.kind == "text":
            self._emit(OutputTextDone, *place, text, self._logprobs)
            self._end(OutputText(text=text, annotations=self._annotations, logprobs=self._logprobs))
        elif self.kind == "refusal":
            self._emit(RefusalDone, *place, text)
            self._end(Refusal(text))
        self.kind = None
        self.pieces, self._annotations, self._logprobs = [], [], []

    def _end(self, part: OutputText | Refusal) -> None:
        self._emit(ContentPartDone, self.id, self.output_index, self.content_index, part)
        self._parts.append(part)


class OpenReasoning:
    """Reasoning: raw text in `content`, summaries in `summary`, the whole sealed when it is done."""

    __slots__ = ("_content", "_emit", "_part", "_pieces", "_seal", "_summary", "id", "output_index")

    def __init__(self, emit: Emit, item_id: str, output_index: int, seal: Seal | None) -> None:
        self._emit = emit
        self._seal = seal
        self.id = item_id
        self.output_index = output_index
        self._part: tuple[Literal["raw", "summary"], int] | None = None
        self._pieces: list[str] = []
        self._summary: list[SummaryText] = []
        self._content: list[ReasoningText] = []
        emit(OutputItemAdded, output_index, Reasoning(id=item_id, summary=[], status="in_progress"))

    def raw(self, delta: str) -> None:
        """More raw reasoning."""
        if self._part is None or self._part[0] != "raw":
            self._end_part()
            self._part = ("raw", 0)
            place = (self.id, self.output_index, len(self._content))
            self._emit(ContentPartAdded, *place, ReasoningText(""))
        self._pieces.append(delta)
        self._emit(ReasoningTextDelta, self.id, self.output_index, len(self._content), delta)

    def summarise(self, delta: str, part: int) -> None:
        """More of a summary part."""
        if self._part != ("summary", part):
            self._end_part()
            self._part = ("summary", part)
            place = (self.id, self.output_index, len(self._summary))
            self._emit(ReasoningSummaryPartAdded, *place, SummaryText(""))
        self._pieces.append(delta)
        self._emit(ReasoningSummaryTextDelta, self.id, self.output_index, len(self._summary), delta)

    def close(self, status: Status) -> Reasoning:
        """End the part and the item."""
        self._end_part()
        raw = "".join(part.text for part in self._content)
        item = Reasoning(
            id=self.id,
            summary=self._summary,
            content=self._content or UNSET,
            encrypted_content=self._seal(raw) if self._seal is not None and raw else UNSET,
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


class OpenCall:
    """A tool call under way. `index` is the backend's; the caller's own names are restored from `tool`."""

    __slots__ = ("_emit", "_pieces", "_tool", "call_id", "id", "index", "name", "output_index")

    def __init__(
        self, emit: Emit, ids: tuple[str, str], output_index: int, index: int, tool: TurnTool
    ) -> None:
        self._emit = emit
        self.id, self.call_id = ids
        self.output_index = output_index
        self.index = index
        self._tool = tool
        self._pieces: list[str] = []
        emit(OutputItemAdded, output_index, self._item("", "in_progress"))

    def extend(self, delta: str) -> None:
        """More of the arguments."""
        self._pieces.append(delta)
        if self._tool.kind == "function":
            self._emit(FunctionCallArgumentsDelta, self.id, self.output_index, delta)

    def whole(self) -> bool:
        """Whether the arguments are a closed JSON object, to which nothing but white space can be added."""
        last = self._pieces[-1].rstrip() if self._pieces else ""
        if last and not last.endswith("}"):
            return False  # cheap, and true for nearly every delta
        text = "".join(self._pieces)
        try:
            return isinstance(msgspec.json.decode(text), dict)
        except (msgspec.DecodeError, RecursionError):
            return False

    def close(self, status: Status) -> FunctionCall | CustomToolCall:
        """End the call. Clients parse the arguments, so a call without any has the empty object."""
        if status == "completed" and not any(piece.strip() for piece in self._pieces):
            self.extend("{}")
        text = "".join(self._pieces)
        if self._tool.kind == "function":
            self._emit(FunctionCallArgumentsDone, self.id, self.output_index, text)
        else:
            text = _unwrap(text)
            if text:
                self._emit(CustomToolCallInputDelta, self.id, self.output_index, text)
            self._emit(CustomToolCallInputDone, self.id, self.output_index, text)
        item = self._item(text, status)
        self._emit(OutputItemDone, self.output_index, item)
        return item

    def _item(self, text: str, status: ItemStatus) -> FunctionCall | CustomToolCall:
        namespace = self._tool.namespace or UNSET
        name = self._tool.origin
        if self._tool.kind == "custom":
            return CustomToolCall(
                id=self.id, call_id=self.call_id, name=name, input=text, namespace=namespace, status=status
            )
        return FunctionCall(
            id=self.id, call_id=self.call_id, name=name, arguments=text, namespace=namespace, status=status
        )


OpenItem = OpenMessage | OpenReasoning | OpenCall


def say_compaction(emit: Emit, item_id: str, output_index: int, chunk: Compacted) -> Compaction:
    """A compaction, in one piece: its envelope is there from the beginning."""
    begun = Compaction(id=item_id, encrypted_content=chunk.envelope, status="in_progress")
    emit(OutputItemAdded, output_index, begun)
    if chunk.asked:
        emit(CompactionCompacting, item_id, output_index)
    item = Compaction(id=item_id, encrypted_content=chunk.envelope, status="completed")
    emit(OutputItemDone, output_index, item)
    return item


def tool_named(name: str, tools: Mapping[str, TurnTool]) -> TurnTool:
    """The declared tool, or, for a name that the model made up, a function of that name."""
    return tools.get(name) or TurnTool(name=name, origin=name)


def _unwrap(arguments: str) -> str:
    """The free text of a custom call that was emulated as a function with one parameter, `input`."""
    try:
        members = msgspec.json.decode(arguments, type=dict[str, object])
    except msgspec.DecodeError:
        return arguments
    text = members.get("input")
    return text if isinstance(text, str) and len(members) == 1 else arguments
