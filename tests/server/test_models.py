"""The models over HTTP: OpenAI's list, Codex's catalogue, and the capabilities."""

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.profile import PROFILES, Profiles
from tests.server.conftest import OpenClient, options


class Model(ScriptedBackend):
    async def context_window(self, model: str) -> int | None:
        return 8192


@pytest.mark.requirement("PROTOCOL/endpoints-codex-catalogue")
async def test_a_client_that_sends_its_version_gets_the_catalogue(open_client: OpenClient) -> None:
    async with open_client(Model([])) as client:
        answer = await client.get("/v1/models?client_version=0.166.0")
        again = await client.get("/v1/models?client_version=0.166.0")
        plain = await client.get("/v1/models")
    assert [(model["slug"], model["context_window"]) for model in answer.json()["models"]] == [("m", 8192)]
    assert answer.headers["etag"] == again.headers["etag"]
    assert answer.headers["etag"].startswith('"')
    assert [model["id"] for model in plain.json()["data"]] == ["m"]


async def test_an_unchanged_catalogue_is_not_sent_again(open_client: OpenClient) -> None:
    async with open_client(Model([])) as client:
        path = "/v1/models?client_version=0.166.0"
        etag = (await client.get(path)).headers["etag"]
        answers = [
            await client.get(path, headers={"if-none-match": known})
            for known in (etag, f'"other", W/{etag}', "*", '"other"')
        ]
    assert [answer.status_code for answer in answers] == [304, 304, 304, 200]
    assert answers[0].content == b""
    assert answers[0].headers["etag"] == etag


async def test_an_unknown_client_is_rejected(open_client: OpenClient) -> None:
    async with open_client(Model([])) as client:
        for version in ("", "tomorrow", "0.1.0"):
            answer = await client.get(f"/v1/models?client_version={version}")
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert (error["type"], error["param"], error["code"]) == (
                "invalid_request_error",
                "client_version",
                "unknown_client",
            )
        twice = await client.get("/v1/models?client_version=0.166.0&client_version=0.166.0")
    assert twice.status_code == 400


async def test_the_catalogue_begins_with_the_requested_model(open_client: OpenClient) -> None:
    async with open_client(Model([])) as client:
        found = await client.get("/v1/models?client_version=0.166.0&model=m")
        missing = await client.get("/v1/models?client_version=0.166.0&model=none")
    assert found.json()["models"][0]["slug"] == "m"
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.requirement("PROTOCOL/endpoints-capabilities")
async def test_the_capabilities_of_a_model(open_client: OpenClient) -> None:
    async with open_client(Model([])) as client:
        answer = await client.get("/v1/models/m/capabilities")
        missing = await client.get("/v1/models/none/capabilities")
        wrong = await client.post("/v1/models/m/capabilities")
    body = answer.json()
    assert (body["object"], body["model"], body["context_window"]) == ("model.capabilities", "m", 8192)
    assert body["features"]["images"] == {"level": "native"}
    assert body["service"]["state"] == {"level": "native"}
    assert body["routes"][0]["features"] == body["features"]
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
    assert wrong.status_code == 405


async def test_a_stateless_profile_is_reported(open_client: OpenClient) -> None:
    async with open_client(
        Model([]), app_options=options(profiles=Profiles(PROFILES, PROFILES["maestro"]))
    ) as client:
        stateless = (await client.get("/v1/models/m/capabilities")).json()
    async with open_client(Model([]), app_options=options(keeps=False, websocket=False)) as client:
        without_store = (await client.get("/v1/models/m/capabilities")).json()
    assert stateless["service"]["state"]["level"] == "unsupported"
    assert [without_store["service"][name]["level"] for name in ("state", "websocket")] == ["unsupported"] * 2
