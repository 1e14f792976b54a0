"""A conversation as a script: one line per turn."""

import pytest

from tests.cli.conftest import Run
from tests.cli.upstream import Reply, ScriptedUpstream


def test_each_line_is_a_turn_and_the_history_goes_along(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("Hi Ada.",)), Reply(("You are Ada.",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="I am Ada.\n\nWho am I?\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Hi Ada.\nYou are Ada.\n", "")
    assert upstream.asked() == [("user", "I am Ada."), ("assistant", "Hi Ada."), ("user", "Who am I?")]


def test_a_failed_turn_is_told_and_the_next_one_asked(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("One.",)), Reply(status=400, message="no"), Reply(("Three.",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n3\n")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "One.\nThree.\n", "Error: no\n")
    assert upstream.asked() == [("user", "1"), ("assistant", "One."), ("user", "3")]


def test_an_answer_that_fails_on_its_way_is_not_part_of_the_history(
    run: Run, upstream: ScriptedUpstream
) -> None:
    upstream.replies = [Reply(("half",), breaks=True), Reply(("Whole.",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n")
    assert result.exit_code == 1
    assert result.stdout == "half\nWhole.\n"
    assert upstream.asked() == [("user", "2")]


def test_a_cut_answer_is_part_of_the_history(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("Once upon",), finish="length"), Reply(("a time.",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="A tale.\nGo on.\n")
    assert result.exit_code == 0
    assert "cut by the limit" in result.stderr
    assert upstream.asked() == [("user", "A tale."), ("assistant", "Once upon"), ("user", "Go on.")]


def test_instructions_are_sent_with_every_turn_until_they_are_removed(
    run: Run, upstream: ScriptedUpstream
) -> None:
    script = "1\n/system Be loud.\n2\n/system\n3\n"
    options = ("--upstream", upstream.url, "--model", "tiny", "--system", "Be brief.")
    assert run("chat", *options, input=script).exit_code == 0
    systems = [[text for role, text in upstream.asked(turn) if role == "system"] for turn in range(3)]
    assert systems == [["Be brief."], ["Be loud."], []]


def test_the_model_can_be_changed_in_mid_conversation(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("chat", "--upstream", upstream.url, input="/models\n1\n/model other\n2\n")
    assert result.stdout == "tiny\nother\nHello there.\nHello there.\n"
    assert [request["model"] for request in upstream.requests] == ["tiny", "other"]
    assert len(upstream.asked()) == 3


def test_a_reset_forgets_the_turns_and_keeps_the_instructions(run: Run, upstream: ScriptedUpstream) -> None:
    options = ("--upstream", upstream.url, "--model", "tiny", "--system", "Be brief.")
    assert run("chat", *options, input="1\n/reset\n2\n").exit_code == 0
    assert upstream.asked() == [("system", "Be brief."), ("user", "2")]


def test_a_retry_takes_the_place_of_the_last_turn(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("A",)), Reply(("B",)), Reply(("C",)), Reply(("D",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n/retry\n3\n")
    assert result.stdout == "A\nB\nC\nD\n"
    assert upstream.asked(2) == [("user", "1"), ("assistant", "A"), ("user", "2")]
    assert upstream.asked(3)[2:] == [("user", "2"), ("assistant", "C"), ("user", "3")]


def test_a_line_may_begin_with_a_slash(run: Run, upstream: ScriptedUpstream) -> None:
    assert run("chat", "--upstream", upstream.url, "--model", "tiny", input="//etc is what?\n").exit_code == 0
    assert upstream.asked() == [("user", "/etc is what?")]


@pytest.mark.parametrize("script", ["/frobnicate\n", "/retry\n"])
def test_a_command_that_cannot_be_obeyed_is_told(run: Run, upstream: ScriptedUpstream, script: str) -> None:
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input=script + "1\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: There is no")
    assert result.stdout == "Hello there.\n"


def test_quit_ends_before_the_script_does(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="/help\n/quit\n1\n")
    assert result.exit_code == 0
    assert "/retry" in result.stdout
    assert upstream.requests == []


def test_a_note_is_told_once(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("A",), thoughts=("hm",))]
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n3\n")
    assert result.stderr.count("Note: ") == 1


def test_a_chat_keeps_its_turns_even_if_the_store_does_not(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_STORE__URL", "none")
    assert run("chat", "--upstream", upstream.url, "--model", "tiny", input="1\n2\n").exit_code == 0
    assert len(upstream.asked()) == 3


def test_text_that_is_not_utf_8_does_not_end_the_session(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("chat", "--upstream", upstream.url, "--model", "tiny", input=b"\xff?\n2\n")
    assert result.exit_code == 0
    assert upstream.asked(0) == [("user", "\ufffd?")]
