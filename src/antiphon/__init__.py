"""Antiphon: the Responses API for every model.

The public names are loaded when they are first used, so that `import antiphon.protocol` costs no server.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon.backends.scripted import ScriptedBackend
    from antiphon.embedded import Antiphon, SyncAntiphon
    from antiphon.errors import AntiphonError, BackendError, RequestError, SettingsError
    from antiphon.service.routing.router import Route
    from antiphon.settings import Settings, UpstreamSettings, load_settings

__version__ = "0.1.0"

__all__ = [
    "Antiphon",
    "AntiphonError",
    "BackendError",
    "RequestError",
    "Route",
    "ScriptedBackend",
    "Settings",
    "SettingsError",
    "SyncAntiphon",
    "UpstreamSettings",
    "__version__",
    "load_settings",
]

_HOMES = {
    "Antiphon": "antiphon.embedded",
    "AntiphonError": "antiphon.errors",
    "BackendError": "antiphon.errors",
    "RequestError": "antiphon.errors",
    "Route": "antiphon.service.routing.router",
    "ScriptedBackend": "antiphon.backends.scripted",
    "Settings": "antiphon.settings",
    "SettingsError": "antiphon.errors",
    "SyncAntiphon": "antiphon.embedded",
    "UpstreamSettings": "antiphon.settings",
    "load_settings": "antiphon.settings",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'antiphon' has no attribute '{name}'")
    return getattr(import_module(home), name)
