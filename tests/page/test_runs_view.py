"""Runs: what goes on without a connection."""

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.page.browser import Opened, new_context, open_tab
from tests.page.model_server import WORDS, ModelServer
from tests.page.world import World, run_world

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

MANY_WORDS = 6000
_COUNT_CHANGES = """
window.__changes = 0;
new MutationObserver((records) => {
  window.__changes += records.filter(({type}) => type === 'characterData').length;
}).observe(document, {subtree: true, characterData: true});
"""


@pytest.mark.requirement("PAGE/views-empty")
def test_an_empty_list_says_what_to_do_next(page: Opened) -> None:
    page.go("runs")
    page.see("No agent runs yet")
    page.see("antiphon agent run TASK.toml")
    page.see("No background responses yet")


@pytest.mark.requirement("PAGE/runs-tree")
def test_a_run_is_a_tree_of_turns_and_calls(page: Opened, world: World) -> None:
    body = {"title": "Take notes", "instruction": "Write two lines."}
    run = world.post("/v1/agent/runs", body)["id"]
    page.go(f"runs/{run}")
    expect(page.tab.get_by_role("heading", name="Take notes")).to_be_visible()
    page.see("Turn 3")
    expect(page.tab.locator("li.turn").first).to_contain_text("7 in, 5 out")
    calls = page.tab.locator(".calls summary")
    expect(calls).to_have_count(3)
    calls.first.click()
    page.see('"text": "one"')
    page.see("I was told")
    page.button("Delete").click()
    page.tab.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.go("runs")
    page.see("Take notes")


def _cut_off_deletions(route: Route) -> None:
    if route.request.method == "DELETE":
        route.abort()
    else:
        route.continue_()


@pytest.mark.requirement("PAGE/views-errors")
def test_an_action_that_fails_says_why(page: Opened, world: World) -> None:
    store = world.post("/v1/vector_stores", {"name": "gone"})["id"]
    file_id = world.upload("gone.md", b"# Gone")
    world.post(f"/v1/vector_stores/{store}/files", {"file_id": file_id})
    page.go(f"stores/{store}")
    remove = page.button("Remove gone.md")
    expect(remove).to_be_visible()
    page.tab.route("**/files/*", _cut_off_deletions)
    remove.click()
    expect(page.tab.get_by_role("alert")).to_contain_text("The server cannot be reached")


@pytest.mark.requirement("PAGE/runs-follow")
def test_a_running_response_is_followed_and_cancelled(page: Opened, world: World) -> None:
    response = world.respond("hangs", "Wait for me.", background=True)["id"]
    page.go("runs")
    page.see("Wait for me.")
    page.tab.get_by_title(response).click()
    expect(page.tab.locator(".turn .long-text")).to_have_text("one")
    page.button(f"Cancel {response}").click()
    expect(page.tab.locator(".properties .badge")).to_have_text("cancelled")
    assert world.get(f"/v1/responses/{response}")["status"] == "cancelled"


@pytest.mark.requirement("PAGE/runs-follow")
def test_text_arrives_while_it_is_written(page: Opened, world: World, models: ModelServer) -> None:
    response = world.respond("steady", "Count.", background=True)["id"]
    page.go(f"runs/{response}")
    text = page.tab.locator(".turn .long-text")
    expect(text).to_contain_text("word3 ")
    assert f"word{WORDS - 1}" not in text.inner_text()
    expect(text).to_contain_text(f"word{WORDS - 1}")
    expect(page.tab.locator(".properties .badge")).to_have_text("completed")
    words = text.inner_text().split()
    assert words == [f"word{number}" for number in range(WORDS)]


@pytest.mark.requirement("PAGE/runs-follow")
def test_the_end_of_a_long_text_is_shown_while_it_is_written(
    page: Opened, world: World, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "words", 100_000)
    monkeypatch.setattr(models, "word_seconds", 0.001)
    response = world.respond("steady", "Count.", background=True)["id"]
    page.go(f"runs/{response}")
    text = page.tab.locator(".turn .long-text")
    expect(text).to_contain_text("word3500 ", timeout=60_000)  # behind 30,000 characters
    assert "word3 " not in text.inner_text()
    text.get_by_role("button", name="Show more").click()
    expect(text).to_contain_text("word3 ")
    world.post(f"/v1/responses/{response}/cancel", {})
    expect(page.tab.locator(".properties .badge")).to_have_text("cancelled")


@pytest.mark.requirement("PAGE/runs-follow")
def test_catching_up_on_a_long_stream_draws_frames_and_not_events(
    page: Opened, world: World, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "words", MANY_WORDS)
    monkeypatch.setattr(models, "word_seconds", 0.001)
    response = world.respond("steady", "Count.", background=True)["id"]
    page.tab.context.add_init_script(_COUNT_CHANGES)
    while len(world.get(f"/v1/responses/{response}/events?limit=1000")["data"]) < 1000:
        page.tab.wait_for_timeout(100)
    page.go(f"runs/{response}")
    expect(page.tab.locator(".turn .long-text")).to_contain_text("word1000 ")
    expect(page.tab.locator(".properties .badge")).to_have_text("completed")
    assert page.tab.evaluate("window.__changes") < MANY_WORDS / 4


@pytest.mark.requirement("PAGE/runs-follow")
def test_two_tabs_follow_the_same_response(browser: Browser, world: World) -> None:
    response = world.respond("steady", "Count.", background=True)["id"]
    context = new_context(browser)
    tabs = [open_tab(context, world.base) for _ in range(2)]
    for tab in tabs:
        tab.go(f"runs/{response}")
    for tab in tabs:
        expect(tab.tab.locator(".turn .long-text")).to_contain_text(f"word{WORDS - 1}")
    tabs[0].go("runs")
    tabs[1].see("completed")
    assert [tab.errors for tab in tabs] == [[], []]
    context.close()


@pytest.mark.requirement("PAGE/runs-restart")
def test_a_restart_of_the_server_is_survived_in_mid_stream(
    browser: Browser, models: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("restarted")
    context = new_context(browser)
    with run_world(folder, models) as first:
        port = first.server.port
        response = first.respond("steady", "Count.", background=True)["id"]
        opened = open_tab(context, first.base)
        opened.go(f"runs/{response}")
        expect(opened.tab.locator(".turn .long-text").first).to_contain_text("word3 ")
        first.server.process.kill()
        first.server.process.wait(10)
    opened.see("The connection broke. The response goes on")
    with run_world(folder, models, port=port) as second:
        expect(opened.tab.locator(".properties .badge").first).to_have_text("completed", timeout=60_000)
        assert second.get(f"/v1/responses/{response}")["status"] == "completed"
        expect(opened.tab.locator(".turn .long-text").last).to_contain_text(f"word{WORDS - 1}")
        assert opened.violations() == []
    context.close()
