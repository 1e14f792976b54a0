"""Signing in, keys with few scopes, and sessions that end."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.page.browser import Opened, new_context, open_tab
from tests.page.model_server import WORDS, ModelServer
from tests.page.world import ADMIN_KEY, World, run_world

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]


@pytest.fixture(scope="module")
def guarded(
    browser: Browser, models: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Generator[World, None, None]:
    """A server that requires keys."""
    with run_world(tmp_path_factory.mktemp("guarded"), models, key=ADMIN_KEY) as running:
        yield running


@pytest.fixture
def door(browser: Browser, guarded: World) -> Generator[Opened, None, None]:
    """A tab of somebody who has not signed in."""
    context = new_context(browser)
    opened = open_tab(context, guarded.base)
    yield opened
    assert (opened.violations(), opened.errors, opened.foreign_requests()) == ([], [], [])
    context.close()


def test_a_wrong_key_does_not_open_the_page(door: Opened) -> None:
    door.tab.goto(f"{door.base}/#/runs")
    door.sign_in("wrong")
    expect(door.tab.get_by_role("alert")).to_be_visible()
    expect(door.tab.locator("nav.rail")).to_have_count(0)


@pytest.mark.requirement("PAGE/security-sign-in")
def test_a_key_opens_the_view_that_was_asked_for_and_is_not_kept(door: Opened, guarded: World) -> None:
    door.enter(ADMIN_KEY, "files")
    expect(door.tab.locator("main h1")).to_have_text("Files")
    assert ADMIN_KEY not in door.storage()
    cookies = {cookie["name"]: cookie for cookie in door.tab.context.cookies()}  # pyright: ignore[reportTypedDictNotRequiredAccess]
    cookie = cookies[f"antiphon_session_{guarded.server.port}"]
    assert cookie.get("httpOnly")
    assert cookie.get("sameSite") == "Strict"
    assert ADMIN_KEY not in cookie.get("value", "")
    door.tab.reload()
    expect(door.tab.locator("main h1")).to_have_text("Files")


@pytest.mark.requirement("PAGE/security-scopes")
def test_buttons_explain_why_a_key_with_read_scope_cannot_use_them(door: Opened, guarded: World) -> None:
    door.enter(guarded.new_key("responses:read"), "stores")
    button = door.button("New store")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", re.compile("“write” scope"))
    button.click(force=True)
    expect(door.tab.get_by_role("dialog")).to_have_count(0)
    door.go("keys")
    door.see("Keys are for administrators")
    door.go("settings")
    door.see("Settings are for administrators")
    door.go("files")
    expect(door.button("Choose files")).to_have_attribute("aria-disabled", "true")


@pytest.mark.requirement("PAGE/keys-once")
def test_a_key_is_made_shown_once_revoked_and_deleted(door: Opened, guarded: World) -> None:
    door.enter(ADMIN_KEY, "keys")
    door.button("New key").click()
    door.tab.get_by_label("Name").fill("laptop")
    door.tab.get_by_role("checkbox", name="delete").uncheck()
    door.button("Create").click()
    key = door.tab.locator("code.secret").inner_text()
    assert guarded.call("GET", "/v1/files", key=key)[0] == 200
    door.tab.get_by_role("dialog").get_by_role("button", name="Close").click()
    row = door.tab.get_by_role("row").filter(has_text="laptop")
    expect(row).to_contain_text("read, write")
    assert key not in door.tab.content()
    row.get_by_role("button", name="Revoke laptop").click()
    door.tab.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row.locator(".badge")).to_have_text("revoked")
    row.get_by_role("button", name="Delete laptop").click()
    door.tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


@pytest.mark.requirement("PAGE/responses-filters")
def test_responses_are_filtered_by_the_name_of_a_key(door: Opened, guarded: World) -> None:
    key = guarded.new_key("responses:write", name="bot")
    guarded.call("POST", "/v1/responses", {"model": "echo", "input": "From the bot."}, key=key)
    guarded.respond("echo", "From an administrator.")
    door.enter(ADMIN_KEY, "responses")
    rows = door.tab.locator(".responses tbody tr")
    expect(rows.filter(has_text="From an administrator.")).to_have_count(1)
    door.tab.get_by_label("Key", exact=True).select_option("bot")
    expect(rows.filter(has_text="From an administrator.")).to_have_count(0)
    expect(rows.filter(has_text="From the bot.")).to_have_count(1)


@pytest.mark.requirement("PAGE/security-session-end")
def test_a_session_that_ended_is_resumed_where_it_was(door: Opened, guarded: World) -> None:
    door.enter(ADMIN_KEY, "files")
    door.tab.context.clear_cookies()
    door.tab.goto(f"{door.base}/#/settings")
    dialog = door.tab.get_by_role("dialog", name="Sign in again")
    expect(dialog).to_be_visible()
    door.sign_in(ADMIN_KEY)
    expect(dialog).to_be_hidden()
    expect(door.tab.locator("main h1")).to_have_text("Settings")
    door.see("server.log_level")


@pytest.mark.requirement("PAGE/security-session-end")
def test_an_upload_goes_on_after_signing_in_again(door: Opened, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("The lighthouse is red.")
    door.enter(ADMIN_KEY, "files")
    door.tab.context.clear_cookies()
    door.tab.get_by_label("Files to upload").set_input_files(path)
    dialog = door.tab.get_by_role("dialog", name="Sign in again")
    expect(dialog).to_be_visible()
    door.sign_in(ADMIN_KEY)
    expect(dialog).to_be_hidden()
    expect(door.tab.locator(".upload-state")).to_have_text("stored")


@pytest.mark.requirement("PAGE/security-session-end")
def test_a_revoked_key_ends_the_session(door: Opened, guarded: World) -> None:
    key = guarded.new_key("responses:read", name="leaver")
    door.enter(key, "files")
    listed = guarded.get("/v1/admin/keys")["data"]
    key_id = next(each["id"] for each in listed if each["name"] == "leaver")
    guarded.post(f"/v1/admin/keys/{key_id}/revoke", {})
    door.tab.wait_for_timeout(1200)
    door.tab.goto(f"{door.base}/#/stores")
    expect(door.tab.get_by_role("dialog", name="Sign in again")).to_be_visible()


def ask(page: Opened, model: str, text: str) -> None:
    page.tab.get_by_role("combobox", name="Model").select_option(model)
    message = page.tab.get_by_role("textbox", name="Message")
    message.fill(text)
    message.press("Enter")


@pytest.mark.requirement("PAGE/security-session-end")
def test_a_session_that_ends_in_mid_stream_loses_nothing(door: Opened) -> None:
    door.enter(ADMIN_KEY, "playground")
    ask(door, "steady", "Count.")
    answer = door.tab.locator(".item.assistant").first
    expect(answer).to_contain_text("word3 ")
    door.tab.context.clear_cookies()
    expect(answer).to_contain_text(f"word{WORDS - 1}")
    expect(door.button("Stop")).to_have_count(0)
    ask(door, "echo", "Still there?")
    expect(door.tab.get_by_role("dialog", name="Sign in again")).to_be_visible()
    door.sign_in(ADMIN_KEY)
    door.see("You said: Still there?")
    expect(answer).to_contain_text(f"word{WORDS - 1}")


@pytest.mark.requirement("PAGE/security-session-end")
def test_a_background_response_is_followed_on_after_signing_in_again(door: Opened, guarded: World) -> None:
    response = guarded.respond("steady", "Count.", background=True)["id"]
    door.enter(ADMIN_KEY, f"runs/{response}")
    text = door.tab.locator(".turn .long-text")
    expect(text).to_contain_text("word3 ")
    door.tab.context.clear_cookies()
    dialog = door.tab.get_by_role("dialog", name="Sign in again")
    expect(dialog).to_be_visible()
    door.sign_in(ADMIN_KEY)
    expect(dialog).to_be_hidden()
    expect(door.tab.locator(".properties .badge")).to_have_text("completed")
    assert text.inner_text().split() == [f"word{number}" for number in range(WORDS)]


@pytest.mark.requirement("PAGE/security-scopes")
def test_a_key_with_read_scope_sees_but_does_not_send(door: Opened, guarded: World) -> None:
    response = guarded.respond("echo", "Look, but do not touch.")["id"]
    door.enter(guarded.new_key("responses:read"), f"chains/{response}")
    door.see("Look, but do not touch.")
    for name in ("Continue", "Replay"):
        expect(door.button(name)).to_have_attribute("title", re.compile("“write” scope"))
    door.go(f"responses/{response}")
    for name in ("Continue in the playground", "Replay"):
        expect(door.button(name)).to_have_attribute("title", re.compile("“write” scope"))
    expect(door.button("Delete")).to_have_attribute("title", re.compile("“delete” scope"))
    door.go("playground")
    ask(door, "echo", "Send me.")
    expect(door.tab.locator(".composer .primary")).to_have_attribute("title", re.compile("“write” scope"))
    expect(door.tab.get_by_role("textbox", name="Message")).to_have_value("Send me.")
    expect(door.tab.locator(".item")).to_have_count(0)
    door.go("models")
    expect(door.button("Run the checks")).to_have_attribute("title", re.compile("“admin” scope"))
    door.see("gpu-1")
