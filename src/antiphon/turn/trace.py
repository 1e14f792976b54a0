"""`TraceRecorder`: what was sent upstream for one response, and what came back. It is handed along with the
turn that it records; without one, nothing is recorded.

It holds references and times within a budget and reads no text. `record` gives what is stored
(`service/responses/trace.py`); what clients see is rendered from that when a trace is read
(`service/responses/trace_view.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from antiphon.protocol.events import Event

MAX_CHUNKS = 2000
"""Reads of an answer whose times are recorded; later ones are counted to the last of them."""
MAX_EVENTS = 20_000
MIN_EVENT_BYTES = 100
"""What an event takes at least: more events than fit into the budget are not held."""
MAX_ROUNDS = 200

Now = Callable[[], float]
"""Seconds of a clock that only goes forward."""


class RecordedBody(Struct, array_like=True):
    """Bytes as they came, cut where the budget ended."""

    data: bytes = b""
    truncated: bool = False


class RecordedTurn(Struct, array_like=True):
    """One turn: the request to the upstream, and the answer with the times of its reads."""

    upstream: str
    kind: str
    model: str
    entered_at: float
    request: RecordedBody
    answer: RecordedBody
    chunks: list[tuple[float, int]]
    """When bytes were read, and how many."""
    attempts: list[str]
    url: str = ""
    head: str = ""
    """The request line and the headers of the request."""
    status: int | None = None
    headers: Mapping[str, str] = {}
    downgrades: Sequence[str] = ()
    sent_at: float | None = None
    opened_at: float | None = None
    ended_at: float | None = None


class RecordedTrace(Struct, array_like=True, kw_only=True):
    """What is stored of one response. Times are seconds of the clock of the recorder."""

    request_id: str | None
    started_at: float
    read_at: float | None
    """When the history had been read from the store; None without one."""
    ended_at: float
    client: RecordedBody
    turns: Sequence[RecordedTurn]
    event_times: Sequence[tuple[float, int]]
    """When events were made, and the number of the first of them."""
    events: bytes
    """A list in JSON."""


class Budget:
    """The bytes that may still be recorded."""

    __slots__ = ("left",)

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, data: bytes, body: RecordedBody) -> bytes:
        """The part of these bytes of a body that is within the budget."""
        self.left -= len(data)
        if self.left >= 0:
            return data
        body.truncated = True
        data = data[: self.left]
        self.left = 0
        return data


class TurnTrace:
    """Records one turn."""

    __slots__ = ("_answer", "_budget", "_now", "_recorded")

    def __init__(self, now: Now, budget: Budget, upstream: str, kind: str, model: str) -> None:
        self._now = now
        self._budget = budget
        self._recorded = RecordedTurn(upstream, kind, model, now(), RecordedBody(), RecordedBody(), [], [])
        self._answer: list[bytes] = []

    def set_downgrades(self, downgrades: Sequence[str]) -> None:
        """What the turn emulates, changes or leaves out."""
        self._recorded.downgrades = downgrades

    def sent(self, url: str, data: bytes, pieces: Iterable[bytes] = ()) -> None:
        """The request is about to be sent: its head, and its body behind it or in pieces."""
        recorded, budget = self._recorded, self._budget
        recorded.sent_at = self._now()
        head, _, body = data.partition(b"\r\n\r\n")
        recorded.url, recorded.head = url, head.decode("latin-1")
        request = recorded.request
        request.data = b"".join([budget.take(piece, request) for piece in (body, *pieces)])

    def opened(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of the answer has arrived. Its headers do not change any more."""
        recorded = self._recorded
        recorded.opened_at = self._now()
        recorded.status, recorded.headers = status, headers

    def received(self, data: bytes) -> None:
        """Some of the answer was read."""
        at, size, chunks = self._now(), len(data), self._recorded.chunks
        if len(chunks) < MAX_CHUNKS:
            chunks.append((at, size))
        else:
            chunks[-1] = (at, chunks[-1][1] + size)
        self._answer.append(self._budget.take(data, self._recorded.answer))

    def failed(self, message: str) -> None:
        """An attempt came to nothing."""
        self._recorded.attempts.append(message)

    def ended(self) -> None:
        """The turn is over."""
        self._recorded.ended_at = self._now()

    def record(self) -> RecordedTurn:
        """What is stored of it."""
        self._recorded.answer.data = b"".join(self._answer)
        return self._recorded


class TraceRecorder:
    """Records one response."""

    __slots__ = (
        "_budget",
        "_client",
        "_event_times",
        "_max_events",
        "_now",
        "_read_at",
        "_started_at",
        "_turns",
        "events",
        "max_bytes",
    )

    def __init__(self, now: Now, max_bytes: int, client_request: bytes | None = None) -> None:
        self._now = now
        self._started_at = now()
        self._read_at: float | None = None
        self._budget = Budget(max_bytes)
        self.max_bytes = max_bytes
        """Of requests and answers."""
        self._client = RecordedBody()
        self._turns: list[TurnTrace] = []
        self._max_events = min(MAX_EVENTS, max_bytes // MIN_EVENT_BYTES)
        self._event_times: list[tuple[float, int]] = []
        self.events: list[Event] = []
        """The events for the client, in their order."""
        if client_request is not None:
            self._client.data = self._budget.take(client_request, self._client)

    def history_read(self) -> None:
        """The history has been read."""
        self._read_at = self._now()

    def begin_turn(self, upstream: str, kind: str, model: str) -> TurnTrace | None:
        """The trace of the next turn; None if there were too many."""
        if len(self._turns) >= MAX_ROUNDS:
            return None
        turn = TurnTrace(self._now, self._budget, upstream, kind, model)
        self._turns.append(turn)
        return turn

    def add_events(self, added: Sequence[Event]) -> None:
        """Events for the client. Those beyond the budget are not recorded."""
        events, most = self.events, self._max_events
        if added and len(events) < most:
            self._event_times.append((self._now(), added[0].sequence_number))
            events += added
            del events[most:]

    def record(self, request_id: str | None, events: bytes) -> RecordedTrace:
        """What is stored, with these events as JSON."""
        return RecordedTrace(
            request_id=request_id,
            started_at=self._started_at,
            read_at=self._read_at,
            ended_at=self._now(),
            client=self._client,
            turns=[turn.record() for turn in self._turns],
            event_times=self._event_times,
            events=events,
        )

    @property
    def max_event_bytes(self) -> int:
        """Of events, which are counted when they are encoded: a delta takes about twice as many as its
        chunk of text."""
        return 2 * self.max_bytes

    @property
    def is_cut(self) -> bool:
        """Whether a body may be truncated."""
        return self._budget.left == 0

    @property
    def size(self) -> int:
        """About how many bytes are held."""
        return self.max_bytes - self._budget.left + MIN_EVENT_BYTES * len(self.events)
