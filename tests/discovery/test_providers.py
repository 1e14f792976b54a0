"""Providers whose key is in the environment."""

import logging

import pytest

from antiphon.discovery.found import Found, with_found
from antiphon.discovery.providers import PROVIDERS, find_providers
from antiphon.errors import ModelNotFound
from antiphon.service.routing.router import Router
from antiphon.settings import ModelRow, Settings
from antiphon.wiring.backends import BackendSet
from antiphon.wiring.live import routed_names

KEY = "a-key-of-some-provider"
VARIABLES = {
    "OPENAI_API_KEY": "openai",
    "ANTHROPIC_API_KEY": "anthropic",
    "GEMINI_API_KEY": "gemini",
    "OPENROUTER_API_KEY": "openrouter",
    "GROQ_API_KEY": "groq",
    "MISTRAL_API_KEY": "mistral",
    "DEEPSEEK_API_KEY": "deepseek",
    "TOGETHER_API_KEY": "together",
}


def test_every_key_makes_its_provider_available() -> None:
    assert len(VARIABLES) == len(PROVIDERS)
    for variable, name in VARIABLES.items():
        (provider,) = find_providers({variable: KEY})
        assert (provider.name, provider.api_key_env, provider.api_key) == (name, variable, "")
        assert provider.models[0] == ModelRow(f"{name}/*", upstream="*", listed="pattern")
    assert [provider.name for provider in find_providers(dict.fromkeys(VARIABLES, KEY))] == [
        *VARIABLES.values()
    ]


def test_placeholders_are_not_keys(caplog: pytest.LogCaptureFixture) -> None:
    for value in ("", "none", "sk-test"):
        assert find_providers({"OPENAI_API_KEY": value}) == ()
    assert caplog.records == []


@pytest.mark.parametrize("value", [f"{KEY}\n", f"two {KEY}", f"{KEY}é"])
def test_a_value_that_cannot_be_a_key_is_logged_without_it(
    value: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert find_providers({"OPENAI_API_KEY": value, "GROQ_API_KEY": KEY})[0].name == "groq"
    assert "OPENAI_API_KEY is not used" in caplog.text
    assert KEY not in caplog.text


@pytest.fixture
def router() -> Router:
    found = Found(providers=find_providers(dict.fromkeys(VARIABLES, KEY)))
    settings = with_found(Settings(), found)
    return Router(BackendSet(settings).routes, chance=lambda: 0.5, names=routed_names(settings))


@pytest.mark.parametrize(
    ("requested", "provider", "sent"),
    [
        ("gpt-5", "openai", "gpt-5"),
        ("gpt-5.1-codex", "openai", "gpt-5.1-codex"),
        ("gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("o3", "openai", "o3"),
        ("o4-mini", "openai", "o4-mini"),
        ("chatgpt-4o-latest", "openai", "chatgpt-4o-latest"),
        ("openai/gpt-image-1", "openai", "gpt-image-1"),
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("anthropic/claude-opus-4-1", "anthropic", "claude-opus-4-1"),
        ("gemini-2.5-pro", "gemini", "gemini-2.5-pro"),
        ("gemini/gemini-2.5-flash", "gemini", "gemini-2.5-flash"),
        ("openrouter/qwen/qwen3-32b", "openrouter", "qwen/qwen3-32b"),
        ("groq/llama-3.3-70b-versatile", "groq", "llama-3.3-70b-versatile"),
        ("mistral/mistral-large-latest", "mistral", "mistral-large-latest"),
        ("deepseek/deepseek-chat", "deepseek", "deepseek-chat"),
        ("together/meta-llama/Llama-3.3-70B", "together", "meta-llama/Llama-3.3-70B"),
    ],
)
def test_models_are_reached_by_their_own_names_and_by_prefix(
    router: Router, requested: str, provider: str, sent: str
) -> None:
    (route,) = router.routes(requested)
    assert (route.backend.name, route.upstream) == (provider, sent)


@pytest.mark.parametrize(
    "name", ["gpt-oss-20b", "gpt-oss:20b", "gpt2", "gemma3", "openhermes", "local", "auto"]
)
def test_names_of_open_models_go_to_no_provider(router: Router, name: str) -> None:
    try:
        found = router.routes(name)
    except ModelNotFound:
        return
    assert [route.backend.name for route in found] == ["local"]
