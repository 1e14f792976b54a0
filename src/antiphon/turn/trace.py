"""`TraceRecorder`: what was sent upstream for one response, and what came back. It is handed along with the
turn that it records; without one, nothing is recorded.

It holds bytes within a budget and reads no text: secrets are removed when the record is rendered
(`service/responses/trace.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from antiphon.protocol.events import Event

MAX_CHUNKS = 2000
"""Reads of an answer whose times are recorded; later ones are counted to the last of them."""
MAX_EVENTS = 20_000
MIN_EVENT_BYTES = 100
"""What an event takes at least: more events than fit into the budget are not held."""
MAX_ROUNDS = 200

Now = Callable[[], float]
"""Seconds of a clock that only goes forward."""


class Budget:
    """The bytes that may still be recorded."""

    __slots__ = ("left",)

    def __init__(self, size: int) -> None:
        self.left = size


class Recorded:
    """Bytes as they came, cut where the budget ended."""

    __slots__ = ("_budget", "_pieces", "truncated")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._pieces: list[bytes] = []
        self.truncated = False

    def add(self, data: bytes) -> None:
        budget = self._budget
        if len(data) > budget.left:
            data, self.truncated = data[: budget.left], True
        if data:
            budget.left -= len(data)
            self._pieces.append(data)

    @property
    def data(self) -> bytes:
        return b"".join(self._pieces)


class TurnTrace:
    """One turn: the request to the upstream, and the answer with the times of its reads."""

    def __init__(
        self, recorder: "TraceRecorder", budget: Budget, upstream: str, kind: str, model: str
    ) -> None:
        self._recorder = recorder
        self.upstream = upstream
        self.kind = kind
        self.model = model
        self.entered_ms = recorder.elapsed_ms()
        self.sent_ms: int | None = None
        self.opened_ms: int | None = None
        self.ended_ms: int | None = None
        self.head = b""
        """The request line and the headers of the request."""
        self.url = ""
        self.request = Recorded(budget)
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.answer = Recorded(budget)
        self.chunks: list[tuple[int, int]] = []
        """When bytes were read, and how many."""
        self.downgrades: Sequence[str] = ()
        self.attempts: list[str] = []

    def sent(self, url: str, data: bytes, pieces: Iterable[bytes] = ()) -> None:
        """The request is about to be sent: its head, and its body behind it or in pieces."""
        self.sent_ms = self._recorder.elapsed_ms()
        head, _, body = data.partition(b"\r\n\r\n")
        self.url, self.head = url, head
        for piece in (body, *pieces):
            self.request.add(piece)

    def opened(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of the answer has arrived."""
        if self.opened_ms is None:
            self.opened_ms = self._recorder.elapsed_ms()
            self.status, self.headers = status, dict(headers)

    def received(self, data: bytes) -> None:
        """Some of the answer was read."""
        at = self._recorder.elapsed_ms()
        if len(self.chunks) < MAX_CHUNKS:
            self.chunks.append((at, len(data)))
        else:
            self.chunks[-1] = (at, self.chunks[-1][1] + len(data))
        self.answer.add(data)

    def failed(self, message: str) -> None:
        """An attempt came to nothing."""
        self.attempts.append(message)

    def ended(self) -> None:
        """The turn is over."""
        self.ended_ms = self._recorder.elapsed_ms()


class TraceRecorder:
    """The record of one response."""

    def __init__(self, now: Now, max_bytes: int, client_request: bytes | None = None) -> None:
        self._now = now
        self._started_at = now()
        self._budget = Budget(max_bytes)
        self.max_bytes = max_bytes
        """Of requests and answers; of events, which are counted when they are encoded, as many again."""
        self._events_left = min(MAX_EVENTS, max_bytes // MIN_EVENT_BYTES)
        self._events: list[tuple[int, Sequence[Event]]] = []
        self.client = Recorded(self._budget)
        self.turns: list[TurnTrace] = []
        self.read_ms: int | None = None
        """When the history had been read from the store; None without one."""
        if client_request is not None:
            self.client.add(client_request)

    def elapsed_ms(self) -> int:
        """Milliseconds since the recording has begun."""
        return round(1000 * (self._now() - self._started_at))

    def history_read(self) -> None:
        """The history has been read."""
        self.read_ms = self.elapsed_ms()

    def begin_turn(self, upstream: str, kind: str, model: str) -> TurnTrace | None:
        """The trace of the next turn; None if there were too many."""
        if len(self.turns) >= MAX_ROUNDS:
            return None
        self.turns.append(TurnTrace(self, self._budget, upstream, kind, model))
        return self.turns[-1]

    def add_events(self, events: Sequence[Event]) -> None:
        """Events for the client. Those beyond the budget are not recorded."""
        if self._events_left > 0:
            held = tuple(events[: self._events_left])
            self._events_left -= len(held)
            self._events.append((self.elapsed_ms(), held))

    def events(self) -> Iterator[tuple[int, Event]]:
        """The events, with the milliseconds at which they were made. They are encoded when the trace is
        rendered."""
        for at, events in self._events:
            for event in events:
                yield at, event

    @property
    def size(self) -> int:
        """About how many bytes are held."""
        recorded = self.max_bytes - self._budget.left
        return recorded + MIN_EVENT_BYTES * sum(len(events) for _, events in self._events)
