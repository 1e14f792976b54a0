"""What one check asks of the server, and what it heard: that is its evidence.

Answers to the questions that several checks ask are kept in `Heard`, so that a run stays small.
"""

from collections.abc import Collection, Mapping

import msgspec

from antiphon.conformance.members import list_at, text_at
from antiphon.conformance.scenarios import SCENARIOS
from antiphon.conformance.target import Answer, Target
from antiphon.conformance.verdict import Skipped, expect
from antiphon.http.redact import redact
from antiphon.protocol.content import JsonObject

KEPT = 6
ENOUGH = 512
"""Tokens: room for a model that thinks, little for one that does not stop."""
LIMIT = 400
ABSENT = frozenset({404, 405, 501})
"""How a server says that it has no such endpoint."""
REFUSED = frozenset({400, 405, 422, 501})
"""How a server says that it does not take a request. Others are no answer to that: a key that is wrong, a
model that is not there, too many requests."""
NO_MODEL = "model_not_found"


class Heard:
    """The streams of the scenarios, each asked for once."""

    def __init__(self) -> None:
        self.streams: dict[str, Answer] = {}


class Probe:
    """The hands of one check."""

    def __init__(self, target: Target, heard: Heard) -> None:
        self.target = target
        self.exchanges: list[str] = []
        self._heard = heard

    @property
    def basis(self) -> JsonObject:
        """What every request for a response has: the model, and a bound for those that ramble."""
        return {"model": self.target.model, "max_output_tokens": ENOUGH}

    async def send(
        self,
        method: str,
        path: str,
        body: JsonObject | bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        frames: int | None = None,
    ) -> Answer:
        """One exchange, whatever comes of it."""
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self.note(f"→ {method} /{path} {encoded.decode('utf-8', 'replace')}")
        answer = await self.target.send(method, path, encoded, headers=headers, frames=frames)
        self.note(f"← {answer.status} {answer.body.decode('utf-8', 'replace')}")
        return answer

    async def create(self, **parameters: object) -> JsonObject:
        """A response, which must be there."""
        answer = await self.ask(**parameters)
        expect(answer.status == 200, f"POST /responses was answered with status {answer.status}")
        expect(answer.json, "the answer to POST /responses is not a JSON object")
        return answer.json

    async def ask(self, **parameters: object) -> Answer:
        """POST /responses, whatever comes of it."""
        return await self.send("POST", "responses", {**self.basis, **parameters})

    async def optional(self, what: str, method: str, path: str, body: JsonObject | bytes = b"") -> Answer:
        """An exchange with an endpoint that a server need not have."""
        answer = await self.send(method, path, body)
        if answer.status in ABSENT:
            raise Skipped(f"not offered: {what} is answered with status {answer.status}")
        expect(answer.status == 200, f"{what} was answered with status {answer.status}")
        return answer

    async def stream(self, name: str) -> Answer:
        """The stream of a scenario. A server may refuse those that are not `core`."""
        scenario = SCENARIOS[name]
        if name not in self._heard.streams:
            body = {**self.basis, "stream": True, **scenario.body}
            self._heard.streams[name] = await self.send("POST", "responses", body)
        answer = self._heard.streams[name]
        if not scenario.core:
            expect_offered(answer, scenario.what)
        expect(
            answer.status == 200, f"a stream was answered with status {answer.status}", [self.shown(answer)]
        )
        expect(answer.frames, "a stream was asked for, and no events came", [self.shown(answer)])
        return answer

    def told(self, name: str) -> Answer | None:
        """The stream of a scenario, if it was asked for and came."""
        answer = self._heard.streams.get(name)
        return answer if answer is not None and answer.status == 200 else None

    def note(self, line: str) -> None:
        """Keep a line as evidence; the last ones are shown."""
        self.exchanges.append(self.safe(line))
        del self.exchanges[:-KEPT]

    def safe(self, line: str) -> str:
        """A line that can be shown: short, and without the key."""
        return redact(line, self.target.secrets, LIMIT)

    def shown(self, answer: Answer) -> str:
        """An answer in a line."""
        return self.safe(f"← {answer.status} {answer.body.decode('utf-8', 'replace')}")


def output_text(response: JsonObject) -> str:
    """All that the messages of a response say."""
    messages = items_of(response, "message")
    return "".join(text_at(part, "text") for item in messages for part in list_at(item, "content"))


def items_of(response: JsonObject, *types: str) -> list[JsonObject]:
    """The output items of these types."""
    return [item for item in list_at(response, "output") if item.get("type") in types]


def expect_offered(answer: Answer, what: str, statuses: Collection[int] = REFUSED) -> None:
    """Skip where the server says that it does not have this. What else went wrong is for the check to say."""
    if answer.status in statuses and text_at(answer.json, "error.code") != NO_MODEL:
        raise Skipped(f"not offered: {what} is refused with status {answer.status}")


def expect_error(answer: Answer, *statuses: int) -> None:
    """A refusal as the protocol writes it: the status, and an error object that says something."""
    listed = " or ".join(map(str, statuses))
    expect(answer.status in statuses, f"the status is {answer.status}, not {listed}")
    expect(isinstance(answer.json.get("error"), dict), "the body has no `error` object")
    for name in ("message", "type"):
        expect(text_at(answer.json, f"error.{name}"), f"`error.{name}` is not a text with words in it")
