"""`ask`, `chat` and `execute` use the server that is running, and answer themselves without one."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from antiphon.backends.scripted import ScriptedBackend
from antiphon.service.codex_catalogue import catalogue, encode_catalogue
from antiphon.service.routing.router import Route, Router
from tests.cli.conftest import Run
from tests.cli.http_thread import serving
from tests.cli.stored_responses import save_responses, turn
from tests.cli.terminal import terminal
from tests.cli.upstream import ScriptedUpstream

Json = dict[str, Any]


def response(number: int, text: str) -> Json:
    content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
    message: Json = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "status": "completed",
        "model": "big",
        "output": [message],
    }


@dataclass
class FakeAntiphon:
    """As much of a server as the commands use."""

    requests: list[Json] = field(default_factory=list[Json])
    key: str | None = None
    text: str = "From the server."

    async def models(self, request: web.Request) -> web.Response:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": {"message": "no key"}}, status=401)
        if "client_version" in request.query:
            router = Router([Route("big", ScriptedBackend([]))], chance=lambda: 0.5)
            return web.Response(
                body=encode_catalogue(await catalogue(router)), content_type="application/json"
            )
        return web.json_response({"object": "list", "data": [{"id": "big"}]})

    async def create(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        self.requests.append(body)
        answer = response(len(self.requests), self.text)
        if not body.get("stream"):
            return web.json_response(answer)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        call = {"type": "function_call", "name": "tide_at", "arguments": '{"harbour": "Dover"}'}
        events: list[Json] = [
            {"type": "response.output_item.done", "item": call},
            {"type": "response.output_text.delta", "delta": self.text},
            {"type": "response.completed", "response": answer},
        ]
        for event in events:
            await stream.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return stream

    async def retrieve(self, request: web.Request) -> web.Response:
        return web.json_response(response(int(request.match_info["number"]), "Earlier."))

    async def input_items(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"role": "user", "content": "Before?"}]})


@contextmanager
def running(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeAntiphon, None, None]:
    fake = FakeAntiphon()
    app = web.Application()
    app.router.add_get("/v1/models", fake.models)
    app.router.add_post("/v1/responses", fake.create)
    app.router.add_get("/v1/responses/resp_{number}", fake.retrieve)
    app.router.add_get("/v1/responses/resp_{number}/input_items", fake.input_items)
    with serving(app) as url:
        monkeypatch.setenv("ANTIPHON_SERVER__PORT", url.rpartition(":")[2].removesuffix("/v1"))
        yield fake


@pytest.mark.parametrize("command", ["ask", "execute"])
def test_a_running_server_answers(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    with running(monkeypatch) as server:
        result = run(command, "Hi")
    assert (result.exit_code, result.stdout) == (0, "From the server.\n")
    assert server.requests[0]["model"] == "big"


def test_a_chat_with_a_running_server_is_continued(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch) as server:
        assert run("chat", "--continue", input="Hi\n").exit_code == 2
        assert run("chat", input="Hi\n").stdout == "From the server.\n"
        assert run("chat", "--resume", input="And now?\n").exit_code == 0
    assert [body.get("previous_response_id") for body in server.requests] == [None, "resp_1"]


def test_without_a_chat_the_newest_stored_response_is_continued(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"sqlite:{tmp_path / 'store.db'}"
    monkeypatch.setenv("ANTIPHON_STORE__URL", url)
    save_responses(url, turn("resp_7", prompt="Who?", answer="A choir."))
    with running(monkeypatch) as server:
        assert run("chat", "--continue", input="And now?\n").exit_code == 0
    assert server.requests[0]["previous_response_id"] == "resp_7"


@pytest.mark.parametrize("options", [("--in-process",), ("--store", "memory:")])
def test_options_of_this_process_are_not_the_servers(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ANTIPHON_UPSTREAMS", json.dumps([{"base_url": upstream.url, "models": ["tiny"]}]))
    with running(monkeypatch) as server:
        assert run("ask", "Hi", *options).stdout == "Hello there.\n"
    assert server.requests == []


def test_an_upstream_on_the_command_line_is_asked_in_this_process(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(monkeypatch) as server:
        assert run("ask", "Hi", "--upstream", upstream.url).stdout == "Hello there.\n"
    assert server.requests == []


def test_a_server_that_rejects_the_key_is_not_used(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_UPSTREAMS", json.dumps([{"base_url": upstream.url, "models": ["tiny"]}]))
    with running(monkeypatch) as server:
        server.key = "sk-1"
        assert run("ask", "Hi").stdout == "Hello there.\n"
        monkeypatch.setenv("ANTIPHON_API_KEY", "sk-1")
        assert run("ask", "Hi").stdout == "From the server.\n"


def test_another_program_on_the_port_is_not_used(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER__PORT", upstream.url.rpartition(":")[2].removesuffix("/v1"))
    monkeypatch.setenv("ANTIPHON_UPSTREAMS", json.dumps([{"base_url": upstream.url, "models": ["tiny"]}]))
    assert run("ask", "Hi").stdout == "Hello there.\n"


def test_a_person_is_told_which_server_answers_and_sees_tool_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch), terminal("chat") as screen:
        screen.expect("Using the server at http://127.0.0.1:", "> ")
        screen.send("When?")
        screen.expect('tide_at {"harbour": "Dover"}', "From the server.", "> ")
        screen.end_input()
        assert screen.finish() == 0


@pytest.mark.usefixtures("no_running_server")
def test_a_person_is_told_that_no_server_runs(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_UPSTREAMS", json.dumps([{"base_url": upstream.url, "models": ["tiny"]}]))
    with terminal("ask", "Hi") as screen:
        assert screen.finish() == 0
    assert "No server is running: answering in this process." in screen.seen
    assert "Hello there." in screen.seen


def test_a_model_file_that_the_server_does_not_serve_is_loaded_in_this_process(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.gguf").touch()
    monkeypatch.setenv("ANTIPHON_UPSTREAMS", json.dumps([{"base_url": upstream.url, "models": ["*"]}]))
    with running(monkeypatch) as server:
        assert run("ask", "Hi", "--model", "mine.gguf").stdout == "Hello there.\n"
        assert run("ask", "Hi", "--model", "unknown").stdout == "From the server.\n"
    assert [body["model"] for body in server.requests] == ["unknown"]
