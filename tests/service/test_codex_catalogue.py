"""The Codex catalogue: from the features of a model to its catalogue entry."""

import pytest

from antiphon.backends.base import ModelInfo
from antiphon.backends.features import Feature, Features, Support
from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import InvalidRequest, ModelNotFound
from antiphon.service.codex_catalogue import (
    CodexModel,
    catalogue,
    compact_limit,
    parse_client_version,
    tool_output_limit,
)
from antiphon.service.routing.names import Names
from antiphon.service.routing.router import Route, Router

NOT = Support("unsupported", "not this one")


class Model(ScriptedBackend):
    """A model with a window, without some features."""

    def __init__(self, window: int | None = None, *lacks: Feature, models: tuple[str, ...] = ()) -> None:
        super().__init__([], name=f"backend-{window}", models=models)
        self.window = window
        self.lacks = lacks
        self.requested: list[str] = []

    def features(self, model: str) -> Features:
        return {**super().features(model), **dict.fromkeys(self.lacks, NOT)}

    async def context_window(self, model: str) -> int | None:
        self.requested.append(model)
        return self.window

    async def models(self) -> list[ModelInfo]:
        return list(await super().models())


async def listed(*routes: Route, first: str = "", names: Names | None = None) -> tuple[CodexModel, ...]:
    router = Router(routes, chance=lambda: 0.5, names=names or Names())
    return (await catalogue(router, first)).models


@pytest.mark.requirement("PROTOCOL/endpoints-codex-catalogue")
async def test_a_model_is_described_by_its_features() -> None:
    (one,) = await listed(Route("m", Model(131_072)))
    assert (one.slug, one.priority, one.description) == ("m", 0, "Served by backend-131072")
    assert (one.context_window, one.auto_compact_token_limit) == (131_072, 117_964)
    assert [level.effort for level in one.supported_reasoning_levels] == ["low", "medium", "high"]
    assert one.input_modalities == ("text", "image")
    assert (one.supports_parallel_tool_calls, one.multi_agent_version) == (True, None)
    assert one.truncation_policy.limit == 10_000
    assert "apply_patch" in one.base_instructions


async def test_unsupported_features_are_not_offered() -> None:
    (one,) = await listed(Route("m", Model(None, "images", "reasoning_effort", "parallel_tool_calls")))
    assert one.supported_reasoning_levels == ()
    assert one.input_modalities == ("text",)
    assert not one.supports_parallel_tool_calls


async def test_an_unknown_window_is_omitted() -> None:
    (one,) = await listed(Route("m", Model(None)))
    assert (one.context_window, one.max_context_window, one.auto_compact_token_limit) == (None, None, None)


async def test_a_small_window_has_no_room_for_further_agents() -> None:
    small, large = await listed(Route("small", Model(16_384)), Route("large", Model(32_768)))
    assert (small.multi_agent_version, large.multi_agent_version) == ("disabled", None)


async def test_the_settings_override_the_server() -> None:
    backend = Model(131_072)
    (one,) = await listed(Route("m", backend, context_window=8192))
    assert (one.context_window, backend.requested) == (8192, [])


async def test_of_several_routes_the_weakest_counts() -> None:
    (one,) = await listed(Route("m", Model(131_072)), Route("m", Model(8192, "images"), priority=1))
    assert (one.context_window, one.input_modalities) == (8192, ("text",))


async def test_a_fallback_model_does_not_count() -> None:
    names = Names(fallbacks={"m": ("spare",)})
    first, _ = await listed(Route("m", Model(131_072)), Route("spare", Model(4096)), names=names)
    assert first.context_window == 131_072


async def test_the_window_of_an_alias_and_a_pattern_is_requested_by_the_upstreams_name() -> None:
    backend = Model(8192, models=("a/x",))
    models = await listed(Route("a/*", backend), names=Names(aliases={"best": "a/x"}))
    assert [(one.slug, one.context_window) for one in models] == [("best", 8192), ("a/x", 8192)]
    assert set(backend.requested) == {"a/x"}


async def test_the_first_model_is_the_default_and_need_not_be_listed() -> None:
    models = await listed(Route("a", Model()), Route("*", Model()), first="unlisted")
    assert [(one.slug, one.priority) for one in models] == [("unlisted", 0), ("a", 1)]
    models = await listed(Route("a", Model()), Route("b", Model()), first="b")
    assert [one.slug for one in models] == ["b", "a"]
    with pytest.raises(ModelNotFound):
        await listed(Route("a", Model()), first="none")


@pytest.mark.parametrize(
    ("window", "limit"),
    [(None, None), (4096, 3072), (8192, 6144), (32_768, 24_576), (131_072, 117_964), (1_000_000, 900_000)],
)
def test_compaction_leaves_tokens_for_an_answer(window: int | None, limit: int | None) -> None:
    assert compact_limit(window) == limit


@pytest.mark.parametrize(
    ("window", "limit"), [(None, 10_000), (1_000_000, 10_000), (32_768, 4096), (1000, 500)]
)
def test_the_output_limit_of_a_tool_fits_the_window(window: int | None, limit: int) -> None:
    assert tool_output_limit(window) == limit


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.166.0", (0, 166, 0)),
        ("0.140.0", (0, 140, 0)),
        ("1.0.0", (1, 0, 0)),
        ("0.167.0-alpha.2", (0, 167, 0)),
        ("0.0.0", (0, 0, 0)),
    ],
)
def test_a_version_that_reads_this_form_is_accepted(text: str, version: tuple[int, int, int]) -> None:
    assert parse_client_version(text) == version


@pytest.mark.parametrize(
    "text", ["", "latest", "0.166", "v0.166.0", "0.166.0.1", "0.166.0\n", "-1.0.0", "9" * 99]
)
def test_anything_but_a_version_is_rejected(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a version of Codex") as caught:
        parse_client_version(text)
    assert (caught.value.param, caught.value.code) == ("client_version", "unknown_client")


@pytest.mark.parametrize("text", ["0.139.9", "0.80.0", "0.0.1"])
def test_an_older_version_is_rejected_with_the_command_to_update(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"Use version 0\.140\.0 or newer") as caught:
        parse_client_version(text)
    assert caught.value.code == "unknown_client"
