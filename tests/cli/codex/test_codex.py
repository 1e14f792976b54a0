"""`antiphon codex`, with a program in place of Codex that records its start."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from antiphon.backends.scripted import ScriptedBackend
from antiphon.cli.codex.program import CodexConfig, child_environment, save_catalogue, toml_value
from antiphon.cli.codex.server import logged_to
from antiphon.service.codex_catalogue import catalogue, encode_catalogue
from antiphon.service.routing.router import Route, Router
from tests.cli.conftest import Run
from tests.cli.http_thread import serving
from tests.cli.upstream import ScriptedUpstream

FAKE = """#!{python}
import json, os, signal, sys, time, urllib.request
if sys.argv[1:] == ["--version"]:
    print("codex-cli {version}")
    sys.exit(0)
overrides = dict(word.split("=", 1) for flag, word in zip(sys.argv[1:], sys.argv[2:]) if flag == "-c")
base_url = json.loads(overrides["model_providers.antiphon.base_url"])
listed = json.load(urllib.request.urlopen(base_url + "/models", timeout=5)) if {asks} else None
with open({seen!r} + ".new", "w") as file:
    json.dump(dict(arguments=sys.argv[1:], overrides=overrides, environment=dict(os.environ), listed=listed), file)
os.rename({seen!r} + ".new", {seen!r})
def interrupted(*_):
    sys.exit(5)
signal.signal(signal.SIGINT, interrupted)
time.sleep({seconds})
sys.exit({code})
"""


class Fake:
    """The program, and its record."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "codex"
        self.log = folder / "seen.json"
        self.write()
        monkeypatch.setenv("ANTIPHON_CODEX__COMMAND", str(self.path))
        monkeypatch.setenv("ANTIPHON_SERVER__PORT", "9")  # a port without a listener

    def write(
        self, *, code: int = 0, version: str = "0.166.0", seconds: float = 0, asks: bool = True
    ) -> None:
        fields = {"python": sys.executable, "seen": str(self.log), "code": code, "version": version}
        self.path.write_text(FAKE.format(**fields, seconds=seconds, asks=asks))
        self.path.chmod(0o755)

    @property
    def seen(self) -> dict[str, Any]:
        return json.loads(self.log.read_text())

    def override(self, name: str) -> Any:
        return tomllib.loads(f"value = {self.seen['overrides'][name]}")["value"]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(tmp_path, monkeypatch)


