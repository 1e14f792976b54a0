"""A stage transforms the chunks of one turn on their way to the machine, and may plan another round.

    backend ─► text calls ─► tool search ─► hosted tools ─► constraints
                                 └──────── next round ◄─────────┤ repair
                          machine ◄─ citations ◄─ stop sequences┘

Stages are a list that is made once per round; a plain request has none. `feed` runs per network read, so it
is synchronous and cheap. `end` runs after the last chunk of the backend, when its slot is free again: it may
take its time, and emit chunks meanwhile.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from antiphon.errors import BackendError, RequestError
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.items import Item
from antiphon.protocol.requests import CreateResponse
from antiphon.service.hosted_tools.repeats import RepeatedCalls
from antiphon.service.responses.repair import RepairTurn, pending_outputs
from antiphon.service.routing.attempts import Attempt
from antiphon.turn.chunks import Chunk
from antiphon.turn.constraints import Violation


class Repair(Struct, frozen=True):
    """The question of a repair: how the same is asked in another way, and why."""

    turn: RepairTurn
    violation: Violation


class RoundPlan(Struct, frozen=True):
    """The request and the backend of a round. A stage plans the next one by replacing fields."""

    attempt: Attempt
    added: tuple[Item, ...] = ()
    """Items that the model is shown after those of the request: its own output of earlier rounds, and what
    was appended to that."""
    appended: tuple[Item, ...] = ()
    """Items to append after the output of the round that planned this one."""
    repairs: int = 0
    searches: int = 0
    hosted_calls: int = 0
    """Calls of hosted tools that this server has run for the response so far."""
    hosted_rounds: int = 0
    """Rounds that have made such calls."""
    repeated: RepeatedCalls = field(default_factory=RepeatedCalls)
    """The calls of all rounds, for a model that repeats itself."""
    until: float | None = None
    """The time of the event loop when hosted calls have to end; None: there is no such time."""
    downgrades: tuple[Downgrade, ...] = ()
    repair: Repair | None = None
    """Set if the round asks in another way than the request does."""

    def after_error(self, error: BackendError | RequestError, request: CreateResponse) -> "RoundPlan":
        """The same for the next backend, after this one failed before it sent anything, or cannot serve the
        request. Raises if there is no other one. A repair turn is made for one backend only."""
        if isinstance(error, RequestError):
            following = self.attempt.unfit(error)
        else:
            following = self.attempt.after(error, request)
        if following is None:
            raise error
        return replace(self, attempt=following, repair=None)

    def after_output(self, output: Sequence[Item]) -> "RoundPlan":
        """The same, with the items that were sent to the client since."""
        added = (*self.added, *output, *pending_outputs(output), *self.appended)
        return replace(self, added=added, appended=())


Cut = Literal["complete", "rejected"]
"""Why the rest of a turn need not be read: the answer is complete as it stands, or it is rejected. After a
rejection the stages come to their ends, as after the last chunk."""


class Stage(Protocol):
    """Transforms the chunks of one turn."""

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Transform a batch; the result may be empty."""
        ...

    def end(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """After the last chunk of the backend: emit the remaining chunks; it may run other work and emit
        meanwhile."""
        ...

    @property
    def next(self) -> RoundPlan | None:
        """The plan of the next round; None: there is none. Valid after `end`."""
        ...

    @property
    def cut(self) -> Cut | None:
        """Why the rest of the turn need not be read; None: it is to be read."""
        ...


class PassingStage:
    """A base for stages that need no end and plan no round."""

    cut: Cut | None = None

    @property
    def next(self) -> RoundPlan | None:
        """No further round."""
        return None

    async def end(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """Nothing is left: the last chunk released everything."""
        return
        yield
