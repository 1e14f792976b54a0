"""Another tenant's objects do not exist, on every route, with identical answers. Keys are limited to their
scopes.
"""

import asyncio
import re
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import DELETE, READ, SCOPES, WRITE
from antiphon.embeddings.hashed import HashedEmbedder
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import new_response
from antiphon.server.routes.table import ROUTES
from antiphon.service.embeddings import Embeddings
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.service.responses.create import Creator
from antiphon.service.vector_stores.search import Passages
from antiphon.store.base import StoredResponse
from tests.server.stateful import ServerUnderTest, open_server
from tests.service.conftest import MakeCreator

Ids = dict[str, str]
Case = tuple[str, str, Any]

SENT = {"input": "more", "model": "m"}
REFERENCE = [{"type": "item_reference", "id": "{item}"}]
COUNT = "/v1/responses/input_tokens"
ITEMS = "/v1/conversations/{conversation}/items"
STORE = "/v1/vector_stores/{store}"
CONTAINER = "/v1/containers/{container}"
SEARCH = [{"type": "file_search", "vector_store_ids": ["{store}"]}]
UPLOADED = {"data": "content"}
"""A body that is sent as a form."""

CASES: list[Case] = [
    ("GET", "/v1/responses/{response}", None),
    ("GET", "/v1/responses/{running}?stream=true", None),
    ("DELETE", "/v1/responses/{response}", None),
    ("DELETE", "/v1/responses/{running}", None),
    ("POST", "/v1/responses/{running}/cancel", None),
    ("GET", "/v1/responses/{response}/input_items", None),
    ("GET", "/v1/responses/{response}/chain", None),
    ("GET", "/v1/responses/{response}/trace", None),
    ("GET", "/v1/responses/{running}/events", None),
    ("GET", "/v1/lookup/{response}", None),
    ("GET", "/v1/lookup/{conversation}", None),
    ("GET", "/v1/lookup/{file}", None),
    ("POST", "/v1/responses", {**SENT, "previous_response_id": "{response}"}),
    ("POST", "/v1/responses", {**SENT, "conversation": "{conversation}"}),
    ("POST", "/v1/responses", {**SENT, "input": REFERENCE}),
    ("POST", "/v1/responses", {**SENT, "tools": SEARCH}),
    ("POST", "/v1/responses", {**SENT, "background": True, "tools": SEARCH}),
    ("POST", "/v1/responses/compact", {**SENT, "previous_response_id": "{response}"}),
    ("POST", COUNT, {**SENT, "previous_response_id": "{response}"}),
    ("POST", COUNT, {**SENT, "conversation": {"id": "{conversation}"}}),
    ("POST", COUNT, {"input": REFERENCE}),
    ("GET", "/v1/conversations/{conversation}", None),
    ("POST", "/v1/conversations/{conversation}", {"metadata": {}}),
    ("DELETE", "/v1/conversations/{conversation}", None),
    ("POST", ITEMS, {"items": [{"role": "user", "content": "x"}]}),
    ("GET", ITEMS, None),
    ("GET", ITEMS + "/{item}", None),
    ("DELETE", ITEMS + "/{item}", None),
    ("GET", "/v1/files/{file}", None),
    ("GET", "/v1/files/{file}/content", None),
    ("DELETE", "/v1/files/{file}", None),
    ("POST", "/v1/uploads/{upload}/parts", UPLOADED),
    ("POST", "/v1/uploads/{upload}/complete", {"part_ids": ["{part}"]}),
    ("POST", "/v1/uploads/{upload}/cancel", None),
    ("GET", STORE, None),
    ("POST", STORE, {"name": "other"}),
    ("DELETE", STORE, None),
    ("POST", STORE + "/search", {"query": "x"}),
    ("POST", STORE + "/reindex", {}),
    ("POST", STORE + "/files", {"file_id": "{file}"}),
    ("GET", STORE + "/files", None),
    ("GET", STORE + "/files/{file}", None),
    ("POST", STORE + "/files/{file}", {"attributes": None}),
    ("DELETE", STORE + "/files/{file}", None),
    ("GET", STORE + "/files/{file}/content", None),
    ("POST", STORE + "/file_batches", {"file_ids": ["{file}"]}),
    ("GET", STORE + "/file_batches/{batch}", None),
    ("POST", STORE + "/file_batches/{batch}/cancel", None),
    ("GET", STORE + "/file_batches/{batch}/files", None),
    ("POST", "/v1/vector_stores", {"file_ids": ["{file}"]}),
    ("GET", CONTAINER, None),
    ("DELETE", CONTAINER, None),
    ("POST", CONTAINER + "/files", {"file_id": "{file}"}),
    ("GET", CONTAINER + "/files", None),
    ("GET", CONTAINER + "/files/{made}", None),
    ("GET", CONTAINER + "/files/{made}/content", None),
    ("DELETE", CONTAINER + "/files/{made}", None),
    ("POST", "/v1/containers", {"name": "n", "file_ids": ["{file}"]}),
]
"""Every route that names a stored object."""

