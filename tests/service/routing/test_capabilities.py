"""The manifest: one entry for each route, and a summary that can be relied on."""

from typing import get_args

import pytest

from antiphon.backends.features import FUNCTIONS, NATIVE, Feature, Support
from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.tools import CLIENT_TOOLS, HOSTED_TOOLS
from antiphon.service.routing.capabilities import Capabilities, ServerFeatures, describe, weakest
from antiphon.service.routing.names import Names
from antiphon.service.routing.router import Route, Router
from tests.service.test_codex_catalogue import Model

HERE = ServerFeatures(ignored_tools=frozenset({"web_search"}))


async def described(
    *routes: Route, around: ServerFeatures = HERE, names: Names | None = None
) -> Capabilities:
    router = Router(routes, chance=lambda: 0.5, names=names or Names())
    return await describe("m", router.routes("m"), around)


def levels(entries: dict[str, Support]) -> dict[str, str]:
    return {name: support.level for name, support in entries.items()}


@pytest.mark.requirement("PROTOCOL/endpoints-capabilities")
async def test_every_feature_and_every_tool_has_an_entry_with_a_reason() -> None:
    told = await described(Route("m", Model(8192, "images"), dialect="chat_completions"))
    assert (told.object, told.model, told.backend) == ("model.capabilities", "m", "backend-8192")
    assert (told.dialect, told.context_window) == ("chat_completions", 8192)
    assert set(told.features) == {*get_args(Feature), "text_calls"}
    assert set(told.tools) == {"function", "custom", "namespace", *CLIENT_TOOLS, *HOSTED_TOOLS}
    entries = [*told.features.values(), *told.tools.values(), *told.service.values()]
    assert all(support.why for support in entries if support.level != "native")


async def test_tools_that_clients_run_are_shown_as_functions() -> None:
    told = await described(Route("m", ScriptedBackend([])))
    emulated = {name for name, support in told.tools.items() if support.level == "emulated"}
    assert emulated >= {"apply_patch", "shell", "local_shell", "computer", "tool_search", "namespace"}
    assert told.tools["function"] == NATIVE


@pytest.mark.requirement("PROTOCOL/tools-unserved")
async def test_hosted_tools_without_a_server_are_refused_or_left_out_as_configured() -> None:
    told = await described(Route("m", ScriptedBackend([])))
    assert (told.tools["web_search"].level, told.tools["file_search"].level) == ("unsupported", "unsupported")
    assert "left out and reported" in told.tools["web_search"].why
    assert "refused with a 400" in told.tools["file_search"].why


async def test_a_tool_that_the_backend_takes_as_it_is_declared_is_native() -> None:
    class Native(ScriptedBackend):
        @property
        def natives(self) -> frozenset[str]:
            return FUNCTIONS | {"custom", "web_search"}

    told = await described(Route("m", Native([])))
    assert (told.tools["custom"], told.tools["web_search"]) == (NATIVE, NATIVE)
    assert told.tools["shell"].level == "emulated"


async def test_the_summary_is_what_every_route_can_do() -> None:
    strong = Route("m", Model(131_072), dialect="one", text_calls="hermes")
    weak = Route("m", Model(8192, "images"), dialect="two", priority=1)
    told = await described(weak, strong)
    assert (told.backend, told.dialect, told.context_window) == ("backend-131072", "one", 8192)
    assert [route.dialect for route in told.routes] == ["one", "two"]
    assert [route.features["images"].level for route in told.routes] == ["native", "unsupported"]
    assert told.features["images"].level == "unsupported"
    assert [route.features["text_calls"].level for route in told.routes] == ["emulated", "unsupported"]
    assert "hermes" in told.routes[0].features["text_calls"].why


async def test_equal_routes_are_ordered_by_their_weight() -> None:
    drawn = iter([0.9999, 0.0001] * 2)
    routes = [Route("m", Model(1), weight=1.0), Route("m", Model(2), weight=9.0)]
    told = await describe("m", Router(routes, chance=lambda: next(drawn)).routes("m"), HERE)
    assert [route.context_window for route in told.routes] == [2, 1]


async def test_a_fallback_is_described_separately() -> None:
    told = await described(
        Route("m", Model(131_072)),
        Route("spare", Model(4096, "images")),
        names=Names(fallbacks={"m": ("spare",)}),
    )
    assert (told.context_window, told.features["images"]) == (131_072, NATIVE)
    assert [(route.model, route.context_window) for route in told.fallbacks] == [("spare", 4096)]


@pytest.mark.parametrize(("keeps", "websocket"), [(True, True), (False, False)])
async def test_what_the_server_does_itself(keeps: bool, websocket: bool) -> None:
    told = await described(
        Route("m", ScriptedBackend([])), around=ServerFeatures(keeps=keeps, websocket=websocket)
    )
    state = "native" if keeps else "unsupported"
    assert [told.service[name].level for name in ("state", "conversations", "background")] == [state] * 3
    assert told.service["websocket"].level == ("native" if websocket else "unsupported")
    assert told.service["input_tokens"].level == "emulated"


async def test_a_backend_with_its_tokenizer_at_hand_counts_exactly() -> None:
    class Counting(ScriptedBackend):
        async def count_tokens(self, text: str) -> int:
            return len(text)

    told = await described(Route("m", Counting([])))
    assert told.service["input_tokens"] == NATIVE


def test_the_weakest_of_several_wins_with_its_reason() -> None:
    emulated, unsupported = Support("emulated", "somehow"), Support("unsupported", "no")
    assert weakest([{"a": NATIVE, "b": unsupported}, {"a": emulated, "b": emulated}]) == {
        "a": emulated,
        "b": unsupported,
    }
