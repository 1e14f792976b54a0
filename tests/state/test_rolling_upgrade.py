"""The version of some commits ago and this one, on one PostgreSQL."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.state.rolling_upgrade import CHECKS, ROOT, Version, upgrade

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replicas")]

BEFORE = "HEAD~30"
MAX_TEST_PAUSE_SECONDS = 10.0
"""Both servers may share one busy core; the command has the real bound."""


@pytest.fixture
def before(tmp_path: Path) -> Version:
    """The source of an earlier commit; it runs with the packages of this one."""
    archive = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode != 0:
        pytest.skip(f"needs the history of the repository: {BEFORE} is not here")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tmp_path / "source", filter="data")
    return Version("before", tmp_path / "source")


def test_two_versions_work_on_one_database(before: Version, postgres: PostgresServer, tmp_path: Path) -> None:
    after = Version("after", ROOT)
    steps = list(upgrade(before, after, postgres, tmp_path, max_pause_seconds=MAX_TEST_PAUSE_SECONDS))
    assert [f"{step.what}: {step.error}" for step in steps if step.error is not None] == []
    assert len(steps) == 1 + 2 * len(CHECKS)
