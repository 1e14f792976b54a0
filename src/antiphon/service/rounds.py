"""A round: one turn of one backend, asked, heard and checked; and what is to be asked after it.

Most responses are one round. Another one follows when the answer is not what the request wants for certain,
and when the model has looked for tools and must be shown what was found.
"""

from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from antiphon.backends.base import PreparedTurn
from antiphon.errors import BackendBroken, BackendError, RequestError
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.ids import Clock
from antiphon.protocol.items import Item
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Usage
from antiphon.service.recovering import as_it_is, listener
from antiphon.service.repair import (
    RepairTurn,
    asked_again,
    correction,
    detour,
    given_up,
    let_pass,
    pending,
)
from antiphon.service.routing.attempts import Attempt
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    RefusalDelta,
    TextDelta,
    UsageReported,
    UsageSpent,
)
from antiphon.turn.constraint_check import PATIENCE, Ending, checker
from antiphon.turn.constraints import Violation
from antiphon.turn.context import TurnRequest
from antiphon.turn.machine import BROKEN_OFF
from antiphon.turn.server_search import ServerSearch, searches_here, server_search

QUIET = 5.0
"""Seconds for which text is held back without a sign of life to the client."""
MAX_SEARCHES = 8
"""Rounds in which a model may look for tools before it has to answer with those it has."""


class RoundPlan(Struct, frozen=True):
    """What is asked, and of whom; and what came up in the rounds before."""

    attempt: Attempt
    added: tuple[Item, ...] = ()
    """What the model is shown besides: what it has said so far, and what was wrong with it."""
    news: tuple[Item, ...] = ()
    """What there is to add to that, behind what was told in the last round."""
    tries: int = 0
    searches: int = 0
    downgrades: tuple[Downgrade, ...] = ()
    detour: RepairTurn | None = None
    unmet: Violation | None = None
    """Why there is a detour."""

    def after(self, error: BackendError | RequestError, request: CreateResponse) -> "RoundPlan":
        """The same, to the next backend, after one has failed before its first word or cannot serve it; if
        there is none, what went wrong is raised. A detour is one backend's own."""
        if isinstance(error, RequestError):
            following = self.attempt.unfit(error)
        else:
            following = self.attempt.after(error, request)
        if following is None:
            raise error
        return replace(self, attempt=following, detour=None)

    def behind(self, told: Sequence[Item]) -> "RoundPlan":
        """The same, after this was told."""
        seen = (*self.added, *told, *pending(told), *self.news)
        return replace(self, added=seen, news=())

    def fitted(self, turn: TurnRequest) -> TurnRequest:
        """The turn as it is asked for: a model that has searched enough has to do with what it found."""
        if self.searches < MAX_SEARCHES:
            return turn
        tools = tuple(tool for tool in turn.tools if not searches_here(tool))
        text = f"tool_search: after {self.searches} searches the model goes on with what was found"
        limit = Downgrade("search_limit", text, ("tools",))
        return replace(turn, tools=tools, downgrades=(*turn.downgrades, limit))


