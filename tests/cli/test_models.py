"""The choice of the model, and its preparation."""

from pathlib import Path

import pytest

from antiphon.cli import models
from antiphon.cli.models import prepare_model
from antiphon.settings import LocalSettings, ModelRow, Settings, UpstreamSettings

ANY = UpstreamSettings(kind="ollama")
NAMED = UpstreamSettings(kind="vllm", models=("*", ModelRow("big", upstream="b"), "small"))


@pytest.fixture(autouse=True)
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models whose weights were requested."""
    fetched: list[str] = []
    monkeypatch.setattr(models, "ensure_weights", fetched.append)
    monkeypatch.setattr(models, "require_engine", lambda: None)
    return fetched


@pytest.mark.parametrize(
    ("settings", "named", "chosen", "weights"),
    [
        (Settings(), None, "local", ["smollm2-135m"]),
        (Settings(), "local", "local", ["smollm2-135m"]),
        (Settings(), "smollm2-135m", "smollm2-135m", ["smollm2-135m"]),
        (Settings(upstreams=(ANY,)), None, None, []),
        (Settings(upstreams=(ANY,)), "qwen3", "qwen3", []),
        (Settings(upstreams=(ANY, NAMED)), None, "big", []),
        (Settings(upstreams=(ANY,), local=LocalSettings(enabled=True)), None, "local", ["smollm2-135m"]),
        (Settings(upstreams=(NAMED,), local=LocalSettings(enabled=True)), None, "big", []),
        (Settings(upstreams=(NAMED,), local=LocalSettings(enabled=True)), "local", "local", ["smollm2-135m"]),
    ],
)
def test_the_embedded_model_is_prepared_only_if_it_is_used(
    fetched: list[str], settings: Settings, named: str | None, chosen: str | None, weights: list[str]
) -> None:
    assert prepare_model(settings, named) == chosen
    assert fetched == weights


def test_a_file_is_used_by_its_name_without_folder_and_suffix(fetched: list[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.touch()
    assert prepare_model(Settings(local=LocalSettings(model=str(path))), str(path)) == "mine"
    assert fetched == [str(path)]
