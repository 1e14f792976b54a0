"""`antiphon ddr`: documents are created, listed, shown, changed and found, and a model may write them."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from antiphon import Antiphon, Route, ScriptedBackend
from antiphon.backends.scripted import Script, Step
from antiphon.errors import BackendRefused
from antiphon.orchestrator.client import InProcessResponsesClient, ResponsesClient
from antiphon.orchestrator.documents.entry import Draft
from antiphon.orchestrator.documents.library import Library
from antiphon.orchestrator.documents.status import Status
from antiphon.protocol.content import JsonObject
from antiphon.settings import Settings
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta
from antiphon.turn.context import TurnRequest, TurnTool
from tests.cli.conftest import Run
from tests.cli.http_thread import serving

FOLDER = Path("docs/ddr")
BODY = "## Objective\n\nRetry twice."


@pytest.fixture
def library() -> Library:
    """The folder of the default settings, in the empty working folder of the command."""
    return Library(FOLDER)


def test_a_new_document_prints_only_its_path(run: Run, library: Library) -> None:
    result = run("ddr", "new", "agn", "Retries", "--owner", "Ada", "--tag", "http", "--tag", "errors")
    assert (result.exit_code, result.stdout) == (0, "docs/ddr/AGN-001 - Retries.md\n")
    assert "AGN-001 is Proposed" in result.stderr
    document = library.find("AGN-1").parsed()
    assert (document.owner, document.tags) == ("Ada", ("http", "errors"))
    assert "## Risks/Open Questions" in document.body


@pytest.mark.parametrize("source", ["body.md", "-"])
def test_a_body_is_read_from_a_file_or_standard_input(run: Run, library: Library, source: str) -> None:
    Path("body.md").write_text(BODY)
    assert run("ddr", "new", "AGN", "Retries", "--body", source, input=BODY).exit_code == 0
    assert library.find("AGN-1").parsed().body == BODY


def test_a_title_with_path_characters_stays_in_the_folder(run: Run, tmp_path: Path) -> None:
    assert run("ddr", "new", "AGN", "../../../out").exit_code == 0
    assert [path.parent for path in tmp_path.rglob("*.md")] == [Path.cwd() / FOLDER]


@pytest.mark.parametrize("where", ["option", "settings"])
def test_the_folder_can_be_chosen(run: Run, where: str) -> None:
    if where == "settings":
        Path("antiphon.toml").write_text('[agent]\nddr_folder = "designs"\n')
    more = ("--folder", "designs") if where == "option" else ()
    assert run("ddr", "new", "AGN", "Retries", *more).stdout == "designs/AGN-001 - Retries.md\n"
    assert "AGN-001" in run("ddr", "list", *more).stdout


def test_the_list_shows_documents_and_damaged_files(run: Run, library: Library) -> None:
    library.create("AGN", Draft(title="Retries [x]", owner="Ada"))
    (FOLDER / "AGN-002 - Bad.md").write_text("?")
    heading, first, second = run("ddr", "list").stdout.splitlines()
    assert heading.split() == ["id", "status", "title", "owner", "note"]
    assert first.split()[:4] == ["AGN-001", "Proposed", "Retries", "[x]"]
    assert second.split()[:2] == ["AGN-002", "damaged"]
    assert "no line '**Status:** …'" in second


def test_the_list_can_be_of_one_status_and_as_json(run: Run, library: Library) -> None:
    library.create("AGN", Draft(title="One", tags=("a",)))
    library.create("AGN", Draft(title="Two"))
    library.apply(library.refine("AGN-2", Draft(status=Status.ACCEPTED)))
    (row,) = json.loads(run("ddr", "list", "--status", "proposed", "--json").stdout)
    assert (row["id"], row["title"], row["status"], row["tags"]) == ("AGN-001", "One", "Proposed", ["a"])
    assert "Two" in run("ddr", "list", "--status", "ACCEPTED").stdout
    assert json.loads(run("ddr", "list", "--status", "rejected", "--json").stdout) == []


def test_an_empty_list_advises_how_to_start(run: Run) -> None:
    result = run("ddr", "list")
    assert result.exit_code == 0
    assert "no documents in docs/ddr. Create one: antiphon ddr new TLA TITLE" in result.stdout
    assert "no documents that are Accepted" in run("ddr", "list", "--status", "accepted").stdout


def test_a_document_is_shown_for_reading_or_as_it_is(run: Run, library: Library) -> None:
    entry = library.create(
        "AGN", Draft(title="Retries", owner="Ada", body="## Objective\n\nBe **bold**.\x1b[2J")
    )
    shown = run("ddr", "show", "agn-1").stdout
    assert shown.startswith("AGN-001  Retries\nStatus: Proposed\nOwner: Ada\n")
    assert "Be bold." in shown
    assert "\x1b" not in shown
    assert run("ddr", "show", "AGN-001", "--raw").stdout == entry.text


def test_a_damaged_document_can_be_looked_at(run: Run) -> None:
    FOLDER.mkdir(parents=True)
    (FOLDER / "AGN-002 - Bad.md").write_text("what is this")
    (FOLDER / "AGN-003 - Bad.md").write_bytes(b"\xff\xfe")
    for how, name, shown, why in (
        (["--raw"], "AGN-002", "what is this", "AGN-002"),
        ([], "AGN-002", "", "AGN-002"),
        (["--raw"], "AGN-003", "", "is not UTF-8 text"),
    ):
        result = run("ddr", "show", name, *how)
        assert (result.exit_code, result.stdout) == (2, shown)
        assert why in result.stderr
        assert f"Repair the file docs/ddr/{name} - Bad.md" in result.stderr


def test_a_change_is_shown_and_must_be_confirmed(run: Run, library: Library) -> None:
    before = library.create("AGN", Draft(title="Retries"))
    refused = run("ddr", "refine", "AGN-1", "--status", "accepted", input="n\n")
    assert refused.exit_code == 1
    assert "-**Status:** Proposed" in refused.stdout
    assert "+**Status:** Accepted" in refused.stdout
    assert library.find("AGN-1") == before
    assert run("ddr", "refine", "AGN-1", "--status", "accepted", input="y\n").exit_code == 0
    assert library.find("AGN-1").parsed().status is Status.ACCEPTED


def test_the_confirmation_of_a_change_can_be_skipped(run: Run, library: Library) -> None:
    library.create("AGN", Draft(title="Retries", owner="Ada", tags=("a", "b")))
    result = run(
        *("ddr", "refine", "AGN-1", "--title", "Never", "--domain", "HTTP", "--tag", "c", "--yes"),
        *("--body", "-"),
        input=BODY,
    )
    assert result.exit_code == 0
    assert "AGN-001 was changed." in result.stderr
    document = library.find("AGN-1").parsed()
    assert (document.title, document.domain, document.owner, document.tags, document.body) == (
        *("Never", "HTTP", "Ada", ("c",), BODY),
    )


def test_an_empty_change_needs_no_confirmation(run: Run, library: Library) -> None:
    library.create("AGN", Draft(title="Retries"))
    result = run("ddr", "refine", "AGN-1", "--title", "Retries")
    assert (result.exit_code, result.stdout) == (0, "AGN-001 is unchanged.\n")


def test_a_search_finds_documents_by_their_text(run: Run, library: Library) -> None:
    library.create("AGN", Draft(title="Retries", body="## Objective\n\nWait with jitter."))
    library.create("AGN", Draft(title="Colours", body="## Objective\n\nRed and green."))
    heading, row = run("ddr", "search", "jitter").stdout.splitlines()
    assert heading.split() == ["id", "status", "title", "section"]
    assert row.split()[:3] == ["AGN-001", "Proposed", "Retries"]
    (found,) = json.loads(run("ddr", "search", "which green?", "--json").stdout)
    assert (found["id"], found["path"]) == ("AGN-002", "docs/ddr/AGN-002 - Colours.md")
    assert "docs/ddr matches" in run("ddr", "search", "zebra").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("new", "AG", "X"), "three capital letters"),
        (("new", "AGN", " "), "needs a title"),
        (("new", "AGN", "X", "--body", "nowhere.md"), "cannot read 'nowhere.md'"),
        (("new", "AGN", "X", "--body", "-"), "--body is empty"),
        (("new", "AGN", "X", "--body", "-", "--ask", "Y"), "cannot be combined"),
        (("new", "AGN", "X", "--ask", " "), "--ask is empty"),
        (("show", "AGN-9"), "no document AGN-009"),
        (("show", "nine"), "not the id of a document"),
        (("refine", "AGN-1"), "Nothing to change"),
        (("refine", "AGN-1", "--body", "-"), "needs --yes"),
        (("refine", "AGN-1", "--status", "superseded"), "can become Accepted or Rejected"),
        (("refine", "AGN-1", "--status", "draft"), "Proposed"),
        (("list", "--status", "draft"), "Proposed"),
    ],
)
def test_invalid_arguments_are_wrong_usage(
    run: Run, library: Library, arguments: tuple[str, ...], message: str
) -> None:
    before = library.create("AGN", Draft(title="Retries"))
    result = run("ddr", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert library.list() == [before]


def test_standard_input_that_is_no_text_is_wrong_usage(run: Run) -> None:
    result = run("ddr", "new", "AGN", "X", "--body", "-", input=b"\xff\xfe")
    assert result.exit_code == 2
    assert "not UTF-8" in result.stderr


Model = Callable[..., ScriptedBackend]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model that plays one step per turn, instead of the configured one."""

    def script(*turns: Script) -> ScriptedBackend:
        backend = ScriptedBackend(*turns)

        @asynccontextmanager
        async def open_scripted(_: str | None, settings: Settings) -> AsyncGenerator[ResponsesClient, None]:
            async with Antiphon(settings, routes=[Route("m", backend)]) as antiphon:
                yield InProcessResponsesClient(antiphon)

        monkeypatch.setattr("antiphon.cli.ddr.author.open_agent_client", open_scripted)
        return backend

    return script


