"""The profiles of a server."""

from typing import get_args

import pytest

from antiphon.errors import SettingsError
from antiphon.protocol.profile import PROFILES
from antiphon.settings import ProfileName, ServerSettings, Settings, load_settings
from antiphon.wiring.profiles import make_profiles


def test_the_settings_accept_every_profile() -> None:
    assert set(get_args(ProfileName)) == set(PROFILES)


def test_a_server_uses_the_profile_of_its_settings() -> None:
    profiles = make_profiles(Settings(server=ServerSettings(profile="proxy")))
    assert profiles.default is profiles.named(b"") is profiles.named(b"proxy")
    assert profiles.known == PROFILES


def test_profile_options_apply_to_the_header_too() -> None:
    environment = {
        "ANTIPHON_PROFILES__PROXY": '{"usage_policy": "zeros", "state": true, "finish_reason": "body"}',
        "ANTIPHON_PROFILES__MAESTRO": '{"similar_models": true}',
    }
    profiles = make_profiles(load_settings(environment=environment))
    proxy, maestro = profiles.named(b"proxy"), profiles.named(b"maestro")
    assert (proxy.usage, proxy.state, proxy.finish_reason) == ("zeros", True, "body")
    assert maestro.similar_models
    assert not maestro.state
    assert profiles.default == PROFILES["openai"]


@pytest.mark.parametrize("value", ['{"usage_policy": "guess"}', '{"layout": "natural"}', "proxy"])
def test_a_choice_that_does_not_exist_is_rejected_at_startup(value: str) -> None:
    with pytest.raises(SettingsError):
        load_settings(environment={"ANTIPHON_PROFILES__PROXY": value})


def test_a_profile_that_does_not_exist_is_rejected_at_startup() -> None:
    with pytest.raises(SettingsError):
        load_settings(environment={"ANTIPHON_PROFILES__OTHER": "{}"})
