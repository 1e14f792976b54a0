"""`Answer`: a response and its machine."""

from collections.abc import Sequence

from antiphon.protocol.events import Event
from antiphon.protocol.items import Compaction, CompactionTrigger, Item, is_for_client
from antiphon.protocol.requests import CreateResponse
from antiphon.service.responses.context import Context
from antiphon.service.responses.earlier_attempt import EarlierAttempt
from antiphon.service.responses.rounds import Round
from antiphon.turn.chunks import Chunk
from antiphon.turn.machine import Machine


class Answer:
    """A response and its machine. It has begun when its first events are made: from then on an error is part
    of the stream."""

    def __init__(self, machine: Machine, context: Context, earlier: EarlierAttempt | None) -> None:
        self.machine = machine
        self.context = context
        self.begun = False
        self._earlier = earlier
        self._opening: Sequence[Chunk] = ()
        self._items_shown = 0

    def open_with(self, chunks: Sequence[Chunk]) -> None:
        """Feed these chunks to the machine right after the beginning."""
        self._opening = (*self._opening, *chunks)

    def begin(self) -> list[Event]:
        """The first events."""
        self.begun = True
        machine, earlier = self.machine, self._earlier
        events = machine.start() if earlier is None else machine.resume(earlier.events, earlier.spent)
        if self._opening:
            events += machine.feed(self._opening)
        self._items_shown = len(machine.output)
        return events

    def begin_and_complete(self) -> list[Event]:
        """The first events of an answer that takes no round: a compaction was all that was asked for. None if
        it has begun."""
        if self.begun:
            return []
        events = self.begin()
        self.machine.complete()
        return events

    def enter(self, entered: Round) -> None:
        """Tell the machine what the next chunks are made with."""
        turn, machine = entered.turn, self.machine
        downgrades = (*turn.downgrades, *entered.prepared.downgrades)
        if self.begun or downgrades:
            machine.set_downgrades(downgrades)
        machine.set_tools({tool.name: tool for tool in turn.tools}, turn.forbidden)

    def feed(self, chunks: Sequence[Chunk]) -> list[Event]:
        """The events of these chunks. The first chunks begin the answer."""
        if self.begun:
            return self.machine.feed(chunks)
        return self.begin() + self.machine.feed(chunks) if chunks else []

    def close_round(self) -> tuple[list[Event], Sequence[Item]]:
        """Close the items of a round; the events, and the items since the last round."""
        events = self.machine.close_round()
        output = self.machine.output[self._items_shown :]
        self._items_shown += len(output)
        return events, output

    def is_settled(self) -> bool:
        """Whether the response is complete before any round: by the compaction that a trigger asked for; or
        by calls of an earlier attempt, without whose outputs the model cannot continue."""
        items = self.context.request.items
        triggered = bool(items) and isinstance(items[-1], CompactionTrigger)
        settled = any(
            item.status == "completed"
            and (isinstance(item, Compaction) if triggered else is_for_client(item))
            for item in self.machine.output
        )
        if settled:
            self.machine.complete()
        return settled


def wants_seal(request: CreateResponse) -> bool:
    """Whether the client is sent reasoning in envelopes."""
    return not request.stored or "reasoning.encrypted_content" in (request.params.include or ())
