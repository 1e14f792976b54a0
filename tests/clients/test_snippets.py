"""The snippets of the page about clients run unchanged, except for the address."""

import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.clients.programs import NODE, NODE_MODULES, ROOT
from tests.serving import Served, run_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("snippets")]

ADDRESS = "http://127.0.0.1:8080/v1"
PAGE = (ROOT / "docs/guides/clients.md").read_text(encoding="utf-8")


def snippets(language: str) -> dict[str, str]:
    """The snippets, by their headings."""
    return {
        section.splitlines()[0]: snippet
        for section in PAGE.split("\n## ")
        for snippet in re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    }


PYTHON, JAVASCRIPT = snippets("python"), snippets("js")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    with run_server(tmp_path_factory.mktemp("server"), "--log-level", "warning") as served:
        yield served


def run(folder: Path, *command: str) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.parametrize("snippet", PYTHON.values(), ids=PYTHON.keys())
def test_a_snippet_in_python(server: Served, tmp_path: Path, snippet: str) -> None:
    assert ADDRESS in snippet
    (tmp_path / "snippet.py").write_text(snippet.replace(ADDRESS, server.base_url))
    assert run(tmp_path, sys.executable, "snippet.py")


@pytest.mark.clients
@pytest.mark.skipif(not (NODE_MODULES / "ai").exists(), reason="not installed: `make test-clients` does it")
@pytest.mark.parametrize("snippet", JAVASCRIPT.values(), ids=JAVASCRIPT.keys())
def test_a_snippet_in_javascript(server: Served, tmp_path: Path, snippet: str) -> None:
    assert ADDRESS in snippet
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "snippet.mjs").write_text(snippet.replace(ADDRESS, server.base_url))
    assert run(tmp_path, str(NODE), "snippet.mjs")


def test_there_is_a_snippet_for_each_client() -> None:
    assert (len(PYTHON), len(JAVASCRIPT)) == (4, 2)
