"""`antiphon conformance` as a command: its table, its JSON, its exit codes, and redaction."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest
from aiohttp import web

from antiphon import __version__
from antiphon.cli.root import main
from antiphon.conformance.checks import CHECKS, GROUPS
from tests.cli.http_thread import serving
from tests.conformance_checker.faulty import Fault, FaultyProxy
from tests.conformance_checker.obedient import obedient
from tests.conformance_checker.stream_faults import done_twice
from tests.serving import free_port, run_server

KEY = "sk-secret-of-the-house-1"


def conformance(*arguments: str, environment: dict[str, str] | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["conformance", *arguments], env=environment)


def test_a_good_server_passes_every_check(good_url: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    result = conformance("--base-url", good_url, "--json", str(path))
    assert result.exit_code == 0, result.output
    report = json.loads(path.read_text())
    skipped = [check["id"] for check in report["checks"] if check["verdict"] == "skip"]
    assert skipped == ["errors.key"]
    assert report["summary"] == {"passed": len(CHECKS) - 1, "failed": 0, "skipped": 1}
    assert f"{len(CHECKS) - 1} passed, 0 failed, 1 skipped" in result.stdout
    assert f"{report['requests']} requests" in result.stdout
    assert all(group in result.stderr for group in GROUPS), "progress is on standard error"


def test_the_json_has_its_documented_form(good_url: str) -> None:
    result = conformance("--base-url", good_url, "--only", "framing.end", "--only", "models", "--json", "-")
    assert result.exit_code == 0
    report: dict[str, Any] = json.loads(result.stdout)
    assert list(report) == [
        "schema", "checker", "base_url", "model", "seconds", "requests", "summary", "checks",
    ]  # fmt: skip
    assert report["checker"] == f"antiphon {__version__}"
    assert (report["schema"], report["base_url"], report["model"]) == (
        "antiphon.conformance/1", good_url, "obedient",
    )  # fmt: skip
    assert [check["id"] for check in report["checks"]] == [
        "framing.end", "models.list", "models.retrieve", "models.unknown",
    ]  # fmt: skip
    assert list(report["checks"][0]) == [
        "id", "group", "title", "rule", "verdict", "why", "seconds", "requests", "evidence",
    ]  # fmt: skip
    page = (Path(__file__).parents[2] / "docs" / "reference" / "conformance.md").read_text()
    assert all(f"`{name}`" in page for name in [*report, *report["checks"][0]])


def test_a_failure_is_reported_with_its_evidence(faulty: tuple[FaultyProxy, str]) -> None:
    proxy, url = faulty
    proxy.fault = Fault("[DONE] comes twice", frozenset(), reply=done_twice)
    result = conformance("--base-url", url, "--only", "framing")
    assert result.exit_code == 1
    assert "`[DONE]` is sent more than once" in result.stdout
    assert "6 passed, 1 failed, 0 skipped" in result.stdout
    assert "\x1b[" not in result.output, "no colours in a pipe"


def test_a_server_that_is_not_running_cannot_be_checked(tmp_path: Path) -> None:
    result = conformance("--base-url", f"http://127.0.0.1:{free_port()}/v1", "--model", "m")
    assert result.exit_code == 2
    assert "cannot be reached" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--base-url"),
        (("--base-url", "ftp://x"), "must begin with http"),
        (("--base-url", "http://127.0.0.1:99999"), "--base-url is not a valid URL"),
        (("--base-url", "http://127.0.0.1:1", "--only", "nothing"), "There is no group 'nothing'"),
        (("--base-url", "http://127.0.0.1:1", "--timeout", "0"), "--timeout"),
    ],
)
def test_wrong_usage_is_reported(arguments: tuple[str, ...], message: str) -> None:
    result = conformance(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_the_list_sends_no_request() -> None:
    result = conformance("--list", "--only", "websocket")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 8
    assert "PROTOCOL/websocket-turn" in result.stdout


@pytest.mark.requirement("PROTOCOL/errors-key")
def test_a_key_is_sent_and_never_shown(tmp_path: Path) -> None:
    configuration = tmp_path / "antiphon.toml"
    configuration.write_text(f'[server]\napi_keys = ["{KEY}"]\n')
    with (
        serving(obedient()) as upstream,
        run_server(
            tmp_path, "--config", str(configuration), "--upstream", upstream, "--store", "memory:"
        ) as served,
    ):
        groups = ("--only", "errors", "--only", "websocket", "--only", "models")
        report = conformance(
            "--base-url", served.base_url, *groups, "--json", "-", environment={"ANTIPHON_API_KEY": KEY}
        )
        table = conformance("--base-url", served.base_url, *groups, "--api-key", KEY)
        none = conformance("--base-url", served.base_url)
        wrong = conformance("--base-url", served.base_url, "--api-key", "sk-not-that-one")
    assert (report.exit_code, table.exit_code) == (0, 0)
    verdicts = {check["id"]: check["verdict"] for check in json.loads(report.stdout)["checks"]}
    assert verdicts["errors.key"] == "pass"
    assert KEY not in report.output + table.output
    assert (none.exit_code, wrong.exit_code) == (2, 2)
    assert "The server needs a key" in none.stderr
    assert "The key was refused" in wrong.stderr
    assert "sk-not-that-one" not in wrong.output


async def _echo_key(request: web.Request) -> web.Response:
    return web.json_response({"data": [{"id": "m"}], "you_sent": request.headers.get("authorization")})


def test_a_server_that_repeats_the_key_does_not_make_us_show_it() -> None:
    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", _echo_key)
    with serving(app) as url:
        report = conformance("--base-url", url, "--api-key", KEY, "--json", "-", "--only", "errors")
        table = conformance("--base-url", url, "--api-key", KEY, "--only", "errors")
    assert (report.exit_code, table.exit_code) == (1, 1)
    assert KEY not in report.output + table.output
    assert "[redacted]" in report.stdout


async def _break_on_wrong_keys(request: web.Request) -> web.Response:
    right = request.headers.get("authorization") == f"Bearer {KEY}"
    return web.json_response({"data": [{"id": "m"}]}, status=200 if right else 500)


def test_a_wrong_key_that_breaks_the_server_is_a_failure() -> None:
    app = web.Application()
    app.router.add_get("/v1/models", _break_on_wrong_keys)
    with serving(app) as url:
        result = conformance("--base-url", url, "--api-key", KEY, "--only", "errors.key")
    assert result.exit_code == 1
    assert "the status is 500, not 401 or 403" in result.stdout


async def _page(_request: web.Request) -> web.Response:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


async def _hang(_request: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


@pytest.mark.parametrize("group", GROUPS)
def test_an_invalid_server_fails_without_an_internal_error(group: str) -> None:
    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", _page)
    with serving(app) as url:
        result = conformance("--base-url", url, "--model", "m", "--only", group, "--json", "-")
    verdicts = {check["verdict"] for check in json.loads(result.stdout)["checks"]}
    assert (result.exit_code, "fail" in verdicts) == (1, True)
    assert all("cannot be read" not in check["why"] for check in json.loads(result.stdout)["checks"])


def test_a_server_that_hangs_does_not_hang_us() -> None:
    app = web.Application()
    app.router.add_get("/v1/models", _page)
    app.router.add_route("*", "/v1/{path:.*}", _hang)
    with serving(app) as url:
        result = conformance("--base-url", url, "--model", "m", "--only", "order.text", "--timeout", "1")
    assert result.exit_code == 2
    assert "The model does not answer" in result.stderr
    assert "within 1 s" in result.stderr


def test_a_silent_server_times_out() -> None:
    paths: list[str] = []

    async def once(request: web.Request) -> web.Response:
        paths.append(request.path)
        return await (_page(request) if len(paths) == 1 else _hang(request))

    app = web.Application()
    app.router.add_get("/v1/models", _page)
    app.router.add_post("/v1/responses", once)
    with serving(app) as url:
        result = conformance("--base-url", url, "--model", "m", "--timeout", "1")
    assert result.exit_code == 2
    assert "stopped answering" in result.stderr
    assert len(paths) == 4


def test_without_a_model_the_server_must_list_one() -> None:
    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", _page)
    with serving(app) as url:
        result = conformance("--base-url", url)
    assert result.exit_code == 2
    assert "Name one with --model" in result.stderr
    assert "(status 200, text/html)" in result.stderr


async def _elsewhere(_request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"location": "https://login.example/?next=v1"})


def test_a_redirect_is_reported() -> None:
    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", _elsewhere)
    with serving(app) as url:
        result = conformance("--base-url", url)
    assert result.exit_code == 2
    assert "status 302" in result.stderr
    assert "Location: https://login.example/" in result.stderr


def test_a_model_that_is_not_there_cannot_be_checked(good_url: str) -> None:
    result = conformance("--base-url", good_url, "--model", "nosuch", "--only", "tools")
    assert result.exit_code == 2
    assert "has no model 'nosuch'" in result.stderr


async def _too_busy(_request: web.Request) -> web.Response:
    return web.json_response({"error": {"message": "Come later."}}, status=429)


def test_a_server_without_time_cannot_be_checked() -> None:
    app = web.Application()
    app.router.add_get("/v1/models", _page)
    app.router.add_post("/v1/responses", _too_busy)
    with serving(app) as url:
        result = conformance("--base-url", url, "--model", "m", "--only", "structured")
    assert result.exit_code == 2
    assert "(status 429): Come later." in result.stderr


async def _abyss(_request: web.Request) -> web.Response:
    return web.Response(
        body=b'{"data":' + b"[" * 50_000 + b"]" * 50_000 + b"}", content_type="application/json"
    )


async def _abyss_of_events(_request: web.Request) -> web.Response:
    deep = b"[" * 50_000 + b"]" * 50_000
    return web.Response(body=b'data: {"a":' + deep + b"}\n\n", content_type="text/event-stream")


@pytest.mark.parametrize("handler", [_abyss, _abyss_of_events])
def test_deeply_nested_json_causes_no_internal_error(handler: Callable[..., Awaitable[web.Response]]) -> None:
    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", handler)
    with serving(app) as url:
        result = conformance("--base-url", url, "--model", "m", "--only", "order", "--only", "object")
    assert result.exit_code == 1, result.output


async def _abyss_in_a_frame(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    await socket.receive()
    await socket.send_str("[" * 50_000 + "]" * 50_000)
    return socket


def test_a_deeply_nested_frame_causes_no_internal_error() -> None:
    app = web.Application()
    app.router.add_get("/v1/models", _page)
    app.router.add_get("/v1/responses", _abyss_in_a_frame)
    app.router.add_post("/v1/responses", _page)
    with serving(app) as url:
        result = conformance("--base-url", url, "--model", "m", "--only", "websocket.turn")
    assert result.exit_code == 1, result.output
    assert "a frame is not a JSON object" in result.stdout


def test_a_report_that_cannot_be_written_is_reported_before_any_request(tmp_path: Path) -> None:
    paths: list[str] = []

    async def note(request: web.Request) -> web.Response:
        paths.append(request.path)
        return await _page(request)

    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", note)
    with serving(app) as url:
        result = conformance(
            "--base-url", url, "--model", "m", "--json", str(tmp_path / "nowhere" / "report.json")
        )
    assert (result.exit_code, paths) == (2, [])
    assert "cannot be written" in result.stderr


@pytest.mark.requirement("PROTOCOL/websocket-refusal")
def test_a_rejected_socket_is_no_failure_if_clients_handle_it(faulty: tuple[FaultyProxy, str]) -> None:
    proxy, url = faulty
    proxy.fault = Fault("no sockets", frozenset(), socket=426)
    result = conformance("--base-url", url, "--only", "websocket")
    assert result.exit_code == 0
    assert "1 passed, 0 failed, 7 skipped" in result.stdout
