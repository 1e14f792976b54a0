"""Canaries in every place where a client can declare a tool. Only the model's server may receive them: no
answer, event, listing, log, export or database file contains one.
"""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from websockets.sync.client import connect

from tests.serving import Served, run_server

pytestmark = pytest.mark.requirement("PROTOCOL/tools-secrets")

JsonObject = dict[str, Any]
CANARY = "canary"
MESSAGE: JsonObject = {
    "type": "message",
    "id": "msg_up",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
CONFIGURATION = """
[[upstreams]]
kind = "openai-responses"
base_url = "{url}"
api_key = "upstream-key"
models = ["m", "broken"]

[store]
url = "sqlite:{path}"
"""


def mcp(name: str) -> JsonObject:
    """A tool with a canary of this name in every credential."""
    secret = f"{CANARY}-{name}"
    return {
        "type": "mcp",
        "server_label": name,
        "server_url": f"https://user:{secret}@mcp.example/{secret}?key={secret}",
        "authorization": secret,
        "headers": {"X-Key": secret},
    }


def declaring(name: str) -> JsonObject:
    return {"type": "additional_tools", "role": "developer", "tools": [mcp(name)]}


class Handler(BaseHTTPRequestHandler):
    """A Responses server that records the tools of each request, and answers hi."""

    seen: ClassVar[list[JsonObject]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Handler.seen.append(body)
        if body["model"] == "broken":
            return self._send(400, "application/json", b'{"error": {"message": "no", "code": "invalid"}}')
        response: JsonObject = {"id": "r", "object": "response", "status": "completed", "output": [MESSAGE]}
        if not body.get("stream"):
            return self._send(200, "application/json", json.dumps(response).encode())
        events: list[JsonObject] = [
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**MESSAGE, "content": []}},
            {"type": "response.output_text.delta", "item_id": "msg_up", "output_index": 0, "delta": "Hi"},
            {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
            {"type": "response.completed", "response": response},
        ]
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return self._send(200, "text/event-stream", data.encode())

    def _send(self, status: int, media: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@dataclass
class World:
    """A server on a file, its upstream, and all of its answers."""

    served: Served
    folder: Path
    answers: list[str] = field(default_factory=list[str])

    def call(self, path: str, body: object = None, method: str | None = None) -> JsonObject:
        text = self.text(path, body, method)
        return json.loads(text)

    def text(self, path: str, body: object = None, method: str | None = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.served.base_url}{path}", data, {"content-type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
        self.answers.append(text)
        return text

    def create(self, **params: Any) -> JsonObject:
        created = self.call("/responses", {"model": "m", "input": "hi", **params})
        assert "id" in created, created
        return created

    def received_by_upstream(self, name: str) -> JsonObject:
        """The tool of this name, as the upstream last received it."""
        found = [
            tool
            for request in Handler.seen
            for tool in request.get("tools", ())
            if tool.get("server_label") == name
        ]
        assert found, f"the upstream received no tool '{name}'"
        return found[-1]

    def files(self) -> dict[str, bytes]:
        """The database with its side files."""
        return {path.name: path.read_bytes() for path in self.folder.glob("antiphon.db*")}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World, None, None]:
    folder = tmp_path_factory.mktemp("canaries")
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{upstream.server_port}/v1"
    (folder / "antiphon.toml").write_text(CONFIGURATION.format(url=url, path=folder / "antiphon.db"))
    with run_server(folder, "--config", "antiphon.toml", "--log-level", "debug") as served:
        yield World(served, folder)
    upstream.shutdown()
    upstream.server_close()


def wait_for(world: World, name: str, path: str = "/responses") -> JsonObject:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        response = world.call(f"{path}/{name}")
        if response["status"] not in ("queued", "in_progress"):
            return response
        time.sleep(0.05)
    raise AssertionError(f"{name} did not end")


def create_json(world: World) -> None:
    first = world.create(tools=[mcp("json")])
    assert first["tools"] == [
        {
            "type": "mcp",
            "server_label": "json",
            "server_url": "https://mcp.example/<redacted>",
            "headers": None,
        }
    ]
    world.call(f"/responses/{first['id']}")
    world.call(f"/responses/{first['id']}/input_items")
    Handler.seen.clear()
    world.create(previous_response_id=first["id"])  # inherits the tool with its credentials


def create_stream(world: World) -> None:
    events = world.text("/responses", {"model": "m", "input": "hi", "stream": True, "tools": [mcp("stream")]})
    assert events.count("mcp.example/<redacted>") == 3


def create_unstored(world: World) -> None:
    world.create(store=False, tools=[mcp("unstored")])


def create_background(world: World) -> None:
    queued = world.create(background=True, tools=[mcp("background")], mcp_servers=[mcp("unread")])
    ended = wait_for(world, queued["id"])
    assert ended["status"] == "completed"
    world.text(f"/responses/{queued['id']}?stream=true")
    Handler.seen.clear()
    world.create(previous_response_id=queued["id"])


def item_in_input(world: World) -> None:
    first = world.create(input=[declaring("item"), {"role": "user", "content": "hi"}])
    world.call(f"/responses/{first['id']}/input_items")
    Handler.seen.clear()
    second = world.create(previous_response_id=first["id"])
    items = world.call(f"/responses/{second['id']}/input_items")
    assert "mcp.example/<redacted>" in json.dumps(items)


def item_unstored(world: World) -> None:
    world.create(store=False, input=[declaring("item_unstored"), {"role": "user", "content": "hi"}])


def item_in_background(world: World) -> None:
    queued = world.create(
        background=True, input=[declaring("item_background"), {"role": "user", "content": "hi"}]
    )
    world.call(f"/responses/{queued['id']}/input_items")
    assert wait_for(world, queued["id"])["status"] == "completed"
    Handler.seen.clear()
    world.create(previous_response_id=queued["id"])


def item_by_reference(world: World) -> None:
    first = world.create(
        input=[{**declaring("reference"), "id": "at_ref"}, {"role": "user", "content": "hi"}]
    )
    assert first["status"] == "completed"
    Handler.seen.clear()
    world.create(
        input=[{"type": "item_reference", "id": "at_ref"}, {"role": "user", "content": "hi"}], store=False
    )


def found_by_the_client(world: World) -> None:
    call: JsonObject = {"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {}}
    found = {"type": "tool_search_output", "call_id": "s1", "execution": "client", "tools": [mcp("found")]}
    tools = [{"type": "tool_search", "execution": "client"}]
    first = world.create(input=[{"role": "user", "content": "hi"}, call, found], tools=tools)
    world.call(f"/responses/{first['id']}/input_items")
    Handler.seen.clear()
    world.create(previous_response_id=first["id"])


def conversation(world: World) -> None:
    stored = world.call("/conversations", {"items": [{**declaring("conversation"), "id": "at_conv"}]})
    added = world.call(f"/conversations/{stored['id']}/items", {"items": [declaring("conversation_added")]})
    assert "mcp.example/<redacted>" in json.dumps(added)
    world.call(f"/conversations/{stored['id']}/items")
    world.call(f"/conversations/{stored['id']}/items/at_conv")
    world.create(conversation=stored["id"], tools=[mcp("conversation_tools")])
    Handler.seen.clear()
    world.create(conversation=stored["id"])
    world.received_by_upstream("conversation_tools")
    world.received_by_upstream("conversation_added")


def socket(world: World) -> None:
    def turn(**params: Any) -> JsonObject:
        request = {"type": "response.create", "model": "m", "input": "hi", "store": False, **params}
        client.send(json.dumps(request))
        while True:
            frame = str(client.recv(timeout=20))
            world.answers.append(frame)
            event = json.loads(frame)
            if event["type"] in ("response.completed", "response.failed", "error"):
                return event

    with connect(f"ws://127.0.0.1:{world.served.port}/v1/responses") as client:
        first = turn(
            tools=[mcp("socket")], input=[declaring("socket_item"), {"role": "user", "content": "hi"}]
        )
        Handler.seen.clear()
        turn(previous_response_id=first["response"]["id"])
        world.received_by_upstream("socket_item")


def agent(world: World) -> None:
    done = world.call("/agent/execute", {"instruction": "hi", "model": "m", "toolsJson": [mcp("agent")]})
    assert done["kind"] == "ok"


def agent_run(world: World) -> None:
    request = {"instruction": "hi", "model": "m", "toolsJson": [mcp("agent_run")]}
    run = world.call("/agent/runs", request)
    assert wait_for(world, run["id"], "/agent/runs")["status"] == "completed"
    world.text(f"/agent/runs/{run['id']}?stream=true")
    with sqlite3.connect(world.folder / "antiphon.db") as database:
        row = database.execute("SELECT request FROM agent_runs WHERE id = ?", (run["id"],)).fetchone()
    assert row == ("",)


PLACES = {
    "json": create_json,
    "stream": create_stream,
    "unstored": create_unstored,
    "background": create_background,
    "item": item_in_input,
    "item_unstored": item_unstored,
    "item_background": item_in_background,
    "reference": item_by_reference,
    "found": found_by_the_client,
    "conversation": conversation,
    "socket": socket,
    "agent": agent,
    "agent_run": agent_run,
}


@pytest.mark.parametrize("name", PLACES)
def test_only_the_models_server_gets_a_credential(world: World, name: str) -> None:
    Handler.seen.clear()
    PLACES[name](world)
    assert world.received_by_upstream(name) == mcp(name)
    check(world)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/responses", {"model": "broken", "input": "hi", "tools": [mcp("refused")]}),
        ("/responses", {"model": "broken", "input": "hi", "stream": True, "tools": [mcp("refused")]}),
        ("/responses", {"model": "unknown", "input": "hi", "tools": [mcp("refused")]}),
        ("/responses", {"model": "m", "input": "hi", "tools": [{**mcp("refused"), "type": "mpc"}]}),
        ("/responses", {"model": "m", "input": "hi", "tools": [mcp("refused"), {"type": "function"}]}),
        ("/responses", {"model": "m", "input": [{**declaring("refused"), "tools": mcp("refused")}]}),
        ("/responses/input_tokens", {"model": "m", "input": "hi", "tools": [mcp("counted")]}),
        ("/responses/compact", {"model": "m", "input": [declaring("x"), {"role": "user", "content": "hi"}]}),
        ("/chat/completions", {"model": "m", "messages": [], "tools": [mcp("chat")]}),
        (
            "/chat/completions",
            {
                "model": "m",
                "messages": [{"role": "user", "content": "hi"}],
                "web_search_options": mcp("chat"),
            },
        ),
        (
            "/messages",
            {
                "model": "m",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "hi"}],
                "mcp_servers": [mcp("messages")],
                "tools": [mcp("messages")],
            },
        ),
        ("/conversations", {"items": [{**declaring("refused"), "tools": [{**mcp("refused"), "type": 1}]}]}),
    ],
)
def test_no_error_and_no_other_api_shows_one(world: World, path: str, body: JsonObject) -> None:
    world.text(path, body)
    check(world)


