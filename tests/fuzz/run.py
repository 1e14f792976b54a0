"""A run of the fuzzer: requests over all routes in turn, and a tally for each."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, urlencode

import httpx2
import msgspec

from tests.fuzz.forms import FORM_TYPE, render_form
from tests.fuzz.mutations import Mutator
from tests.fuzz.pool import Pool
from tests.fuzz.routes import NO_BODY, OPERATOR_KEY, RECORD, SOCKET, FuzzRequest, Routes
from tests.fuzz.server import ANSWER_TIMEOUT_SECONDS, FuzzedServer, fuzzed_server, server_at

JsonObject = dict[str, Any]
UNCHANGED, ONE_PLACE, ODD_PATH = 0.5, 0.8, 0.9
"""Half of the requests are valid; then one change, an odd path or query, several changes or damaged bytes."""
EXPLAINED = {
    "upstream_error": '"fails"',
    "upstream_paused": '"fails"',
    "api_error": '"fails"',
    "overloaded_error": '"fails"',
    "model_did_not_comply": "",
    "upstream_protocol_error": "/compact",
}
"""Codes of 5xx that the model causes, and a text of the requests that may get them: the model `fails` refuses,
in the form of each API; the other one does not obey formats and tool choices, or calls instead of summarising."""
CREATING = {
    "POST /v1/responses": 4,
    "POST /v1/conversations": 3,
    "POST /v1/agent/runs": 2,
    "POST /v1/files": 3,
    "POST /v1/uploads": 3,
    "POST /v1/uploads/{id}/parts": 3,
    "POST /v1/vector_stores": 3,
    "POST /v1/vector_stores/{id}/files": 4,
    "GET /v1/vector_stores/{id}/files": 2,
    "GET /v1/approvals": 2,
    "POST /v1/admin/keys": 2,
}
"""How often these routes take their turn, so that there is something to name and to delete."""
MAX_FAULT_CHARACTERS = 3000
FOLLOW_SECONDS = 0.2
IN_MEMORY_ONLY = {SOCKET, "POST /v1/conformance"}
"""WebSockets need the application, and a run of the checks of a process takes minutes."""
SESSION_CHANCE = 0.1
"""How often a request has the cookie of the session instead of the key, if there is a session."""


@dataclass
class Tally:
    """The answers of one route."""

    requests: int = 0
    accepted: int = 0
    rejected: int = 0
    explained: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    """Unexplained answers: 5xx, errors without the error object, streams with an internal error."""

    def add_fault(self, what: str) -> None:
        """Count a fault, with the beginning of its request."""
        self.faults.append(what[:MAX_FAULT_CHARACTERS])

    @property
    def share(self) -> float:
        """The share of requests that got past validation."""
        return self.accepted / max(1, self.requests)


@dataclass(frozen=True)
class FuzzResult:
    """All tallies, and the errors that the server logged."""

    tallies: dict[str, Tally]
    logged: list[str]

    @property
    def faults(self) -> list[str]:
        """Everything that must not happen."""
        return [fault for tally in self.tallies.values() for fault in tally.faults] + self.logged


class Fuzzer:
    """Sends requests, and judges their answers."""

    def __init__(self, seed: int, server: FuzzedServer, listed_model: str = "m") -> None:
        self._rng = random.Random(seed)
        self._pool = Pool(self._rng)
        self.routes = Routes(self._rng, self._pool, listed_model)
        self._mutator = Mutator(self._rng, self._pool)
        self._server = server
        self.tallies = {name: Tally() for name in self.routes.names}

    async def step(self, name: str) -> None:
        """One request of a route."""
        request, kind = self.routes.draw(name), self._rng.random()
        tally = self.tallies[name]
        tally.requests += 1
        if name == SOCKET:
            await self._send_frame(request.body, kind, tally)
        else:
            await self._send(self._changed(request, kind), kind, tally)

    def _changed(self, request: FuzzRequest, kind: float) -> FuzzRequest:
        rng = self._rng
        if kind < UNCHANGED:
            return request
        if request.body is not NO_BODY and (kind < ONE_PLACE or kind >= ODD_PATH):
            request.body = self._mutator.mutated(request.body, 1 if kind < ONE_PLACE else rng.randrange(2, 5))
        elif request.ids and rng.random() < 0.5:
            at = rng.randrange(len(request.ids))
            request.ids[at] = rng.choice((self._pool.any_id(), self._mutator.odd_text()[:1000]))
        elif request.query or rng.random() < 0.5:
            name = rng.choice(
                [*request.query, "limit", "after", "before", "order", "stream", "starting_after"]
            )
            request.query[name] = rng.choice((self._mutator.odd_text()[:1000], "-1", "true", "1e9", "٣"))
        else:
            request.headers["x-antiphon-profile"] = rng.choice(("openai", "maestro", "proxy", "other"))
        return request

    async def _send(self, request: FuzzRequest, kind: float, tally: Tally) -> None:
        method, _, path = request.route.partition(" ")
        for known in request.ids:
            start, _, rest = path.partition("{")
            path = start + quote(known, safe="") + rest.partition("}")[2]
        content = b"" if request.body is NO_BODY else _rendered(request)
        if kind > 0.97 and content:
            content = self._mutator.spoiled(content)
        media = FORM_TYPE if request.is_form else "application/json"
        headers = self._identity() | ({"content-type": media} if content else {}) | request.headers
        url = path + (f"?{urlencode(request.query)}" if request.query else "")
        try:
            answer, body = await self._answer(method, url, content, headers)
        except TimeoutError:
            return tally.add_fault(f"no answer to {method} {url} {content!r}")
        streams = answer.headers.get("content-type", "").startswith("text/event-stream")
        found = _payloads(body) if streams else _decoded(body)
        conversation = request.ids[0] if "/conversations/{id}/items" in request.route else None
        self._judge(tally, answer.status_code, found, f"{method} {url} {content!r}")
        if answer.status_code == 200:
            self._pool.learn(found, conversation)
            if RECORD.items() <= request.headers.items():
                self._pool.learn_trace(found)

    async def _answer(
        self, method: str, url: str, content: bytes, headers: dict[str, str]
    ) -> tuple[httpx2.Response, bytes]:
        """The answer with its body. A client that follows a run leaves after a while: the run may wait for an
        approval."""
        follows = url.startswith("/v1/agent/runs")
        pieces: list[bytes] = []
        asked = self._server.client.stream(method, url, content=content, headers=headers)
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS), asked as answer:
            try:
                async with asyncio.timeout(FOLLOW_SECONDS if follows else None):
                    async for piece in answer.aiter_raw():
                        pieces.append(piece)
            except TimeoutError:
                if not follows:
                    raise
        return answer, b"".join(pieces)

    def _identity(self) -> dict[str, str]:
        """The headers that authenticate a request: the cookie of a session is sent with its token."""
        csrf = self._pool.csrf
        if csrf is not None and self._rng.random() < SESSION_CHANCE:
            return {"antiphon-csrf": csrf}
        return {"authorization": f"Bearer {OPERATOR_KEY}"}

    async def _send_frame(self, body: Any, kind: float, tally: Tally) -> None:
        if kind >= UNCHANGED:
            body = self._mutator.mutated(body, 1 if kind < ODD_PATH else 3)
        content = msgspec.json.encode(body)
        frames = await self._server.frames(content.decode())
        status = int(frames[-1].get("status", 200))
        self._judge(tally, status, frames[-1] if status != 200 else frames, f"{SOCKET} {content!r}")

    def _judge(self, tally: Tally, status: int, found: Any, request: str) -> None:
        if status < 400:
            tally.accepted += 1
            if internal := _internal_error(found):
                tally.add_fault(f"{internal} in the answer to {request}")
            return
        code = _error_code(found)
        if code is None:
            tally.add_fault(f"{status} without an error object to {request}")
        elif status < 500:
            tally.rejected += 1
        elif code in EXPLAINED and EXPLAINED[code] in request and not _internal_error(found):
            tally.explained[f"{status} {code}"] += 1
        else:
            tally.add_fault(f"{status} {code} to {request}")


def _rendered(request: FuzzRequest) -> bytes:
    return render_form(request.body) if request.is_form else msgspec.json.encode(request.body)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body


def _payloads(body: bytes) -> list[Any]:
    lines = (line.removeprefix(b"data: ") for line in body.split(b"\n") if line.startswith(b"data: "))
    return [_decoded(line) for line in lines if line != b"[DONE]"]


def _error_code(found: Any) -> str | None:
    """The code, or Anthropic's type, of an error object, also of JSON-RPC; None if it is not complete."""
    error = cast("JsonObject", found).get("error") if isinstance(found, dict) else None
    if not isinstance(error, dict) or not cast("JsonObject", error).get("message"):
        return None
    members = cast("JsonObject", error)
    complete = {"type", "param", "code"} <= members.keys() or bool({"request_id", "jsonrpc"} & found.keys())
    return str(members.get("code") or members.get("type")) if complete else None


