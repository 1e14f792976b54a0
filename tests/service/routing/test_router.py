"""Routes: exact names, wildcards, priorities, weights."""

import random
from collections import Counter
from typing import Any

import pytest

from antiphon.backends.base import ModelInfo
from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import BackendBusy, BackendUnreachable, ModelNotFound, SettingsError
from antiphon.service.routing.circuits import HealthPolicy
from antiphon.service.routing.limits import Limits
from antiphon.service.routing.names import Names
from antiphon.service.routing.router import MAX_CACHED_NAMES, Route, RouteHealth, Router


class BackendWithoutModels(ScriptedBackend):
    """A backend without a model list."""

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
    rows = [
        Route("m", backend("six"), weight=6.0),
        Route("m", backend("three"), weight=3.0),
        Route("m", backend("one"), weight=1.0),
    ]
    router = Router(rows, chance=random.Random(7).random)
    first = Counter(router.routes("m")[0].backend.name for _ in range(5000))
    assert abs(first["six"] / 5000 - 0.6) < 0.03
    assert abs(first["three"] / 5000 - 0.3) < 0.03
    assert abs(first["one"] / 5000 - 0.1) < 0.03


def test_a_priority_outweighs_every_weight() -> None:
    rows = [Route("m", backend("later"), weight=1000.0, priority=1), Route("m", backend("first"), weight=0.1)]
    router = Router(rows, chance=random.Random(7).random)
    assert {router.routes("m")[0].backend.name for _ in range(100)} == {"first"}


def test_an_upstream_name_replaces_the_model() -> None:
    assert Route("m", backend("b"), upstream="real").upstream_name("m") == "real"
    assert Route("*", backend("b")).upstream_name("m") == "m"


async def test_models_are_the_configured_and_the_offered_ones() -> None:
    rows = [
        Route("m", backend("a")),
        Route("*", backend("b", "m", "n")),
        Route("*", BackendWithoutModels([])),
    ]
    router = Router(rows, chance=lambda: 0.5)
    assert [model.id for model in await router.models()] == ["m", "n"]


def router_of(*routes: Route, **names: Any) -> Router:
    return Router(routes, chance=lambda: 0.5, names=Names(**names), clock=lambda: 0.0)


def found(router: Router, model: str) -> list[tuple[str, str]]:
    """Backend and upstream name of each route, as the service uses them."""
    return [(route.backend.name, route.upstream_name(model)) for route in router.routes(model)]


@pytest.mark.requirement("PROTOCOL/routing-aliases")
def test_the_longest_prefix_wins_over_shorter_ones_and_the_wildcard() -> None:
    router = router_of(
        Route("*", backend("any")),
        Route("a/*", backend("short"), upstream="*"),
        Route("a/b/*", backend("long")),
        Route("a/b/c", backend("exact"), upstream="real"),
    )
    assert found(router, "a/b/c") == [("exact", "real")]
    assert found(router, "a/b/d") == [("long", "a/b/d")]
    assert found(router, "a/d") == [("short", "d")]
    assert found(router, "a/") == [("any", "a/")]
    assert found(router, "d") == [("any", "d")]


@pytest.mark.requirement("PROTOCOL/routing-aliases")
def test_an_alias_is_served_as_its_model() -> None:
    router = router_of(
        Route("m", backend("exact"), upstream="real"),
        Route("p/*", backend("prefix"), upstream="*"),
        aliases={"fast": "m", "odd": "p/x"},
    )
    assert found(router, "fast") == found(router, "m") == [("exact", "real")]
    assert found(router, "odd") == [("prefix", "x")]


def test_an_alias_wins_over_the_wildcard() -> None:
    router = router_of(Route("*", backend("any")), Route("m", backend("exact")), aliases={"gpt": "m"})
    assert found(router, "gpt") == [("exact", "m")]


def test_stand_ins_come_after_all_routes_of_the_model_itself() -> None:
    router = router_of(
        Route("m", backend("second"), priority=1),
        Route("m", backend("first")),
        Route("n", backend("n"), upstream="real-n"),
        Route("*", backend("any")),
        fallbacks={"m": ("n", "elsewhere")},
    )
    assert found(router, "m") == [("first", "m"), ("second", "m"), ("n", "real-n"), ("any", "elsewhere")]
    assert [route.instead_of for route in router.routes("m")] == ["", "", "m", "m"]
    assert [route.model for route in router.routes("m")] == ["m", "m", "n", "elsewhere"]
    assert found(router, "n") == [("n", "real-n")]


