"""Stop sequences: the answer ends before the first of them.

The engine has no such parameter, so the door cuts: it works for every model, and says which sequence it was.
A stream is ended at once, so that nothing is generated for nobody; what it has cost by then is not known.
"""

from bisect import bisect_left
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from msgspec.structs import replace

from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.protocol.content import Logprob, OutputText
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import (
    Event,
    Keepalive,
    OutputTextAnnotationAdded,
    OutputTextDelta,
    ResponseCompleted,
    TerminalEvent,
)
from antiphon.protocol.items import Message, OutputItem
from antiphon.protocol.response import Response
from antiphon.service.create import Run

MAX_LENGTH = 512
"""Characters of a sequence: every piece of an answer is compared with them."""
_AMID = (Keepalive, OutputTextAnnotationAdded)
"""What may come between two pieces of one text."""


def read_stops(given: Sequence[str], param: str, most: int) -> tuple[str, ...]:
    """The sequences of a request; `most` of them are taken."""
    if len(given) > most:
        message = f"'{param}' holds {len(given)} sequences; at most {most} are taken."
        raise InvalidRequest(message, param=param, code="array_above_max_length")
    if "" in given:
        raise InvalidRequest("A stop sequence must not be empty.", param=param, code="invalid_value")
    if max(map(len, given), default=0) > MAX_LENGTH:
        message = f"A stop sequence has at most {MAX_LENGTH} characters."
        raise InvalidRequest(message, param=param, code="string_above_max_length")
    return tuple(given)


class Stopping:
    """The events of a run, up to the first stop sequence in its text."""

    def __init__(self, run: Run, stops: Sequence[str]) -> None:
        self._run = run
        self._stops = stops
        self.found: str | None = None
        """The sequence that ended the answer."""

    @property
    def ended(self) -> bool:
        """Whether the last event was given."""
        return self._run.ended

    @property
    def failure(self) -> AntiphonError | None:
        """What broke the run, if anything did."""
        return self._run.failure

    @property
    def downgrades(self) -> Sequence[Downgrade]:
        """What was emulated, changed or left out so far."""
        return self._run.downgrades

    async def events(self) -> AsyncGenerator[list[Event], None]:
        """Batches of events; text that may be the beginning of a stop sequence waits for what follows."""
        watch = _Watch(self._stops)
        async with aclosing(self._run.events()) as batches:
            async for events in batches:
                told = watch.take(events) if self._stops else events
                if watch.cut is not None:
                    break
                if told:
                    yield told
            else:
                return
        self.found = watch.found
        ending = await self._run.abort(AntiphonError("A stop sequence ended the answer.", code="stopped"))
        for last in ending:
            if isinstance(last, TerminalEvent):
                response = _ended(last.response, watch.cut)
                yield [*told, ResponseCompleted(last.sequence_number, response)]

    async def result(self) -> Response:
        """The whole answer; a failure is raised."""
        response = await self._run.result()
        for item in response.output if self._stops else ():
            for index, part in enumerate(item.content if isinstance(item, Message) else ()):
                find = _first(part.text, self._stops) if isinstance(part, OutputText) else None
                if find is not None:
                    self.found = find.stop
                    return _ended(response, Cut(str(item.id), index, find.place))
        return response


class Cut(NamedTuple):
    """Where an answer ends: the item, its part, and how much of its text is told."""

    item_id: str
    content_index: int
    length: int


class _Find(NamedTuple):
    place: int
    stop: str


def _first(text: str, stops: Sequence[str]) -> _Find | None:
    """The stop sequence that is complete first; which one that is does not depend on how a text was cut."""
    finds = [_Find(text.find(stop), stop) for stop in stops if stop in text]
    return min(finds, key=lambda find: (find.place + len(find.stop), find.place)) if finds else None


class _Watch:
    """Looks for the sequences in one text part after another."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = sorted(set(stops))
        self._longest = max(map(len, stops), default=0)
        self._last: OutputTextDelta | None = None
        self._held = ""
        self._logprobs: list[Logprob] = []
        self._told = 0
        """How many characters of the current part were told."""
        self.found: str | None = None
        self.cut: Cut | None = None

    def take(self, events: Sequence[Event]) -> list[Event]:
        """What of these events may be told now. After a find, nothing else is taken."""
        told: list[Event] = []
        for event in events:
            if isinstance(event, OutputTextDelta):
                self._text(event, told)
                if self.cut is not None:
                    break
            else:
                if not isinstance(event, _AMID):
                    self._flush(told)
                told.append(event)
        return told

    def _text(self, event: OutputTextDelta, told: list[Event]) -> None:
        last = self._last
        if last is not None and (last.item_id, last.content_index) != (event.item_id, event.content_index):
            self._flush(told)
            self._told = 0
        self._last = event
        text = self._held + event.delta
        find = _first(text, self._stops)
        if find is not None:
            self._tell(text[: find.place], told)
            self.found, self.cut = find.stop, Cut(event.item_id, event.content_index, self._told)
            return
        self._logprobs.extend(event.logprobs)
        held = self._beginning(text)
        self._held = text[len(text) - held :]
        self._tell(text[: len(text) - held], told)

    def _beginning(self, text: str) -> int:
        """How much of the end of a text may be the beginning of a stop sequence."""
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-size:]
            place = bisect_left(self._stops, end)  # where those that begin so stand, if there are any
            if place < len(self._stops) and self._stops[place].startswith(end):
                return size
        return 0

    def _flush(self, told: list[Event]) -> None:
        text, self._held = self._held, ""
        self._tell(text, told)

    def _tell(self, text: str, told: list[Event]) -> None:
        if not text or self._last is None:
            return
        logprobs: list[Logprob] = []
        if not self._held:
            logprobs, self._logprobs = self._logprobs, []
        self._told += len(text)
        told.append(replace(self._last, delta=text, logprobs=logprobs))


def _ended(response: Response, cut: Cut) -> Response:
    """The answer as if the model had ended there."""
    output: list[OutputItem] = []
    for item in response.output:
        if isinstance(item, Message) and item.id == cut.item_id:
            output.append(_shortened(item, cut))
            break
        output.append(item)
    return replace(response, status="completed", error=None, incomplete_details=None, output=output)


def _shortened(item: Message, cut: Cut) -> Message:
    assert not isinstance(item.content, str)
    part = item.content[cut.content_index]
    assert isinstance(part, OutputText)
    logprobs: list[Logprob] = []
    size = 0
    for logprob in part.logprobs:
        size += len(logprob.token)
        if size > cut.length:
            break
        logprobs.append(logprob)
    whole = replace(part, text=part.text[: cut.length], logprobs=logprobs)
    return replace(item, status="completed", content=[*item.content[: cut.content_index], whole])
