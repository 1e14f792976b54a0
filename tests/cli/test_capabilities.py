"""`antiphon model capabilities`."""

import json

import pytest
from aiohttp import web

from tests.cli.conftest import Run
from tests.cli.http_thread import serving
from tests.cli.upstream import ScriptedUpstream


def test_the_features_of_a_model_are_a_table(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("model", "capabilities", "tiny", "--upstream", upstream.url, "--upstream-kind", "deepseek")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("tiny, served by deepseek (chat_completions), context window not known")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["images", "unsupported", *["the", "server", "does", "not", "take", "images"]] in rows
    assert ["streaming", "native"] in rows
    assert any(row[:2] == ["apply_patch", "emulated"] for row in rows)
    assert ["state", "native"] in rows


def test_all_capabilities_are_printed_as_json(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_STORE__URL", "none")
    result = run("model", "capabilities", "tiny", "--upstream", upstream.url, "--json")
    manifest = json.loads(result.stdout)
    assert (manifest["object"], manifest["model"]) == ("model.capabilities", "tiny")
    assert manifest["service"]["state"]["level"] == "unsupported"


def test_the_embedded_model_needs_no_weights_for_that(run: Run) -> None:
    result = run("model", "capabilities", "local")
    assert (result.exit_code, "(local), 4,096 tokens" in result.stdout) == (0, True)


def test_a_server_is_queried_with_any_model_name(run: Run) -> None:
    paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.raw_path)
        support = {"level": "native"}
        manifest = {"model": "a/b", "backend": "x", "dialect": "\x1b[31my", "context_window": 8192}
        return web.json_response({**manifest, "features": {"images": support}, "tools": {}, "service": {}})

    app = web.Application()
    app.router.add_get("/v1/models/{name}/capabilities", answer)
    with serving(app) as url:
        result = run("model", "capabilities", "a/b", "--base-url", url)
    assert paths == ["/v1/models/a%2Fb/capabilities"]
    assert "8,192 tokens" in result.stdout
    assert "\x1b[31m" not in result.stdout


def test_a_model_that_does_not_exist(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("model", "capabilities", "none")
    assert (result.exit_code, "does not exist" in result.stderr) == (2, True)
