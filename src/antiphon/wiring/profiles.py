"""The profiles, with the changes of the settings."""

from msgspec.structs import asdict, replace

from antiphon.protocol.profile import PROFILES, Profile, Profiles
from antiphon.settings import ProfileSettings, Settings

_UNCHANGED = ProfileSettings()


def make_profiles(settings: Settings) -> Profiles:
    """All profiles, and the default profile of this server."""
    changes = {str(name): changed for name, changed in settings.profiles.items()}
    known = {name: _changed(profile, changes.get(name, _UNCHANGED)) for name, profile in PROFILES.items()}
    return Profiles(known, known[settings.server.profile])


def _changed(profile: Profile, changes: ProfileSettings) -> Profile:
    chosen = {name: value for name, value in asdict(changes).items() if value is not None}
    if "usage_policy" in chosen:
        chosen["usage"] = chosen.pop("usage_policy")
    changed = replace(profile, **chosen)
    # With a store, `store: false` must have its effect.
    return replace(changed, ignored=changed.ignored - {"store"}) if changed.state else changed
