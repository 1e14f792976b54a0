"""A client of agent runs, and what must be true of a run whatever was killed on the way."""

import json
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.state.listener import PATIENCE

TASK = {"instruction": "Write two lines.", "title": "Two lines"}
END = {"agent.completed", "agent.failed", "agent.cancelled"}
JsonObject = dict[str, Any]


def environment(folder: Path) -> dict[str, str]:
    """What a server needs to offer the tools, which write into this folder."""
    return {
        "NOTES": str(folder / "notes"),
        "ANTIPHON_AGENT__MODEL": "agent",
        "ANTIPHON_AGENT__TOOLS": '["tests.state.agent_tools:TOOLS"]',
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def ask(base_url: str, path: str, body: object = None) -> JsonObject:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{base_url}{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


class AgentClient:
    """Submits a run and follows it. What it was told counts."""

    def __init__(self) -> None:
        self.submitted: str | None = None
        self.heard: list[JsonObject] = []

    def go(self, base_url: str) -> bool:
        """Submit and follow; False if the server died on the way."""
        try:
            run_id = self.submitted = ask(base_url, "/agent/runs", TASK)["id"]
            follow(base_url, run_id, self.heard)
        except (OSError, HTTPException):
            return False
        return bool(self.heard) and self.heard[-1]["type"] in END


def follow(base_url: str, run_id: str, heard: list[JsonObject]) -> None:
    """Hear a run to its end, or for as long as the server lives."""
    url = f"{base_url}/agent/runs/{run_id}?stream=true&case=snake"
    with urllib.request.urlopen(url, timeout=PATIENCE) as stream:
        for line in stream:
            if line.startswith(b"data: {"):
                heard.append(json.loads(line[6:]))


def check_run(base_url: str, run_id: str, notes: Path, heard: list[JsonObject]) -> dict[str, str]:
    """The run ends once, its log has no gaps, nothing was written twice. What became of each call."""
    events: list[JsonObject] = []
    follow(base_url, run_id, events)
    assert events[: len(heard)] == heard, "what was heard before is what is heard again"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] in END for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1]["type"] == "agent.completed"
    shown = ask(base_url, f"/agent/runs/{run_id}?case=snake")
    assert (shown["status"], shown["title"]) == ("completed", "Two lines")
    assert shown["response"] == events[-1]["response"]
    outcomes = {call["call_id"]: call["outcome"] for turn in shown["tree"]["turns"] for call in turn["calls"]}
    assert list(outcomes) == ["call_1", "call_2", "call_3"]
    assert outcomes["call_2"] == "ok", "what only looks is looked at again"
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
