"""Routes: exact names, wildcards, priorities, weights."""

import random

from antiphon.backends.base import ModelInfo
from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import BackendUnreachable
from antiphon.service.router import Route, Router


class SilentBackend(ScriptedBackend):
    """Does not tell its models."""

    async def models(self) -> list[ModelInfo]:
        raise BackendUnreachable


def backend(name: str, *models: str) -> ScriptedBackend:
    return ScriptedBackend([], name=name, models=models)


def test_an_exact_name_wins_over_the_wildcard() -> None:
    router = Router([Route("*", backend("any")), Route("m", backend("exact"))], chance=lambda: 0.5)
    assert [route.backend.name for route in router.routes("m")] == ["exact"]
    assert [route.backend.name for route in router.routes("other")] == ["any"]


def test_rows_are_tried_by_priority() -> None:
    rows = [Route("m", backend("second"), priority=1), Route("m", backend("first"))]
    assert [r.backend.name for r in Router(rows, chance=lambda: 0.5).routes("m")] == ["first", "second"]


def test_weights_share_the_load() -> None:
    rows = [Route("m", backend("heavy"), weight=3.0), Route("m", backend("light"), weight=1.0)]
    router = Router(rows, chance=random.Random(7).random)
    heavy = sum(router.routes("m")[0].backend.name == "heavy" for _ in range(970))
    assert 600 < heavy < 850


def test_an_upstream_name_replaces_the_model() -> None:
    assert Route("m", backend("b"), upstream="real").upstream_name("m") == "real"
    assert Route("*", backend("b")).upstream_name("m") == "m"


async def test_models_are_the_configured_and_the_offered_ones() -> None:
    rows = [Route("m", backend("a")), Route("*", backend("b", "m", "n")), Route("*", SilentBackend([]))]
    router = Router(rows, chance=lambda: 0.5)
    assert [model.id for model in await router.models()] == ["m", "n"]
