"""Data as a small team would have it, for pictures of the page."""

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass

from tests.page.browser import ROOT
from tests.page.samples import ANSWERS
from tests.page.world import World

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city now.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
}
KEYS = {
    "laptop": ("responses:read", "responses:write", "responses:delete"),
    "ci": ("responses:read", "responses:write"),
    "dashboard": ("responses:read",),
}
HISTORY = 60
HISTORY_MODELS = ("qwen3-32b", "qwen3-32b", "gpt-oss-20b", "mistral-small", "qwen3-32b")
DOCUMENTS = ("docs/guides/state.md", "docs/explanation/reliability.md", "docs/reference/keys.md")
INGESTION_SECONDS = 120
QUESTION = "How do I revoke a key?"
TRACED = {"antiphon-trace": "record"}


@dataclass(frozen=True)
class Seeded:
    """Ids of what was made."""

    chain: str
    traced: str
    store: str
    run: str
    running: str


def seed(world: World) -> Seeded:
    """Make responses, a branch, runs, files and a vector store."""
    _add_history(world)
    store = add_documents(world, DOCUMENTS)
    first = world.respond("qwen3-32b", "How do I rotate the signing keys without downtime?")["id"]
    second = _continue(world, "qwen3-32b", "And with only one region?", first)
    _continue(world, "gpt-oss-20b", "And with only one region?", first)
    _continue(world, "qwen3-32b", "Write a unit test for parse_duration.", second)
    world.respond("gpt-oss-20b", "Write a unit test for parse_duration in pytest.")
    world.call("POST", "/v1/responses", {"model": "phi-4", "input": "Translate this page."})
    world.respond("mistral-small", "Summarise the incident of last night.", background=True)
    traced = _tool_call(world)
    run = world.post("/v1/agent/runs", {"title": "Note what was decided", "instruction": "Write two lines."})[
        "id"
    ]
    running = world.respond(
        "llama-3.3-70b", "Read the 400 tickets of this week and group them.", background=True
    )
    _wait_until_ended(world, run)
    for name, scopes in KEYS.items():
        world.new_key(*scopes, name=name)
    return Seeded(second, traced, store, run, running["id"])


def add_documents(world: World, paths: tuple[str, ...]) -> str:
    """A vector store with these files of the repository."""
    store = world.post("/v1/vector_stores", {"name": "handbook"})["id"]
    for path in paths:
        file_id = world.upload(path.rpartition("/")[2], (ROOT / path).read_bytes())
        world.post(f"/v1/vector_stores/{store}/files", {"file_id": file_id})
    deadline = time.monotonic() + INGESTION_SECONDS
    while world.get(f"/v1/vector_stores/{store}")["file_counts"]["in_progress"]:
        assert time.monotonic() < deadline, "the files were not added in time"
        time.sleep(0.1)
    return store


def _add_history(world: World) -> None:
    """Responses of the last week: more on working days, and slower when there are more."""
    stored: list[tuple[int, int, int, str]] = []
    for number in range(HISTORY):
        model = HISTORY_MODELS[number % len(HISTORY_MODELS)]
        sample = ANSWERS[number % len(ANSWERS)]
        hours_ago = 6 + number * 7 * 24 // HISTORY + number % 5 * 3
        first_token_ms = 180 + 37 * number % 260 + (900 if number % 11 == 0 else 0)
        total_ms = first_token_ms + 2400 + 613 * number % 5000
        stored.append(
            (hours_ago * 3600, first_token_ms, total_ms, world.respond(model, sample.question)["id"])
        )
    (database,) = (world.server.log.parent / "data").rglob("*.db")
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.executemany(
            "UPDATE responses SET created_at = created_at - ?, first_token_ms = ?, total_ms = ? WHERE id = ?",
            stored,
        )


def _continue(world: World, model: str, text: str, previous: str) -> str:
    return world.respond(model, text, previous_response_id=previous)["id"]


def _tool_call(world: World) -> str:
    """A response that called a tool, and the one with its result; both are traced."""
    body = {"model": "qwen3-32b", "input": "What is the weather in Lisbon?", "tools": [WEATHER]}
    asked = world.post("/v1/responses", body, **TRACED)
    call = next(item for item in asked["output"] if item["type"] == "function_call")
    output = {
        "type": "function_call_output",
        "call_id": call["call_id"],
        "output": '{"temperature": 21, "sky": "clear", "wind": "NW 12 km/h"}',
    }
    body = {"model": "qwen3-32b", "input": [output], "tools": [WEATHER], "previous_response_id": asked["id"]}
    return world.post("/v1/responses", body, **TRACED)["id"]


def _wait_until_ended(world: World, run: str) -> None:
    for _ in range(100):
        if world.get(f"/v1/agent/runs/{run}")["status"] not in {"queued", "in_progress"}:
            return
        time.sleep(0.1)
    raise AssertionError("the run did not end")
