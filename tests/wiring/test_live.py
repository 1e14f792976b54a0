"""Routes that change while in use: reused, closed and unchanged backends."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable

import pytest

from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.discovery.watch import Discovery
from antiphon.errors import ModelNotFound, SettingsError
from antiphon.service.routing.router import Router
from antiphon.settings import ProfileSettings, ServerSettings, Settings, StoreSettings, UpstreamSettings
from antiphon.wiring.live import LiveRoutes, needs_restart


def upstream(name: str, *models: str, api_key: str = "") -> UpstreamSettings:
    return UpstreamSettings(name=name, base_url="http://localhost:1/v1", models=models, api_key=api_key)


OLD = Settings(upstreams=(upstream("old", "m"), upstream("both", "n")))
NEW = Settings(upstreams=(upstream("both", "n"), upstream("new", "o")), aliases={"fast": "o"})


class Live:
    """Live routes on a router, with a record of the closed backends."""

    def __init__(self, grace: float) -> None:
        self.closed: list[str] = []
        self.routes = LiveRoutes(OLD, grace=grace)
        routes, names = self.routes.open()
        self.router = Router(routes, names=names, chance=lambda: 0.5)
        self.routes.attach(self.router)


MakeLive = Callable[..., Live]


@pytest.fixture
async def make_live(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[MakeLive, None]:
    opened: list[Live] = []

    def make(grace: float = 0.0) -> Live:
        live = Live(grace)

        async def aclose(backend: ChatCompletionsBackend) -> None:
            live.closed.append(backend.name)

        monkeypatch.setattr(ChatCompletionsBackend, "aclose", aclose)
        opened.append(live)
        return live

    yield make
    for live in opened:
        await live.routes.aclose()


@pytest.fixture
def live(make_live: MakeLive) -> Live:
    return make_live()


async def settled() -> None:
    """Wait until all due work is done."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_backend_that_is_not_needed_any_more_is_closed_after_its_last_turn(live: Live) -> None:
    with await live.router.routes("m")[0].slot("acme"):
        live.routes.change(NEW)
        assert live.router.routes("fast")[0].backend.name == "new"
        with pytest.raises(ModelNotFound):
            live.router.routes("m")
        await settled()
        assert live.closed == []
    await settled()
    assert live.closed == ["old"]
    await live.routes.aclose()
    assert live.closed == ["old", "new", "both"]


async def test_a_chosen_backend_stays_open_for_a_while(make_live: MakeLive) -> None:
    live = make_live(grace=60)
    live.routes.change(NEW)
    await settled()
    assert live.closed == []
    await live.routes.aclose()
    assert sorted(live.closed) == ["both", "new", "old"]


async def test_a_new_key_is_a_new_backend(live: Live) -> None:
    before = live.router.routes("n")[0].backend
    live.routes.change(Settings(upstreams=(upstream("both", "n", api_key="rotated"),)))
    assert live.router.routes("n")[0].backend is not before
    await settled()
    assert sorted(live.closed) == ["both", "old"]


async def test_an_invalid_file_has_no_effect_and_is_logged(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    def read() -> Settings:
        raise SettingsError("The configuration x is not valid TOML: here.")

    live.routes.reload(read)
    assert "the previous ones stay in use: The configuration x is not valid TOML" in caplog.text
    for wrong in (
        Settings(upstreams=(upstream("new", "o"),), aliases={"fast": "nowhere"}),
        Settings(upstreams=(upstream("new", "o"), UpstreamSettings(kind="odd"))),
        Settings(upstreams=(upstream("new", "o"), upstream("bad", "p", api_key="line\nbreak"))),
    ):
        caplog.clear()
        live.routes.reload(lambda wrong=wrong: wrong)
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert live.router.routes("m")[0].backend.name == "old"
    await settled()
    assert live.closed == []


async def test_settings_that_need_a_restart_are_logged_by_name(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    changed = Settings(
        server=ServerSettings(port=1, api_keys=("secret",)),
        store=StoreSettings(url="none"),
        upstreams=NEW.upstreams,
    )
    with caplog.at_level(logging.INFO):
        live.routes.reload(lambda: changed)
    assert "change at the next start only: server.port, server.api_keys, store.url" in caplog.text
    assert "secret" not in caplog.text
    assert live.router.routes("o")


async def test_unchanged_settings_have_no_effect(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    before = live.router.routes("m")[0].backend
    with caplog.at_level(logging.INFO):
        live.routes.reload(lambda: OLD)
    assert live.router.routes("m")[0].backend is before
    assert [record.message for record in caplog.records] == ["settings reloaded"]


def test_a_section_of_tables_is_reported_as_one() -> None:
    assert needs_restart(Settings(), Settings(profiles={"proxy": ProfileSettings()})) == ["profiles"]


async def test_routes_not_made_from_settings_cannot_be_changed() -> None:
    live = LiveRoutes(Settings())
    with pytest.raises(SettingsError, match="made from settings"):
        live.change(Settings())


async def test_an_alias_of_a_missing_model_is_an_error_unless_models_are_looked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings(aliases={"fast": "not-there-yet"})
    routes, names = LiveRoutes(settings).open()
    with pytest.raises(SettingsError, match="nothing serves the model 'not-there-yet'"):
        Router(routes, names=names, chance=lambda: 0.5)
    _, names = LiveRoutes(settings, discovery=Discovery(environment={})).open()
    assert names.aliases == {"auto": "local"}
    assert "nothing serves the models of these aliases now: fast" in caplog.text
