"""Files from the settings."""

import secrets
import time

from antiphon.protocol.ids import IdSource
from antiphon.service.files.contents import Contents
from antiphon.service.files.files import Files
from antiphon.settings import Settings
from antiphon.store.files import FileQuota
from antiphon.store.ports import Stores
from antiphon.wiring.stores import make_blobs


def make_files(settings: Settings, stores: Stores, ids: IdSource) -> Files:
    """The operations on files, with the blob store of the settings."""
    options = settings.files
    quota = FileQuota(options.max_files, options.max_bytes)
    contents = Contents(stores.files, make_blobs(settings, stores), quota, secrets.token_bytes)
    return Files(stores.files, contents, ids, time.time, options.max_file_bytes)
