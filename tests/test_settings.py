"""Settings: file, environment, overrides, and rejections."""

import json
from pathlib import Path

import pytest

from antiphon.errors import SettingsError
from antiphon.settings import (
    CodexSettings,
    DiscoverySettings,
    ModelRow,
    Settings,
    UpstreamSettings,
    load_settings,
)


def test_the_defaults_serve_the_embedded_model_on_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(environment={})
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8080)
    assert settings.serves_local_model


def test_the_environment_wins_over_the_file_and_overrides_over_both(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(
        '[server]\nport = 1\nheartbeat = 2\n[[upstreams]]\nkind = "vllm"\nmodels = ["a", {name = "b", upstream = "c"}]\n'
    )
    environment = {
        "ANTIPHON_SERVER__PORT": "3",
        "ANTIPHON_SERVER__API_KEYS": '["k"]',
        "ANTIPHON_STORE__INHERIT_TOOLS": "false",
    }
    settings = load_settings(path, environment, {"server": {"heartbeat": 4.0}})
    assert (settings.server.port, settings.server.heartbeat, settings.server.api_keys) == (3, 4.0, ("k",))
    assert settings.store.inherit_tools is False
    assert settings.upstreams[0].models == ("a", ModelRow("b", "c"))
    assert not settings.serves_local_model


def test_the_file_is_named_by_the_environment_or_found_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "antiphon.toml").write_text("[server]\nport = 5\n")
    assert load_settings(environment={"ANTIPHON_CONFIG": str(tmp_path / "antiphon.toml")}).server.port == 5
    monkeypatch.chdir(tmp_path)
    assert load_settings(environment={}).server.port == 5


def test_upstreams_can_come_from_the_environment_or_the_caller() -> None:
    row = '[{"base_url": "http://localhost:1/v1"}]'
    assert (
        load_settings(environment={"ANTIPHON_UPSTREAMS": row}).upstreams[0].base_url
        == "http://localhost:1/v1"
    )
    upstream = UpstreamSettings(base_url="http://localhost:2/v1")
    assert load_settings(environment={}, upstreams=(upstream,)).upstreams == (upstream,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[server", "not valid TOML"),
        ("[server]\nprot = 1\n", "prot"),
        ("[server]\nport = 99999\n", "port"),
        ('[server]\nhost = "0.0.0.0"\n[store]\nurl = "memory:"', "without keys"),
        ("[server]\nworkers = 2\n", "a shared store"),
        ('[store]\nurl = "oracle:"\n', "Unknown store"),
        ("[[upstreams]]\nretries = -1\n", "retries"),
    ],
)
def test_an_invalid_file_is_rejected_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=reason):
        load_settings(path, {})


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Cannot read"):
        load_settings(tmp_path / "none.toml", {})


def test_names_and_limits_are_settings_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(
        '[aliases]\nfast = "m"\n[fallbacks]\n"gpt-5" = ["m", "local"]\n[health]\nfailures = 2\n'
        '[[upstreams]]\nmodels = [{name = "m", max_concurrent = 4, total_timeout = 9}]\n'
    )
    settings = load_settings(path, {})
    assert settings.aliases == {"fast": "m"}
    assert settings.fallbacks == {"gpt-5": ("m", "local")}
    assert (settings.health.failures, settings.health.pause) == (2, 30.0)
    assert settings.upstreams[0].models == (ModelRow("m", max_concurrent=4, total_timeout=9.0),)
    environment = {"ANTIPHON_ALIASES": '{"Gpt-5.1": "m"}', "ANTIPHON_FALLBACKS": '{"m": ["n"]}'}
    settings = load_settings(path, environment)
    assert settings.aliases == {"Gpt-5.1": "m"}
    assert settings.fallbacks == {"m": ("n",)}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("max_concurrent = 0", "max_concurrent|>= 1"),
        ("requests_per_minute = 0", ">= 1"),
        ("queue_timeout = -1", ">= 0"),
        ("first_byte_timeout = 0", "> 0"),
    ],
)
def test_a_limit_of_zero_is_rejected(tmp_path: Path, row: str, reason: str) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(f'[[upstreams]]\nmodels = [{{name = "m", {row}}}]\n')
    with pytest.raises(SettingsError, match=reason):
        load_settings(path, {})


def test_an_invalid_value_in_the_environment_is_reported() -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_SERVER__API_KEYS"):
        load_settings(environment={"ANTIPHON_SERVER__API_KEYS": "[broken"})


def test_other_hosts_are_fine_with_keys_and_workers_without_state() -> None:
    environment = {
        "ANTIPHON_SERVER__HOST": "0.0.0.0",
        "ANTIPHON_SERVER__API_KEYS": '["k"]',
        "ANTIPHON_SERVER__WORKERS": "2",
        "ANTIPHON_STORE__URL": "none",
    }
    assert load_settings(environment=environment).server.workers == 2


def test_a_variable_of_an_inner_table_changes_only_that_key(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text('[profiles.proxy]\nstate = true\n[agent.modes.dry]\nwhen_to_use = "x"\n')
    environment = {
        "ANTIPHON_PROFILES__PROXY__USAGE_POLICY": "zeros",
        "ANTIPHON_PROFILES__PROXY__FINISH_REASON": "body",
        "ANTIPHON_AGENT__MODES__DRY__MAX_TURNS": "3",
    }
    settings = load_settings(path, environment=environment)
    proxy, mode = settings.profiles["proxy"], settings.agent.modes["dry"]
    assert (proxy.state, proxy.usage_policy, proxy.finish_reason) == (True, "zeros", "body")
    assert (mode.when_to_use, mode.max_turns) == ("x", 3)


def test_a_table_in_a_variable_replaces_the_one_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text('[agent.modes.dry]\nwhen_to_use = "x"\nrag_scope = { tag = "law" }\n')
    environment = {"ANTIPHON_AGENT__MODES__DRY__RAG_SCOPE": '{"path": "p"}'}
    assert load_settings(path, environment=environment).agent.modes["dry"].rag_scope == {"path": "p"}
    other = {"ANTIPHON_AGENT__MODES": '{"wet": {"when_to_use": "y"}}'}
    assert list(load_settings(path, environment=other).agent.modes) == ["wet"]


def test_a_variable_for_a_key_of_a_non_table_is_rejected() -> None:
    environment = {"ANTIPHON_PROFILES__PROXY": "x", "ANTIPHON_PROFILES__PROXY__STATE": "true"}
    with pytest.raises(SettingsError, match="ANTIPHON_PROFILES__PROXY__STATE"):
        load_settings(environment=environment)


def test_discovery_is_on_without_upstreams_and_off_beside_them() -> None:
    on, off = DiscoverySettings(enabled=True), DiscoverySettings(enabled=False)
    upstreams = (UpstreamSettings(),)
    assert Settings().discovers
    assert not Settings(discovery=off).discovers
    assert not Settings(upstreams=upstreams).discovers
    assert not Settings(codex=CodexSettings(enabled=True)).discovers
    assert Settings(upstreams=upstreams, discovery=on).discovers


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1:0", "127.0.0.1:65536", "http://x:1", "a b:1"])
def test_addresses_of_discovery_are_checked(address: str) -> None:
    with pytest.raises(SettingsError, match="discovery"):
        load_settings(environment={"ANTIPHON_DISCOVERY__ADDRESSES": json.dumps([address])})
