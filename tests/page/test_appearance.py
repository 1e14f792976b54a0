"""Every view for everybody: contrast, names for screen readers, narrow and wide windows."""

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser

from tests.page.browser import Scheme, new_context, open_tab
from tests.page.model_server import ModelServer
from tests.page.screenshots import views
from tests.page.seed import Seeded, seed
from tests.page.world import ADMIN_KEY, REAL_MODELS, World, run_world

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]


@pytest.fixture(scope="module")
def furnished(
    browser: Browser, models: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[World, Seeded], None, None]:
    """A server with data."""
    with run_world(tmp_path_factory.mktemp("furnished"), models, key=ADMIN_KEY, served=REAL_MODELS) as world:
        yield world, seed(world)


@pytest.mark.requirement("PAGE/views-accessible")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, furnished: tuple[World, Seeded], scheme: Scheme) -> None:
    world, seeded = furnished
    context = new_context(browser, scheme=scheme)
    opened = open_tab(context, world.base)
    opened.enter(ADMIN_KEY, "models")
    found: dict[str, list[str]] = {}
    for view in views(opened, seeded):
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
    for view in views(opened, seeded):
        opened.tab.wait_for_load_state("networkidle")
        wider[view] = opened.overflow()
    problems = (opened.errors, opened.violations(), opened.foreign_requests())
    context.close()
    assert {view: pixels for view, pixels in wider.items() if pixels > 0} == {}
    assert problems == ([], [], [])
