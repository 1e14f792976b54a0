"""What models and clients write is shown, and never run."""

import pytest
from playwright.sync_api import expect

from tests.page.browser import Opened
from tests.page.model_server import LONG_LINE_BYTES
from tests.page.samples import HOSTILE_TEXT
from tests.page.world import World

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

ITEMS = 50_000
ITEMS_OF_A_REQUEST = 10_000
"""The most that the server takes at once."""
LONG_LOAD_MS = 60_000
MAX_NODES = 3000
"""In the document, however long the list is."""
ALLOWED_LINKS = ("#", "https:", "http:", "mailto:")


def check_nothing_ran(page: Opened) -> None:
    """No script ran, nothing was loaded, and no link runs a script."""
    assert page.tab.evaluate("window.__ran") is None
    assert page.foreign_requests() == []
    assert page.violations() == []
    links: list[str] = page.tab.evaluate(
        "[...document.querySelectorAll('main a')].map((a) => a.getAttribute('href') ?? '#')"
    )
    assert [link for link in links if not link.startswith(ALLOWED_LINKS)] == []
    assert page.tab.locator("main iframe, main form[action], main script, main style").count() == 0


@pytest.mark.requirement("PAGE/security-hostile-text")
@pytest.mark.parametrize("view", ["responses/{id}", "chains/{id}", "runs/{id}", "responses"])
def test_hostile_text_of_a_model_is_text(page: Opened, world: World, view: str) -> None:
    response = world.respond("hostile", HOSTILE_TEXT)["id"]
    page.go(view.format(id=response))
    expect(page.tab.locator("main")).to_contain_text("onerror")
    page.tab.wait_for_timeout(300)
    check_nothing_ran(page)


@pytest.mark.requirement("PAGE/security-hostile-text")
def test_controls_that_turn_text_around_are_visible(page: Opened, world: World) -> None:
    response = world.respond("hostile", "Show me.")["id"]
    for view in ("responses", "runs"):
        page.go(f"{view}/{response}")
        expect(page.tab.locator("main")).to_contain_text("RLO")


@pytest.mark.requirement("PAGE/security-hostile-text")
def test_hostile_names_are_text(page: Opened, world: World) -> None:
    name = '<img src=x onerror="window.__ran = 1">'
    world.post("/v1/vector_stores", {"name": name})
    world.upload("<svg onload=alert(1)>.md", b"# x")
    page.go("stores")
    page.see(name)
    check_nothing_ran(page)
    page.go("files")
    page.see("<svg onload=alert(1)>.md")
    check_nothing_ran(page)


@pytest.mark.requirement("PAGE/security-large")
def test_a_line_of_a_megabyte_does_not_stop_the_page(page: Opened, world: World) -> None:
    response = world.respond("one-line", "Write one line.")["id"]
    for view in ("responses", "runs"):
        page.go(f"{view}/{response}")
        expect(page.tab.locator("main")).to_contain_text("xxxxxxxx")
        shown: int = page.tab.evaluate("document.querySelector('main').innerText.length")
        assert shown < LONG_LINE_BYTES
        assert page.overflow() <= 0


def count_nodes(page: Opened) -> int:
    return page.tab.evaluate("document.querySelectorAll('main *').length")


@pytest.mark.requirement("PAGE/security-large")
def test_50_000_items_can_be_scrolled(page: Opened, world: World) -> None:
    items = [{"role": "user", "content": f"item number {number}"} for number in range(ITEMS_OF_A_REQUEST)]
    response = world.respond("echo", items)["id"]
    requests = ITEMS // ITEMS_OF_A_REQUEST
    total = requests * (ITEMS_OF_A_REQUEST + 1)
    for _ in range(requests - 1):
        response = world.respond("echo", items, previous_response_id=response)["id"]
    page.tab.set_default_timeout(LONG_LOAD_MS)
    page.go(f"responses/{response}")
    fold = page.button("Earlier turns")
    expect(page.tab.locator(".entry").last).to_contain_text("You said: ")  # before the input is there
    fold.click()
    items_shown = page.tab.locator(".virtual")
    expect(items_shown).to_contain_text("item number 0")
    status = page.tab.get_by_role("status")
    expect(status).to_contain_text("Loading the input")  # the first pages do not wait for the others
    expect(status).to_have_count(0, timeout=LONG_LOAD_MS)
    assert count_nodes(page) < MAX_NODES
    expect(page.tab.get_by_role("heading", name="Output")).to_have_count(0)
    for _ in range(3):  # the heights of rows are estimated until they are shown
        items_shown.evaluate("(element) => element.scrollTo(0, element.scrollHeight)")
        page.tab.wait_for_timeout(200)
    expect(page.tab.get_by_role("heading", name="Output")).to_be_visible()
    expect(items_shown).to_contain_text(f"item number {ITEMS_OF_A_REQUEST - 1}")
    last = page.tab.locator(".virtual li").last
    expect(last).to_have_attribute("aria-posinset", str(total))
    expect(last).to_contain_text("You said: ")
    assert count_nodes(page) < MAX_NODES
