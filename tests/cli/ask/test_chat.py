"""A conversation as a script: one line per turn."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cli.conftest import Run
from tests.cli.http_thread import serving
from tests.cli.stored_responses import save_responses, turn
from tests.cli.terminal import terminal
from tests.cli.upstream import Reply, ScriptedUpstream

pytestmark = pytest.mark.usefixtures("no_running_server")


def test_each_line_is_a_turn_with_the_history(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("Hi Ada.",)), Reply(("You are Ada.",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="I am Ada.\n\nWho am I?\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Hi Ada.\nYou are Ada.\n", "")
    assert upstream.messages() == [("user", "I am Ada."), ("assistant", "Hi Ada."), ("user", "Who am I?")]


def test_a_failed_turn_is_reported_and_the_chat_continues(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("One.",)), Reply(status=400, message="no"), Reply(("Three.",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n3\n")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "One.\nThree.\n", "Error: no\n")
    assert upstream.messages() == [("user", "1"), ("assistant", "One."), ("user", "3")]


def test_a_failed_answer_is_not_part_of_the_history(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("half",), breaks=True), Reply(("Whole.",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n")
    assert result.exit_code == 1
    assert result.stdout == "half\nWhole.\n"
    assert upstream.messages() == [("user", "2")]


def test_a_truncated_answer_is_part_of_the_history(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("Once upon",), finish="length"), Reply(("a time.",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="A tale.\nGo on.\n")
    assert result.exit_code == 0
    assert "cut off by the limit" in result.stderr
    assert upstream.messages() == [("user", "A tale."), ("assistant", "Once upon"), ("user", "Go on.")]


def test_instructions_are_sent_with_every_turn_until_they_are_removed(
    run: Run, upstream: ScriptedUpstream
) -> None:
    script = "1\n/system Be loud.\n2\n/system\n3\n"
    options = ("--upstream", upstream.url, "--model", "tiny", "--system", "Be brief.")
    assert run("chat", *options, input=script).exit_code == 0
    systems = [[text for role, text in upstream.messages(turn) if role == "system"] for turn in range(3)]
    assert systems == [["Be brief."], ["Be loud."], []]


def test_the_model_can_be_changed_in_mid_conversation(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("chat", "--upstream", upstream.url, input="/models\n1\n/model other\n2\n")
    assert result.stdout == "tiny\nother\nHello there.\nHello there.\n"
    assert [request["model"] for request in upstream.requests] == ["tiny", "other"]
    assert len(upstream.messages()) == 3


def test_a_reset_drops_the_turns_and_keeps_the_instructions(run: Run, upstream: ScriptedUpstream) -> None:
    options = ("--upstream", upstream.url, "--model", "tiny", "--system", "Be brief.")
    assert run("chat", *options, input="1\n/reset\n2\n").exit_code == 0
    assert upstream.messages() == [("system", "Be brief."), ("user", "2")]


def test_a_retry_replaces_the_last_turn(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("A",)), Reply(("B",)), Reply(("C",)), Reply(("D",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n/retry\n3\n")
    assert result.stdout == "A\nB\nC\nD\n"
    assert upstream.messages(2) == [("user", "1"), ("assistant", "A"), ("user", "2")]
    assert upstream.messages(3)[2:] == [("user", "2"), ("assistant", "C"), ("user", "3")]


def test_a_line_may_begin_with_a_slash(run: Run, upstream: ScriptedUpstream) -> None:
    assert run("chat", "--upstream", upstream.url, "--model", "tiny", input="//etc is what?\n").exit_code == 0
    assert upstream.messages() == [("user", "/etc is what?")]


@pytest.mark.parametrize(
    ("script", "message"), [("/frobnicate\n", "Unknown command"), ("/retry\n", "There is no question")]
)
def test_a_command_that_cannot_be_executed_is_reported(
    run: Run, upstream: ScriptedUpstream, script: str, message: str
) -> None:
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input=script + "1\n")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stdout == "Hello there.\n"


def test_quit_ends_before_the_script_does(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="/help\n/quit\n1\n")
    assert result.exit_code == 0
    assert "/retry" in result.stdout
    assert upstream.requests == []


def test_a_downgrade_is_printed_once(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("A",), reasoning=("hm",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n3\n")
    assert result.stderr.count("Note: ") == 1


def test_a_chat_keeps_its_turns_even_if_the_store_does_not(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_STORE__URL", "none")
    assert run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n").exit_code == 0
    assert len(upstream.messages()) == 3


def test_text_that_is_not_utf_8_does_not_end_the_session(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input=b"\xff?\n2\n")
    assert result.exit_code == 0
    assert upstream.messages(0) == [("user", "\ufffd?")]


@pytest.fixture
def durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A durable store that the next command reads."""
    url = f"sqlite:{tmp_path / 'kept.db'}"
    monkeypatch.setenv("ANTIPHON_STORE__URL", url)
    return url