OPTIONS = ("--model", "m", "--upstream", "http://127.0.0.1:9/v1", "--store", "memory:")


def writes(**arguments: Any) -> list[Step]:
    chunks = [CallStarted(0, "", "ddr_document"), CallDelta(0, json.dumps(arguments)), Finished("tool_calls")]
    return [chunks]


def input_of(backend: ScriptedBackend, turn: int = 0) -> str:
    return str(backend.turns[turn].items)


def test_a_model_writes_a_new_document(run: Run, library: Library, model: Model) -> None:
    backend = model(writes(title="Something else", status="Proposed", markdownBody=BODY, domain="HTTP"))
    result = run("ddr", "new", "AGN", "Retries", "--owner", "Ada", "--ask", "Retry twice.", *OPTIONS)
    assert (result.exit_code, result.stdout) == (0, "docs/ddr/AGN-001 - Retries.md\n")
    document = library.find("AGN-1").parsed()
    assert (document.title, document.owner, document.domain, document.body) == (
        *("Retries", "Ada", "HTTP", BODY),
    )
    assert len(backend.turns) == 1
    assert "Retry twice." in input_of(backend)
    assert "Its title is: Retries" in input_of(backend)
    assert "DDR_CREATION" in input_of(backend).upper()
    forced = backend.turns[0].choice
    assert isinstance(forced, TurnTool)
    assert forced.name == "ddr_document"


