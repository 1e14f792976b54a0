"""Every dependency has an upper bound, and its reason in the decisions."""

import re
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DECISION = (ROOT / "docs" / "decisions" / "0010-dependencies.md").read_text(encoding="utf-8")
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)(?:,<([\d.]+))?")


def requirements() -> list[str]:
    project = PROJECT["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    # A group may contain another one, which is read by itself.
    entries = chain.from_iterable(PROJECT["dependency-groups"].values())
    groups = [entry for entry in entries if isinstance(entry, str)]
    found = [*project["dependencies"], *extras, *groups, *PROJECT["build-system"]["requires"]]
    return [requirement for requirement in found if not requirement.startswith("antiphon[")]


def test_every_dependency_has_bounds() -> None:
    found = [(requirement, REQUIREMENT.match(requirement)) for requirement in requirements()]
    assert len(found) > 25
    assert [requirement for requirement, match in found if match is None or match[3] is None] == []


def test_every_dependency_has_a_reason() -> None:
    names = [match[1] for requirement in requirements() if (match := REQUIREMENT.match(requirement))]
    known = set(re.findall(r"[\w-]+", DECISION))
    assert [name for name in names if name not in known] == []


def test_the_lock_has_hashes_for_every_file() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    for package in lock["package"]:
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert files or "editable" in package["source"] or "virtual" in package["source"], package["name"]
        assert all(file["hash"].startswith("sha256:") for file in files), package["name"]
