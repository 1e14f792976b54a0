"""The manifest: one entry per route, and a summary of the guaranteed features."""

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
    manifest = await described(Route("m", Model(8192, "images"), dialect="chat_completions"))
    assert (manifest.object, manifest.model, manifest.backend) == ("model.capabilities", "m", "backend-8192")
    assert (manifest.dialect, manifest.context_window) == ("chat_completions", 8192)
    assert set(manifest.features) == {*get_args(Feature), "text_calls"}
    assert set(manifest.tools) == {"function", "custom", "namespace", *CLIENT_TOOLS, *HOSTED_TOOLS}
    entries = [*manifest.features.values(), *manifest.tools.values(), *manifest.service.values()]
    assert all(support.why for support in entries if support.level != "native")


async def test_tools_that_clients_run_are_shown_as_functions() -> None:
    manifest = await described(Route("m", ScriptedBackend([])))
    emulated = {name for name, support in manifest.tools.items() if support.level == "emulated"}
    assert emulated >= {"apply_patch", "shell", "local_shell", "computer", "tool_search", "namespace"}
    assert manifest.tools["function"] == NATIVE


@pytest.mark.requirement("PROTOCOL/tools-unserved")
async def test_hosted_tools_without_a_server_are_rejected_or_omitted_as_configured() -> None:
    manifest = await described(Route("m", ScriptedBackend([])))
    assert (manifest.tools["web_search"].level, manifest.tools["file_search"].level) == (
        "unsupported",
        "unsupported",
    )
    assert "omitted and reported" in manifest.tools["web_search"].why
    assert "rejected with a 400" in manifest.tools["file_search"].why


async def test_a_tool_that_the_backend_takes_as_it_is_declared_is_native() -> None:
    class Native(ScriptedBackend):
        @property
        def natives(self) -> frozenset[str]:
            return FUNCTIONS | {"custom", "web_search"}

    manifest = await described(Route("m", Native([])))
    assert (manifest.tools["custom"], manifest.tools["web_search"]) == (NATIVE, NATIVE)
    assert manifest.tools["shell"].level == "emulated"


async def test_the_summary_has_the_features_of_all_routes() -> None:
    strong = Route("m", Model(131_072), dialect="one", text_calls="hermes")
    weak = Route("m", Model(8192, "images"), dialect="two", priority=1)
    manifest = await described(weak, strong)
    assert (manifest.backend, manifest.dialect, manifest.context_window) == ("backend-131072", "one", 8192)
    assert [route.dialect for route in manifest.routes] == ["one", "two"]
    assert [route.features["images"].level for route in manifest.routes] == ["native", "unsupported"]
    assert manifest.features["images"].level == "unsupported"
    assert [route.features["text_calls"].level for route in manifest.routes] == ["emulated", "unsupported"]
    assert "hermes" in manifest.routes[0].features["text_calls"].why


async def test_equal_routes_are_ordered_by_their_weight() -> None:
    drawn = iter([0.9999, 0.0001] * 2)
    routes = [Route("m", Model(1), weight=1.0), Route("m", Model(2), weight=9.0)]
    manifest = await describe("m", Router(routes, chance=lambda: next(drawn)).routes("m"), HERE)
    assert [route.context_window for route in manifest.routes] == [2, 1]


async def test_a_fallback_is_described_separately() -> None:
    manifest = await described(
        Route("m", Model(131_072)),
        Route("spare", Model(4096, "images")),
        names=Names(fallbacks={"m": ("spare",)}),
    )
    assert (manifest.context_window, manifest.features["images"]) == (131_072, NATIVE)
    assert [(route.model, route.context_window) for route in manifest.fallbacks] == [("spare", 4096)]


@pytest.mark.parametrize(("keeps", "websocket"), [(True, True), (False, False)])
async def test_features_of_the_server_itself(keeps: bool, websocket: bool) -> None:
    manifest = await described(
        Route("m", ScriptedBackend([])), around=ServerFeatures(keeps=keeps, websocket=websocket)
    )
    state = "native" if keeps else "unsupported"
    assert [manifest.service[name].level for name in ("state", "conversations", "background")] == [state] * 3
    assert manifest.service["websocket"].level == ("native" if websocket else "unsupported")
    assert manifest.service["input_tokens"].level == "emulated"


async def test_a_backend_with_its_tokenizer_at_hand_counts_exactly() -> None:
    class Counting(ScriptedBackend):
        async def count_tokens(self, text: str) -> int:
            return len(text)

    manifest = await described(Route("m", Counting([])))
    assert manifest.service["input_tokens"] == NATIVE


def test_the_weakest_of_several_wins_with_its_reason() -> None:
    emulated, unsupported = Support("emulated", "somehow"), Support("unsupported", "no")
    assert weakest([{"a": NATIVE, "b": unsupported}, {"a": emulated, "b": emulated}]) == {
        "a": emulated,
        "b": unsupported,
    }