def test_a_model_that_writes_an_invalid_draft_tries_again(run: Run, library: Library, model: Model) -> None:
    backend = model(
        writes(title="Retries", status="Accepted", markdownBody=BODY),
        writes(title="Retries", status="Proposed", markdownBody=BODY),
    )
    assert run("ddr", "new", "AGN", "Retries", "--ask", "Retry twice.", *OPTIONS).exit_code == 0
    assert "starts as Proposed" in input_of(backend, 1)
    assert [entry.id for entry in library.list()] == ["AGN-001"]


def test_a_model_that_gives_up_writes_no_document(run: Run, library: Library, model: Model) -> None:
    wrong = writes(title="Retries", status="Accepted", markdownBody=BODY)
    model(wrong, [[TextDelta("I give up."), Finished("stop")]])
    result = run("ddr", "new", "AGN", "Retries", "--ask", "Retry twice.", *OPTIONS)
    assert result.exit_code == 1
    assert "wrote no document. Its answer: I give up." in result.stderr
    assert library.list() == []


def test_a_custom_mode_keeps_the_forced_tool(run: Run, model: Model) -> None:
    Path("antiphon.toml").write_text('[agent.modes.ddr_creation]\nwhen_to_use = "We write our own way."\n')
    backend = model(writes(title="Retries", status="Proposed", markdownBody=BODY))
    assert run("ddr", "new", "AGN", "Retries", "--ask", "Retry twice.", *OPTIONS).exit_code == 0
    assert isinstance(backend.turns[0].choice, TurnTool)


