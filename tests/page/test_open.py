"""`antiphon open`: the page of a running server, or of one that it starts."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.page.model_server import ModelServer
from tests.page.world import ADMIN_KEY, run_world
from tests.serving import free_port

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

SECONDS = 60


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A browser that writes down the address."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened\n')
    browser.chmod(0o755)
    return {
        **os.environ,
        "BROWSER": f"{browser} %s",
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "NO_PROXY": "127.0.0.1",
        "ANTIPHON_DISCOVERY__ADDRESSES": "[]",
    }


def opened(folder: Path) -> list[str]:
    path = folder / "opened"
    return path.read_text().split() if path.exists() else []


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "antiphon.cli", "open", *options]


@pytest.mark.requirement("PAGE/command-open")
@pytest.mark.parametrize("key", [None, ADMIN_KEY], ids=["without keys", "with keys"])
def test_the_page_of_a_running_server_is_opened(
    models: ModelServer, tmp_path: Path, environment: dict[str, str], key: str | None
) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with run_world(folder, models, key=key) as world:
        options = ["--port", str(world.server.port)]
        run = subprocess.run(
            command(*options),
            check=False,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert (run.returncode, opened(tmp_path)) == (0, [f"{world.base}/"]), run.stderr
        assert f"Opened {world.base}/" in run.stdout


@pytest.mark.requirement("PAGE/command-open")
def test_a_server_is_started_if_none_is_running(
    models: ModelServer, tmp_path: Path, environment: dict[str, str]
) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}/"
    options = ["--port", str(port), "--upstream", models.url]
    with subprocess.Popen(
        command(*options), cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            deadline = time.monotonic() + SECONDS
            while not opened(tmp_path):
                assert time.monotonic() < deadline, "no page was opened"
                assert server.poll() is None, "the server has ended"
                time.sleep(0.1)
            assert opened(tmp_path) == [url]
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:
                assert answer.headers["content-security-policy"].startswith("default-src 'none'")
            server.send_signal(signal.SIGINT)
            server.wait(SECONDS)
        finally:
            server.kill()


def test_a_page_that_is_off_is_not_opened(tmp_path: Path, environment: dict[str, str]) -> None:
    run = subprocess.run(
        command(),
        check=False,
        cwd=tmp_path,
        env={**environment, "ANTIPHON_SERVER__PAGE": "false"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert run.returncode == 2
    assert "server.page is false" in run.stderr
    assert opened(tmp_path) == []
