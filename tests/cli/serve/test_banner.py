"""The banner, without a server."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from antiphon.cli.serve.banner import Banner
from antiphon.settings import (
    LocalSettings,
    ModelRow,
    ProfileSettings,
    ServerSettings,
    Settings,
    UpstreamSettings,
)


def printed(banner: Banner) -> str:
    out = io.StringIO()
    banner.print(Console(file=out, width=40))
    return out.getvalue()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000/v1"),
        ("localhost", "http://localhost:9000/v1"),
        ("0.0.0.0", "http://127.0.0.1:9000/v1"),
        ("::", "http://[::1]:9000/v1"),
        ("::1", "http://[::1]:9000/v1"),
    ],
)
def test_the_url_works_on_this_machine(host: str, url: str) -> None:
    assert Banner(Settings(server=ServerSettings(host=host)), port=9000).url == url


def test_all_models_are_listed_and_the_first_is_in_the_example() -> None:
    upstreams = (
        UpstreamSettings(kind="ollama"),
        UpstreamSettings(kind="vllm", models=(ModelRow("big", upstream="b"), "small")),
    )
    text = printed(Banner(Settings(upstreams=upstreams, local=LocalSettings(enabled=True)), port=1))
    assert "any name → http://localhost:11434/v1 (ollama)" in text
    assert "big, small → http://localhost:8000/v1 (vllm)" in text
    assert "smollm2-135m (embedded, also called 'local')" in text
    assert '"model": "big"' in text


def test_lines_are_not_wrapped_so_that_they_can_be_pasted() -> None:
    text = printed(Banner(Settings(), port=1, weights="/a/very/long/path/" + "x" * 60))
    assert "/a/very/long/path/" + "x" * 60 in text


def test_a_custom_file_is_shown_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.touch()
    text = printed(Banner(Settings(local=LocalSettings(model=str(path))), port=1, weights=str(path)))
    assert "model    mine (embedded" in text


def test_an_upstream_is_queried_for_a_model_only_if_none_is_known() -> None:
    any_name = UpstreamSettings(kind="ollama")
    named = UpstreamSettings(kind="vllm", models=("m",))
    assert Banner(Settings(upstreams=(any_name,)), port=1).unnamed_upstreams == (any_name,)
    assert Banner(Settings(upstreams=(any_name, named)), port=1).unnamed_upstreams == ()
    assert Banner(Settings(), port=1).unnamed_upstreams == ()


def test_a_profile_without_state_is_marked() -> None:
    text = printed(Banner(Settings(server=ServerSettings(profile="proxy")), port=1))
    assert "proxy (stores no responses)" in text
    stateful = Settings(
        server=ServerSettings(profile="proxy"), profiles={"proxy": ProfileSettings(state=True)}
    )
    assert "keeps no responses" not in printed(Banner(stateful, port=1))
