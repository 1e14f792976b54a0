"""The worker of this process from the settings."""

from antiphon.jobs.process_lock import ProcessLock, lock_path
from antiphon.jobs.worker import Worker
from antiphon.settings import POSTGRES, Settings
from antiphon.store.ports import Stores
from antiphon.wiring.folders import store_path
from antiphon.wiring.sources import make_owner


def make_worker(settings: Settings, stores: Stores) -> Worker:
    """The worker of this process. On PostgreSQL several processes work; on an SQLite file one does."""
    owner = make_owner()
    if settings.store.url.startswith(POSTGRES):
        return Worker(stores.jobs, stores.signals, owner=owner, lease=settings.background.lease)
    lock = ProcessLock(lock_path(store_path(settings))) if settings.lasting else None
    return Worker(stores.jobs, stores.signals, owner=owner, lock=lock)
