"""What waits for a person: calls of an MCP server, and those of agent runs, are answered in the page."""

import json
import time
from collections.abc import Generator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.page.browser import Opened
from tests.page.mcp_server import TOKEN, FileServer, run_file_server
from tests.page.model_server import DELETED, ModelServer
from tests.page.world import World, run_world

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

ENVIRONMENT = {
    "ANTIPHON_EGRESS__ALLOW": json.dumps(["127.0.0.1"]),
    "ANTIPHON_AGENT__APPROVE_TOOLS": json.dumps(["write_line"]),
}
SECONDS = 30


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Generator[FileServer, None, None]:
    with run_file_server(tmp_path_factory.mktemp("files")) as running:
        yield running


@pytest.fixture(scope="module")
def world(
    models: ModelServer, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Generator[World, None, None]:
    """A server whose agent needs approvals, and that may connect to the MCP server."""
    folder = tmp_path_factory.mktemp("approving")
    with run_world(folder, models, environment=ENVIRONMENT) as running:
        yield running


def ask(world: World, files: FileServer, **params: object) -> str:
    """The id of a response that waits for an approval of its call."""
    response = world.respond("deletes", "Delete my notes.", tools=[files.tool], **params)
    assert response["output"][-1]["type"] == "mcp_approval_request"
    return response["id"]


def answered(world: World, member: str, value: str) -> dict[str, Any]:
    """The response in the background that continues this response or conversation, when it has ended."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for each in world.get("/v1/responses?background=true")["data"]:
            if each[member] == value and each["status"] not in {"queued", "in_progress"}:
                return world.get(f"/v1/responses/{each['id']}")
        time.sleep(0.05)
    raise AssertionError("no response has answered")


def waiting(world: World) -> list[Any]:
    return world.get("/v1/approvals")["data"]


def start_run(world: World, title: str) -> str:
    """The id of a run that waits."""
    run = world.post("/v1/agent/runs", {"title": title, "instruction": "Write two lines."})["id"]
    deadline = time.monotonic() + SECONDS
    while world.get(f"/v1/agent/runs/{run}")["status"] != "waiting":
        assert time.monotonic() < deadline, "the run does not wait"
        time.sleep(0.05)
    return run


def outcomes(world: World, run: str) -> list[tuple[str, str]]:
    turns = world.get(f"/v1/agent/runs/{run}?case=snake")["tree"]["turns"]
    return [(call["name"], call["outcome"]) for turn in turns for call in turn["calls"]]


@pytest.mark.requirement("PAGE/approvals-mcp")
def test_an_approved_call_of_a_response_runs_once(page: Opened, world: World, files: FileServer) -> None:
    asked = ask(world, files, instructions="Be brief.")
    before = len(files.calls())
    page.go("runs")
    shown = page.tab.get_by_role("region", name="Waits for you (1)")
    expect(shown.locator(".long-text")).to_have_text(json.dumps(DELETED, indent=2))
    page.see("of files", within=shown)
    assert len(files.calls()) == before
    shown.get_by_role("button", name="Approve delete_folder").click()
    expect(shown).to_have_count(0)
    continued = answered(world, "previous_response_id", asked)
    assert files.calls()[before:] == [DELETED]
    assert (continued["status"], continued["instructions"]) == ("completed", "Be brief.")
    assert waiting(world) == []
    page.go(f"runs/{continued['id']}")
    page.see(f"I was told: {DELETED['path']} is deleted")
    assert TOKEN not in page.tab.content()


@pytest.mark.requirement("PAGE/approvals-mcp")
def test_a_rejected_call_of_a_response_does_not_run(page: Opened, world: World, files: FileServer) -> None:
    asked = ask(world, files)
    before = files.calls()
    page.go("runs")
    page.button("Reject delete_folder").click()
    expect(page.button("Reject delete_folder")).to_have_count(0)
    continued = answered(world, "previous_response_id", asked)
    page.go(f"runs/{continued['id']}")
    page.see("The user refused this call")
    assert files.calls() == before
    assert waiting(world) == []


@pytest.mark.requirement("PAGE/approvals-conversation")
def test_an_answer_in_a_conversation_is_added_to_it(page: Opened, world: World, files: FileServer) -> None:
    conversation = world.post("/v1/conversations", {})["id"]
    ask(world, files, conversation=conversation)
    page.go("runs")
    page.button("Approve delete_folder").click()
    assert answered(world, "conversation", conversation)["status"] == "completed"
    items = world.get(f"/v1/conversations/{conversation}/items?order=asc")["data"]
    kinds = [item["type"] for item in items]
    assert kinds[-3:] == ["mcp_approval_response", "mcp_call", "message"]
    assert waiting(world) == []


@pytest.mark.requirement("PAGE/approvals-runs")
def test_the_calls_of_a_run_are_approved_one_after_another(page: Opened, world: World) -> None:
    run = start_run(world, "Take notes")
    page.go("runs")
    shown = page.tab.get_by_role("region", name="Waits for you (1)")
    expect(shown.locator(".long-text")).to_have_text(json.dumps({"text": "one"}, indent=2))
    shown.get_by_role("link", name="run_").click()
    expect(page.tab.get_by_role("heading", name="Take notes")).to_be_visible()
    expect(page.tab.locator(".properties .badge")).to_have_text("waiting")
    expect(shown.locator(".long-text")).to_have_text(json.dumps({"text": "one"}, indent=2))
    page.button("Approve write_line").click()
    expect(shown.locator(".long-text")).to_have_text(json.dumps({"text": "two"}, indent=2))
    page.button("Approve write_line").click()
    expect(page.tab.locator(".properties .badge")).to_have_text("completed")
    expect(shown).to_have_count(0)
    assert outcomes(world, run) == [("write_line", "ok"), ("read_lines", "ok"), ("write_line", "ok")]
    assert waiting(world) == []


@pytest.mark.requirement("PAGE/approvals-runs")
def test_a_rejected_call_of_a_run_is_shown_as_rejected(page: Opened, world: World) -> None:
    run = start_run(world, "Write nothing")
    page.go("runs")
    page.button("Reject write_line").click()
    expect(page.tab.get_by_text('"two"')).to_be_visible()
    page.button("Reject write_line").click()
    expect(page.button("Reject write_line")).to_have_count(0)
    page.go(f"runs/{run}")
    expect(page.tab.locator(".properties .badge")).to_have_text("completed")
    expect(page.tab.locator(".calls summary").first).to_contain_text("rejected")
    rejected = [name for name, outcome in outcomes(world, run) if outcome == "rejected"]
    assert rejected == ["write_line", "write_line"]


def open_mcp_playground(page: Opened, files: FileServer, text: str) -> None:
    """Ask the model that deletes, with the server as a tool."""
    page.go("playground")
    page.tab.get_by_role("combobox", name="Model").select_option("deletes")
    page.tab.get_by_text("Tools", exact=True).click()
    declared = {key: value for key, value in files.tool.items() if key != "type"}
    page.tab.get_by_label("MCP servers (JSON)").fill(json.dumps(declared))
    message = page.tab.get_by_role("textbox", name="Message")
    message.fill(text)
    message.press("Enter")
    expect(page.tab.locator(".approval")).to_contain_text("files asks to run delete_folder")


@pytest.mark.requirement("PAGE/approvals-playground")
def test_a_call_is_approved_in_the_playground_with_its_arguments_in_view(
    page: Opened, files: FileServer
) -> None:
    before = len(files.calls())
    open_mcp_playground(page, files, "Delete my notes.")
    expect(page.tab.locator(".approval pre")).to_have_text(json.dumps(DELETED, indent=2))
    assert len(files.calls()) == before
    page.tab.locator(".approval").get_by_role("button", name="Approve").click()
    page.see(f"I was told: {DELETED['path']} is deleted")
    assert files.calls()[before:] == [DELETED]


@pytest.mark.requirement("PAGE/approvals-playground")
def test_a_call_is_rejected_in_the_playground(page: Opened, files: FileServer) -> None:
    before = files.calls()
    open_mcp_playground(page, files, "Delete my notes.")
    page.tab.locator(".approval").get_by_role("button", name="Reject").click()
    page.see("The user refused this call")
    assert files.calls() == before