def test_a_model_refines_a_document_and_a_person_decides(run: Run, library: Library, model: Model) -> None:
    before = library.create("AGN", Draft(title="Retries", owner="Ada", body="Retry once."))
    turn = writes(id="AGN-001", title="Retries", status="Proposed", markdownBody=BODY)
    backend = model(turn)
    refused = run("ddr", "refine", "AGN-1", "--ask", "Twice, please.", *OPTIONS, input="n\n")
    assert refused.exit_code == 1
    assert "-Retry once." in refused.stdout
    assert "+Retry twice." in refused.stdout
    assert library.find("AGN-1") == before
    assert "[CURRENT_DDR]\\n### AGN-001" in input_of(backend)
    model(turn)
    assert run("ddr", "refine", "AGN-1", "--ask", "Twice, please.", *OPTIONS, input="y\n").exit_code == 0
    document = library.find("AGN-1").parsed()
    assert (document.body, document.owner) == (BODY, "Ada")


def test_a_document_changed_meanwhile_is_not_overwritten(run: Run, library: Library, model: Model) -> None:
    entry = library.create("AGN", Draft(title="Retries"))

    def write(_: TurnRequest) -> list[Step]:
        Path(entry.path).write_text(entry.text + "A new thought.\n")
        return writes(id="AGN-001", title="Retries", status="Proposed", markdownBody=BODY)

    model(write)
    result = run("ddr", "refine", "AGN-1", "--ask", "Twice, please.", "--yes", *OPTIONS)
    assert result.exit_code == 2
    assert "was changed by another process in the meantime" in result.stderr
    assert Path(entry.path).read_text().endswith("A new thought.\n")


def test_a_model_of_a_server_can_write(run: Run, library: Library) -> None:
    requests: list[JsonObject] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(await request.json())
        arguments = {"title": "Retries", "status": "Proposed", "markdownBody": BODY}
        call = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "ddr_document",
            "arguments": json.dumps(arguments),
        }
        return web.json_response(
            {"id": "resp_1", "object": "response", "status": "completed", "output": [call]}
        )

    app = web.Application()
    app.router.add_post("/v1/responses", answer)
    with serving(app) as url:
        result = run(
            "ddr", "new", "AGN", "Retries", "--ask", "Twice.", "--base-url", url, "--model", "theirs"
        )
    assert result.exit_code == 0
    assert library.find("AGN-1").parsed().body == BODY
    (body,) = requests
    assert body["model"] == "theirs"
    assert body["tool_choice"] == {"type": "function", "name": "ddr_document"}
    assert [tool["name"] for tool in body["tools"]] == ["ddr_document", "ddr_list", "ddr_read"]


def test_a_model_that_writes_nothing_is_a_failure(run: Run, library: Library, model: Model) -> None:
    model([[TextDelta("I would rather not."), Finished("stop")]])
    result = run("ddr", "new", "AGN", "Retries", "--ask", "Retry twice.", *OPTIONS)
    assert result.exit_code == 1
    assert "no tool was called" in result.stderr
    assert library.list() == []


def test_a_model_that_fails_is_a_failure(run: Run, library: Library, model: Model) -> None:
    model([BackendRefused("no credit left", status=402)])
    result = run("ddr", "new", "AGN", "Retries", "--ask", "Retry twice.", *OPTIONS)
    assert result.exit_code == 1
    assert "no credit left" in result.stderr
    assert library.list() == []
