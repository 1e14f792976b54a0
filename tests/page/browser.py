"""A real Chromium that opens the page of a server, and counts what the page must not do."""

import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
WAIT_MS = 15_000
"""How long a test waits for what the page should show: the machines of CI are slow."""

Scheme = Literal["light", "dark"]
_COUNT_VIOLATIONS = """
window.__violations = [];
document.addEventListener('securitypolicyviolation', (event) => {
  window.__violations.push(`${event.effectiveDirective} ${event.blockedURI}`);
});
"""
_RUN_AXE = """async () => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  return found.violations
    .filter((each) => each.impact === 'serious' || each.impact === 'critical')
    .map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.target.join(' ')).join(', ')}`);
}"""


def find_chromium() -> str | None:
    """The path of a Chromium, if one is installed."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


@contextmanager
def run_chromium() -> Generator[Browser, None, None]:
    """Run Chromium until the end of the block."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Opened:
    """A tab with the page."""

    tab: Page
    base: str
    errors: list[str] = field(default_factory=list[str])
    """Uncaught exceptions, and errors on the console."""
    requests: list[str] = field(default_factory=list[str])

    def go(self, view: str) -> None:
        """Open a view by its address."""
        self.tab.goto(f"{self.base}/#/{view}")
        expect(self.tab.locator("main h1").first).to_be_visible()

    def sign_in(self, key: str) -> None:
        """Fill in the form that is shown."""
        field = self.tab.locator("input[type=password]")
        field.fill(key)
        field.press("Enter")

    def enter(self, key: str, view: str) -> None:
        """Open a view as somebody who has not signed in."""
        self.tab.goto(f"{self.base}/#/{view}")
        self.sign_in(key)
        expect(self.tab.locator("main#main h1").first).to_be_visible()

    def see(self, text: str, *, within: Locator | None = None) -> None:
        """Wait until this text is visible."""
        expect((within or self.tab.locator("body")).get_by_text(text).first).to_be_visible()

    def button(self, name: str) -> Locator:
        return self.tab.get_by_role("button", name=name)

    def violations(self) -> list[str]:
        """Violations of the content security policy."""
        return self.tab.evaluate("window.__violations")

    def serious_axe_violations(self) -> list[str]:
        self.tab.evaluate(AXE.read_text(encoding="utf-8"))
        return self.tab.evaluate(_RUN_AXE)

    def overflow(self) -> int:
        """By how many pixels the document is wider than the window."""
        return self.tab.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def foreign_requests(self) -> list[str]:
        """Requests to anything but the server of the page."""
        own = (f"{self.base}/", "data:", f"blob:{self.base}/")
        return [url for url in self.requests if not url.startswith(own)]

    def storage(self) -> str:
        """All that the page has stored in the browser, as JSON."""
        return json.dumps(self.tab.evaluate("[{...localStorage}, {...sessionStorage}]"))


def open_tab(context: BrowserContext, base: str) -> Opened:
    """A new tab. It is empty until a view is opened."""
    context.add_init_script(_COUNT_VIOLATIONS)
    opened = Opened(context.new_page(), base)
    tab = opened.tab
    tab.set_default_timeout(WAIT_MS)
    tab.on("pageerror", lambda error: opened.errors.append(str(error)))
    tab.on("console", lambda message: _note(opened, message.type, message.text))
    tab.on("request", lambda request: opened.requests.append(request.url))
    return opened


def _note(opened: Opened, kind: str, text: str) -> None:
    # Chromium writes every response with an error status to the console, also those that are expected.
    if kind == "error" and "Failed to load resource" not in text:
        opened.errors.append(text)


def new_context(
    browser: Browser, *, scheme: Scheme = "light", width: int = 1280, height: int = 800, **options: Any
) -> BrowserContext:
    """A browser without cookies."""
    return browser.new_context(
        color_scheme=scheme,
        viewport={"width": width, "height": height},
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
        **options,
    )
