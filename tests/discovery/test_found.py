"""The names of found models, and the alias `auto`."""

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.discovery.found import NOTHING_FOUND, Found, best_model, found_models, with_found
from antiphon.discovery.probe import ModelServer
from antiphon.discovery.providers import find_providers
from antiphon.errors import ModelNotFound
from antiphon.service.routing.router import Router
from antiphon.settings import (
    CodexSettings,
    DiscoverySettings,
    LocalSettings,
    Settings,
    UpstreamSettings,
)
from antiphon.wiring.backends import BackendSet
from antiphon.wiring.live import routed_names

KEY = "a-key-of-some-provider"
CONFIGURED = UpstreamSettings(name="own", base_url="http://localhost:1/v1", models=("mine", "own/*"))


def server(kind: str, port: int, *models: str) -> ModelServer:
    return ModelServer(f"127.0.0.1:{port}", kind, models)


OLLAMA = server("ollama", 11434, "llama3.2:latest", "qwen3:8b")
LM_STUDIO = server("lm-studio", 1234, "qwen3:8b", "openai/gpt-oss-20b")


def router_of(settings: Settings, found: Found) -> Router:
    merged = with_found(settings, found)
    return Router(BackendSet(merged).routes, chance=lambda: 0.5, names=routed_names(merged))


def served(router: Router, *names: str) -> list[tuple[str, str]]:
    """The backend and the upstream's name for each of these names."""
    return [(route.backend.name, route.upstream) for name in names for route in router.routes(name)]


async def listed(router: Router) -> list[str]:
    return [model.id for model in await router.models()]


async def test_found_models_are_served_by_name_and_by_prefix() -> None:
    router = router_of(Settings(), Found((OLLAMA,)))
    assert await listed(router) == ["llama3.2:latest", "qwen3:8b", "smollm2-135m", "local", "auto"]
    assert served(router, "qwen3:8b", "ollama/qwen3:8b") == [("ollama", "qwen3:8b")] * 2


def test_the_tag_latest_may_be_left_out() -> None:
    router = router_of(Settings(), Found((OLLAMA,)))
    assert served(router, "llama3.2", "ollama/llama3.2") == [("ollama", "llama3.2:latest")] * 2
    with pytest.raises(ModelNotFound):
        router_of(Settings(), Found((server("vllm", 8000, "m:latest"),))).routes("m")


async def test_of_two_servers_with_a_model_the_first_has_its_name() -> None:
    found = Found((LM_STUDIO, OLLAMA))
    router = router_of(Settings(), found)
    assert served(router, "qwen3:8b", "lmstudio/qwen3:8b", "ollama/qwen3:8b") == [
        ("lmstudio", "qwen3:8b"),
        ("lmstudio", "qwen3:8b"),
        ("ollama", "qwen3:8b"),
    ]
    assert (await listed(router)).count("qwen3:8b") == 1
    assert "ollama/qwen3:8b" in await listed(router)
    assert [models.contested for models in found_models(Settings(), found)] == [{}, {"qwen3:8b": "lmstudio"}]


def test_servers_of_one_kind_are_told_apart() -> None:
    found = Found((server("vllm", 8000, "m"), server("vllm", 8001, "m"), server("plain", 5001, "m")))
    router = router_of(Settings(), found)
    names = ("m", "vllm/m", "vllm-8001/m", "localhost:5001/m")
    assert [name for name, _ in served(router, *names)] == ["vllm", "vllm", "vllm-8001", "localhost:5001"]


def test_a_server_of_an_unknown_kind_comes_after_the_known_ones() -> None:
    found = Found((server("plain", 8000, "m"), server("ollama", 11434, "m")))
    assert served(router_of(Settings(), found), "m") == [("ollama", "m")]


async def test_a_found_model_cannot_take_the_name_of_another_one() -> None:
    settings = Settings(
        upstreams=(CONFIGURED,),
        aliases={"fast": "mine"},
        local=LocalSettings(enabled=True),
        discovery=DiscoverySettings(enabled=True),
    )
    names = ("mine", "fast", "local", "auto", "smollm2-135m", "own/*x")
    router = router_of(settings, Found((server("ollama", 11434, *names[:-1], "new"),)))
    assert served(router, "mine", "fast", "new") == [("own", "mine"), ("own", "mine"), ("ollama", "new")]
    assert served(router, "local", "smollm2-135m") == [("local", "smollm2-135m")] * 2
    assert served(router, "ollama/mine", "ollama/auto") == [("ollama", "mine"), ("ollama", "auto")]


