"""A loop of MCP tools: the model that calls them, a client, and the invariants of the response after any kill."""

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.state.agent_client import call_api
from tests.state.counting_server import TOKEN
from tests.state.listener import TEST_TIMEOUT_SECONDS
from tests.turn.order import check_order
from tests.upstream import USAGE, JsonObject, Upstream, run_upstream

ROUNDS = ("one", "two")
TOOLS = ("look", "record")
DONE = b"data: [DONE]"
ANSWER_SECONDS = 0.1
"""How long the model waits before it answers, so that what was done before is stored in one write of its own."""
UNKNOWN = "its outcome is unknown"
Outcomes = dict[tuple[str, str], list[str]]
Ending = tuple[str, str, int]
"""How a call ended: its tool, the status of its items, and how often it was run."""


class LoopUpstream(Upstream):
    """Its model `loops` calls both tools in each of two rounds, and then answers."""

    async def _loops(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        """A call of `record` is never repeated; one of `look` is, if its outcome is unknown."""
        await asyncio.sleep(ANSWER_SECONDS)
        outcomes = told(body["messages"])
        task = user_text(body)
        for part in ROUNDS:
            name = f"{task} {part}"
            due = [tool for tool in TOOLS if _is_due(tool, outcomes.get((tool, name), []))]
            if due:
                calls = [_call(index, tool, name) for index, tool in enumerate(due)]
                return await self._respond(
                    request, body, {"content": None, "tool_calls": calls}, "tool_calls"
                )
        return await self._respond(request, body, {"content": "Done."}, "stop")


def user_text(body: JsonObject) -> str:
    """The task of a request to the model."""
    return next(message["content"] for message in body["messages"] if message["role"] == "user")


def _is_due(tool: str, outcomes: list[str]) -> bool:
    return not outcomes or (tool == "look" and UNKNOWN in outcomes[-1])


def _call(index: int, tool: str, name: str) -> JsonObject:
    function = {"name": tool, "arguments": json.dumps({"name": name})}
    return {"index": index, "id": f"call_{index}", "type": "function", "function": function}


def told(messages: list[JsonObject]) -> Outcomes:
    """What a model was told of each call, by its tool and its name."""
    calls: dict[str, tuple[str, str]] = {}
    outcomes: Outcomes = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            calls[call["id"]] = function["name"], json.loads(function["arguments"])["name"]
        if message["role"] == "tool":
            outcomes.setdefault(calls[message["tool_call_id"]], []).append(message["content"])
    return outcomes


@dataclass(frozen=True)
class World:
    """What lives longer than the servers that are killed: the model, and the server of the tools."""

    upstream: LoopUpstream
    mcp_url: str
    counted: Path

    def calls(self, task: str) -> Counter[tuple[str, str]]:
        """How often each call of a task was run, by its tool and its name."""
        lines = self.counted.read_text().splitlines() if self.counted.exists() else []
        pairs = (line.split(" ", 1) for line in lines)
        return Counter((tool, name) for tool, name in pairs if name.rsplit(" ", 1)[0] == task)

    def create(self, base_url: str, approval: object = "never", **params: Any) -> str:
        """Submit a background response with the tools; its id."""
        server = {"server_label": "ledger", "server_url": self.mcp_url, "authorization": TOKEN}
        tool = {"type": "mcp", **server, "require_approval": approval}
        body = {"model": "loops", "background": True, "tools": [tool], **params}
        return call_api(base_url, "/responses", body)["id"]


@contextmanager
def run_world(folder: Path) -> Generator[World, None, None]:
    counted = folder / "calls"
    command = [sys.executable, "-m", "tests.state.counting_server", str(counted)]
    with (
        run_upstream(LoopUpstream) as upstream,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            yield World(upstream, f"http://127.0.0.1:{port}/mcp", counted)
        finally:
            process.kill()


def follow(base_url: str, response_id: str, received: bytearray, after: int | None = None) -> None:
    """Receive the stream of a response to its end, or until the server dies."""
    url = f"{base_url}/responses/{response_id}?stream=true"
    if after is not None:
        url += f"&starting_after={after}"
    with urllib.request.urlopen(url, timeout=TEST_TIMEOUT_SECONDS) as stream:
        for line in stream:
            received += line


def blocks(received: bytearray) -> list[bytes]:
    """The complete events of a stream as they were sent, without comments."""
    return [block for block in bytes(received).split(b"\n\n")[:-1] if not block.startswith(b":")]


def read(base_url: str, response_id: str, after: int | None = None) -> list[bytes]:
    """All events of a response as they are sent, to its end, without `[DONE]`."""
    received = bytearray()
    follow(base_url, response_id, received, after)
    *events, last = blocks(received)
    assert last == DONE, last
    return events


def decoded(events: list[bytes]) -> list[JsonObject]:
    return [json.loads(event.partition(b"data: ")[2]) for event in events]


class LoopClient:
    """Submits a task and follows it. The events that it received must be preserved."""

    def __init__(self, world: World, task: str) -> None:
        self._world = world
        self._task = task
        self._submitted: str | None = None
        self._received = bytearray()

    def go(self, base_url: str) -> bool:
        """Submit and follow; False if the server died meanwhile."""
        try:
            self._submitted = self._world.create(base_url, input=self._task)
            follow(base_url, self._submitted, self._received)
        except (OSError, HTTPException):
            return False
        return blocks(self._received)[-1:] == [DONE]

    def check(self, base_url: str) -> set[Ending]:
        """Check the response on the next server; how its calls ended."""
        run_before = self._world.calls(self._task)
        response_id = self._submitted or self._stored(base_url)
        if response_id is None:
            assert not run_before, "no tool runs for a response that is not stored"
            return set()
        before = [block for block in blocks(self._received) if block != DONE]
        rest = read(base_url, response_id, len(before) - 1 if before else None)
        stream = read(base_url, response_id)
        assert before + rest == stream, "the events are the same bytes as before"
        middle = len(before) // 2
        assert read(base_url, response_id, middle) == stream[middle + 1 :]
        events = decoded(stream)
        check_order(events)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        response = events[-1]["response"]
        assert (response["status"], response["output"][-1]["type"]) == ("completed", "message")
        run = self._world.calls(self._task)
        for call in _finished(decoded(before)):
            assert run[call] == run_before[call], "a finished call is not run again"
        self._check_limits(response)
        return self._check_calls(response["output"], run)

    def _check_limits(self, response: JsonObject) -> None:
        """All attempts count together: `usage` may lack that of the turn which was cut off, and parallel calls
        are one round."""
        turns = [each for each in self._world.upstream.requests if user_text(each) == self._task]
        counted, rest = divmod(response["usage"]["total_tokens"], USAGE["total_tokens"])
        assert rest == 0
        assert len(turns) - 1 <= counted <= len(turns), (counted, len(turns))
        assert "tool_limit" not in str(response.get("downgrades"))

    def _stored(self, base_url: str) -> str | None:
        """The id of a response that is stored though the client has received no answer."""
        rows = call_api(base_url, "/responses?limit=100")["data"]
        return next((row["id"] for row in rows if row["input_preview"] == self._task), None)

    def _check_calls(self, output: list[JsonObject], run: Counter[tuple[str, str]]) -> set[Ending]:
        statuses: dict[tuple[str, str], list[str]] = {}
        for item in output:
            if item["type"] == "mcp_call":
                statuses.setdefault(_call_of(item), []).append(item["status"])
        expected = {(tool, f"{self._task} {part}") for part in ROUNDS for tool in TOOLS}
        assert set(statuses) == expected
        outcomes = told(self._world.upstream.requests[-1]["messages"])
        for call, found in statuses.items():
            assert len(found) == len(outcomes[call]), "the model was told of each call"
            for status, outcome in zip(found, outcomes[call], strict=True):
                assert status == ("incomplete" if UNKNOWN in outcome else "completed"), (call, outcome)
            if call[0] == "record":
                assert len(found) == 1
                assert run[call] == 1 if found == ["completed"] else run[call] <= 1, "it never runs twice"
            else:
                assert found in (["completed"], ["incomplete", "completed"])
                assert 1 <= run[call] <= 2
        return {(call[0], ", ".join(found), run[call]) for call, found in statuses.items()}


def _call_of(item: JsonObject) -> tuple[str, str]:
    return item["name"], json.loads(item["arguments"])["name"]


def _finished(events: list[JsonObject]) -> list[tuple[str, str]]:
    return [
        _call_of(event["item"])
        for event in events
        if event["type"] == "response.output_item.done"
        and event["item"]["type"] == "mcp_call"
        and event["item"]["status"] == "completed"
    ]