def test_the_public_form_is_rejected_as_a_declaration(world: World) -> None:
    first = world.create(tools=[mcp("again")])
    refused = world.call("/responses", {"model": "m", "input": "hi", "tools": first["tools"]})
    assert refused["error"]["param"] == "tools[0].server_url"


def test_no_command_shows_one(world: World) -> None:
    first = world.create(tools=[mcp("cli")], input=[declaring("cli_item"), {"role": "user", "content": "hi"}])
    for command in (["export"], ["show", first["id"], "--json"], ["show", first["id"]], ["list", "--json"]):
        shown = subprocess.run(
            [sys.executable, "-m", "antiphon.cli", "responses", *command, "--config", "antiphon.toml"],
            cwd=world.folder,
            env={**os.environ, "XDG_DATA_HOME": str(world.folder / "data"), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert shown.returncode == 0, shown.stderr
        assert CANARY not in shown.stdout + shown.stderr, command


def test_the_credentials_of_a_run_are_gone_with_it(world: World) -> None:
    queued = world.create(background=True, tools=[mcp("run")])
    wait_for(world, queued["id"])
    with sqlite3.connect(world.folder / "antiphon.db") as database:
        row = database.execute(
            "SELECT request, input FROM responses WHERE id = ?", (queued["id"],)
        ).fetchone()
    assert row == (None, None)


def check(world: World) -> None:
    """No canary is in any answer, log or stored file."""
    for text in world.answers:
        assert CANARY not in text
    assert CANARY not in world.served.log.read_text()
    for name, data in world.files().items():
        assert CANARY.encode() not in data, name