async def test_models_that_do_not_chat_are_not_listed() -> None:
    names = ("nomic-embed-text", "bge-m3", "all-minilm", "whisper-large", "qwen3-reranker")
    router = router_of(Settings(), Found((server("ollama", 11434, *names, "chats"),)))
    assert (await listed(router))[:2] == ["chats", "smollm2-135m"]
    assert served(router, "bge-m3") == [("ollama", "bge-m3")]
    assert served(router, "auto") == [("ollama", "chats")]


async def test_models_that_ollama_forwards_come_last() -> None:
    names = ("gpt-oss:120b-cloud", "kimi-k2:cloud")
    router = router_of(Settings(), Found((server("ollama", 11434, *names),)))
    assert await listed(router) == ["smollm2-135m", "local", *names, "auto"]
    assert served(router, "auto") == [("local", "smollm2-135m")]


def best(found: Found = NOTHING_FOUND, **sections: Any) -> str | None:
    return best_model(Settings(**sections), found)


def test_auto_is_the_best_model_that_is_there() -> None:
    on, off = DiscoverySettings(enabled=True), DiscoverySettings(enabled=False)
    everything = Found((LM_STUDIO, OLLAMA), find_providers({"OPENAI_API_KEY": KEY}))
    assert best(everything) == "qwen3:8b"
    assert best() == best(everything, discovery=off) == "local"
    assert best(Found(providers=everything.providers)) == "local"
    assert best(everything, local=LocalSettings(enabled=False), discovery=off) is None
    assert best(upstreams=(CONFIGURED,)) is None
    assert best(upstreams=(CONFIGURED,), discovery=on) == "mine"
    pattern = UpstreamSettings(models=("any/*", "one"))
    assert best(upstreams=(pattern,), discovery=on) == "one"
    assert best(everything, upstreams=(CONFIGURED,), discovery=on) == "qwen3:8b"
    assert best(everything, aliases={"auto": "local"}) is None
    assert best(codex=CodexSettings(enabled=True)) is None


def test_a_server_without_models_is_no_upstream() -> None:
    assert with_found(Settings(), Found(servers=(server("ollama", 11434),))).upstreams == ()


def test_auto_never_is_a_model_of_a_provider() -> None:
    found = Found(providers=find_providers({"OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY}))
    router = router_of(Settings(local=LocalSettings(enabled=False)), found)
    with pytest.raises(ModelNotFound):
        router.routes("auto")


def test_beside_configured_upstreams_nothing_is_found_unless_it_is_enabled() -> None:
    settings = Settings(upstreams=(CONFIGURED,), fallbacks={"mine": ("own/x",)})
    merged = with_found(settings, Found((OLLAMA,)))
    assert merged == replace(settings, local=LocalSettings(enabled=False))


def test_the_embedded_model_is_there_as_well() -> None:
    merged = with_found(Settings(), Found((OLLAMA,)))
    assert merged.serves_local_model
    assert not with_found(Settings(local=LocalSettings(enabled=False)), Found((OLLAMA,))).serves_local_model


def test_aliases_and_fallbacks_may_name_models_that_come_and_go() -> None:
    settings = Settings(aliases={"fast": "qwen3:8b", "here": "local"}, fallbacks={"fast": ("local", "gone")})
    router = router_of(settings, Found((OLLAMA,)))
    assert served(router, "fast") == [("ollama", "qwen3:8b"), ("local", "smollm2-135m")]
    without = router_of(settings, NOTHING_FOUND)
    with pytest.raises(ModelNotFound):
        without.routes("fast")
    assert served(without, "here") == [("local", "smollm2-135m")]


def test_a_missing_model_of_this_machine_is_not_requested_from_a_provider() -> None:
    providers = find_providers({"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY})
    local = server("lm-studio", 1234, "openai/gpt-oss-20b", "claude-distilled", "other")
    router = router_of(Settings(), Found((), providers, seen=(local,)))
    names = ("openai/gpt-oss-20b", "claude-distilled")
    assert served(router, *names) == [("lmstudio", name) for name in names]
    with pytest.raises(ModelNotFound):
        router.routes("other")
    assert served(router, "openai/gpt-5") == [("openai", "gpt-5")]
    # Another server has one of them now.
    router = router_of(Settings(), Found((server("vllm", 8000, names[0]),), providers, seen=(local,)))
    assert served(router, *names) == [("vllm", names[0]), ("lmstudio", names[1])]


def test_an_alias_may_have_the_name_of_a_providers_model() -> None:
    settings = Settings(aliases={"gpt-5": "local"})
    router = router_of(settings, Found(providers=find_providers({"OPENAI_API_KEY": KEY})))
    assert served(router, "gpt-5", "gpt-4") == [("local", "smollm2-135m"), ("openai", "gpt-4")]
