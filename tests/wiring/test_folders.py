"""The sealing secret in the data folder."""

import stat
from pathlib import Path

from antiphon.jobs.process_lock import ProcessLock
from antiphon.settings import Settings
from antiphon.wiring.folders import SEAL_KEY_FILE, seal_secret


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_key_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    secret = seal_secret(Settings(), folder)
    assert (mode_of(folder), mode_of(folder / SEAL_KEY_FILE)) == (0o700, 0o600)
    (folder / SEAL_KEY_FILE).chmod(0o644)  # restored from a copy
    assert seal_secret(Settings(), folder) == secret
    assert mode_of(folder / SEAL_KEY_FILE) == 0o600


def test_the_lock_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path / "antiphon.db.lock")
    assert lock.acquire()
    lock.release()
    assert mode_of(tmp_path / "antiphon.db.lock") == 0o600