class Round:
    """One turn. `asked` is what is wanted, `prepared` how it is asked for, which a detour changes."""

    def __init__(
        self, question: RoundPlan, asked: TurnRequest, prepared: PreparedTurn, *, clock: Clock, repairs: int
    ) -> None:
        self.asked = asked
        self.prepared = prepared
        self.late_downgrades: tuple[Downgrade, ...] = ()
        """What turned out at the end, and the response has to say."""
        self.next: RoundPlan | None = None
        """What to ask when this round is over; None: nothing."""
        self._question = question
        self._clock = clock
        self._repairs = repairs
        self._hear = listener(asked, question.attempt.route) if question.detour is None else as_it_is
        self._search = server_search(asked)
        self._check = checker(asked, prepared.unenforced, clock) if question.detour is None else None
        self._words: list[str] = []
        self._spent: UsageReported | None = None
        self._settled = False
        """Whether a detour has come to an end that is not to be read as a call."""
        self._over = False
        self._told_at = 0.0

    @property
    def downgrades(self) -> list[Downgrade]:
        """What of the request is emulated or left out."""
        return [*self.asked.downgrades, *self.prepared.downgrades, *self.late_downgrades]

    async def heard(self) -> AsyncGenerator[Sequence[Chunk] | None, None]:
        """What there is to tell, batch by batch. An empty batch is a sign of life; None: nothing, but that
        the response has begun. `BackendError` is raised only if the backend has said nothing."""
        route, said = self._question.attempt.route, False
        async with route.claim() as claim:
            batches = claim.chunks(self.prepared, streamed=self.asked.streamed)
            try:
                async for batch in batches:
                    if batch and not said:
                        said = True
                        claim.answered()
                    yield self._told(batch)
            except BackendError as error:
                if not said:
                    raise
                yield self._told([Failed(error)])
            finally:
                await batches.aclose()
            if not said:
                raise BackendBroken("The backend ended the turn without an answer.")
        yield self._end() or None

    def _told(self, batch: Sequence[Chunk]) -> Sequence[Chunk] | None:
        """What can be told of a batch. Text that is held back for long must not look like a dead line."""
        if not batch:
            return batch
        if type(batch[-1]) is not TextDelta:
            self._over = self._over or any(isinstance(chunk, Finished | Failed) for chunk in batch)
        chunks = self._filtered(self._hear(batch))
        if chunks:
            self._told_at = 0.0
            return chunks
        now = self._clock()
        if not self._told_at or now - self._told_at < QUIET:
            self._told_at = self._told_at or now
            return None
        self._told_at = now
        return chunks

    def _filtered(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        if self._search is not None:
            chunks = self._search.feed(chunks)
        if self._check is not None:
            return self._check.feed(chunks)
        return chunks if self._question.detour is None else self._collected(chunks)

    def _collected(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """On a detour the words are not the answer, but stand for it; if it comes to a good end."""
        told: list[Chunk] = []
        for chunk in chunks:
            match chunk:
                case TextDelta():
                    self._words.append(chunk.text)
                case UsageReported():
                    self._spent = chunk
                case Finished(reason="stop") if not self._settled:
                    pass
                case Finished() | Failed():
                    self._settled = True
                    told += [*([self._spent] if self._spent is not None else []), chunk]
                case RefusalDelta():
                    self._settled = True
                    told.append(chunk)
                case _:
                    told.append(chunk)
        return told

    def _end(self) -> Sequence[Chunk]:
        """What is told last, and what is asked next."""
        late: Sequence[Chunk] = ()
        if not self._over:
            late = self._filtered(self._hear([Failed(BackendBroken(BROKEN_OFF))]))
        if self._question.detour is not None:
            return [*late, *self._end_detour(self._question.detour)]
        if self._search is not None and self._search.found:
            return [*late, *self._end_search(self._search)]
        return late if self._check is None else [*late, *self._end_check(self._check.end())]

    def _end_check(self, ending: Ending) -> Sequence[Chunk]:
        self.late_downgrades = ending.downgrades
        if ending.unmet is None:
            return ending.right
        return [*ending.right, *self._ask_again(ending.unmet, ending.rest, ending.spent)]

    def _end_detour(self, way: RepairTurn) -> Sequence[Chunk]:
        unmet = self._question.unmet
        assert unmet is not None
        if self._settled:
            return ()
        cost = [] if self._spent is None else [self._spent]
        end = self._clock() + PATIENCE
        meant = way.read("".join(self._words), lambda: self._clock() > end)
        if meant is None:
            spent = None if self._spent is None else self._spent.usage
            return self._ask_again(unmet, [*cost, *_as_written(unmet)], spent)
        return [*cost, *meant]

    def _end_search(self, search: ServerSearch) -> Sequence[Chunk]:
        """The model has looked for tools and said nothing else: it goes on, with what was found."""
        question = self._question
        self.next = replace(question, searches=question.searches + 1)
        spent = [] if search.usage is None else [UsageSpent(search.usage)]
        return [*search.found, *spent]

    def _ask_again(self, unmet: Violation, rest: Sequence[Chunk], spent: Usage | None) -> Sequence[Chunk]:
        """Plan another try; or, if there were enough, let the answer pass or fail the turn."""
        question = self._question
        tries = question.tries + 1
        if tries > self._repairs:
            if unmet.demand == "grammar":
                self.late_downgrades = (*self.late_downgrades, let_pass(unmet))
                return rest
            cost = [] if spent is None else [UsageSpent(spent)]
            return [*cost, Failed(given_up(unmet, self.asked.model, tries))]
        way = detour(unmet, self.asked, question.attempt.route.backend.features(self.asked.model))
        self.next = replace(
            question,
            news=() if way is not None else tuple(correction(unmet, self.asked, tries)),
            tries=tries,
            downgrades=(*question.downgrades, asked_again(unmet)),
            detour=way,
            unmet=unmet,
        )
        return [] if spent is None else [UsageSpent(spent)]


def _as_written(unmet: Violation) -> list[Chunk]:
    """The calls as the model wrote them in the first place."""
    chunks: list[Chunk] = []
    for index, call in enumerate(unmet.calls):
        chunks += [
            CallStarted(index, call.call_id, call.tool.name),
            CallDelta(index, call.arguments),
            CallFinished(index),
        ]
    return [*chunks, Finished("tool_calls")]
