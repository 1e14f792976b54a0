"""A server process with its page, a scripted model server, and a Chromium."""

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser

from tests.page.browser import Opened, find_chromium, new_context, open_tab, run_chromium
from tests.page.model_server import ModelServer
from tests.page.world import World, run_world
from tests.required import PAGE_REQUIRED, skip_unless_required
from tests.upstream import run_upstream


@pytest.fixture(scope="package")
def browser() -> Generator[Browser, None, None]:
    if find_chromium() is None:
        skip_unless_required(PAGE_REQUIRED, "no Chromium is installed; on Debian: apt-get install chromium")
    with run_chromium() as running:
        yield running


@pytest.fixture(scope="session")
def models() -> Generator[ModelServer, None, None]:
    with run_upstream(ModelServer) as running:
        yield running


@pytest.fixture(scope="module")
def world(
    models: ModelServer, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Generator[World, None, None]:
    """A server without keys, which the tests of a module share."""
    with run_world(tmp_path_factory.mktemp("server"), models) as running:
        yield running


@pytest.fixture
def page(browser: Browser, world: World) -> Generator[Opened, None, None]:
    """A tab in a fresh browser. The test fails if the page did what no page of this server may do."""
    context = new_context(browser)
    opened = open_tab(context, world.base)
    yield opened
    problems = (opened.violations(), opened.errors, opened.foreign_requests())
    context.close()
    assert problems == ([], [], [])
