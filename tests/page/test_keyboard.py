"""Everything can be reached without a mouse."""

import pytest
from playwright.sync_api import expect

from tests.page.browser import Opened
from tests.page.world import World

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

VIEWS = {
    "p": "Playground",
    "r": "Responses",
    "c": "Chains",
    "a": "Runs",
    "f": "Files",
    "v": "Vector stores",
    "m": "Models",
    "u": "Usage",
    "k": "Keys",
    "s": "Settings",
}


@pytest.mark.requirement("PAGE/views-keyboard")
def test_every_view_is_two_keys_away(page: Opened) -> None:
    page.go("models")
    for key, title in VIEWS.items():
        page.tab.keyboard.press("g")
        page.tab.keyboard.press(key)
        expect(page.tab.locator("main h1").first).to_contain_text(title)


@pytest.mark.requirement("PAGE/views-keyboard")
def test_a_sheet_lists_the_keys(page: Opened) -> None:
    page.go("runs")
    page.tab.keyboard.press("?")
    sheet = page.tab.get_by_role("dialog", name="Keyboard")
    expect(sheet).to_be_visible()
    for title in VIEWS.values():
        page.see(title, within=sheet)
    page.tab.keyboard.press("Escape")
    expect(sheet).to_be_hidden()


@pytest.mark.requirement("PAGE/views-jump")
def test_an_id_is_found_from_anywhere(page: Opened, world: World) -> None:
    response = world.respond("echo", "Find me by my id.")["id"]
    page.go("usage")
    page.tab.keyboard.press("/")
    page.tab.keyboard.type(response)
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_url(f"**/#/responses/{response}*")
    page.see("Find me by my id.")


@pytest.mark.requirement("PAGE/views-jump")
def test_an_unknown_id_is_said_and_the_dialog_closes_at_once(page: Opened) -> None:
    page.go("usage")
    page.tab.keyboard.press("/")
    page.tab.keyboard.type("resp_nothing")
    page.tab.keyboard.press("Enter")
    dialog = page.tab.get_by_role("dialog", name="Jump to")
    expect(dialog.get_by_role("alert")).to_contain_text("resp_nothing")
    page.tab.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_letters_in_a_field_are_text(page: Opened) -> None:
    page.go("settings")
    field = page.tab.get_by_label("Filter by name")
    field.focus()
    page.tab.keyboard.type("gp?")
    expect(field).to_have_value("gp?")
    expect(page.tab.locator("main h1")).to_have_text("Settings")


@pytest.mark.requirement("PAGE/views-keyboard")
def test_a_vector_store_is_made_and_deleted_by_keyboard(page: Opened) -> None:
    page.go("stores")
    page.button("New store").focus()
    page.tab.keyboard.press("Enter")
    page.tab.keyboard.type("by keyboard")
    page.tab.keyboard.press("Enter")
    expect(page.tab.get_by_role("heading", name="by keyboard")).to_be_visible()
    page.button("Delete store").focus()
    page.tab.keyboard.press("Enter")
    dialog = page.tab.get_by_role("dialog")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Delete store").focus()
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_url("**/#/stores")
    page.see("No vector stores yet")
