"""Administration: keys, settings and runs of the checker, for keys with the scope `admin`."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from antiphon.caller import ADMIN, READ, SCOPES
from antiphon.errors import BackendError, SettingsError
from antiphon.server.app import App
from antiphon.server.auth import Keys
from antiphon.server.memory import memory_client
from antiphon.server.types import ASGIApp, Receive, Scope, Send
from antiphon.settings import effective_settings, load_settings
from antiphon.settings.effective import HIDDEN_VALUE
from tests.server.conftest import never_opened, options, services_of
from tests.server.stateful import NOW, open_server
from tests.service.conftest import MakeCreator

ADMIN_ROUTES = [
    ("GET", "/v1/admin/keys"),
    ("POST", "/v1/admin/keys"),
    ("POST", "/v1/admin/keys/k/revoke"),
    ("DELETE", "/v1/admin/keys/k"),
    ("GET", "/v1/admin/settings"),
]


@pytest.mark.parametrize(("method", "path"), ADMIN_ROUTES)
async def test_only_keys_with_the_scope_admin_may_administer(
    make_creator: MakeCreator, method: str, path: str
) -> None:
    async with open_server(make_creator) as server:
        headers = await server.new_key("t", *SCOPES)
        answer = await server.client.request(method, path, headers=headers, json={})
        assert answer.status_code == 403
        assert "'admin'" in answer.text
        assert (await server.client.request(method, path, json={})).status_code == 401


async def test_a_key_is_created_used_revoked_and_deleted(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        admin = await server.new_key("ops", ADMIN)
        new = {"name": "ci", "tenant": "acme", "scopes": [READ], "tools": ["web_search"], "expires_at": 2000}
        created = await server.client.post("/v1/admin/keys", json=new, headers=admin)
        key = created.json()
        assert created.headers["cache-control"] == "no-store"
        assert {name: key[name] for name in new} == new
        assert key["state"] == "valid"
        bearer = {"authorization": f"Bearer {key['key']}"}
        assert (await server.client.get("/v1/responses", headers=bearer)).status_code == 200
        listed = (await server.client.get("/v1/admin/keys", headers=admin)).json()["data"]
        assert [each["id"] for each in listed][-1] == key["id"]
        assert all("digest" not in each and "key" not in each for each in listed)
        path = f"/v1/admin/keys/{key['id']}"
        revoked = await server.client.post(f"{path}/revoke", headers=admin)
        assert (revoked.json()["state"], revoked.json()["revoked_at"]) == ("revoked", int(NOW))
        assert (await server.client.get("/v1/responses", headers=bearer)).status_code == 401
        deleted = await server.client.delete(path, headers=admin)
        assert deleted.json() == {"id": key["id"], "object": "api_key.deleted", "deleted": True}
        assert (await server.client.delete(path, headers=admin)).status_code == 404
        assert (await server.client.post(f"{path}/revoke", headers=admin)).status_code == 404


async def test_a_key_has_all_scopes_but_admin_by_default(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        created = await server.client.post("/v1/admin/keys", json={"name": ""})
        assert created.json()["scopes"] == list(SCOPES)
        assert (await server.client.get("/v1/admin/keys")).status_code == 401  # from now on keys are needed


@pytest.mark.parametrize(
    "body",
    [
        {"scopes": []},
        {"scopes": ["everything"]},
        {"tenant": "a b"},
        {"name": "x" * 101},
        {"name": "a\nb"},
        {"tools": ["Not A Tool"]},
        {"expires_at": 5},
        {"expires_at": 2**64},
        {"expires_at": "soon"},
        {"colour": "red"},
        [],
    ],
)
async def test_a_key_that_would_be_invalid_is_not_created(make_creator: MakeCreator, body: Any) -> None:
    async with open_server(make_creator) as server:
        answer = await server.client.post("/v1/admin/keys", json=body)
        assert answer.status_code == 400
        assert (await server.client.get("/v1/admin/keys")).json()["data"] == []


def test_each_setting_says_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(
        '[server]\nport = 9000\napi_keys = ["a-very-secret-key"]\n\n'
        '[[upstreams]]\nbase_url = "http://localhost:1/v1"\napi_key = "sk-1"\nmodels = ["m"]\n'
    )
    environment = {"ANTIPHON_SERVER__DRAIN": "3"}
    settings = load_settings(file, environment, {"server": {"log_level": "debug"}})
    found = {each.name: each for each in effective_settings(settings, file, environment)}
    assert (found["server.port"].source, found["server.port"].where) == ("file", f"{file}:2")
    assert (found["server.drain"].source, found["server.drain"].where) == ("env", "ANTIPHON_SERVER__DRAIN")
    assert (found["server.log_level"].source, found["server.log_level"].where) == ("option", None)
    assert (found["server.page"].source, found["server.page"].value) == ("default", True)
    assert found["upstreams[0].base_url"].where == f"{file}:6"
    for name in ("server.api_keys", "upstreams[0].api_key"):
        assert (found[name].value, found[name].secret) == (HIDDEN_VALUE, True)


def test_passwords_in_urls_are_hidden() -> None:
    settings = load_settings(
        None,
        {},
        {"store": {"url": "postgresql://user:password@host/database"}},
    )
    [url] = [each for each in effective_settings(settings, None, {}) if each.name == "store.url"]
    assert "password" not in url.value


def test_a_file_that_became_invalid_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text("[server\n")
    with pytest.raises(SettingsError, match="not valid TOML"):
        effective_settings(load_settings(None, {}), file, {})


async def test_the_settings_in_force_are_listed(make_creator: MakeCreator) -> None:
    settings = load_settings(None, {})
    app = App(
        never_opened,
        lambda: "req_1",
        options(read_settings=lambda: effective_settings(settings, None, {})),
    )
    app.mount(services_of(make_creator()))
    async with memory_client(app) as client:
        data = (await client.get("/v1/admin/settings")).json()["data"]
    [port] = [each for each in data if each["name"] == "server.port"]
    assert port == {
        "name": "server.port",
        "value": 8080,
        "secret": False,
        "source": "default",
        "where": None,
        "doc": "Port to listen on; 0 picks a free one.",
    }


def test_every_setting_says_what_it_means(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(
        '[[upstreams]]\nname = "gpu"\nkind = "vllm"\nbase_url = "http://gpu:8000/v1"\nmodels = ["*"]\n'
    )
    for settings in (load_settings(None, {}), load_settings(file, {})):
        found = effective_settings(settings, None, {})
        assert [each.name for each in found if not each.doc] == []
        assert not any("\n" in (each.doc or "") for each in found)


class Checker:
    """A fake of the conformance checker, which remembers how it was run."""

    def __init__(self, error: BackendError | None = None) -> None:
        self.runs: list[tuple[str, str, str | None]] = []
        self._error = error

    async def __call__(
        self, base_url: str, model: str, key: str | None
    ) -> AsyncGenerator[dict[str, Any], None]:
        self.runs.append((base_url, model, key))
        yield {"object": "conformance.check", "name": "order", "outcome": "passed"}
        if self._error is not None:
            raise self._error
        yield {"object": "conformance.summary", "passed": 1}


def app_with(make_creator: MakeCreator, checker: Checker, **fields: Any) -> ASGIApp:
    """The application as it is reached over a connection."""
    app = App(never_opened, lambda: "req_1", options(run_checks=checker, **fields))
    app.mount(services_of(make_creator()))

    async def reached(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "server": ("::1", 8080)}, receive, send)

    return reached


def sent_events(answer: httpx2.Response) -> list[Any]:
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


async def test_the_checks_run_against_the_address_of_this_server(make_creator: MakeCreator) -> None:
    checker = Checker()
    async with memory_client(app_with(make_creator, checker)) as client:
        answer = await client.post("/v1/conformance", json={"model": "m"})
    assert [event["object"] for event in sent_events(answer)] == [
        "conformance.check",
        "conformance.summary",
    ]
    [(base_url, model, key)] = checker.runs
    assert (base_url, model, key) == ("http://[::1]:8080/v1", "m", None)


async def test_where_keys_are_needed_the_checks_have_one_of_their_own_for_the_run(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.server.routes.admin.KEY_DELAY_SECONDS", 0.0)
    checker, keys = Checker(), Keys(["right"], pepper=b"p", clock=lambda: NOW)
    async with memory_client(app_with(make_creator, checker, keys=keys)) as client:
        headers = {"authorization": "Bearer right"}
        await client.post("/v1/conformance", json={"model": "m"}, headers=headers)
        left = (await client.get("/v1/admin/keys", headers=headers)).json()["data"]
    assert checker.runs[0][2] is not None
    assert left == []


async def test_an_error_of_the_checker_is_an_event(make_creator: MakeCreator) -> None:
    checker = Checker(BackendError("It stopped answering."))
    async with memory_client(app_with(make_creator, checker)) as client:
        answer = await client.post("/v1/conformance", json={"model": "m"})
    assert sent_events(answer)[-1]["error"]["message"] == "It stopped answering."


@pytest.mark.parametrize("body", [{}, {"model": 1}, {"model": "m", "only": "x"}, []])
async def test_a_run_names_a_model(make_creator: MakeCreator, body: Any) -> None:
    async with memory_client(app_with(make_creator, Checker())) as client:
        assert (await client.post("/v1/conformance", json=body)).status_code == 400
