"""`antiphon execute`: an agent in this process, on a scripted upstream."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.agent.agent_upstream import AgentUpstream, Call, Json, agent_upstream
from tests.cli.conftest import Run
from tests.serving import run_server

pytestmark = pytest.mark.usefixtures("no_running_server")

WRITE = Call("write_file", {"path": "src/new.py", "contents": "print(1)\n"})
TOOL: Json = {"type": "function", "name": "ask_user", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture
def model() -> Generator[AgentUpstream, None, None]:
    with agent_upstream() as upstream:
        yield upstream


@pytest.fixture
def execute(run: Run, model: AgentUpstream) -> Run:
    """Run the command with the scripted model."""

    def execute(*arguments: str, input: str | None = None) -> Result:
        options_given = ("--upstream", model.url, "--model", "tiny", "--store", "sqlite:store.db")
        return run("execute", *arguments, *options_given, input=input)

    return execute


def prompt(model: AgentUpstream, number: int = 0) -> str:
    """The text of all messages that the model received."""
    return json.dumps(model.requests[number]["messages"])


def test_the_answer_in_a_pipe_is_only_the_text(execute: Run, model: AgentUpstream) -> None:
    result = execute("Say hello")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Hello there.\n", "")
    assert "Say hello" in prompt(model)


def test_the_text_is_printed_as_it_arrives(execute: Run, model: AgentUpstream) -> None:
    result = execute("Say hello", "--stream")
    assert (result.exit_code, result.stdout) == (0, "Hello there.\n")
    assert model.requests[0]["stream"] is True


def test_the_instruction_is_read_from_standard_input(execute: Run, model: AgentUpstream) -> None:
    assert execute("-", input="Wie geht's, Köln?").exit_code == 0
    assert "K\\u00f6ln" in prompt(model)


def test_tool_calls_are_printed_on_standard_error(execute: Run, model: AgentUpstream) -> None:
    model.turns = [WRITE, "Done."]
    result = execute("Write it", "--mode", "code_edit")
    assert (result.exit_code, result.stdout) == (0, "Done.\n")
    assert "→ write_file" in result.stderr
    assert "✓ write_file" in result.stderr
    assert "create  src/new.py" in result.stderr
    assert not Path("src").exists()


def test_a_failing_tool_is_printed_and_the_run_continues(execute: Run, model: AgentUpstream) -> None:
    model.turns = [Call("write_file", {"path": "../x", "contents": ""}), "Sorry."]
    result = execute("Write it", "--mode", "code_edit")
    assert (result.exit_code, result.stdout) == (0, "Sorry.\n")
    assert "✗ write_file (error)" in result.stderr


def test_files_are_written_after_the_diff_was_shown_and_agreed_to(execute: Run, model: AgentUpstream) -> None:
    model.turns = [WRITE, "Done."]
    result = execute("Write it", "--write-files", input="y\n")
    assert result.exit_code == 0, result.stderr
    assert "+print(1)" in result.stderr
    assert Path("src/new.py").read_text() == "print(1)\n"


def test_files_are_not_written_without_confirmation(execute: Run, model: AgentUpstream) -> None:
    model.turns = [WRITE, "Done."]
    result = execute("Write it", "--write-files", input="n\n")
    assert (result.exit_code, result.stdout) == (1, "Done.\n")
    assert not Path("src").exists()


def test_an_attached_file_is_seen_and_changed(execute: Run, model: AgentUpstream) -> None:
    Path("main.py").write_text("x = 1\n")
    Path("main.py").chmod(0o755)
    model.turns = [Call("edit_file", {"path": "main.py", "find": "1", "replace": "2"}), "Done."]
    result = execute("Fix it", "--file", "main.py", "--write-files", "--yes")
    assert result.exit_code == 0, result.stderr
    assert "x = 1" in prompt(model)
    assert "-x = 1" in result.stderr
    assert Path("main.py").read_text() == "x = 2\n"
    assert Path("main.py").stat().st_mode & 0o777 == 0o755


def test_a_file_can_be_deleted(execute: Run, model: AgentUpstream) -> None:
    Path("main.py").write_text("x = 1\n")
    model.turns = [Call("delete_file", {"path": "main.py"}), "Done."]
    assert execute("Away", "--file", "main.py", "--write-files", "--yes").exit_code == 0
    assert not Path("main.py").exists()


def test_a_link_that_leads_out_of_the_folder_is_not_written_through(
    execute: Run, model: AgentUpstream, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    Path("src").symlink_to(tmp_path / "outside")
    model.turns = [WRITE, "Done."]
    result = execute("Write it", "--write-files", "--yes")
    assert (result.exit_code, result.stdout) == (1, "Done.\n")
    assert "outside this folder" in result.stderr
    assert not (tmp_path / "outside" / "new.py").exists()


def test_a_file_that_the_agent_has_not_seen_is_not_overwritten_unasked(
    execute: Run, model: AgentUpstream
) -> None:
    Path("src").mkdir()
    Path("src/new.py").write_text("precious\n")
    model.turns = [WRITE, "Done.", WRITE, "Done.", WRITE, "Done."]
    unasked = execute("Write it", "--write-files", "--yes")
    assert (unasked.exit_code, unasked.stdout) == (2, "Done.\n")
    assert "overwrite src/new.py (the agent has not seen the current contents)" in unasked.stderr
    assert "--file" in unasked.stderr
    assert Path("src/new.py").read_text() == "precious\n"

    assert execute("Write it", "--write-files", "--yes", "--file", "src/new.py").exit_code == 0
    assert Path("src/new.py").read_text() == "print(1)\n"
    Path("src/new.py").write_text("precious again\n")
    assert execute("Write it", "--write-files", input="y\n").exit_code == 0
    assert Path("src/new.py").read_text() == "print(1)\n"


def test_calls_of_client_tools_are_returned_and_answered(execute: Run, model: AgentUpstream) -> None:
    Path("tools.json").write_text(json.dumps(TOOL))
    model.turns = [Call("ask_user", {}, "call_7"), "Thanks."]
    first = execute("Ask", "--tools", "tools.json", "--json")
    envelope = json.loads(first.stdout)
    assert (first.exit_code, envelope["kind"]) == (0, "tool-only")
    assert "call_7  ask_user" in first.stderr
    continuation = envelope["responseContinuationId"]
    assert f"--continue-from {continuation}" in first.stderr
    results = [{"call_id": "call_7", "name": "ask_user", "result_json": '"blue"'}]
    Path("results.json").write_text(json.dumps(results))
    second = execute("--continue-from", continuation, "--tool-results", "results.json")
    assert (second.exit_code, second.stdout) == (0, "Thanks.\n")
    assert "blue" in prompt(model, 1)


def test_json_is_the_envelope_in_the_case_that_was_chosen(execute: Run) -> None:
    envelope = json.loads(execute("Hi", "--json", "--case", "pascal").stdout)
    assert (envelope["Kind"], envelope["Text"]) == ("ok", "Hello there.")


def test_a_request_from_a_file_is_added_to(execute: Run, model: AgentUpstream) -> None:
    Path("request.json").write_text(json.dumps({"SystemPrompt": "Be brief.", "Instruction": "Say hello"}))
    result = execute("--request", "request.json", "--mode", "ddr_search")
    assert result.exit_code == 0, result.stderr
    assert "Be brief." in prompt(model)
    assert "[MODE: ddr_search]" in prompt(model)


def test_retrieved_sources_are_listed(execute: Run) -> None:
    Path("docs").mkdir()
    Path("docs/tea.md").write_text("# Tea\n\nTea is made with hot water.\n")
    Path("antiphon.toml").write_text('[agent]\ndocuments = ["docs"]\n')
    result = execute("How is tea made?")
    assert (result.exit_code, result.stdout) == (0, "Hello there.\n")
    assert "docs/tea.md:1-3" in result.stderr


def test_an_unknown_mode_is_a_warning(execute: Run) -> None:
    result = execute("Hi", "--mode", "nonsense")
    assert result.exit_code == 0
    assert "Warning: " in result.stderr
    assert "nonsense" in result.stderr


def test_a_truncated_answer_has_its_own_exit_code(execute: Run, model: AgentUpstream) -> None:
    model.finish = "length"
    result = execute("A tale")
    assert (result.exit_code, result.stdout) == (3, "Hello there.\n")
    assert "cut off by the limit" in result.stderr


@pytest.mark.parametrize("how", [["--stream"], ["--no-stream"], ["--json"]])
def test_a_model_that_fails_fails_the_command(execute: Run, model: AgentUpstream, how: list[str]) -> None:
    model.turns = [422]
    result = execute("Hi", *how)
    assert result.exit_code == 1
    assert result.stderr.endswith("Error: broken on purpose\n")
    if how == ["--json"]:
        assert json.loads(result.stdout)["errorMessage"] == "broken on purpose"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["Hi", "--stream", "--json"], "--stream cannot be combined with --json"),
        (["Hi", "--yes"], "--write-files"),
        (["Hi", "--tools", "none.json"], "none.json"),
        (["Hi", "--tools", "bad.json"], "bad.json"),
        (
            ["Hi", "--tools", "nameless.json"],
            "--tools: 'nameless.json': Missing required parameter: 'tools[1].name'",
        ),
        (["Hi", "--tools", "tool.json", "--tools", "tool.json"], "--tools: Duplicate tool name 'f'"),
        (["Hi", "--tool-results", "bad.json"], "--tool-results: 'bad.json' is not valid JSON"),
        (["Hi", "--tool-results", "tool.json"], "--tool-results: 'tool.json' must contain a JSON array"),
        (["Hi", "--tool-results", "nameless.json"], "--tool-results: 'nameless.json': Missing required"),
        (["Hi", "--request", "forcing.json"], "'tool_choice_name' is 'nonsense'"),
        (["Hi", "--request", "list.json"], "must contain a JSON object"),
        (["Hi", "--request", "request.json"], "'instruction'"),
        (["Hi", "--file", "none.py"], "none.py"),
        (["Hi", "--file", "/etc/hostname"], "is not below"),
        (["Hi", "--file", "image.png"], "not UTF-8"),
        (["Hi", "--image", "bad.json"], "not a PNG"),
        (["Hi", "--image", "https://example.org/cat.png"], "from files only"),
        (["Hi", "--case", "kebab"], "kebab"),
        (["-"], "empty"),
    ],
)
def test_wrong_usage_is_distinguished_from_failure(
    execute: Run, model: AgentUpstream, arguments: list[str], complaint: str
) -> None:
    Path("bad.json").write_text("{")
    Path("list.json").write_text("[]")
    Path("tool.json").write_text('{"name": "f"}')
    Path("nameless.json").write_text('[{"name": "f"}, {"type": "function"}]')
    Path("forcing.json").write_text('{"ToolChoiceName": "nonsense"}')
    Path("request.json").write_text('{"Instruction": "Hi"}')
    Path("image.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
    result = execute(*arguments, input="")
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert model.requests == []


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ('tools = ["nowhere:tool"]', "nowhere"),
        ('default_mode = "none"', "'none'"),
        ('documents = ["nowhere"]', "nowhere"),
        ('modes = {x = {when_to_use = "Never.", tools = ["no_such_tool"]}}', "no_such_tool"),
    ],
)
def test_an_agent_that_is_configured_wrongly_does_not_begin(
    execute: Run, model: AgentUpstream, settings: str, complaint: str
) -> None:
    Path("antiphon.toml").write_text(f"[agent]\n{settings}\n")
    result = execute("Hi")
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert model.requests == []


def test_tools_of_the_settings_are_run(execute: Run, model: AgentUpstream) -> None:
    Path("mine_for_execute.py").write_text(
        'def shout(text: str) -> str:\n    """Say it loud."""\n    return text.upper()\n'
    )
    Path("antiphon.toml").write_text('[agent]\ntools = ["mine_for_execute:shout"]\n')
    model.turns = [Call("shout", {"text": "hi"}), "Done."]
    assert execute("Shout").exit_code == 0
    assert "HI" in prompt(model, 1)


def test_pictures_and_files_are_sent_as_they_are(execute: Run, model: AgentUpstream) -> None:
    data = b"\x89PNG\r\n\x1a\n...."
    Path("cat.png").write_bytes(data)
    Path("a.txt").write_text("grün\n", encoding="utf-8")
    result = execute("Look", "--image", "cat.png", "--file", "a.txt")
    assert result.exit_code == 0, result.stderr
    assert "data:image/png;base64," in prompt(model)
    assert "gr\\u00fcn" in prompt(model)


@pytest.mark.slow
def test_a_server_is_called_while_the_tools_run_locally(run: Run, model: AgentUpstream) -> None:
    model.turns = [WRITE, "Done."]
    options = ("--upstream", model.url, "--model", "tiny", "--store", "sqlite:served.db")
    with run_server(Path.cwd(), *options) as served:
        result = run("execute", "Write it", "--base-url", served.base_url, "--write-files", "--yes")
    assert (result.exit_code, result.stdout) == (0, "Done.\n"), result.stderr
    assert Path("src/new.py").exists()
    assert "write_file" in {tool["function"]["name"] for tool in model.requests[1]["tools"]}


def test_a_server_that_is_not_there_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEY", "secret")
    result = run("execute", "Hi", "--base-url", "http://127.0.0.1:1", "--model", "m")
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr
    assert "secret" not in result.stderr


def test_tools_are_used_without_a_store(run: Run, model: AgentUpstream) -> None:
    model.turns = [WRITE, "Done."]
    upstream = ("--upstream", model.url, "--model", "tiny", "--store", "none")
    result = run("execute", "Write it", "--mode", "code_edit", *upstream)
    assert (result.exit_code, result.stdout) == (0, "Done.\n"), result.stderr