def test_fallbacks_of_an_alias_use_the_requested_name() -> None:
    router = router_of(
        Route("m", backend("m")),
        Route("n", backend("n")),
        aliases={"fast": "m"},
        fallbacks={"m": ("n",)},
    )
    assert [route.instead_of for route in router.routes("fast")] == ["", "fast"]


def test_an_unserved_name_is_rejected_at_startup() -> None:
    with pytest.raises(SettingsError, match="nothing serves the model 'x'"):
        router_of(Route("m", backend("m")), aliases={"fast": "x"})


def test_an_unknown_model_is_reported_with_the_known_ones() -> None:
    router = router_of(Route("m", backend("m")), Route("p/*", backend("p")), aliases={"fast": "m"})
    with pytest.raises(ModelNotFound, match=r"'x' does not exist here. Known models: 'fast', 'm'."):
        router.routes("x")


async def test_aliases_and_pattern_models_are_listed_with_their_request_names() -> None:
    router = router_of(
        Route("m", backend("a")),
        Route("s/*", backend("strips", "x", "y"), upstream="*"),
        Route("k/*", backend("keeps", "k/x", "other")),
        aliases={"fast": "m"},
    )
    assert [model.id for model in await router.models()] == ["m", "fast", "s/x", "s/y", "k/x"]


def test_the_names_that_clients_invent_do_not_fill_the_memory() -> None:
    router = router_of(Route("*", backend("any")))
    assert router.routes("m") is router.routes("m")
    first = router.routes("m")
    for number in range(MAX_CACHED_NAMES):
        router.routes(str(number))
    assert router.routes("m") is not first
    assert found(router, "m") == [("any", "m")]


def fail(route: Route, times: int = 5) -> None:
    assert route.guards is not None
    for _ in range(times):
        route.guards.circuits.failed(route.guards.key, BackendUnreachable(), "acme")


def test_backends_of_the_same_name_have_separate_circuits() -> None:
    router = router_of(Route("m", backend("vllm")), Route("m", backend("vllm"), priority=1))
    one, other = router.routes("m")
    fail(one)
    assert [state.circuit for state in router.health()] == ["open", "closed"]
    assert other.guards is not None
    other.guards.circuits.check(other.guards.key, "acme")


def test_health_lists_every_route_and_every_other_name_that_failed() -> None:
    limits = Limits(max_concurrent=3)
    router = router_of(Route("m", backend("a"), upstream="real", limits=limits), Route("*", backend("b")))
    fail(router.routes("m")[0])
    fail(router.routes("strange")[0], 1)
    assert router.health() == [
        RouteHealth("m", "a", "real", "open", failures=5, retry_in=30.0),
        RouteHealth("*", "b", "*"),
        RouteHealth("strange", "b", "strange", failures=1),
    ]


async def test_a_change_preserves_taken_slots_and_resets_circuits() -> None:
    limits = Limits(max_concurrent=1, queue_timeout=0)
    retained, gone = backend("kept"), backend("gone")
    router = router_of(Route("m", retained, limits=limits), Route("n", gone))
    fail(router.routes("n")[0])
    old_use = router.turn_count(gone)
    with await router.routes("m")[0].slot("acme"):
        router.change(
            [Route("m", retained, limits=limits), Route("o", backend("new"))],
            Names(aliases={"fast": "o"}),
            HealthPolicy(),
        )
        assert [route.backend.name for route in router.routes("fast")] == ["new"]
        with pytest.raises(BackendBusy):
            await router.routes("m")[0].slot("acme")
        assert router.turn_count(retained).turns == 1
        assert router.turn_count(gone) is not old_use
    assert [state.failures for state in router.health()] == [0, 0]
    with pytest.raises(ModelNotFound):
        router.routes("n")


def test_a_change_to_unserved_names_is_rejected_without_effect() -> None:
    router = router_of(Route("m", backend("a")))
    with pytest.raises(SettingsError):
        router.change([Route("n", backend("b"))], Names(aliases={"fast": "m"}), HealthPolicy())
    assert found(router, "m") == [("a", "m")]