UNKNOWN: Ids = {
    "response": "resp_none",
    "running": "resp_none",
    "conversation": "conv_none",
    "item": "msg_none",
    "file": "file-none",
    "upload": "upload_none",
    "part": "part_none",
    "store": "vs_none",
    "batch": "vsfb_none",
    "container": "cntr_none",
    "made": "cfile_none",
}


def with_file_search(make_creator: MakeCreator) -> MakeCreator:
    """Creators that serve `file_search` in the vector stores of the test."""

    def make(*backends: ScriptedBackend, **fields: object) -> Creator:
        stores = make_creator(*backends, **fields).store.vector_stores
        served = FileSearch(Passages(stores, Embeddings([HashedEmbedder()])))
        return make_creator(*backends, served_tools=(served,), **fields)

    return make


def spelled(case: Case) -> str:
    return f"{case[0]} {case[1]} {'' if case[2] is None else case[2]}".strip()


def fill(template: Any, ids: Ids) -> Any:
    """Fill the ids into the template."""
    if isinstance(template, str):
        return template.format(**ids)
    if isinstance(template, dict):
        return {key: fill(value, ids) for key, value in template.items()}  # pyright: ignore[reportUnknownVariableType] -- any JSON
    if isinstance(template, list):
        return [fill(value, ids) for value in template]  # pyright: ignore[reportUnknownVariableType] -- any JSON
    return template


async def answer_to(
    server: ServerUnderTest, case: Case, ids: Ids, headers: httpx2.Headers
) -> tuple[int, str]:
    """Status and body of the answer, with the ids of the request masked."""
    method, path, body = case
    sent = {"files": body} if body is UPLOADED else {"json": fill(body, ids)}
    answer = await server.client.request(method, fill(path, ids), headers=headers, **sent)
    text = answer.text
    for value in ids.values():
        text = text.replace(value, "ID")
    return answer.status_code, text


async def store_objects(server: ServerUnderTest, headers: httpx2.Headers) -> Ids:
    """Store one object of every kind."""
    sent = {"model": "m", "input": "hi"}
    traced = httpx2.Headers({**headers, "antiphon-trace": "record"})
    response = await server.client.post("/v1/responses", json=sent, headers=traced)
    running = await server.client.post("/v1/responses", json={**sent, "background": True}, headers=headers)
    items = [{"role": "user", "content": "x"}]
    conversation = (
        await server.client.post("/v1/conversations", json={"items": items}, headers=headers)
    ).json()
    listed = await server.client.get(f"/v1/conversations/{conversation['id']}/items", headers=headers)
    file = await server.client.post(
        "/v1/files", data={"purpose": "user_data"}, files={"file": ("a.txt", b"x")}, headers=headers
    )
    new = {"purpose": "user_data", "filename": "a", "bytes": 1, "mime_type": "text/plain"}
    upload = (await server.client.post("/v1/uploads", json=new, headers=headers)).json()
    part = await server.client.post(
        f"/v1/uploads/{upload['id']}/parts", files={"data": ("part", b"x")}, headers=headers
    )
    store = (await server.client.post("/v1/vector_stores", headers=headers)).json()
    batch = await server.client.post(
        f"/v1/vector_stores/{store['id']}/file_batches",
        json={"file_ids": [file.json()["id"]]},
        headers=headers,
    )
    container = (await server.client.post("/v1/containers", json={"name": "n"}, headers=headers)).json()
    made = await server.client.post(
        f"/v1/containers/{container['id']}/files", files={"file": ("a.txt", b"x")}, headers=headers
    )
    async with asyncio.timeout(30):
        while store["file_counts"]["completed"] == 0:
            store = (await server.client.get(f"/v1/vector_stores/{store['id']}", headers=headers)).json()
    return {
        "container": container["id"],
        "made": made.json()["id"],
        "store": store["id"],
        "batch": batch.json()["id"],
        "file": file.json()["id"],
        "upload": upload["id"],
        "part": part.json()["id"],
        "response": response.json()["id"],
        "running": running.json()["id"],
        "conversation": conversation["id"],
        "item": listed.json()["data"][0]["id"],
    }


async def are_there(server: ServerUnderTest, ids: Ids, headers: httpx2.Headers) -> bool:
    """Whether all objects are unchanged."""
    response = await server.client.get(f"/v1/responses/{ids['response']}", headers=headers)
    running = await server.client.get(f"/v1/responses/{ids['running']}", headers=headers)
    listed = await server.client.get(f"/v1/conversations/{ids['conversation']}/items", headers=headers)
    item_ids = [item["id"] for item in listed.json()["data"]]
    files = [file["id"] for file in (await server.client.get("/v1/files", headers=headers)).json()["data"]]
    upload = await server.services.store.files.upload("owner", ids["upload"])
    stores = (await server.client.get("/v1/vector_stores", headers=headers)).json()["data"]
    counts = [(store["id"], store["name"], store["file_counts"]["completed"]) for store in stores]
    made = await server.client.get(f"/v1/containers/{ids['container']}/files", headers=headers)
    made_ids = [file["id"] for file in made.json()["data"]]
    return (response.status_code, running.status_code, item_ids, files, upload.status, counts, made_ids) == (
        *(200, 200),
        [ids["item"]],
        [ids["file"]],
        "pending",
        [(ids["store"], None, 1)],
        [ids["made"]],
    )