def _internal_error(found: Any) -> str | None:
    """An internal error in an answer that began with 200."""
    text = msgspec.json.encode(found) if not isinstance(found, bytes) else found
    return "an internal error" if b"Internal error; see the server log" in text else None


async def fuzz(seed: int, requests: int, names: Sequence[str] | None = None) -> FuzzResult:
    """Send this many requests to a server in memory, over the routes in turn."""
    async with fuzzed_server(random.Random(seed + 1)) as server:
        return await _run(Fuzzer(seed, server), requests, names, server)


async def fuzz_process(seed: int, requests: int, url: str, listed_model: str) -> FuzzResult:
    """The same over HTTP, without `IN_MEMORY_ONLY`, against a running server that lists this model."""
    async with server_at(url) as server:
        fuzzer = Fuzzer(seed, server, listed_model)
        names = [name for name in fuzzer.routes.names if name not in IN_MEMORY_ONLY]
        return await _run(fuzzer, requests, names, server)


async def _run(
    fuzzer: Fuzzer, requests: int, names: Sequence[str] | None, server: FuzzedServer
) -> FuzzResult:
    chosen = [name for name in names or fuzzer.routes.names for _ in range(CREATING.get(name, 1))]
    for number in range(requests):
        await fuzzer.step(chosen[number % len(chosen)])
    return FuzzResult(fuzzer.tallies, server.logged.records)


def markdown(result: FuzzResult) -> str:
    """The tallies as a table."""
    lines = [
        "| route | requests | accepted | 4xx | 5xx of the model | unexplained |",
        "|---|---|---|---|---|---|",
    ]
    total = Tally()
    for name, tally in result.tallies.items():
        lines.append(_row(f"`{name}`", tally))
        total.requests += tally.requests
        total.accepted += tally.accepted
        total.rejected += tally.rejected
        total.explained += tally.explained
        total.faults += tally.faults
    return "\n".join([*lines, _row("all", total)])


def _row(name: str, tally: Tally) -> str:
    explained = ", ".join(f"{number} × {what}" for what, number in tally.explained.items()) or "0"
    accepted = f"{tally.accepted:,} ({tally.share:.0%})"
    cells = (name, f"{tally.requests:,}", accepted, f"{tally.rejected:,}", explained, str(len(tally.faults)))
    return "| " + " | ".join(cells) + " |"
