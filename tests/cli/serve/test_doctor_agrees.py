"""`antiphon doctor` and `antiphon serve` have the same opinion of a configuration; each case runs both."""

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from antiphon.settings import Settings, StoreSettings
from antiphon.wiring import data_folder, open_stores
from tests.cli.conftest import Run
from tests.cli.http_thread import serving
from tests.cli.serve.test_serve import server, slow
from tests.cli.upstream import ScriptedUpstream

UNUSED = "http://127.0.0.1:1/v1"


def diagnose(run: Run, *options: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(run("doctor", "--json", *options).stdout)["checks"]}


def make_store(path: Path) -> None:
    async def make() -> None:
        async with open_stores(Settings(store=StoreSettings(f"sqlite:{path}"))):
            pass

    asyncio.run(make())


def no_keys(path: Path) -> str:
    make_store(path)
    return '[server]\nhost = "0.0.0.0"\nport = 0\n'


def unserved_alias(_path: Path) -> str:
    return '[aliases]\nfast = "tinny"\n[[upstreams]]\nbase_url = "http://127.0.0.1:1/v1"\nmodels = ["tiny"]\n'


def broken_database(path: Path) -> str:
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    return ""


def bad_agent(_path: Path) -> str:
    return '[agent]\ntools = ["nowhere:nothing"]\n'


def address_of_another_machine(_path: Path) -> str:
    return '[server]\nhost = "192.0.2.1"\napi_keys = ["a-key-that-is-long-enough"]\n'


@pytest.mark.parametrize(
    ("prepare", "name"),
    [
        (no_keys, "keys"),
        (unserved_alias, "models"),
        (broken_database, "store"),
        (bad_agent, "agent"),
        (address_of_another_machine, "address"),
    ],
)
def test_what_serve_refuses_fails_in_the_doctor(
    run: Run, tmp_path: Path, prepare: Callable[[Path], str], name: str
) -> None:
    path = tmp_path / "kept.db"
    text = prepare(path)
    upstreams = "" if "[[upstreams]]" in text else f'[[upstreams]]\nbase_url = "{UNUSED}"\n'
    Path("antiphon.toml").write_text(f'{text}[store]\nurl = "sqlite:{path}"\n{upstreams}')
    refused = run("serve")
    assert (refused.exit_code, refused.stdout) == (2, ""), refused.output
    found = diagnose(run)
    assert found[name]["status"] == "failed"
    message = found[name]["found"] if name == "address" else found[name]["advice"]
    assert message.partition("; ")[2 if name == "address" else 0].split(".")[0] in refused.stderr


