"""The limit of file descriptors: raised at the start, and watched."""

import asyncio
import logging
import resource
import subprocess
import sys

import pytest

from antiphon.server import descriptors
from antiphon.server.descriptors import used_share, watch_descriptors

RAISED = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))
from antiphon.server.descriptors import raise_limit
raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_limit_is_raised_to_the_highest_that_is_allowed() -> None:
    shown = subprocess.run([sys.executable, "-c", RAISED], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "256"


def test_the_share_of_descriptors_is_known() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 1 / soft < used_share() < 1


async def test_scarce_descriptors_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(descriptors, "CHECK_SECONDS", 0.001)
    monkeypatch.setattr(descriptors, "used_share", lambda: 0.9)
    caplog.set_level(logging.WARNING)
    watching = asyncio.create_task(watch_descriptors())
    await asyncio.sleep(0.05)
    watching.cancel()
    assert [record.getMessage().startswith("90 %") for record in caplog.records] == [True]
