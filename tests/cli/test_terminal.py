"""Real processes in a pseudo-terminal."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.terminal import terminal
from tests.cli.upstream import Reply, ScriptedUpstream

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("terminal"),
]

DIM = "\x1b[2m"
LOADING = 180
"""Seconds for the embedded model on a busy machine."""
RED = "\x1b[31m"


def test_an_answer_streams_and_its_reasoning_is_dim(upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("Pa", "ris"), reasoning=("France, ", "then."))]
    with terminal("ask", "Capital?", "--upstream", upstream.url) as screen:
        assert screen.finish() == 0
    assert upstream.requests[0]["stream"] is True
    assert re.search(r"  \x1b\[2;3mFrance, then\.\x1b\[0m *\n\n.*Paris\n", screen.seen)


def test_a_model_cannot_steer_the_terminal(upstream: ScriptedUpstream) -> None:
    upstream.replies = [
        Reply(
            (
                "\x1b[2Jharm",
                "less\x07",
            )
        )
    ]
    with terminal("ask", "Hi", "--upstream", upstream.url) as screen:
        assert screen.finish() == 0
    assert re.search(r"\[2Jharmless\n", screen.seen)
    assert "\x1b[2J" not in screen.seen
    assert "\x07" not in screen.seen


def test_an_answer_is_rendered_as_markdown_with_whole_words(upstream: ScriptedUpstream) -> None:
    text = (
        "# Tides\n\nThe **moon** pulls, "
        + "and pulls, " * 8
        + "always.\n\n- one\n- two\n\n```\nx\n\ny\n```\n"
    )
    upstream.replies = [Reply(tuple(text[start : start + 3] for start in range(0, len(text), 3)))]
    with terminal("ask", "Hi", "--upstream", upstream.url, environment={"COLUMNS": "40"}) as screen:
        assert screen.finish() == 0
    assert "**" not in screen.seen[-900:]
    assert "```" not in screen.seen[-300:]
    assert "\x1b[1mmoon\x1b[0m" in screen.seen
    assert all(len(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)) <= 40 for line in screen.seen.splitlines())
    assert " • " in screen.seen


def test_an_agent_answers_in_markdown_on_a_terminal(upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("The **mo", "on** pulls.\n\n- one\n", "- two\n"))]
    with terminal("execute", "Hi", "--upstream", upstream.url) as screen:
        assert screen.finish() == 0
    assert "\x1b[1mmoon\x1b[0m" in screen.seen
    assert " • " in screen.seen


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_markdown_stays_text_without_colours(upstream: ScriptedUpstream, environment: dict[str, str]) -> None:
    upstream.replies = [Reply(("**bo", "ld**"))]
    with terminal("ask", "Hi", "--upstream", upstream.url, environment=environment) as screen:
        assert screen.finish() == 0
    assert "**bold**\n" in screen.seen


def test_a_question_may_have_many_lines(upstream: ScriptedUpstream) -> None:
    with terminal("chat", "--upstream", upstream.url) as screen:
        screen.expect("> ")
        screen.send("one\\")
        screen.expect("… ")
        screen.send("two")
        screen.expect("5 out", "> ")
        screen.send('"""three')
        screen.expect("… ")
        screen.send("")
        screen.expect("… ")
        screen.send('four"""')
        screen.expect("5 out", "> ")
        screen.end_input()
        assert screen.finish() == 0
    assert [text for role, text in upstream.messages() if role == "user"] == ["one\ntwo", "three\n\nfour"]


def test_no_color_is_honoured(upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(status=400, message="nope")]
    for environment, line in (({}, f"{RED}Error: nope\x1b[0m"), ({"NO_COLOR": "1"}, "Error: nope\n")):
        with terminal("ask", "Hi", "--upstream", upstream.url, environment=environment) as screen:
            assert screen.finish() == 1
        assert line in screen.seen
        assert (RED in screen.seen) is not bool(environment)


def test_an_interrupted_question_ends_with_130(upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("Once",), hangs=True)]
    with terminal("ask", "A tale", "--upstream", upstream.url) as screen:
        screen.expect("Once")
        screen.interrupt()
        assert screen.finish() == 130
    assert upstream.closed.wait(5)
    assert "Traceback" not in screen.seen


def test_an_interrupt_stops_the_answer_and_keeps_the_conversation(upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("Hi Ada.",)), Reply(("One, two",), hangs=True), Reply(("Ada.",))]
    with terminal("chat", "--upstream", upstream.url) as screen:
        screen.expect("Model: tiny", "> ")
        screen.send("I am Ada.")
        screen.expect("Hi Ada.", "7 tokens in, 5 out", "> ")
        screen.send("Count.")
        screen.expect("One, two")
        screen.interrupt()
        screen.expect("Stopped.", "> ")
        assert upstream.closed.wait(5)
        screen.send("Who am I?")
        screen.expect("Ada.", "5 out", "> ")
        screen.end_input()
        assert screen.finish() == 0
    assert upstream.messages() == [("user", "I am Ada."), ("assistant", "Hi Ada."), ("user", "Who am I?")]


def test_an_interrupt_at_the_prompt_takes_the_line_back(upstream: ScriptedUpstream) -> None:
    with terminal("chat", "--upstream", upstream.url) as screen:
        screen.expect("> ")
        screen.interrupt_until("> ")
        screen.send("/quit")
        assert screen.finish() == 0
    assert upstream.requests == []


def test_typed_lines_are_saved_for_the_next_session(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    for line in ("first question", "second question"):
        with terminal("chat", "--upstream", upstream.url) as screen:
            screen.expect("> ")
            screen.send(line)
            screen.expect("5 out", "> ")
            screen.end_input()
            assert screen.finish() == 0
    history = tmp_path / "data" / "antiphon" / "chat_history"
    assert history.read_text().splitlines()[-2:] == ["first question", "second question"]
    assert history.stat().st_mode & 0o077 == 0


def test_a_failed_turn_does_not_end_the_session(upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(status=400, message="too long"), Reply(("Better.",))]
    with terminal("chat", "--upstream", upstream.url) as screen:
        screen.expect("> ")
        screen.send("Hi")
        screen.expect("Error: too long", "> ")
        screen.send("/retry")
        screen.expect("Better.", "> ")
        screen.send("/quit")
        assert screen.finish() == 0
    assert upstream.messages() == [("user", "Hi")]


def test_the_doctor_marks_in_colour(upstream: ScriptedUpstream) -> None:
    with terminal("doctor", "--upstream", upstream.url, environment={"COLUMNS": "100"}) as screen:
        assert screen.finish() == 0
    assert "\x1b[32m✓\x1b[0m" in screen.seen
    assert "All checks passed." in screen.seen


@pytest.mark.usefixtures("no_running_server")
def test_the_embedded_model_answers(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    Path("n.json").write_text(json.dumps(schema))
    with terminal("ask", "What is the capital of France?", "--temperature", "0") as screen:
        assert screen.finish(LOADING) == 0
    assert "Paris" in screen.seen
    with terminal("ask", "A number", "--schema", "n.json") as screen:
        assert screen.finish(LOADING) == 0
    answer = screen.seen[screen.seen.rindex("{") :]
    assert isinstance(json.loads(answer)["n"], int)
