"""Files from the settings."""

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from antiphon.protocol.ids import IdSource
from antiphon.service.files.contents import Contents
from antiphon.service.files.files import Files
from antiphon.settings import Settings
from antiphon.store.files import FileQuota
from antiphon.store.ports import Stores
from antiphon.wiring.sources import make_ids
from antiphon.wiring.stores import make_blobs, open_stores


def make_files(settings: Settings, stores: Stores, ids: IdSource) -> Files:
    """The operations on files, with the blob store of the settings."""
    options = settings.files
    quota = FileQuota(options.max_files, options.max_bytes)
    contents = Contents(stores.files, make_blobs(settings, stores), quota, secrets.token_bytes)
    return Files(stores.files, contents, ids, time.time, options.max_file_bytes)


@asynccontextmanager
async def open_files(settings: Settings) -> AsyncGenerator[Files, None]:
    """The operations on files alone, for as long as the context lasts."""
    async with open_stores(settings) as stores:
        yield make_files(settings, stores, make_ids())
