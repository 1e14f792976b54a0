"""`antiphon doctor --fix`: repairs of files that cannot lose anything."""

import os
import re
from pathlib import Path

from antiphon.wiring import make_ids
from antiphon.wiring.folders import SEAL_KEY_FILE

Fix = str
"""One sentence: what was done."""

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_UNFINISHED = re.compile(rf"{re.escape(SEAL_KEY_FILE)}\.\d+")
"""A sealing key that a process was writing, which takes a moment."""
MIN_STALE_SECONDS = 3600.0


def fix_files(folder: Path) -> list[Fix]:
    """Repair the data folder; returns what was done. What cannot be repaired is left to the checks."""
    try:
        return _fix(folder)
    except OSError:
        return []


def _fix(folder: Path) -> list[Fix]:
    fixes: list[Fix] = []
    if not folder.exists():
        folder.mkdir(_PRIVATE_FOLDER, parents=True)
        fixes.append(f"created {folder}")
    fixes += _fix_mode(folder, _PRIVATE_FOLDER)
    seal_key = folder / SEAL_KEY_FILE
    if seal_key.is_file():
        fixes += _fix_mode(seal_key, _PRIVATE_FILE)
    for path in sorted(folder.iterdir()):
        age = make_ids().clock() - path.stat().st_mtime
        if _UNFINISHED.fullmatch(path.name) and age > MIN_STALE_SECONDS:
            path.unlink()
            fixes.append(f"removed {path}, which a killed process left")
    return fixes


def _fix_mode(path: Path, mode: int) -> list[Fix]:
    """Take the permissions of other users away."""
    if os.name != "posix" or not path.stat().st_mode & 0o077:
        return []
    path.chmod(mode)
    return [f"made {path} private (mode {mode:o})"]
