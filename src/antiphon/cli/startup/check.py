"""`Check`: the result of one check, and the check of a folder."""

import tempfile
from pathlib import Path
from typing import Literal

from msgspec import Struct

Status = Literal["ok", "warning", "failed"]


class Check(Struct, frozen=True, omit_defaults=True):
    """The result of one check. `advice` is one sentence; it is empty if the status is ok."""

    name: str
    status: Status
    found: str
    advice: str = ""

    @property
    def problem(self) -> str:
        """What is wrong and what to do, in one line."""
        return f"{self.name}: {self.found.rstrip('.')}. {self.advice}"


def passed(name: str, found: str) -> Check:
    return Check(name, "ok", found)


def warning(name: str, found: str, advice: str) -> Check:
    return Check(name, "warning", found, advice)


def failed(name: str, found: str, advice: str) -> Check:
    return Check(name, "failed", found, advice)


def check_folder(name: str, folder: Path) -> Check:
    """Whether the folder is writable, or can be created. It is not created for this check."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        advice = f"Make {nearest} writable for this user, or set HOME or XDG_DATA_HOME to a folder that is."
        return failed(name, f"{folder}: {error.strerror}", advice)
    return passed(name, str(folder) if nearest == folder else f"{folder} (will be created)")
