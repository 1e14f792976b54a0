"""What CI requires of the machine is a failure if it is missing, and a reason to skip elsewhere."""

import subprocess
from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

from tests.required import CLOCK_REQUIRED, PAGE_REQUIRED, SANDBOX_REQUIRED, skip_unless_required
from tests.sandbox import sandboxes

CI = Path(__file__).parents[1] / ".ci/run"


def test_what_is_missing_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SANDBOX_REQUIRED, raising=False)
    with pytest.raises(Skipped, match="no bwrap"):
        skip_unless_required(SANDBOX_REQUIRED, "no bwrap")


def test_what_is_missing_is_a_failure_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SANDBOX_REQUIRED, "1")
    with pytest.raises(Failed, match=r"no bwrap.*SANDBOX_REQUIRED"):
        skip_unless_required(SANDBOX_REQUIRED, "no bwrap")


@pytest.mark.parametrize("variable", [CLOCK_REQUIRED, PAGE_REQUIRED, SANDBOX_REQUIRED])
def test_ci_requires_it(variable: str) -> None:
    assert f" {variable}=1" in CI.read_text()


def test_a_machine_that_permits_no_namespaces_is_named_as_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv(SANDBOX_REQUIRED, "1")
    sandboxes.why_not_permitted.cache_clear()
    try:
        with pytest.raises(Failed, match=r"does not permit sandboxes: .*No permissions.*user namespaces"):
            sandboxes.bubblewrap()
    finally:
        sandboxes.why_not_permitted.cache_clear()


def test_the_script_of_ci_is_valid() -> None:
    assert subprocess.run(["/bin/bash", "-n", str(CI)], check=False).returncode == 0
