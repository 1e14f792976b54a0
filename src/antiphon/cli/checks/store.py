"""The store: which one it is, whether it opens, how large and how old it is, and who else works on it."""

import os
from collections.abc import Sequence
from pathlib import Path

from antiphon.cli.checks.base import Check, doubtful, failed, passed
from antiphon.cli.checks.installation import check_folder
from antiphon.errors import AntiphonError
from antiphon.http.redact import redact
from antiphon.settings import POSTGRES, Settings
from antiphon.store.migrations import Migration
from antiphon.wiring import lock_path, open_database, store_path

try:
    import fcntl
except ImportError:  # Windows, where nobody holds such a lock
    fcntl = None

ANOTHER_PLACE = "Make it writable for this user, or name another place with --store or store.url."


async def check_store(settings: Settings) -> Check:
    """Where responses are kept. Nothing is made or changed for this."""
    url = settings.store.url
    if url == "none":
        return passed("store", "none: no response is kept, so none can be retrieved or continued")
    if url == "memory:":
        kept = settings.store.memory_responses
        return passed("store", f"memory: the newest {kept:,} responses, until the process ends")
    if url.startswith(POSTGRES):
        return await _check_postgres(settings)
    path = store_path(settings)
    return await _check_file(settings, path) if path.exists() else _check_place(path)


async def _check_postgres(settings: Settings) -> Check:
    check = await _check_database(settings, redact(settings.store.url))
    if check.status == "ok" and not settings.seal.key:
        advice = "Several servers need the same seal.key: else none takes another's API keys and envelopes."
        return doubtful("store", f"{check.found}, seal.key not set", advice)
    return check


async def _check_file(settings: Settings, path: Path) -> Check:
    if not os.access(path, os.W_OK):
        return failed("store", f"sqlite:{path} cannot be written", ANOTHER_PLACE)
    check = await _check_database(settings, f"sqlite:{path}")
    if check.status == "ok" and _is_locked(lock_path(path)):
        advice = "If that is not antiphon's own server, end it: a second one refuses 'background' meanwhile."
        return doubtful("store", f"{check.found}, another process works in the background on it", advice)
    return check


def _check_place(path: Path) -> Check:
    """A file that is not there yet."""
    if check_folder("store", path.parent).status == "failed":
        return failed("store", f"sqlite:{path} cannot be made in its folder", ANOTHER_PLACE)
    return passed("store", f"sqlite:{path} (will be made)")


async def _check_database(settings: Settings, place: str) -> Check:
    try:
        async with open_database(settings) as database:
            migrations = await database.migration_status()
            size = await database.size()
    except AntiphonError as error:
        return failed("store", place, error.message)
    return _check_version(f"{place}, {size / 1e6:,.1f} MB", migrations)


def _check_version(found: str, migrations: Sequence[tuple[Migration, bool]]) -> Check:
    missing = [migration for migration, done in migrations if not done]
    if len(missing) == len(migrations):
        return passed("store", f"{found} (its tables will be made)")
    if missing:
        advice = "Run antiphon db migrate; a server does it, too, when it starts."
        return doubtful("store", f"{found}, migrations to apply: {len(missing)}", advice)
    return passed("store", found)


def _is_locked(lock: Path) -> bool:
    """Whether a process holds the lock of those who work in the background."""
    if fcntl is None or not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
