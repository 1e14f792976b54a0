"""Writes pictures of every view to docs/images/page: `python -m tests.page.screenshots`."""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, expect

from tests.page.browser import ROOT, Opened, Scheme, new_context, open_tab, run_chromium
from tests.page.model_server import ModelServer
from tests.page.seed import QUESTION, Seeded, seed
from tests.page.world import ADMIN_KEY, REAL_MODELS, World, run_world
from tests.upstream import run_upstream

FOLDER = ROOT / "docs/images/page"
SIZES: tuple[tuple[str, Scheme, int, int], ...] = (
    ("light", "light", 1280, 800),
    ("dark", "dark", 1280, 800),
    ("narrow", "light", 360, 720),
)
COLOURS = 96
MAX_BYTES = 150_000
SETTLE_MS = 700


def main() -> None:
    """Start a server with data, and photograph it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_upstream(ModelServer) as models,
        run_world(Path(folder), models, key=ADMIN_KEY, served=REAL_MODELS) as world,
        run_chromium() as browser,
    ):
        seeded = seed(world)
        for name, scheme, width, height in SIZES:
            _photograph(browser, world, seeded, (name, scheme, width, height))


def _photograph(browser: Browser, world: World, seeded: Seeded, size: tuple[str, Scheme, int, int]) -> None:
    name, scheme, width, height = size
    context = new_context(browser, scheme=scheme, width=width, height=height)
    opened = open_tab(context, world.base)
    opened.enter(ADMIN_KEY, "models")
    for view in views(opened, seeded):
        opened.tab.wait_for_timeout(SETTLE_MS)
        _write(FOLDER / f"{view}-{name}.png", opened.tab.screenshot())
    context.close()


def views(opened: Opened, seeded: Seeded) -> Iterator[str]:
    """Opens one view after the other, and yields its name when it shows what it is for."""
    opened.go("playground")
    expect(opened.tab.get_by_role("combobox", name="Model")).to_have_value(REAL_MODELS[0])
    opened.tab.get_by_role("textbox", name="Message").fill(
        "How do I rotate the signing keys without downtime?"
    )
    opened.tab.keyboard.press("Enter")
    opened.see("The order matters")
    yield "playground"
    places = {
        "responses": "responses",
        "response": f"responses/{seeded.traced}",
        "upstream": f"responses/{seeded.traced}?tab=upstream",
        "chain": f"chains/{seeded.chain}",
        "runs": "runs",
        "run": f"runs/{seeded.run}",
        "files": "files",
        "models": "models",
        "usage": "usage",
        "keys": "keys",
        "settings": "settings",
    }
    for view, place in places.items():
        opened.go(place)
        yield view
    opened.go(f"stores/{seeded.store}")
    opened.tab.get_by_label("Question").fill(QUESTION)
    opened.button("Search").click()
    opened.see("results in")
    yield "store"


def _write(path: Path, picture: bytes) -> None:
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS)
    image.save(path, optimize=True)
    size = path.stat().st_size
    assert size < MAX_BYTES, f"{path.name} has {size:,} bytes"
    print(f"{path.name}: {size:,} bytes")


if __name__ == "__main__":
    main()
