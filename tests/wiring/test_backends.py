"""Routes from the settings."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from antiphon.backends.chat_completions.errors import ERRORS
from antiphon.errors import SettingsError
from antiphon.service.routing.limits import Limits
from antiphon.service.routing.router import Route
from antiphon.service.routing.turn_slot import TurnDeadlines
from antiphon.settings import CodexSettings, LocalSettings, ModelRow, Settings, TextCalls, UpstreamSettings
from antiphon.wiring.backends import BackendSet, make_endpoint


@asynccontextmanager
async def routes_of(settings: Settings) -> AsyncGenerator[list[Route], None]:
    """The routes of the settings, until their backends are closed."""
    backend_set = BackendSet(settings)
    yield backend_set.routes
    for made in backend_set.made:
        await made.backend.aclose()


async def text_calls_of(*upstreams: UpstreamSettings) -> dict[str, TextCalls]:
    async with routes_of(Settings(upstreams=upstreams)) as routes:
        return {route.model: route.text_calls for route in routes}


@pytest.mark.parametrize(
    ("kind", "usual"),
    [("plain", "auto"), ("vllm", "auto"), ("ollama", "auto"), ("llama.cpp", "auto"), ("lm-studio", "auto"),
     ("openai", "off"), ("openrouter", "off"), ("mistral", "off"), ("deepseek", "off")],
)  # fmt: skip
async def test_how_calls_are_written_as_text_is_first_a_matter_of_the_kind(kind: str, usual: str) -> None:
    row = UpstreamSettings(kind=kind, base_url="http://localhost:1/v1", models=("m",))
    assert await text_calls_of(row) == {"m": usual}


async def test_an_upstream_or_a_model_may_override_it() -> None:
    models = ("a", ModelRow("b", text_calls="off"), ModelRow("c", text_calls="llama"))
    row = UpstreamSettings(base_url="http://localhost:1/v1", text_calls="hermes", models=models)
    assert await text_calls_of(row) == {"a": "hermes", "b": "off", "c": "llama"}
    quiet = UpstreamSettings(base_url="http://localhost:1/v1", text_calls="off", models=("a",))
    assert await text_calls_of(quiet) == {"a": "off"}


async def test_described_tools_enable_text_calls() -> None:
    models = ("a", ModelRow("b", describe_tools=False), ModelRow("c", text_calls="off"))
    row = UpstreamSettings(base_url="http://localhost:1/v1", describe_tools=True, models=models)
    assert await text_calls_of(row) == {"a": "auto", "b": "auto", "c": "hermes"}
    a, b, c = BackendSet(Settings(upstreams=(row,))).routes
    assert a.backend is c.backend
    assert a.backend.features("m")["function_tools"].level == "emulated"
    assert b.backend.features("m")["function_tools"].level == "native"
    quiet = UpstreamSettings(
        base_url="http://localhost:1/v1", models=("a", ModelRow("b", describe_tools=True))
    )
    levels = [
        route.backend.features("m")["function_tools"].level
        for route in BackendSet(Settings(upstreams=(quiet,))).routes
    ]
    assert levels == ["native", "emulated"]


def test_tools_are_described_in_chat_completions_only() -> None:
    row = UpstreamSettings(kind="anthropic", describe_tools=True, models=("a",))
    with pytest.raises(SettingsError, match="'describe_tools' is for chat completions"):
        BackendSet(Settings(upstreams=(row,)))


async def test_codex_is_served_instead_of_the_embedded_model() -> None:
    models = ("codex", ModelRow("big", upstream="gpt-5"))
    settings = Settings(codex=CodexSettings(enabled=True, models=models))
    async with routes_of(settings) as routes:
        assert [(route.model, route.upstream_name(route.model)) for route in routes] == [
            ("codex", "codex"),
            ("big", "gpt-5"),
        ]
    assert settings.model_names == ["codex", "big"]
    assert not settings.serves_local_model


def upstream(*models: str | ModelRow, name: str = "", api_key: str = "") -> UpstreamSettings:
    return UpstreamSettings(name=name, base_url="http://localhost:1/v1", models=models, api_key=api_key)


def test_a_row_brings_its_limits_and_its_deadlines() -> None:
    row = ModelRow(
        "m",
        max_concurrent=3,
        queue_timeout=1.0,
        requests_per_minute=60,
        first_byte_timeout=5.0,
        answer_timeout=6.0,
        total_timeout=7.0,
    )
    (route,) = BackendSet(Settings(upstreams=(upstream(row),))).routes
    assert route.limits == Limits(max_concurrent=3, queue_timeout=1.0, requests_per_minute=60)
    assert route.deadlines == TurnDeadlines(first_byte=5.0, answer=6.0, total=7.0)


def test_a_plain_row_has_no_limits_and_no_deadlines() -> None:
    (route,) = BackendSet(Settings(upstreams=(upstream("m"),))).routes
    assert not route.limits.any
    assert route.deadlines is None


def test_connections_use_the_longest_timeout_and_shorter_ones_apply_per_model() -> None:
    row = upstream(
        "usual", ModelRow("slow", first_byte_timeout=900.0), ModelRow("quick", first_byte_timeout=5.0)
    )
    assert make_endpoint(row, 10.0).deadlines.first_byte == 900.0
    assert make_endpoint(row, 10.0).deadlines.total == 3600.0
    routes = BackendSet(Settings(upstreams=(row,))).routes
    assert [route.deadlines for route in routes] == [
        TurnDeadlines(first_byte=300.0),
        TurnDeadlines(first_byte=900.0),
        TurnDeadlines(first_byte=5.0),
    ]


def test_backends_of_unchanged_settings_are_reused_and_others_released() -> None:
    first = BackendSet(
        Settings(upstreams=(upstream("a"), upstream("b", api_key="old"), upstream("c", name="c")))
    )
    again = BackendSet(
        Settings(upstreams=(upstream("a", "z"), upstream("b", api_key="new"), upstream("c", name="c"))),
        first.made,
    )
    a, b, c = (made.backend for made in first.made)
    assert [route.backend for route in again.routes if route.model in "az"] == [a, a]
    assert again.made[1].backend is not b
    assert again.made[2].backend is c
    assert [made.backend for made in again.left] == [b]


def test_two_rows_that_are_the_same_are_two_backends() -> None:
    settings = Settings(upstreams=(upstream("a"), upstream("a")))
    first = BackendSet(settings)
    again = BackendSet(settings, first.made)
    assert len({id(route.backend) for route in first.routes}) == 2
    assert [made.backend for made in again.made] == [made.backend for made in first.made]


def test_the_embedded_model_and_codex_are_reused_when_upstreams_change() -> None:
    local, codex = LocalSettings(enabled=True), CodexSettings(enabled=True)
    first = BackendSet(Settings(local=local, codex=codex))
    again = BackendSet(Settings(local=local, codex=codex, upstreams=(upstream("m"),)), first.made)
    assert not again.left
    assert {id(made.backend) for made in first.made} < {id(made.backend) for made in again.made}
    other = CodexSettings(enabled=True, turns=9)
    assert len(BackendSet(Settings(local=local, codex=other), first.made).left) == 1


def test_an_upstream_can_be_sent_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "the-key-of-another-server")
    monkeypatch.setenv("none", "not-a-key-either")
    row = UpstreamSettings(kind="vllm")
    assert make_endpoint(row, 1.0).api_key == "the-key-of-another-server"
    assert make_endpoint(msgspec.structs.replace(row, api_key_env="none"), 1.0).api_key == ""


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (UpstreamSettings(kind="vllm"), "check its API key (VLLM_API_KEY) and"),
        (UpstreamSettings(kind="vllm", api_key_env="GPU_KEY"), "check its API key (GPU_KEY) and"),
        (
            UpstreamSettings(kind="vllm", api_key_env="GPU_KEY", api_key="k"),
            "check its API key (api_key of this upstream) and",
        ),
        (UpstreamSettings(kind="vllm", api_key_env="none"), "check its API key and"),
    ],
)
def test_a_refused_key_is_named_as_it_is_configured(row: UpstreamSettings, named: str) -> None:
    endpoint = make_endpoint(row, 1.0)
    error = ERRORS.refusal(endpoint, 401, {}, b'{"error": {"message": "no"}}')
    assert named in error.message
