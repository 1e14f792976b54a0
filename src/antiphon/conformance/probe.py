"""A check, and the `Probe` with which it sends requests and collects evidence.

Streams that several checks use are requested once and stored in `Streams`.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping

import msgspec
from msgspec import Struct

from antiphon.conformance.reading import list_at, text_at
from antiphon.conformance.results import Skipped, expect
from antiphon.conformance.scenarios import SCENARIOS
from antiphon.conformance.target import Answer, Target
from antiphon.http.redact import redact
from antiphon.protocol.content import JsonObject

MAX_EXCHANGES = 6
MAX_OUTPUT_TOKENS = 512
"""Enough for a model that reasons, and a bound for one that does not stop."""
MAX_LINE_CHARACTERS = 400
ABSENT = frozenset({404, 405, 501})
"""Statuses of a server that lacks the endpoint."""
REFUSED = frozenset({400, 405, 422, 501})
"""Statuses of a server that does not support a request. Others have another cause: a wrong key, an unknown
model, too many requests."""
NO_MODEL = "model_not_found"


Streams = dict[str, Answer]
"""The streams of the scenarios that were requested so far, by name."""


class Probe:
    """Sends the requests of one check, and records the last exchanges as evidence."""

    def __init__(self, target: Target, streams: Streams) -> None:
        self.target = target
        self.exchanges: list[str] = []
        self._streams = streams

    @property
    def defaults(self) -> JsonObject:
        """Members of every request for a response."""
        return {"model": self.target.model, "max_output_tokens": MAX_OUTPUT_TOKENS}

    async def send(
        self,
        method: str,
        path: str,
        body: JsonObject | bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        frames: int | None = None,
    ) -> Answer:
        """Send a request; any status is accepted."""
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self.note(f"→ {method} /{path} {encoded.decode('utf-8', 'replace')}")
        answer = await self.target.send(method, path, encoded, headers=headers, frames=frames)
        self.note(f"← {answer.status} {answer.body.decode('utf-8', 'replace')}")
        return answer

    async def create(self, **parameters: object) -> JsonObject:
        """POST /responses; fails unless the status is 200."""
        answer = await self.ask(**parameters)
        expect(answer.status == 200, f"POST /responses was answered with status {answer.status}")
        expect(answer.json, "the answer to POST /responses is not a JSON object")
        return answer.json

    async def ask(self, **parameters: object) -> Answer:
        """POST /responses; any status is accepted."""
        return await self.send("POST", "responses", {**self.defaults, **parameters})

    async def optional(self, what: str, method: str, path: str, body: JsonObject | bytes = b"") -> Answer:
        """Send a request to an optional endpoint; skips the check if the server lacks it."""
        answer = await self.send(method, path, body)
        if answer.status in ABSENT:
            raise Skipped(f"not offered: {what} is answered with status {answer.status}")
        expect(answer.status == 200, f"{what} was answered with status {answer.status}")
        return answer

    async def stream(self, name: str) -> Answer:
        """The stream of a scenario. The check is skipped if the server refuses one that is not `core`."""
        scenario = SCENARIOS[name]
        if name not in self._streams:
            body = {**self.defaults, "stream": True, **scenario.body}
            self._streams[name] = await self.send("POST", "responses", body)
        answer = self._streams[name]
        if not scenario.core:
            expect_offered(answer, scenario.what)
        expect(
            answer.status == 200, f"a stream was answered with status {answer.status}", [self.shown(answer)]
        )
        expect(answer.frames, "the stream has no events", [self.shown(answer)])
        return answer

    def requested(self, name: str) -> Answer | None:
        """The stream of a scenario, if it was requested and accepted before."""
        answer = self._streams.get(name)
        return answer if answer is not None and answer.status == 200 else None

    def note(self, line: str) -> None:
        """Add a line of evidence; older lines are dropped."""
        self.exchanges.append(self.safe(line))
        del self.exchanges[:-MAX_EXCHANGES]

    def safe(self, line: str) -> str:
        """The line, shortened and without the key."""
        return redact(line, self.target.secrets, MAX_LINE_CHARACTERS)

    def shown(self, answer: Answer) -> str:
        """The status and the body of an answer on one line."""
        return self.safe(f"← {answer.status} {answer.body.decode('utf-8', 'replace')}")


def output_text(response: JsonObject) -> str:
    """The text of all messages of a response."""
    messages = items_of(response, "message")
    return "".join(text_at(part, "text") for item in messages for part in list_at(item, "content"))


def items_of(response: JsonObject, *types: str) -> list[JsonObject]:
    """The output items of these types."""
    return [item for item in list_at(response, "output") if item.get("type") in types]


def expect_offered(answer: Answer, what: str, statuses: Collection[int] = REFUSED) -> None:
    """Raise `Skipped` if the server does not support the request. Other statuses are left to the check."""
    if answer.status in statuses and text_at(answer.json, "error.code") != NO_MODEL:
        raise Skipped(f"not offered: {what} is refused with status {answer.status}")


def expect_error(answer: Answer, *statuses: int) -> None:
    """Fail unless the answer has one of these statuses and an error object with a message and a type."""
    listed = " or ".join(map(str, statuses))
    expect(answer.status in statuses, f"the status is {answer.status}, not {listed}")
    expect(isinstance(answer.json.get("error"), dict), "the body has no `error` object")
    for name in ("message", "type"):
        expect(text_at(answer.json, f"error.{name}"), f"`error.{name}` is not a non-empty string")


CheckBody = Callable[[Probe], Awaitable[None]]


class Check(Struct, frozen=True):
    """One check: a function that sends requests, and the rule of the protocol that it tests."""

    id: str
    title: str
    rule: str
    body: CheckBody

    @property
    def group(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]


def check(id: str, title: str, *, rule: str) -> Callable[[CheckBody], Check]:
    """Decorate a function that is a check."""

    def decorate(body: CheckBody) -> Check:
        return Check(id, title, f"PROTOCOL/{rule}", body)

    return decorate
