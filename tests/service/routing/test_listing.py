"""How models are listed: by their upstream, as a pattern, or not at all."""

import pytest

from antiphon.backends.base import ModelInfo
from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import ModelNotFound
from antiphon.service.codex_catalogue import catalogue
from antiphon.service.routing.router import Route, Router


class CountingBackend(ScriptedBackend):
    """Counts how often it is asked for its models, and for a context window."""

    asked = 0

    async def models(self) -> list[ModelInfo]:
        self.asked += 1
        return [ModelInfo("from-afar")]

    async def context_window(self, model: str) -> int | None:
        self.asked += 1
        return None


@pytest.fixture
def cloud() -> CountingBackend:
    return CountingBackend([], name="cloud")


@pytest.fixture
def router(cloud: CountingBackend) -> Router:
    near = ScriptedBackend([], name="near")
    routes = [
        Route("cloud/*", cloud, upstream="*", listed="pattern"),
        Route("gpt-5*", cloud, listed="hidden"),
        Route("gpt-5", cloud, listed="hidden"),
        Route("m", near),
        Route("near/m", near, upstream="m", listed="hidden"),
    ]
    return Router(routes, chance=lambda: 0.5)


async def test_a_pattern_is_listed_without_asking_its_upstream(
    router: Router, cloud: CountingBackend
) -> None:
    assert [(info.id, info.owned_by) for info in await router.models()] == [
        ("m", "antiphon"),
        ("cloud/*", "cloud"),
    ]
    assert cloud.asked == 0


def test_unlisted_names_are_served(router: Router) -> None:
    found = {name: router.routes(name)[0] for name in ("near/m", "gpt-5", "gpt-5-mini", "cloud/x")}
    assert {name: (route.backend.name, route.upstream) for name, route in found.items()} == {
        "near/m": ("near", "m"),
        "gpt-5": ("cloud", "gpt-5"),
        "gpt-5-mini": ("cloud", "gpt-5-mini"),
        "cloud/x": ("cloud", "x"),
    }


@pytest.mark.parametrize("name", ["cloud/*", "gpt-5*", "*", "m*", "cloud/x*"])
def test_a_pattern_is_not_a_model(router: Router, name: str) -> None:
    with pytest.raises(ModelNotFound, match=r"stands for every model with that prefix\. Name one"):
        router.routes(name)


def test_an_error_names_listed_models_only(router: Router) -> None:
    with pytest.raises(ModelNotFound, match=r"Known models: 'm'\.$"):
        router.routes("unknown")


def test_a_similar_name_never_leads_to_an_unlisted_model(router: Router) -> None:
    with pytest.raises(ModelNotFound):
        router.routes("gpt5", similar=True)


async def test_one_model_is_found_by_its_name_even_if_it_is_not_listed(
    router: Router, cloud: CountingBackend
) -> None:
    found = [await router.model(name) for name in ("m", "near/m", "gpt-5", "cloud/x", "unknown")]
    assert [info and info.owned_by for info in found] == ["antiphon", "near", "cloud", "cloud", None]
    assert cloud.asked == 0


async def test_the_catalogue_of_codex_has_no_patterns(router: Router, cloud: CountingBackend) -> None:
    assert [model.slug for model in (await catalogue(router)).models] == ["m"]
    assert cloud.asked == 0
