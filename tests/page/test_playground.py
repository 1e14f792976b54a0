"""The playground: questions that wait for a model, and answers of a real one."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.page.browser import Opened, new_context, open_tab
from tests.page.world import World
from tests.serving import run_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

QUESTION = "Write ten sentences about the sea."
ANSWER_MS = 120_000
"""An answer of the embedded model on a slow machine."""


def sent(page: Opened) -> list[str]:
    return [url for url in page.requests if url.endswith("/v1/responses")]


@pytest.mark.requirement("PAGE/playground-model")
def test_nothing_is_sent_before_a_model_is_chosen(page: Opened) -> None:
    held: list[Route] = []
    page.tab.route("**/v1/models*", lambda route: held.append(route))  # noqa: PLW0108 -- it takes no built-in function
    page.go("playground")
    message = page.tab.get_by_role("textbox", name="Message")
    message.fill("Hello.")
    message.press("Enter")
    expect(page.button("Send")).to_have_attribute("title", "Pick a model first.")
    expect(message).to_have_value("Hello.")
    assert sent(page) == []
    for route in held:
        route.continue_()
    page.tab.get_by_role("combobox", name="Model").select_option("echo")
    message.press("Enter")
    page.see("You said: Hello.")
    expect(message).to_have_value("")
    assert len(sent(page)) == 1


def test_enter_sends_nothing_while_an_answer_is_written(page: Opened) -> None:
    page.go("playground")
    page.tab.get_by_role("combobox", name="Model").select_option("hangs")
    message = page.tab.get_by_role("textbox", name="Message")
    message.fill("Wait.")
    message.press("Enter")
    expect(page.tab.locator(".item.assistant")).to_contain_text("one")
    message.fill("And this?")
    message.press("Enter")
    page.button("Stop").click()
    page.see("Stopped.")
    expect(message).to_have_value("And this?")
    assert len(sent(page)) == 1


@pytest.mark.requirement("PAGE/playground-branch")
def test_an_answer_that_was_stopped_is_continued_at_once(page: Opened, world: World) -> None:
    page.go("playground")
    model = page.tab.get_by_role("combobox", name="Model")
    model.select_option("hangs")
    message = page.tab.get_by_role("textbox", name="Message")
    message.fill("Wait.")
    message.press("Enter")
    expect(page.tab.locator(".item.assistant")).to_contain_text("one")
    model.select_option("echo")
    message.fill("And this?")
    page.button("Stop").click()
    page.tab.get_by_role("button", name="Send", exact=True).click()
    page.see("You said: And this?")
    newest, stopped = world.get("/v1/responses?limit=2")["data"]
    assert stopped["status"] == "cancelled"
    assert newest["previous_response_id"] == stopped["id"]


@pytest.mark.requirement("PAGE/playground-stream")
def test_the_embedded_model_streams_its_answer_and_its_tokens_are_counted(
    browser: Browser, tmp_path: Path
) -> None:
    with run_server(tmp_path, "--no-discovery", environment={"NO_PROXY": "127.0.0.1"}) as server:
        world = World(server)
        context = new_context(browser)
        page = open_tab(context, world.base)
        page.go("playground")
        message = page.tab.get_by_role("textbox", name="Message")
        expect(page.tab.get_by_role("combobox", name="Model")).not_to_have_value("")
        message.fill(QUESTION)
        message.press("Enter")
        answer = page.tab.locator(".item.assistant")
        expect(answer).to_contain_text(re.compile(r"\w+ \w+"), timeout=ANSWER_MS)
        beginning = answer.inner_text()
        expect(page.button("Stop")).to_have_count(0, timeout=ANSWER_MS)
        assert len(answer.inner_text()) > len(beginning)
        page.go("responses")
        row = page.tab.get_by_role("row").filter(has_text=QUESTION)
        expect(row.locator(".badge").first).to_have_text(re.compile("completed|incomplete"))
        (stored,) = world.get("/v1/responses")["data"]
        tokens: dict[str, Any] = stored["usage"]
        assert tokens["input_tokens"] > 0
        assert tokens["output_tokens"] > 0
        numbers = row.locator("td.number").all_inner_texts()
        assert numbers[:2] == [f"{tokens['input_tokens']:,}", f"{tokens['output_tokens']:,}"]
        row.click()
        expect(page.tab.get_by_role("heading", name=stored["id"])).to_be_visible()
        expect(page.tab.locator(".fact-strip")).to_contain_text(f"{tokens['output_tokens']:,} out")
        assert (page.errors, page.violations(), page.foreign_requests()) == ([], [], [])
        context.close()
