"""Conversion of options into settings."""

from pathlib import Path

import pytest

from antiphon.cli.options import SettingsOptions
from antiphon.settings import UpstreamSettings


def test_without_options_the_embedded_model_is_served() -> None:
    settings = SettingsOptions().load_to_serve()
    assert settings.serves_local_model
    assert settings.upstreams == ()


def test_an_upstream_replaces_the_configured_ones(tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text('[[upstreams]]\nkind = "ollama"\n[server]\nport = 9000\n')
    settings = SettingsOptions(config=config, upstream="http://localhost:1/v1", model="m").load_to_serve()
    assert settings.upstreams == (UpstreamSettings(base_url="http://localhost:1/v1", models=("m",)),)
    assert settings.server.port == 9000
    assert not settings.serves_local_model


def test_a_kind_without_an_address_is_an_upstream_at_its_default_address() -> None:
    settings = SettingsOptions(upstream_kind="ollama").load_to_serve()
    assert settings.upstreams == (UpstreamSettings(kind="ollama", models=("*",)),)


def test_the_key_is_taken_from_our_variable_if_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    options = SettingsOptions(upstream="http://localhost:1/v1", upstream_kind="vllm")
    assert options.load_to_serve().upstreams[0].api_key_env == ""
    monkeypatch.setenv("ANTIPHON_UPSTREAM_KEY", "k")
    assert options.load_to_serve().upstreams[0].api_key_env == "ANTIPHON_UPSTREAM_KEY"


def test_a_model_to_serve_is_the_embedded_one_even_with_configured_upstreams(tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text('[[upstreams]]\nkind = "ollama"\n')
    settings = SettingsOptions(config=config, model="qwen2.5-coder-1.5b").load_to_serve()
    assert settings.serves_local_model
    assert settings.local.model == "qwen2.5-coder-1.5b"
    assert len(settings.upstreams) == 1


def test_a_model_to_ask_is_loaded_only_if_no_upstream_has_it(tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text('[[upstreams]]\nkind = "ollama"\n')
    assert SettingsOptions(model="qwen2.5-coder-1.5b").load_to_ask().local.model == "qwen2.5-coder-1.5b"
    assert SettingsOptions(model="local").load_to_ask().local.model == "smollm2-135m"
    with_upstreams = SettingsOptions(config=config, model="qwen3").load_to_ask()
    assert (with_upstreams.local.model, with_upstreams.serves_local_model) == ("smollm2-135m", False)


def test_a_model_to_ask_does_not_narrow_the_upstream() -> None:
    settings = SettingsOptions(upstream="http://localhost:1/v1", model="m").load_to_ask()
    assert settings.upstreams[0].models == ("*",)


def test_the_command_line_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_STORE__URL", "memory:")
    monkeypatch.setenv("ANTIPHON_SERVER__LOG_LEVEL", "error")
    settings = SettingsOptions(store="none", log_level="debug").load_to_serve()
    assert (settings.store.url, settings.server.log_level) == ("none", "debug")
