"""Installing: the commands that messages recommend, and a wheel that serves."""

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from antiphon import extras
from tests.serving import run_server
from tests.upstream import run_upstream

ROOT = Path(__file__).parents[1]
UV = ROOT / ".tools" / "bin" / "uv"
MAX_CORE_MB = 60
"""Of all files of an installation without extras, before Python has compiled any."""


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (None, "pip install 'antiphon[local]'"),
        ('{"url": "file:///a%20b", "dir_info": {"editable": true}}', "make -C '/a b' setup"),
        ('{"url": "file:///src", "dir_info": {}}', "pip install 'antiphon[local] @ file:///src'"),
        ('{"url": "file:///x.whl", "archive_info": {}}', "pip install 'antiphon[local] @ file:///x.whl'"),
    ],
)
def test_an_extra_is_installed_from_where_antiphon_came_from(
    monkeypatch: pytest.MonkeyPatch, record: str | None, command: str
) -> None:
    monkeypatch.setattr(extras, "_record", lambda: record)
    assert extras.install_command("local") == command


def test_this_installation_knows_where_it_came_from() -> None:
    assert extras.install_command("local") == f"make -C {ROOT} setup"


@pytest.mark.slow
def test_a_wheel_of_this_tree_installs_and_serves(tmp_path: Path) -> None:
    def run(*command: object) -> None:
        subprocess.run([*map(str, command)], check=True, capture_output=True, timeout=300)

    python = tmp_path / "venv" / "bin" / "python"
    run(UV, "build", "--wheel", "--out-dir", tmp_path / "dist", ROOT)
    run(UV, "venv", "--python", sys.executable, tmp_path / "venv")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    run(UV, "pip", "install", "--python", python, wheel)
    installed = [path for path in (tmp_path / "venv").rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in installed) < MAX_CORE_MB * 2**20
    with run_upstream() as upstream:
        away = {"PYTHONPATH": ""}  # nothing of this tree
        with run_server(tmp_path, "--upstream", upstream.url, environment=away, python=str(python)) as served:
            answer = httpx2.post(
                f"http://127.0.0.1:{served.port}/v1/responses", json={"model": "echo", "input": "hi"}
            )
    assert answer.json()["status"] == "completed"
