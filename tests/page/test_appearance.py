"""Every view for everybody: contrast, names for screen readers, narrow and wide windows."""

from collections.abc import Generator, Iterator
from itertools import chain

import pytest
from playwright.sync_api import Browser, expect

from tests.page.browser import Opened, Scheme, new_context, open_tab
from tests.page.model_server import WORDS, ModelServer
from tests.page.screenshots import views
from tests.page.seed import Seeded, seed
from tests.page.world import ADMIN_KEY, REAL_MODELS, World, run_world

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

GOOD_SHIFT = 0.1
"""Up to here a layout shift is called good (web.dev/cls)."""
_COUNT_SHIFTS = """() => {
  window.__shift = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.__shift += entry.value;
  }).observe({type: 'layout-shift'});
}"""


@pytest.fixture(scope="module")
def furnished(
    browser: Browser, models: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[World, Seeded], None, None]:
    """A server with data."""
    with run_world(tmp_path_factory.mktemp("furnished"), models, key=ADMIN_KEY, served=REAL_MODELS) as world:
        yield world, seed(world)


def more_views(opened: Opened, seeded: Seeded) -> Iterator[str]:
    """Those without a picture: the other tabs, the lists, and a dialog."""
    places = {
        "events": f"responses/{seeded.running}?tab=events",
        "json": f"responses/{seeded.traced}?tab=json",
        "chains": "chains",
        "stores": "stores",
    }
    for view, place in places.items():
        opened.go(place)
        yield view
    opened.go(f"chains/{seeded.chain}")
    opened.button("Replay").first.click()
    expect(opened.tab.get_by_role("dialog")).to_be_visible()
    yield "replay dialog"


@pytest.mark.requirement("PAGE/views-accessible")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_axe_finds_nothing_serious(
    browser: Browser, furnished: tuple[World, Seeded], scheme: Scheme, width: int
) -> None:
    world, seeded = furnished
    context = new_context(browser, scheme=scheme, width=width)
    opened = open_tab(context, world.base)
    opened.enter(ADMIN_KEY, "models")
    found: dict[str, list[str]] = {}
    for view in chain(views(opened, seeded), more_views(opened, seeded)):
        opened.tab.wait_for_load_state("networkidle")
        found[view] = opened.serious_axe_violations()
    context.close()
    assert {view: violations for view, violations in found.items() if violations} == {}


@pytest.mark.requirement("PAGE/views-width")
@pytest.mark.parametrize("width", [360, 2560])
def test_no_view_scrolls_sideways(browser: Browser, furnished: tuple[World, Seeded], width: int) -> None:
    world, seeded = furnished
    context = new_context(browser, width=width)
    opened = open_tab(context, world.base)
    opened.enter(ADMIN_KEY, "models")
    wider: dict[str, int] = {}
    for view in chain(views(opened, seeded), more_views(opened, seeded)):
        opened.tab.wait_for_load_state("networkidle")
        wider[view] = opened.overflow()
    problems = (opened.errors, opened.violations(), opened.foreign_requests())
    context.close()
    assert {view: pixels for view, pixels in wider.items() if pixels > 0} == {}
    assert problems == ([], [], [])


@pytest.mark.requirement("PAGE/views-width")
def test_actions_are_in_sight_in_a_narrow_window(browser: Browser, furnished: tuple[World, Seeded]) -> None:
    world, _ = furnished
    context = new_context(browser, width=360)
    opened = open_tab(context, world.base)
    opened.enter(ADMIN_KEY, "models")
    for view, name in (
        ("runs", "Cancel"),
        ("files", "Delete"),
        ("keys", "Revoke"),
        ("playground", "New conv"),
    ):
        opened.go(view)
        button = opened.button(name).first
        expect(button).to_be_visible()
        box = button.bounding_box()
        assert box is not None
        assert box["x"] >= 0, view
        assert box["x"] + box["width"] <= 360, view
    context.close()


@pytest.mark.requirement("PAGE/views-theme")
def test_the_theme_is_kept(page: Opened) -> None:
    page.go("runs")
    light = "getComputedStyle(document.body).getPropertyValue('--ground')"
    before = page.tab.evaluate(light)
    page.button("Theme: system").click()
    page.button("Theme: light").click()
    expect(page.button("Theme: dark")).to_be_visible()
    page.tab.reload()
    expect(page.button("Theme: dark")).to_be_visible()
    assert page.tab.evaluate(light) != before


@pytest.mark.requirement("PAGE/views-layout")
def test_nothing_jumps_while_an_answer_is_written(page: Opened) -> None:
    page.go("playground")
    page.tab.get_by_role("combobox", name="Model").select_option("steady")
    page.tab.evaluate(_COUNT_SHIFTS)
    message = page.tab.get_by_role("textbox", name="Message")
    message.fill("Count.")
    places = [each.bounding_box() for each in (message, page.button("Attach"))]
    message.press("Enter")
    page.see(f"word{WORDS - 1}")
    assert [each.bounding_box() for each in (message, page.button("Attach"))] == places
    assert page.tab.evaluate("window.__shift") < GOOD_SHIFT
