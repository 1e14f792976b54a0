"""Files that run code at every start of Python are found."""

import base64
import hashlib
from pathlib import Path

import pytest

from tests.supply_chain.scan_pth import main, unexpected

CODE = "import os; os.system('true')\n"


def install(folder: Path, package: str, name: str, content: str) -> None:
    """A package with one file, as an installer leaves it."""
    (folder / name).write_text(content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
    info = folder / f"{package}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (info / "RECORD").write_text(f"{name},sha256={digest},{len(content)}\n")


def test_this_environment_runs_nothing_unknown() -> None:
    assert main() == 0


def test_an_unknown_file_is_found_even_if_a_package_installed_it(tmp_path: Path) -> None:
    install(tmp_path, "helpful", "helpful_init.pth", CODE)
    assert len(list(unexpected(tmp_path))) == 1


def test_a_known_file_is_accepted_as_its_package_installed_it(tmp_path: Path) -> None:
    install(tmp_path, "coverage", "a1_coverage.pth", CODE)
    assert list(unexpected(tmp_path)) == []


@pytest.mark.parametrize("package", ["coverage", "other"])
def test_a_known_file_that_was_changed_or_belongs_to_another_package_is_found(
    tmp_path: Path, package: str
) -> None:
    install(tmp_path, package, "a1_coverage.pth", CODE)
    (tmp_path / "a1_coverage.pth").write_text(CODE + "import evil\n")
    assert len(list(unexpected(tmp_path))) == 1


@pytest.mark.parametrize("name", ["sitecustomize.py", "usercustomize.py"])
def test_a_startup_module_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    assert len(list(unexpected(tmp_path))) == 1
