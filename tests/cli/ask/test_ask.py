"""One question, in this process, from a scripted upstream."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.upstream import Reply, ScriptedUpstream

pytestmark = pytest.mark.usefixtures("no_running_server")

RIVER = {"type": "object", "properties": {"river": {"type": "string"}}, "required": ["river"]}


def test_an_answer_in_a_pipe_is_only_the_text(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("Paris", " it is."), reasoning=("Hm, France.",))]
    result = run("ask", "What is the capital?", "--upstream", upstream.url, "--model", "tiny")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Paris it is.\n", "")
    assert upstream.messages() == [("user", "What is the capital?")]
    assert not upstream.requests[0].get("stream")


def test_a_stream_in_a_pipe_does_not_show_reasoning(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(("Pa", "ris\n"), reasoning=("Hm.",))]
    result = run("ask", "Capital?", "--stream", "--upstream", upstream.url, "--model", "tiny")
    assert (result.exit_code, result.stdout) == (0, "Paris\n")
    assert upstream.requests[0]["stream"] is True


@pytest.mark.parametrize("argument", [["-"], []])
def test_the_question_is_read_from_standard_input(
    run: Run, upstream: ScriptedUpstream, argument: list[str]
) -> None:
    result = run("ask", *argument, "--upstream", upstream.url, "--model", "tiny", input="Wie geht's, Köln?\n")
    assert result.exit_code == 0
    assert upstream.messages() == [("user", "Wie geht's, Köln?\n")]


@pytest.mark.parametrize(
    ("stdin_bytes", "complaint"),
    [(b"", "The question is empty"), (b" \n", "empty"), (b"\xff\xfe", "not UTF-8")],
)
def test_an_invalid_question_is_wrong_usage(run: Run, stdin_bytes: bytes, complaint: str) -> None:
    result = run("ask", "-", "--upstream-kind", "plain", input=stdin_bytes)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_options_reach_the_model(run: Run, upstream: ScriptedUpstream) -> None:
    result = run(
        *("ask", "Hi", "--upstream", upstream.url, "--model", "tiny", "--system", "Be brief."),
        *("--max-output-tokens", "20", "--temperature", "0.5"),
    )
    assert result.exit_code == 0
    assert upstream.messages() == [("system", "Be brief."), ("user", "Hi")]
    assert upstream.requests[0]["max_tokens"] == 20
    assert upstream.requests[0]["temperature"] == 0.5


def test_without_a_model_the_first_model_of_the_upstream_is_used(
    run: Run, upstream: ScriptedUpstream
) -> None:
    assert run("ask", "Hi", "--upstream", upstream.url).exit_code == 0
    assert upstream.requests[0]["model"] == "tiny"


def test_without_a_model_and_a_model_list_a_model_is_required(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.models = None
    result = run("ask", "Hi", "--upstream", upstream.url)
    assert result.exit_code == 2
    assert "Name one with --model" in result.stderr


def test_without_a_model_the_first_configured_one_is_used(run: Run, upstream: ScriptedUpstream) -> None:
    Path("antiphon.toml").write_text(
        f'[[upstreams]]\nbase_url = "{upstream.url}"\nmodels = ["*", {{name = "ours", upstream = "theirs"}}]\n'
    )
    assert run("ask", "Hi").exit_code == 0
    assert upstream.requests[0]["model"] == "theirs"


def test_json_prints_the_complete_response(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("ask", "Hi", "--json", "--upstream", upstream.url, "--model", "tiny")
    body = json.loads(result.stdout)
    assert result.exit_code == 0
    assert body["object"] == "response"
    assert body["output"][0]["content"][0]["text"] == "Hello there."
    assert body["usage"]["total_tokens"] == 12


def test_a_schema_yields_validated_json(run: Run, upstream: ScriptedUpstream) -> None:
    Path("a river.json").write_text(json.dumps(RIVER))
    upstream.replies = [Reply(('{"river":', '"Rhine"}'))]
    result = run("ask", "A river", "--schema", "a river.json", "--upstream", upstream.url, "--model", "tiny")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"river": "Rhine"})
    sent = upstream.requests[0]["response_format"]["json_schema"]
    assert (sent["name"], sent["schema"]) == ("a_river", RIVER)


def test_an_empty_schema_takes_any_json(run: Run, upstream: ScriptedUpstream) -> None:
    Path("any.json").write_text("{}")
    upstream.replies = [Reply(("[1, 2]",))]
    result = run("ask", "Numbers", "--schema", "any.json", "--upstream", upstream.url, "--model", "tiny")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [1, 2])
    assert upstream.requests[0]["response_format"]["json_schema"]["schema"] == {}


def test_an_answer_that_is_no_json_is_repaired(run: Run, upstream: ScriptedUpstream) -> None:
    Path("river.json").write_text(json.dumps(RIVER))
    upstream.replies = [Reply(("Rhine",))]
    result = run("ask", "A river", "--schema", "river.json", "--upstream", upstream.url, "--model", "tiny")
    assert (result.exit_code, result.stdout, len(upstream.requests)) == (1, "", 3)
    assert "It was asked 3 times" in result.stderr


@pytest.mark.parametrize("answer", ['{"river": 5}', '{"stream": "Rhine"}'])
def test_an_answer_of_another_shape_fails(run: Run, upstream: ScriptedUpstream, answer: str) -> None:
    Path("river.json").write_text(json.dumps(RIVER))
    upstream.replies = [Reply((answer,))]
    result = run("ask", "A river", "--schema", "river.json", "--upstream", upstream.url, "--model", "tiny")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "does not match the schema" in result.stderr
    assert answer in result.stderr


@pytest.mark.parametrize("schema", ["{", "[]", '{"type": "rubbish"}', None])
def test_an_invalid_schema_is_wrong_usage(run: Run, schema: str | None) -> None:
    if schema is not None:
        Path("schema.json").write_text(schema)
    result = run("ask", "Hi", "--schema", "schema.json", "--upstream-kind", "plain")
    assert result.exit_code == 2
    assert "schema.json" in result.stderr


def test_images_are_sent_as_data_or_as_they_are(run: Run, upstream: ScriptedUpstream) -> None:
    Path("named.txt").write_bytes(b"\x89PNG\r\n\x1a\n....")
    result = run(
        *("ask", "What is it?", "--image", "named.txt", "--image", "https://example.org/cat.jpg"),
        *("--upstream", upstream.url, "--model", "tiny"),
    )
    assert result.exit_code == 0, result.stderr
    [(_, content)] = upstream.messages()
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    assert urls == ["data:image/png;base64,iVBORw0KGgouLi4u", "https://example.org/cat.jpg"]


def test_a_truncated_answer_is_printed_and_has_its_own_exit_code(
    run: Run, upstream: ScriptedUpstream
) -> None:
    upstream.replies = [Reply(("Once upon",), finish="length")]
    result = run("ask", "A tale", "--upstream", upstream.url, "--model", "tiny")
    assert (result.exit_code, result.stdout) == (3, "Once upon\n")
    assert "cut off by the limit of output tokens" in result.stderr


@pytest.mark.parametrize("how", [["--stream"], ["--no-stream"]])
def test_a_failed_answer_has_a_reason(run: Run, upstream: ScriptedUpstream, how: list[str]) -> None:
    upstream.replies = [Reply(status=422, message="no such thing")]
    result = run("ask", "Hi", *how, "--upstream", upstream.url, "--model", "tiny")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: no such thing\n"


def test_a_failure_is_json_if_json_was_requested(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.replies = [Reply(status=422, message="no such thing")]
    result = run("ask", "Hi", "--json", "--upstream", upstream.url, "--model", "tiny")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["message"] == "no such thing"


def test_an_upstream_that_is_not_there_fails(run: Run) -> None:
    result = run("ask", "Hi", "--upstream", "http://127.0.0.1:1/v1", "--model", "tiny")
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--upstream", "localhost"], "needs a base_url such as"),
        (["--config", "nowhere.toml"], "Cannot read the configuration nowhere.toml"),
        (["--store", "cloud:"], "Unknown store"),
        (["--stream", "--json"], "--stream cannot be combined with --json"),
        (["--model", "no-such-model"], "no-such-model"),
        (["--temperature", "3"], "3"),
        (["--max-output-tokens", "0"], "0"),
    ],
)
def test_wrong_usage_is_distinguished_from_failure(run: Run, options: list[str], complaint: str) -> None:
    result = run("ask", "Hi", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_downgrades_are_printed(run: Run, upstream: ScriptedUpstream) -> None:
    Path("river.json").write_text(json.dumps(RIVER))
    upstream.replies = [Reply(('{"river":"Rhine"}',))]
    result = run(
        *("ask", "A river", "--schema", "river.json", "--upstream", upstream.url),
        *("--upstream-kind", "deepseek", "--model", "tiny"),
    )
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith("Note: ")


def test_the_key_of_the_upstream_is_read_from_the_environment(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.key = "secret-of-the-upstream"
    monkeypatch.setenv("ANTIPHON_UPSTREAM_KEY", upstream.key)
    assert run("ask", "Hi", "--upstream", upstream.url).exit_code == 0