def test_a_chat_continues_the_last_one(run: Run, upstream: ScriptedUpstream, durable: str) -> None:
    upstream.replies = [Reply(("Hi Ada.",)), Reply(("You are Ada.",))]
    assert run("chat", "--upstream", upstream.url, "--model", "tiny", input="I am Ada.\n").exit_code == 0
    result = run("chat", "--continue", "--upstream", upstream.url, input="Who am I?\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "You are Ada.\n", "")
    assert upstream.messages() == [("user", "I am Ada."), ("assistant", "Hi Ada."), ("user", "Who am I?")]
    assert upstream.requests[-1]["model"] == "tiny"


def test_a_chat_does_not_continue_an_incomplete_response(
    run: Run, upstream: ScriptedUpstream, durable: str
) -> None:
    save_responses(
        durable, turn("resp_1", prompt="One?", created_at=1), turn("resp_2", status="failed", created_at=2)
    )
    run("chat", "--upstream", upstream.url, "--continue", input="Two?\n")
    assert upstream.messages() == [("user", "One?"), ("assistant", "Hi."), ("user", "Two?")]


def test_a_chat_continues_a_given_response_with_another_model(
    run: Run, upstream: ScriptedUpstream, durable: str
) -> None:
    save_responses(durable, turn("resp_1", prompt="One?"), turn("resp_2", prompt="Other?"))
    options = ("--upstream", upstream.url, "--model", "other")
    assert run("chat", "--continue", "resp_1", *options, input="Two?\n").exit_code == 0
    assert upstream.messages()[0] == ("user", "One?")
    assert upstream.requests[-1]["model"] == "other"


def test_a_retry_at_the_start_keeps_the_continued_response(
    run: Run, upstream: ScriptedUpstream, durable: str
) -> None:
    save_responses(durable, turn("resp_1", prompt="One?"))
    result = run("chat", "--continue", "--upstream", upstream.url, input="/retry\nTwo?\n")
    assert result.stderr == "Error: There is no question to ask again.\n"
    assert upstream.messages() == [("user", "One?"), ("assistant", "Hi."), ("user", "Two?")]


def test_there_must_be_something_to_continue(run: Run, upstream: ScriptedUpstream, durable: str) -> None:
    empty_store = run("chat", "--upstream", upstream.url, "--continue", input="Hi\n")
    assert empty_store.exit_code == 2
    assert "There is no completed response to continue" in empty_store.stderr
    unknown = run("chat", "--upstream", upstream.url, "--continue", "resp_0", input="Hi\n")
    assert (unknown.exit_code, unknown.stderr) == (2, "Error: Response with id 'resp_0' not found.\n")


@contextmanager
def storing_server(received: list[dict[str, Any]]) -> Generator[str, None, None]:
    """A server that stores one response, and records its requests."""
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}
    body = {"id": "resp_1", "status": "completed", "model": "theirs", "output": [message]}
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "user", "content": "Hello?"},
    ]

    async def retrieve(request: web.Request) -> web.Response:
        if request.match_info["id"] != "resp_1":
            return web.json_response({"error": {"message": "not here"}}, status=404)
        return web.json_response(body)

    async def input_items(_request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": items})

    async def create(request: web.Request) -> web.StreamResponse:
        received.append(await request.json())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        event = web.json_response({"type": "response.completed", "response": {**body, "id": "resp_2"}}).body
        assert isinstance(event, bytes)
        await response.write(b"data: " + event + b"\n\n")
        return response

    app = web.Application()
    app.router.add_get("/v1/responses/{id}", retrieve)
    app.router.add_get("/v1/responses/{id}/input_items", input_items)
    app.router.add_post("/v1/responses", create)
    with serving(app) as url:
        yield url


def test_a_chat_continues_a_response_stored_on_a_server(run: Run) -> None:
    received: list[dict[str, Any]] = []
    with storing_server(received) as url:
        assert run("chat", "--base-url", url, "--continue", "resp_1", input="And?\n").exit_code == 0
        unknown = run("chat", "--base-url", url, "--continue", "resp/0", input="And?\n")
    (request,) = received
    assert (request["model"], request["input"]) == ("theirs", "And?")
    assert request["previous_response_id"] == "resp_1"
    assert (unknown.exit_code, unknown.stderr) == (2, "Error: not here\n")


def test_a_server_needs_the_id_to_continue(run: Run) -> None:
    result = run("chat", "--base-url", "http://127.0.0.1:1/v1", "--continue", input="Hi\n")
    assert result.exit_code == 2
    assert "--continue ID" in result.stderr


@pytest.mark.slow
def test_a_person_sees_the_last_exchange_first(upstream: ScriptedUpstream, durable: str) -> None:
    save_responses(durable, turn("resp_1", prompt="Who \x1b[2Jare you?", answer="A choir."))
    with terminal("chat", "--continue", "--upstream", upstream.url) as screen:
        screen.expect("> Who [2Jare you?", "A choir.", "Model: tiny", "> ")
        screen.end_input()
        assert screen.finish() == 0
    assert "\x1b[2J" not in screen.seen
