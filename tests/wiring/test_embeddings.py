"""The embedding models of the settings."""

import subprocess
import sys

import pytest
from msgspec.structs import replace

from antiphon.embeddings.minilm import MODEL_NAME
from antiphon.errors import ModelNotFound, SettingsError
from antiphon.settings import EmbeddingModelRow, Settings, StoreSettings, UpstreamSettings
from antiphon.settings.sections import EmbeddingsSettings
from antiphon.wiring import embeddings as wiring
from antiphon.wiring import open_agents, open_services
from antiphon.wiring.embeddings import EmbedderSet, open_embedders
from antiphon.wiring.live import LiveRoutes

OFF = EmbeddingsSettings(local=False)
UPSTREAM = UpstreamSettings(
    base_url="http://127.0.0.1:9/v1",
    models=("chat",),
    embedding_models=("one", EmbeddingModelRow("two", "theirs")),
)


@pytest.fixture(params=[True, False])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(wiring, "is_installed", lambda: request.param)
    return request.param


def names(embedders: EmbedderSet) -> list[str]:
    return [model.id for model in embedders.embeddings.models()]


async def test_upstreams_come_first_and_the_bundled_model_is_there_if_it_is_installed(
    installed: bool,
) -> None:
    async with open_embedders(Settings(upstreams=(UPSTREAM,))) as embedders:
        assert names(embedders) == ["one", "two", *([MODEL_NAME] if installed else [])]
        assert embedders.embeddings.default == "one"
    async with open_embedders(Settings()) as embedders:
        assert embedders.embeddings.default == (MODEL_NAME if installed else "")
        assert (embedders.find_default() is None) != installed


async def test_the_bundled_model_can_be_switched_off_and_demanded(installed: bool) -> None:
    async with open_embedders(Settings(embeddings=OFF)) as embedders:
        assert names(embedders) == []
        with pytest.raises(ModelNotFound, match=r"embeddings\.local"):
            embedders.embeddings.find("auto")
    demanded = Settings(embeddings=EmbeddingsSettings(local=True))
    if installed:
        assert names(EmbedderSet(demanded)) == [MODEL_NAME]
    else:
        with pytest.raises(SettingsError, match=r"retrieval|make -C"):
            EmbedderSet(demanded)


async def test_without_packages_and_upstreams_the_error_names_the_command(installed: bool) -> None:
    if not installed:
        with pytest.raises(ModelNotFound, match=r"antiphon\[retrieval\]|make -C"):
            EmbedderSet(Settings()).embeddings.find("auto")


async def test_the_default_can_be_chosen_and_must_exist() -> None:
    chosen = Settings(upstreams=(UPSTREAM,), embeddings=replace(OFF, model="two"))
    assert EmbedderSet(chosen).embeddings.default == "two"
    with pytest.raises(SettingsError, match="nothing serves the embedding model 'three'"):
        EmbedderSet(replace(chosen, embeddings=replace(OFF, model="three")))


async def test_of_two_upstreams_with_the_same_model_the_first_serves_it() -> None:
    other = replace(UPSTREAM, name="other", base_url="http://127.0.0.1:10/v1")
    both = EmbedderSet(Settings(upstreams=(UPSTREAM, other), embeddings=OFF))
    assert names(both) == ["one", "two"]


async def test_a_reload_changes_the_models_and_keeps_those_that_stay() -> None:
    settings = Settings(upstreams=(UPSTREAM,), embeddings=OFF)
    async with open_embedders(settings) as embedders:
        before = embedders.embeddings.find("one")
        embedders.change(replace(settings, upstreams=(replace(UPSTREAM, embedding_models=("one", "new")),)))
        assert names(embedders) == ["one", "new"]
        assert embedders.embeddings.find("one") is before
        with pytest.raises(SettingsError):
            embedders.change(replace(settings, embeddings=replace(OFF, model="none")))
        assert names(embedders) == ["one", "new"]


async def test_the_service_has_the_models_and_a_reload_of_its_settings_reaches_them() -> None:
    settings = Settings(upstreams=(UPSTREAM,), embeddings=OFF, store=StoreSettings(url="none"))
    live = LiveRoutes(settings)
    async with open_agents(settings, live=live) as served:
        services = served.services
        assert [model.id for model in services.embeddings.models()] == ["one", "two"]
        live.change(replace(settings, upstreams=(replace(UPSTREAM, embedding_models=("new",)),)))
        assert [model.id for model in services.embeddings.models()] == ["new"]
    async with open_services(settings) as services:
        assert [model.id for model in services.embeddings.models()] == ["one", "two"]


def test_a_server_that_has_no_use_for_the_engine_does_not_load_it() -> None:
    """In a process of its own: other tests load it."""
    program = (
        "import sys; from antiphon import Settings; from antiphon.wiring.embeddings import EmbedderSet; "
        "EmbedderSet(Settings()); sys.exit('onnxruntime' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
