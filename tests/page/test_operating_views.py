"""The views that operate the server: files, vector stores, models, usage, keys, settings."""

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.page.browser import Opened
from tests.page.seed import DOCUMENTS, add_documents
from tests.page.world import MODELS, World

DAYS = 7
"""That are shown at first."""
SCORE_ERROR = 0.0005
"""Of scores with three digits."""
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]


@pytest.mark.requirement("PAGE/files-upload")
def test_a_file_is_uploaded_downloaded_and_deleted(page: Opened, world: World, tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n\nThe lighthouse is red.\n")
    page.go("files")
    page.tab.get_by_label("Files to upload").set_input_files(path)
    expect(page.tab.locator(".upload-state")).to_have_text("stored")
    row = page.tab.get_by_role("row").filter(has_text="notes.md")
    expect(row).to_contain_text("assistants")
    expect(row.get_by_role("link", name="notes.md")).to_have_attribute("href", re.compile("^#/files/file-"))
    with page.tab.expect_download() as download:
        page.button("Download notes.md").click()
    assert Path(download.value.path()).read_text() == path.read_text()
    page.button("Delete notes.md").click()
    page.tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert world.get("/v1/files")["data"] == []


@pytest.mark.requirement("PAGE/files-upload")
def test_an_upload_that_is_refused_says_why(page: Opened, tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(b"")
    page.go("files")
    page.tab.get_by_label("Files to upload").set_input_files(path)
    expect(page.tab.locator(".upload-state.bad")).to_contain_text("empty")


@pytest.mark.requirement("PAGE/files-upload")
def test_an_upload_is_stopped(page: Opened, world: World, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("The lighthouse is red.")
    page.go("files")
    held: list[Route] = []
    page.tab.route("**/v1/files", lambda route: held.append(route))  # noqa: PLW0108 -- it takes no built-in function
    page.tab.get_by_label("Files to upload").set_input_files(path)
    page.button("Cancel the upload of long.txt").click()
    expect(page.tab.locator(".upload-state.bad")).to_have_text("The upload was stopped.")
    expect(page.button("Cancel the upload of long.txt")).to_have_count(0)
    assert [route.request.method for route in held] == ["POST"]
    assert "long.txt" not in {each["filename"] for each in world.get("/v1/files")["data"]}


@pytest.mark.requirement("PAGE/stores-ingestion")
def test_a_store_shows_how_its_files_are_added(page: Opened, tmp_path: Path) -> None:
    path = tmp_path / "broken.pdf"
    path.write_bytes(b"%PDF-1.7 this is no PDF")
    page.go("stores")
    page.button("New store").click()
    page.tab.get_by_label("Name").fill("manuals")
    page.button("Create").click()
    expect(page.tab.get_by_role("heading", name="manuals")).to_be_visible()
    page.tab.get_by_label("Files to upload").set_input_files(path)
    row = page.tab.get_by_role("row").filter(has_text="broken.pdf")
    expect(row.locator(".badge")).to_have_text("failed")
    expect(row.locator(".bad-text")).not_to_be_empty()
    chunks = row.get_by_role("button", name="Chunks of broken.pdf")
    expect(chunks).to_have_attribute("aria-disabled", "true")
    expect(chunks).to_have_accessible_description("(The file has no chunks yet.)")


@pytest.mark.requirement("PAGE/stores-search")
def test_a_search_shows_scores_and_marks_the_words(page: Opened, world: World) -> None:
    store = add_documents(world, DOCUMENTS)
    page.go(f"stores/{store}")
    expect(page.tab.locator(".properties")).to_contain_text("3 of 3 completed")
    page.tab.get_by_label("Question").fill("revoke keys")
    page.tab.keyboard.press("Enter")
    results = page.tab.locator(".results > li")
    expect(results.first).to_contain_text("keys.md")
    expect(results.first.locator("meter")).to_be_visible()
    best = world.post(f"/v1/vector_stores/{store}/search", {"query": "revoke keys"})["data"][0]["scores"]
    scores = results.first.locator(".scores")
    assert scores.locator("dt").all_inner_texts() == list(best) == ["text", "vector", "mixed"]
    shown = [text.strip() for text in scores.locator("dd").all_inner_texts()]
    assert [float(text) for text in shown] == pytest.approx(list(best.values()), abs=SCORE_ERROR)
    assert best["text"] > 0
    best_result = results.first.locator(".passage").first
    excerpt = best_result.inner_text()
    results.first.get_by_role("button", name="Show the passage").first.click()
    assert len(best_result.inner_text()) > len(excerpt)
    marked = {text.lower() for text in results.first.locator("mark").all_inner_texts()}
    assert marked & {"key", "keys", "revoke"}
    page.button("Chunks of keys.md").click()
    expect(page.tab.get_by_role("dialog").locator(".chunks > li").first).to_contain_text("key")


@pytest.mark.requirement("PAGE/models-capabilities")
def test_models_are_shown_with_their_upstream_and_capabilities(page: Opened, world: World) -> None:
    world.respond("echo", "One request.")
    page.go("models")
    upstream = page.tab.get_by_role("row").filter(has_text="gpu-1")
    expect(upstream).to_contain_text("closed")
    expect(upstream).to_contain_text("vllm")
    matrix = page.tab.get_by_role("region", name="Capabilities by model")
    for model in MODELS:
        page.see(model, within=matrix)
    row = matrix.get_by_role("row").filter(has_text="structured output")
    expect(row.locator("td")).to_have_count(len(MODELS))
    expect(row.locator("td").first).to_have_text("●native")
    row = matrix.get_by_role("row").filter(has_text="custom tools")
    sign = row.locator("summary").first
    reason = row.locator("details").first
    closed = reason.inner_text()
    sign.focus()
    page.tab.keyboard.press("Enter")
    expect(reason).to_have_attribute("open", "")
    assert len(reason.inner_text()) > len(closed), "the reason is in sight"


@pytest.mark.requirement("PAGE/models-conformance")
def test_the_conformance_checks_fill_a_table(page: Opened) -> None:
    page.go("models")
    page.tab.get_by_role("combobox", name="Model").select_option("echo")
    page.button("Run the checks").click()
    table = page.tab.get_by_role("region", name="Conformance checks")
    expect(table.get_by_role("row").nth(5)).to_be_visible(timeout=60_000)
    expect(table.get_by_role("row").nth(1).locator(".mono")).not_to_be_empty()
    expect(page.tab.get_by_text("passed,")).to_be_visible()


@pytest.mark.requirement("PAGE/usage-plots")
def test_usage_is_plotted_tabled_and_saved(page: Opened, world: World) -> None:
    for _ in range(3):
        world.respond("echo", "Count me.")
    page.go("usage")
    tiles = page.tab.get_by_label("Totals")
    expect(tiles).to_contain_text("responses")
    expect(tiles).to_contain_text("cost (not recorded)")
    expect(page.tab.locator(".plot canvas")).to_have_count(4)
    tokens = page.tab.get_by_role("region", name="Tokens, table")
    expect(tokens.get_by_role("row")).to_have_count(DAYS + 1)
    groups = page.tab.get_by_role("region", name="Usage by model")
    expect(groups.get_by_role("row").filter(has_text="echo")).to_be_visible()
    with page.tab.expect_download() as download:
        page.button("Download CSV").click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert sum(int(row["responses"]) for row in rows if row["model"] == "echo") >= 3
    page.tab.get_by_role("combobox", name="Of").select_option("echo")
    expect(page.tab).to_have_url(re.compile("only=echo"))
    expect(tiles.get_by_text("responses").locator("..")).to_contain_text(re.compile(r"^responses\d+$"))
    quantiles = page.tab.get_by_role("region", name="Total time, table").get_by_role("row").last
    (echoed,) = (each for each in world.get("/v1/usage?group_by=model")["data"] if each["model"] == "echo")
    expect(quantiles.locator("td").nth(1)).to_have_text(f"{echoed['total_ms']['p50']} ms")
    page.tab.get_by_role("combobox", name="By").select_option("upstream")
    expect(page.tab.get_by_role("region", name="Usage by upstream")).to_contain_text("gpu-1")


@pytest.mark.requirement("PAGE/settings-sources")
def test_settings_say_where_they_come_from(page: Opened) -> None:
    page.go("settings")
    expect(page.tab.get_by_role("columnheader", name="meaning")).to_be_visible()
    page.see("Port to listen on; 0 picks a free one.")
    row = page.tab.get_by_role("row").filter(has_text="server.log_level")
    expect(row).to_contain_text('"warning"')
    expect(row).to_contain_text("antiphon.toml")
    for name, size in (("server.max_body", "32 MiB"), ("server.max_bodies", "128 MiB")):
        expect(page.tab.get_by_role("row").filter(has_text=name).first).to_contain_text(size)
    page.tab.get_by_label("Filter by name").fill("server.port")
    expect(page.tab.get_by_role("row")).to_have_count(2)
    expect(page.tab.get_by_role("row").last).to_contain_text("command line")
    page.tab.get_by_label("Filter by name").fill("nothing has this name")
    page.see("No setting matches")
