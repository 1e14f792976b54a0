"""One frozen settings object: from `antiphon.toml`, then the environment, then the caller's overrides."""

from antiphon.settings.loading import PREFIX, load_settings, no_keys
from antiphon.settings.sections import (
    LOOPBACK,
    POSTGRES,
    AgentSettings,
    CodexSettings,
    LocalSettings,
    ModelRow,
    ModeSettings,
    ProfileName,
    ProfileSettings,
    SealSettings,
    ServerSettings,
    Settings,
    StoreSettings,
    TextCalls,
    UpstreamSettings,
    names_of,
)

__all__ = [
    "LOOPBACK",
    "POSTGRES",
    "PREFIX",
    "AgentSettings",
    "CodexSettings",
    "LocalSettings",
    "ModeSettings",
    "ModelRow",
    "ProfileName",
    "ProfileSettings",
    "SealSettings",
    "ServerSettings",
    "Settings",
    "StoreSettings",
    "TextCalls",
    "UpstreamSettings",
    "load_settings",
    "names_of",
    "no_keys",
]