@pytest.mark.requirement("VECTOR-STORES/store-tenants", "FILES/files-tenants")
@pytest.mark.parametrize("case", CASES, ids=spelled)
async def test_the_foreign_is_answered_like_the_unknown(make_creator: MakeCreator, case: Case) -> None:
    async with open_server(with_file_search(make_creator)) as server:
        owner, other = await server.new_key("owner"), await server.new_key("stranger")
        theirs = await store_objects(server, owner)
        foreign = await answer_to(server, case, theirs, other)
        assert foreign[0] == (400 if "previous_response_id" in (case[2] or {}) else 404)
        assert foreign == await answer_to(server, case, UNKNOWN, other)
        assert await are_there(server, theirs, owner)
        assert (await answer_to(server, case, theirs, owner))[0] == 200


@pytest.mark.parametrize(
    "case", [case for case in CASES if "{response}" in case[1] or "{conversation}" in case[1]], ids=spelled
)
async def test_the_deleted_is_answered_like_the_unknown(make_creator: MakeCreator, case: Case) -> None:
    async with open_server(make_creator) as server:
        owner = await server.new_key("owner")
        theirs = await store_objects(server, owner)
        await server.client.delete(f"/v1/responses/{theirs['response']}", headers=owner)
        await server.client.delete(f"/v1/conversations/{theirs['conversation']}", headers=owner)
        deleted = await answer_to(server, case, theirs, owner)
        assert deleted[0] == 404
        assert deleted == await answer_to(server, case, UNKNOWN, owner)


@pytest.mark.parametrize("case", [case for case in CASES if "{response}" in case[1]], ids=spelled)
async def test_the_expired_is_answered_like_the_unknown(make_creator: MakeCreator, case: Case) -> None:
    async with open_server(make_creator) as server:
        owner = await server.new_key("owner")
        response = new_response(create_from(model="m", input="x"), id="resp_old", created_at=1)
        stored = StoredResponse(response=replace(response, status="completed"), expires_at=2)
        await server.services.store.responses.save("owner", stored)
        expired = await answer_to(server, case, {**UNKNOWN, "response": "resp_old"}, owner)
        assert expired[0] == 404
        assert expired == await answer_to(server, case, UNKNOWN, owner)


def test_every_route_with_an_id_is_tried() -> None:
    tried = {
        f"{method} {re.sub(r'{(response|running|conversation|upload|store|container)}|(?<=/v1/files/){file}|(?<=/v1/lookup/){file}', '{id}', path)}".replace(
            "{item}", "{item_id}"
        )
        .replace("{file}", "{file_id}")
        .replace("{made}", "{file_id}")
        .replace("{batch}", "{batch_id}")
        for method, path, _ in CASES
    }
    others = ("/v1/agent/", "/v1/admin/")  # runs: test_agent_run_routes; keys belong to the operator
    routes = {route.name for route in ROUTES if "{id}" in route.path and not route.path.startswith(others)}
    assert routes <= {name.partition("?")[0] for name in tried}


SCOPE_OF = {"GET": READ, "DELETE": DELETE, "POST": WRITE}


@pytest.mark.parametrize("case", CASES, ids=spelled)
async def test_a_key_needs_the_scope_of_the_route_and_no_other(make_creator: MakeCreator, case: Case) -> None:
    needed = READ if case[1] in (COUNT, STORE + "/search") else SCOPE_OF[case[0]]
    async with open_server(with_file_search(make_creator)) as server:
        theirs = await store_objects(server, await server.new_key("owner"))
        others = await server.new_key("owner", *(scope for scope in SCOPES if scope != needed))
        status, text = await answer_to(server, case, theirs, others)
        assert status == 403
        assert needed in text
        assert (await answer_to(server, case, theirs, await server.new_key("owner", needed)))[0] == 200


async def test_models_and_health_need_no_scope(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        key = await server.new_key("owner", DELETE)
        for path in ("/v1/models", "/v1/models/m", "/healthz", "/readyz"):
            assert (await server.client.get(path, headers=key)).status_code == 200


async def test_embeddings_need_a_key_with_the_scope_of_writing(make_creator: MakeCreator) -> None:
    sent = {"model": "auto", "input": "x"}
    async with open_server(make_creator) as server:
        others = await server.client.post(
            "/v1/embeddings", json=sent, headers=await server.new_key("owner", READ, DELETE)
        )
        allowed = await server.client.post(
            "/v1/embeddings", json=sent, headers=await server.new_key("owner", WRITE)
        )
        keyless = await server.client.post("/v1/embeddings", json=sent)
    assert (keyless.status_code, others.status_code) == (401, 403)
    assert WRITE in others.text
    assert allowed.json()["error"]["code"] == "model_not_found"  # this server has no embedding model
