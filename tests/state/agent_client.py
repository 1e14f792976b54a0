"""A client of agent runs, and the invariants of a run after any kill."""

import json
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.state.listener import TEST_TIMEOUT_SECONDS

TASK = {"instruction": "Write two lines.", "title": "Two lines"}
END = {"agent.completed", "agent.failed", "agent.cancelled"}
JsonObject = dict[str, Any]


def environment(folder: Path) -> dict[str, str]:
    """The environment of a server with the tools, which write into this folder."""
    return {
        "NOTES": str(folder / "notes"),
        "ANTIPHON_AGENT__MODEL": "agent",
        "ANTIPHON_AGENT__TOOLS": '["tests.state.agent_tools:TOOLS"]',
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def call_api(base_url: str, path: str, body: object = None) -> JsonObject:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{base_url}{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=TEST_TIMEOUT_SECONDS) as answer:
        return json.load(answer)


class AgentClient:
    """Submits a run and follows it. The events that it received must be preserved."""

    def __init__(self) -> None:
        self.submitted: str | None = None
        self.received: list[JsonObject] = []

    def go(self, base_url: str) -> bool:
        """Submit and follow; False if the server died meanwhile."""
        try:
            run_id = self.submitted = call_api(base_url, "/agent/runs", TASK)["id"]
            follow(base_url, run_id, self.received)
        except (OSError, HTTPException):
            return False
        return bool(self.received) and self.received[-1]["type"] in END


def follow(base_url: str, run_id: str, received: list[JsonObject]) -> None:
    """Receive the events of a run to its end, or until the server dies."""
    url = f"{base_url}/agent/runs/{run_id}?stream=true&case=snake"
    with urllib.request.urlopen(url, timeout=TEST_TIMEOUT_SECONDS) as stream:
        for line in stream:
            if line.startswith(b"data: {"):
                received.append(json.loads(line[6:]))


def check_run(base_url: str, run_id: str, notes: Path, received: list[JsonObject]) -> dict[str, str]:
    """Check that the run ends once, its log has no gaps and no line was written twice; return the outcome of
    each call.
    """
    events: list[JsonObject] = []
    follow(base_url, run_id, events)
    assert events[: len(received)] == received, "the events are the same as before"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] in END for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1]["type"] == "agent.completed"
    shown = call_api(base_url, f"/agent/runs/{run_id}?case=snake")
    assert (shown["status"], shown["title"]) == ("completed", "Two lines")
    assert shown["response"] == events[-1]["response"]
    outcomes = {call["call_id"]: call["outcome"] for turn in shown["tree"]["turns"] for call in turn["calls"]}
    assert list(outcomes) == ["call_1", "call_2", "call_3"]
    assert outcomes["call_2"] == "ok", "a tool without side effects may run again"
    _check_notes(notes, outcomes)
    return outcomes


def _check_notes(notes: Path, outcomes: dict[str, str]) -> None:
    lines = notes.read_text().split() if notes.exists() else []
    for line, call_id in (("one", "call_1"), ("two", "call_3")):
        if outcomes[call_id] == "ok":
            assert lines.count(line) == 1, outcomes
        else:
            assert outcomes[call_id] == "interrupted"
            assert lines.count(line) <= 1, "a tool with side effects is never run twice"
