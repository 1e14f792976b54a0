"""The composition root: settings in, concrete objects out. Nothing else names a concrete class."""

from antiphon.jobs.process_lock import lock_path
from antiphon.wiring.application import build_app, open_agents, open_services
from antiphon.wiring.backends import make_endpoint
from antiphon.wiring.files import open_files
from antiphon.wiring.folders import data_folder, models_folder, seal_secret, store_path
from antiphon.wiring.sources import key_pepper, make_ids, seal_fingerprint
from antiphon.wiring.stores import open_database, open_stores
from antiphon.wiring.vector_stores import OpenVectorStores, open_vector_stores

__all__ = [
    "OpenVectorStores",
    "build_app",
    "data_folder",
    "key_pepper",
    "lock_path",
    "make_endpoint",
    "make_ids",
    "models_folder",
    "open_agents",
    "open_database",
    "open_files",
    "open_services",
    "open_stores",
    "open_vector_stores",
    "seal_fingerprint",
    "seal_secret",
    "store_path",
]
