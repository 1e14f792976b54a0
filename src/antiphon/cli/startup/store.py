"""The check of the store: whether it opens, its size, its migrations, and other processes that use it."""

import os
from collections.abc import Sequence
from pathlib import Path

from antiphon.cli.startup.check import Check, check_folder, failed, passed, warning
from antiphon.errors import AntiphonError
from antiphon.http.redact import redact
from antiphon.settings import POSTGRES, Settings
from antiphon.store.migrations import Migration
from antiphon.wiring import lock_path, open_database, store_path

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None

MAKE_WRITABLE = "Make it writable for this user, or use another path with --store or store.url."


async def check_store(settings: Settings) -> Check:
    """Whether responses can be stored. Nothing is created or changed for this check."""
    url = settings.store.url
    if url == "none":
        return passed("store", "none: responses are not stored, so they cannot be retrieved or continued")
    if url == "memory:":
        limit = settings.store.memory_responses
        return passed("store", f"memory: the newest {limit:,} responses, until the process ends")
    if url.startswith(POSTGRES):
        return await _check_postgres(settings)
    path = store_path(settings)
    return await _check_file(settings, path) if path.exists() else _check_place(path)


async def _check_postgres(settings: Settings) -> Check:
    check = await _check_database(settings, redact(settings.store.url))
    if check.status == "ok" and not settings.seal.key:
        advice = "Set the same seal.key on all servers, to accept each other's API keys and envelopes."
        return warning("store", f"{check.found}, seal.key not set", advice)
    return check


async def _check_file(settings: Settings, path: Path) -> Check:
    if not os.access(path, os.W_OK):
        return failed("store", f"sqlite:{path} cannot be written", MAKE_WRITABLE)
    check = await _check_database(settings, f"sqlite:{path}")
    if check.status == "ok" and _is_locked(lock_path(path)):
        advice = "If that is not your Antiphon server, stop it: a second one refuses background responses."
        return warning("store", f"{check.found}, another process runs its background jobs", advice)
    return check


def _check_place(path: Path) -> Check:
    """Check the folder of a file that does not exist yet."""
    if check_folder("store", path.parent).status == "failed":
        return failed("store", f"sqlite:{path} cannot be created in its folder", MAKE_WRITABLE)
    return passed("store", f"sqlite:{path} (will be created)")


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
        return passed("store", f"{found} (its tables will be created)")
    if missing:
        advice = "Run antiphon db migrate; a server also migrates when it starts."
        return warning("store", f"{found}, migrations to apply: {len(missing)}", advice)
    return passed("store", found)


def _is_locked(lock: Path) -> bool:
    """Whether a process holds the lock for background jobs."""
    if fcntl is None or not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
