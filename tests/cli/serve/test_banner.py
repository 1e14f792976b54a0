"""The banner, without a server."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from antiphon.cli.serve.banner import Banner
from antiphon.discovery.found import Found
from antiphon.discovery.probe import ModelServer
from antiphon.discovery.providers import find_providers
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
    assert "stores no responses" not in printed(Banner(stateful, port=1))


def test_the_address_of_the_page_is_shown_if_it_is_served() -> None:
    assert "page     http://127.0.0.1:1/\n" in printed(Banner(Settings(), port=1))
    assert "page " not in printed(Banner(Settings(server=ServerSettings(page=False)), port=1))


FOUND = Found(
    servers=(
        ModelServer("127.0.0.1:1234", "lm-studio", ("qwen3", "nomic-embed")),
        ModelServer("127.0.0.1:11434", "ollama", ("qwen3", *(f"m{number}" for number in range(9)))),
        ModelServer("127.0.0.1:5001", "ollama", ()),
    ),
    providers=find_providers(dict.fromkeys(("OPENAI_API_KEY", "GROQ_API_KEY"), "a-key-of-some-provider")),
)


def test_found_models_are_shown_with_where_they_come_from() -> None:
    lines = printed(Banner(Settings(), port=1, found=FOUND)).splitlines()
    assert [line.strip() for line in lines[2:9]] == [
        "model    qwen3 → http://127.0.0.1:1234/v1 (lm-studio, found)",
        "model    ollama/qwen3, m0, m1, m2, m3, m4, m5, m6, 2 more → http://127.0.0.1:11434/v1 (ollama, "
        "found); 'qwen3' alone is answered by lmstudio",
        "model    no models yet → http://127.0.0.1:5001/v1 (ollama, found)",
        "model    openai/* and its own names → https://api.openai.com/v1 (OPENAI_API_KEY; only requests that "
        "name it)",
        "model    groq/* → https://api.groq.com/openai/v1 (GROQ_API_KEY; only requests that name it)",
        "model    smollm2-135m (embedded, also called 'local')",
        "auto     qwen3 of lmstudio (the model 'auto')",
    ]
    assert '"model": "qwen3"' in "\n".join(lines)
    assert "a-key-of" not in "\n".join(lines)


def test_the_example_names_no_model_of_a_provider() -> None:
    only_keys = Found(providers=FOUND.providers)
    banner = Banner(Settings(local=LocalSettings(enabled=False)), port=1, found=only_keys)
    assert '"model": "MODEL"' in printed(banner)
    assert banner.unnamed_upstreams == ()
    assert '"model": "local"' in printed(Banner(Settings(), port=1, found=only_keys))
