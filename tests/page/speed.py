"""Measures the page in Chromium: `python -m tests.page.speed [--tokens N] [--idle SECONDS]`.

It prints the first load, the frames that a stream drops, and what an open page costs an idle server.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from tests.page.browser import Opened, new_context, open_tab, run_chromium
from tests.page.model_server import ModelServer
from tests.page.world import World, run_world
from tests.upstream import run_upstream

TOKENS_PER_SECOND = 200
PARAGRAPH_WORDS = 80
LOADS = 7
VIEWS = ("playground", "responses", "runs")
_INTERACTIVE = """() => new Promise((resolve) => {
  const look = () => {
    const model = document.querySelector('.column-head select');
    if (model === null || model.value === '') requestAnimationFrame(look);
    else resolve({
      milliseconds: performance.now(),
      bytes: [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .filter((each) => !new URL(each.name).pathname.startsWith('/v1/'))
        .reduce((sum, each) => sum + each.transferSize, 0),
    });
  };
  look();
})"""
_COUNT_FRAMES = """() => {
  window.__gaps = [];
  window.__long = [];
  let last;
  const frame = (now) => {
    if (last !== undefined) window.__gaps.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.__long.push(each.duration);
  }).observe({type: 'longtask'});
}"""
FRAME_MS = 1000 / 60


def main() -> None:
    """Start a server, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--idle", type=float, default=20.0, help="seconds for each measurement of idle cost")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        run_upstream(ModelServer) as models,
        run_world(Path(folder), models) as world,
        run_chromium() as browser,
    ):
        measure_load(browser, world)
        models.word_seconds, models.words = 1 / TOKENS_PER_SECOND, options.tokens
        models.paragraph_words = PARAGRAPH_WORDS
        measure_stream(browser, world, options.tokens)
        measure_idle(browser, world, options.idle)


def measure_load(browser: Browser, world: World) -> None:
    """Of the playground, in a browser that has seen nothing."""
    loads: list[dict[str, float]] = []
    for _ in range(LOADS):
        context = new_context(browser)
        opened = open_tab(context, world.base)
        opened.tab.goto(world.base)
        loads.append(opened.tab.evaluate(_INTERACTIVE))
        context.close()
    times = [load["milliseconds"] for load in loads]
    print(
        f"first load: {loads[0]['bytes'] / 1000:.1f} kB, interactive after {min(times):.0f} ms at best, "
        f"{statistics.median(times):.0f} ms as a rule"
    )


def measure_stream(browser: Browser, world: World, tokens: int) -> None:
    """Of an answer at a steady pace."""
    context = new_context(browser)
    opened = open_tab(context, world.base)
    opened.go("playground")
    opened.tab.get_by_role("combobox", name="Model").select_option("steady")
    message = opened.tab.get_by_role("textbox", name="Message")
    message.fill("Count.")
    opened.tab.evaluate(_COUNT_FRAMES)
    began = time.monotonic()
    message.press("Enter")
    expect(opened.tab.get_by_text(f"word{tokens - 1}").first).to_be_visible(timeout=600_000)
    seconds = time.monotonic() - began
    gaps: list[float] = opened.tab.evaluate("window.__gaps")
    long: list[float] = opened.tab.evaluate("window.__long")
    context.close()
    late = sum(gap > 1.5 * FRAME_MS for gap in gaps)
    print(
        f"stream of {tokens} tokens, {tokens / seconds:.0f} a second: {len(gaps)} frames, {late} late "
        f"({late / len(gaps):.1%}), p99 {statistics.quantiles(gaps, n=100)[98]:.0f} ms, longest "
        f"{max(gaps):.0f} ms; {len(long)} tasks of more than 50 ms"
    )


def measure_idle(browser: Browser, world: World, seconds: float) -> None:
    """The share of a core that the server takes, without a page and with each view."""
    shares = {"no page": _share(world, seconds)}
    for view in VIEWS:
        context = new_context(browser)
        opened: Opened = open_tab(context, world.base)
        opened.go(view)
        time.sleep(1)
        shares[view] = _share(world, seconds)
        context.close()
    print("idle server: " + ", ".join(f"{name} {share:.2%}" for name, share in shares.items()))


def _share(world: World, seconds: float) -> float:
    before = _cpu_seconds(world.server.process.pid)
    time.sleep(seconds)
    return (_cpu_seconds(world.server.process.pid) - before) / seconds


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields: list[Any] = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