def test_a_port_that_is_taken_fails_in_both(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("ANTIPHON_SERVER__PORT", str(other.getsockname()[1]))
        assert run("serve", "--upstream", UNUSED).exit_code == 2
        assert diagnose(run, "--upstream", UNUSED)["address"]["status"] == "failed"


class TestServerThatStarts:
    """The doctor has no failed check of the start, and both warn of the same."""

    pytestmark = slow

    def serve(self, *options: str, log: str = "") -> str:
        """Start a server, and return what it logged."""
        with server("--port", "0", *options) as running:
            assert running.get("/healthz") == 200
            time.sleep(0.5)
            code, logged = running.stop()
        assert code == 0
        assert log in logged
        return logged

    def test_an_alias_of_an_upstreams_model_beside_the_embedded_model(
        self, run: Run, upstream: ScriptedUpstream
    ) -> None:
        Path("antiphon.toml").write_text(
            f'[local]\nenabled = true\n[aliases]\nfast = "tiny"\n[fallbacks]\ntiny = ["other"]\n'
            f'[[upstreams]]\nbase_url = "{upstream.url}"\nmodels = ["tiny", "other"]\n'
        )
        assert "WARNING" not in self.serve()
        assert {check["status"] for check in diagnose(run).values()} == {"ok"}

    def test_keys_that_are_all_revoked(self, run: Run, upstream: ScriptedUpstream) -> None:
        run("keys", "revoke", run("keys", "create").stdout.split("_")[1])
        found = diagnose(run, "--upstream", upstream.url)["keys"]
        assert (found["status"], "every request is refused" in found["found"]) == ("warning", True)
        assert "antiphon keys delete --all" in found["advice"]
        self.serve("--upstream", upstream.url, log="0 stored, 1 revoked or expired: every request is refused")

    def test_a_web_server_is_no_upstream(self, run: Run) -> None:
        async def page(_request: web.Request) -> web.Response:
            return web.Response(
                status=404, text="<!DOCTYPE html><h1>Not found</h1>", content_type="text/html"
            )

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", page)
        with serving(app) as url:
            found = diagnose(run, "--upstream", url)["upstream plain"]
            assert found["status"] == "failed"
            assert f"{url} is a web server, not a model server" in found["found"]
            self.serve("--upstream", url, log=f"{url} is a web server, not a model server")

    def test_an_upstream_that_is_not_there(self, run: Run) -> None:
        assert "127.0.0.1:1" in diagnose(run, "--upstream", UNUSED)["upstream plain"]["found"]
        log = self.serve("--upstream", UNUSED)
        assert diagnose(run, "--upstream", UNUSED)["upstream plain"]["found"].rstrip(".") in log

    def test_a_variable_that_is_not_set(self, run: Run, upstream: ScriptedUpstream) -> None:
        Path("antiphon.toml").write_text(
            f'[[upstreams]]\nname = "gpu"\nbase_url = "{upstream.url}"\napi_key_env = "GPU_KEY"\n'
        )
        found = diagnose(run)["key of gpu"]
        assert (found["status"], "GPU_KEY" in found["found"]) == ("warning", True)
        self.serve(log="the variable GPU_KEY that api_key_env names is not set")

    def test_a_data_folder_that_is_not_needed(self, run: Run, upstream: ScriptedUpstream) -> None:
        Path("antiphon.toml").write_text('[seal]\nkey = "one secret for all"\n[store]\nurl = "none"\n')
        Path("data").touch()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_DATA_HOME", str(Path("data").absolute()))
            assert diagnose(run, "--upstream", upstream.url)["data folder"]["status"] == "ok"
            self.serve("--upstream", upstream.url)

    def test_a_sealing_key_that_does_not_fit_the_database(
        self, run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = ("--upstream", upstream.url)
        assert "seal key" not in diagnose(run, *options)
        assert "seal" not in self.serve(*options)
        assert diagnose(run, *options)["seal key"]["status"] == "ok"
        monkeypatch.setenv("ANTIPHON_SEAL__KEY", "another secret")
        found = diagnose(run, *options)["seal key"]
        assert (found["status"], "db accept-seal-key" in found["advice"]) == ("warning", True)
        self.serve(*options, log="seal.key is not the sealing key of this database")
        assert run("db", "accept-seal-key").exit_code == 0
        assert diagnose(run, *options)["seal key"]["status"] == "ok"
        assert "seal" not in self.serve(*options)


def test_a_lost_key_file_is_noticed_and_not_made_by_the_doctor(run: Run) -> None:
    run("keys", "create")
    (data_folder() / "seal.key").unlink()
    assert diagnose(run, "--upstream", UNUSED)["seal key"]["status"] == "warning"
    assert not (data_folder() / "seal.key").exists()


def test_fixes_are_made_and_named(run: Run) -> None:
    folder = data_folder()
    fixed = json.loads(run("doctor", "--json", "--fix", "--upstream", UNUSED).stdout)["fixes"]
    assert fixed == [f"created {folder}"]
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    (folder / "seal.key").write_bytes(b"k" * 32)
    (folder / "seal.key").chmod(0o644)
    (folder / "seal.key.17").touch()
    left = folder / "seal.key.18"
    left.touch()
    os.utime(left, (0, 0))
    shown = run("doctor", "--fix", "--upstream", UNUSED).stdout
    for fix in (
        f"made {folder} private (mode 700)",
        f"made {folder / 'seal.key'} private (mode 600)",
        f"removed {left}, which a killed process left",
    ):
        assert f"fixed: {fix}" in shown
    assert sorted(path.name for path in folder.iterdir()) == ["seal.key", "seal.key.17"]
    assert json.loads(run("doctor", "--json", "--fix", "--upstream", UNUSED).stdout)["fixes"] == []
