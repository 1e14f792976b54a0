"""The embedded model that the user has chosen, and the offer of a better one."""

from pathlib import Path

import pytest

from antiphon.backends.local.weights import CATALOGUE, DEFAULT_MODEL
from antiphon.cli import chosen_model
from antiphon.cli.chosen_model import (
    BETTER_MODEL,
    SPARE_DISK_BYTES,
    Choice,
    has_room,
    load_choice,
    offer_better_model,
    save_choice,
    with_chosen_model,
)
from antiphon.cli.options import SettingsOptions
from antiphon.settings import LocalSettings, Settings, UpstreamSettings
from tests.cli.terminal import terminal

ROW = CATALOGUE[BETTER_MODEL]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that a person at a terminal presses, on a machine with room."""
    pressed: list[str] = []

    def has_all_room(*_sizes: object) -> bool:
        return True

    def getchar() -> str:
        return pressed.pop(0)

    monkeypatch.setattr(chosen_model, "is_interactive", lambda: True)
    monkeypatch.setattr(chosen_model, "has_room", has_all_room)
    monkeypatch.setattr(chosen_model, "ensure_weights", Path)
    monkeypatch.setattr(chosen_model.click, "getchar", getchar)
    return pressed


def offered(settings: Settings, *, yes: bool = False, **environment: str) -> str:
    return offer_better_model(settings, yes=yes, environment=environment).local.model


@pytest.mark.parametrize("pressed", ["y", "Y", "y\r"])
def test_one_key_accepts_and_the_choice_stays(keys: list[str], pressed: str) -> None:
    keys.append(pressed)
    assert offered(Settings()) == BETTER_MODEL
    assert SettingsOptions().load_to_ask().local.model == BETTER_MODEL
    assert offered(with_chosen_model(Settings())) == BETTER_MODEL


def test_another_key_declines_and_it_is_not_offered_again(keys: list[str]) -> None:
    keys.append("n")
    assert offered(Settings()) == DEFAULT_MODEL
    assert offered(Settings()) == DEFAULT_MODEL
    assert load_choice() == Choice(None)


def test_yes_accepts_without_a_question(keys: list[str]) -> None:
    assert keys == []
    assert offered(Settings(), yes=True, CI="true") == BETTER_MODEL


@pytest.mark.parametrize(
    "settings",
    [
        Settings(upstreams=(UpstreamSettings(base_url="http://127.0.0.1:1/v1"),)),
        Settings(local=LocalSettings(model="mine.gguf")),
    ],
)
def test_it_is_offered_in_place_of_the_default_model_only(keys: list[str], settings: Settings) -> None:
    assert keys == []
    assert offered(settings, yes=True) == settings.local.model


def test_it_is_not_offered_in_ci(keys: list[str]) -> None:
    assert keys == []
    assert offered(Settings(), CI="true") == DEFAULT_MODEL
    assert load_choice() is None


def test_it_is_not_offered_without_a_terminal() -> None:
    assert offered(Settings()) == DEFAULT_MODEL
    assert load_choice() is None


def test_it_needs_memory_and_disk() -> None:
    memory, disk = 2 * ROW.size, ROW.size + SPARE_DISK_BYTES
    assert has_room(ROW, memory, disk)
    assert not has_room(ROW, memory - 1, disk)
    assert not has_room(ROW, memory, disk - 1)


def test_a_configured_model_overrides_the_choice() -> None:
    save_choice(BETTER_MODEL)
    configured = Settings(local=LocalSettings(model="mine.gguf"))
    assert with_chosen_model(configured).local.model == "mine.gguf"


def test_a_damaged_file_is_ignored(tmp_path: Path) -> None:
    save_choice(BETTER_MODEL)
    (tmp_path / "data" / "antiphon" / chosen_model.FILE).write_text("{")
    assert with_chosen_model(Settings()).local.model == DEFAULT_MODEL


@pytest.mark.slow
def test_the_first_start_on_a_terminal_asks_once() -> None:
    if chosen_model.better_model(Settings()) is None:
        pytest.skip("this machine has no room for the better model")
    serve = ("serve", "--port", "0", "--no-discovery", "--store", "memory:")
    with terminal(*serve, environment={"CI": ""}) as screen:
        screen.expect("1,117 MB", "y / n")
        screen.send_until("n", "Later: antiphon model use")
        screen.expect("is ready at", f"antiphon model use {BETTER_MODEL}")
        screen.interrupt()
        assert screen.finish() == 0
    with terminal(*serve, environment={"CI": ""}) as screen:
        screen.expect("is ready at", "Ctrl-C stops the server.")
        screen.interrupt()
        assert screen.finish() == 0
    assert "y / n" not in screen.seen