def test_codex_is_started_with_its_own_server(
    run: Run, fake: Fake, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    fake.write(code=7)
    result = run("codex", "--upstream", upstream.url, "--model", "other", "--", "exec", "--json", "do it")
    assert result.exit_code == 7, result.output
    home = tmp_path / "data/antiphon/codex-home"
    assert fake.seen["arguments"][-3:] == ["exec", "--json", "do it"]
    assert fake.seen["environment"]["CODEX_HOME"] == str(home)
    listed = fake.seen["listed"]["data"]
    assert [model["id"] for model in listed if model.get("kind") != "embedding"] == ["tiny", "other"]
    assert (fake.override("model"), fake.override("model_provider")) == ("other", "antiphon")
    assert fake.override("model_providers.antiphon.supports_websockets") is True
    catalogue = json.loads(Path(fake.override("model_catalog_json")).read_text())
    assert [model["slug"] for model in catalogue["models"]] == ["other", "tiny"]
    assert (home / "antiphon.log").is_file()
    assert not any("env_key" in name or "auth" in name for name in fake.seen["overrides"])


def test_the_first_model_is_the_default_and_http_is_a_choice(
    run: Run, fake: Fake, upstream: ScriptedUpstream
) -> None:
    result = run("codex", "--upstream", upstream.url, "--http")
    assert (result.exit_code, fake.override("model")) == (0, "tiny")
    assert fake.override("model_providers.antiphon.supports_websockets") is False
    assert "The context window of 'tiny' is unknown" in result.stderr


def test_the_model_of_the_agent_is_the_default(
    run: Run, fake: Fake, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_AGENT__MODEL", "other")
    assert run("codex", "--upstream", upstream.url).exit_code == 0
    assert fake.override("model") == "other"


def test_a_configured_window_is_reported(run: Run, fake: Fake, upstream: ScriptedUpstream) -> None:
    Path("antiphon.toml").write_text(
        f'[[upstreams]]\nbase_url = "{upstream.url}"\nmodels = [{{name = "m", context_window = 65536}}]\n'
    )
    result = run("codex")
    assert (result.exit_code, result.stderr) == (0, "")
    catalogue = json.loads(Path(fake.override("model_catalog_json")).read_text())
    assert catalogue["models"][0]["context_window"] == 65536


def test_a_server_that_runs_is_used_unless_another_upstream_is_named(
    run: Run, fake: Fake, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = Router([Route("m", ScriptedBackend([]))], chance=lambda: 0.5)

    async def models(request: web.Request) -> web.Response:
        return web.Response(body=encode_catalogue(await catalogue(router)), content_type="application/json")

    app = web.Application()
    app.router.add_get("/v1/models", models)
    with serving(app) as url:
        monkeypatch.setenv("ANTIPHON_SERVER__PORT", url.rpartition(":")[2].removesuffix("/v1"))
        assert run("codex").exit_code == 0
        assert (fake.override("model_providers.antiphon.base_url"), fake.override("model")) == (url, "m")
        assert run("codex", "--upstream", upstream.url).exit_code == 0
        assert fake.override("model_providers.antiphon.base_url") != url


def test_another_server_on_the_configured_port_is_not_taken_for_ours(
    run: Run, fake: Fake, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = upstream.url.rpartition(":")[2].removesuffix("/v1")
    monkeypatch.setenv("ANTIPHON_SERVER__PORT", port)
    Path("antiphon.toml").write_text(f'[[upstreams]]\nbase_url = "{upstream.url}"\n')
    assert run("codex").exit_code == 0
    assert not fake.override("model_providers.antiphon.base_url").endswith(f":{port}/v1")


def test_a_server_that_is_no_antiphon_is_rejected(run: Run, fake: Fake, upstream: ScriptedUpstream) -> None:
    result = run("codex", "--base-url", upstream.url)
    assert result.exit_code == 2
    assert "is not an Antiphon server" in result.stderr
    assert not fake.log.exists()


def test_an_unreachable_server_is_reported(run: Run, fake: Fake) -> None:
    result = run("codex", "--base-url", "http://127.0.0.1:9/v1")
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr


def test_an_unreachable_upstream_is_reported(run: Run, fake: Fake) -> None:
    result = run("codex", "--upstream", "http://127.0.0.1:9/v1")
    assert result.exit_code == 2
    assert "The upstream 'plain' cannot be reached" in result.stderr
    assert not fake.log.exists()


def test_one_server_or_the_other(run: Run, fake: Fake) -> None:
    result = run("codex", "--upstream", "http://127.0.0.1:9/v1", "--base-url", "http://127.0.0.1:9/v1")
    assert result.exit_code == 2
    assert "Use either --base-url or --upstream" in result.stderr


def test_a_port_that_hangs_is_not_waited_for_long(
    run: Run, fake: Fake, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("ANTIPHON_SERVER__PORT", str(silent.getsockname()[1]))
        Path("antiphon.toml").write_text(f'[[upstreams]]\nbase_url = "{upstream.url}"\n')
        began = time.monotonic()
        result = run("codex")
    assert (result.exit_code, fake.override("model")) == (0, "tiny")
    assert time.monotonic() - began < 10


def test_an_empty_key_is_ignored(
    run: Run, fake: Fake, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEY", "")
    assert run("codex", "--upstream", upstream.url).exit_code == 0
    assert not any("env_key" in name for name in fake.seen["overrides"])
    printed = tomllib.loads(run("codex", "--print-config", "--model", "m").stdout)
    assert printed["model_providers"]["antiphon"]["auth"]["command"] == "echo"


def test_a_window_without_room_for_a_task_is_a_warning(
    run: Run, fake: Fake, upstream: ScriptedUpstream
) -> None:
    Path("antiphon.toml").write_text(
        f'[[upstreams]]\nbase_url = "{upstream.url}"\nmodels = [{{name = "m", context_window = 4096}}]\n'
    )
    result = run("codex")
    assert result.exit_code == 0
    assert "The context window of 'm' is 4096 tokens" in result.stderr


def test_a_log_does_not_grow_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "antiphon.log"
    log.write_text("old")
    with logged_to(log, "info"):
        pass
    assert log.read_text() == "old"
    monkeypatch.setattr("antiphon.cli.codex.server.MAX_LOG_BYTES", 2)
    with logged_to(log, "info"):
        pass
    assert log.read_text() == ""


def test_the_users_codex_home_can_be_shared(
    run: Run, fake: Fake, upstream: ScriptedUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "mine"))
    assert run("codex", "--upstream", upstream.url, "--share-home").exit_code == 0
    assert fake.seen["environment"]["CODEX_HOME"] == str(tmp_path / "mine")
    assert Path(fake.override("model_catalog_json")).is_relative_to(tmp_path / "mine")


def test_a_codex_that_is_too_old_is_rejected_with_advice(
    run: Run, fake: Fake, upstream: ScriptedUpstream
) -> None:
    fake.write(version="0.99.0")
    result = run("codex", "--upstream", upstream.url)
    assert result.exit_code == 2
    assert "Codex 0.99.0 cannot read this catalogue" in result.stderr
    assert not fake.log.exists()


def test_a_program_that_is_not_there_or_not_codex(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_CODEX__COMMAND", "no-such-codex")
    missing = run("codex")
    monkeypatch.setenv("ANTIPHON_CODEX__COMMAND", "true")
    other = run("codex")
    assert (missing.exit_code, other.exit_code) == (2, 2)
    assert "npm install -g @openai/codex" in missing.stderr
    assert "is not Codex" in other.stderr


def test_the_configuration_is_printed_and_nothing_is_started(
    run: Run, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("codex", "--print-config", "--model", 'odd "name"')
    config = tomllib.loads(result.stdout)
    provider = config["model_providers"]["antiphon"]
    assert (result.exit_code, config["model"], config["model_provider"]) == (0, 'odd "name"', "antiphon")
    assert (provider["base_url"], provider["wire_api"]) == ("http://127.0.0.1:9/v1", "responses")
    assert provider["auth"] == {"command": "echo", "args": ["no-key"]}
    assert "~/.codex/config.toml" in result.stdout
    assert "antiphon serve" in result.stdout
    assert not fake.log.exists()
    monkeypatch.setenv("ANTIPHON_API_KEY", "sk-secret")
    keyed = run("codex", "--print-config", "--http", "--base-url", "http://gateway:9")
    provider = tomllib.loads(keyed.stdout)["model_providers"]["antiphon"]
    assert provider["auth"] == {"command": "printenv", "args": ["ANTIPHON_API_KEY"]}
    assert (provider["base_url"], provider["supports_websockets"]) == ("http://gateway:9/v1", False)
    assert "sk-secret" not in keyed.stdout


async def _locked(_request: web.Request) -> web.Response:
    return web.json_response({"error": {"message": "A key is wanted."}}, status=401)


def test_a_server_that_wants_a_key_runs(run: Run, fake: Fake) -> None:
    app = web.Application()
    app.router.add_get("/v1/models", _locked)
    with serving(app) as url:
        result = run("codex", "--print-config", "--base-url", url)
    assert f"# The server at {url} is running, but: " in result.stdout
    assert "A key is wanted." in result.stdout
    assert "antiphon serve" not in result.stdout


def test_an_interrupt_from_the_keyboard_is_left_to_codex(
    fake: Fake, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    fake.write(seconds=30)
    command = [sys.executable, "-m", "antiphon.cli", "codex", "--upstream", upstream.url]
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 20
    while not fake.log.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 5, errors
    assert "Traceback" not in errors


def test_the_file_and_the_arguments_agree() -> None:
    config = CodexConfig(base_url="http://h/v1", model="m", key=True, catalogue=Path("/c.json"))
    command_arguments = config.arguments()
    dotted = tomllib.loads("\n".join(command_arguments[1::2]))
    assert command_arguments[::2] == ["-c"] * (len(command_arguments) // 2)
    assert dotted == tomllib.loads(config.text())
    assert dotted["model_providers"]["antiphon"]["env_key"] == "ANTIPHON_API_KEY"


@pytest.mark.parametrize(
    "value", ["", 'a"b', "a\\b", "tab\t", "line\nbreak", "\x7f", "ünï", True, 3, ["a", "b"]]
)
def test_values_are_written_as_toml_reads_them(value: object) -> None:
    assert tomllib.loads(f"value = {toml_value(value)}") == {"value": value}


def test_a_catalogue_is_saved_under_its_digest(tmp_path: Path) -> None:
    first, again, other = (save_catalogue(tmp_path, body) for body in (b"{}", b"{}", b"[]"))
    assert (first, first.read_bytes(), other.read_bytes()) == (again, b"{}", b"[]")
    assert len(list(first.parent.iterdir())) == 2


def test_only_the_latest_catalogues_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.cli.codex.program.MAX_CATALOGUES", 3)
    paths: list[Path] = []
    for number in range(6):
        paths.append(save_catalogue(tmp_path, b"%d" % number))
        os.utime(paths[-1], (number, number))
    assert [path.exists() for path in paths] == [False, False, False, True, True, True]


def test_codex_does_not_see_our_settings() -> None:
    ours = {"ANTIPHON_SEAL__KEY": "x", "ANTIPHON_UPSTREAM_KEY": "y", "ANTIPHON_API_KEY": "z", "PATH": "/bin"}
    assert child_environment(ours, Path("/home/c")) == {
        "ANTIPHON_API_KEY": "z",
        "PATH": "/bin",
        "CODEX_HOME": "/home/c",
    }
    assert "CODEX_HOME" not in child_environment(ours, None)
