"""Routes from the settings."""

from contextlib import AsyncExitStack

import pytest

from antiphon.settings import CodexSettings, ModelRow, Settings, TextCalls, UpstreamSettings
from antiphon.wiring.backends import open_routes


async def text_calls_of(*upstreams: UpstreamSettings) -> dict[str, TextCalls]:
    async with AsyncExitStack() as stack:
        return {route.model: route.text_calls for route in open_routes(Settings(upstreams=upstreams), stack)}


@pytest.mark.parametrize(
    ("kind", "usual"),
    [("plain", "auto"), ("vllm", "auto"), ("ollama", "auto"), ("llama.cpp", "auto"), ("lm-studio", "auto"),
     ("openai", "off"), ("openrouter", "off"), ("mistral", "off"), ("deepseek", "off")],
)  # fmt: skip
async def test_how_calls_are_written_as_text_is_first_a_matter_of_the_kind(kind: str, usual: str) -> None:
    row = UpstreamSettings(kind=kind, base_url="http://localhost:1/v1", models=("m",))
    assert await text_calls_of(row) == {"m": usual}


async def test_an_upstream_may_say_otherwise_and_a_model_too() -> None:
    models = ("a", ModelRow("b", text_calls="off"), ModelRow("c", text_calls="llama"))
    row = UpstreamSettings(base_url="http://localhost:1/v1", text_calls="hermes", models=models)
    assert await text_calls_of(row) == {"a": "hermes", "b": "off", "c": "llama"}
    quiet = UpstreamSettings(base_url="http://localhost:1/v1", text_calls="off", models=("a",))
    assert await text_calls_of(quiet) == {"a": "off"}


async def test_codex_is_served_instead_of_the_embedded_model() -> None:
    models = ("codex", ModelRow("big", upstream="gpt-5"))
    settings = Settings(codex=CodexSettings(enabled=True, models=models))
    async with AsyncExitStack() as stack:
        routes = open_routes(settings, stack)
        assert [(route.model, route.upstream_name(route.model)) for route in routes] == [
            ("codex", "codex"),
            ("big", "gpt-5"),
        ]
    assert settings.model_names == ["codex", "big"]
    assert not settings.serves_local_model
