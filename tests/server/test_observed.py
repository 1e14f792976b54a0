"""Lists, usage and upstreams over HTTP."""

import csv
import io
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import ADMIN, READ
from antiphon.errors import BackendRefused
from tests.server.stateful import ServerUnderTest, open_server
from tests.service.conftest import MakeCreator


async def get(server: ServerUnderTest, path: str, **headers: str) -> Any:
    answer = await server.client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_list_of_responses_has_summaries_without_items(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        first = await server.created(input="What is it?")
        second = await server.created(previous_response_id=first["id"])
        page = await get(server, "/v1/responses?limit=1")
        rest = await get(server, f"/v1/responses?after={page['last_id']}")
    assert (page["object"], page["has_more"], rest["has_more"]) == ("list", True, False)
    assert page["first_id"] == page["last_id"] == second["id"]
    [summary] = rest["data"]
    assert summary["object"] == "response.summary"
    assert (summary["id"], summary["status"], summary["model"]) == (first["id"], "completed", "m")
    assert (summary["input_preview"], summary["output_preview"]) == ("What is it?", "Hello")
    assert page["data"][0]["previous_response_id"] == first["id"]
    assert "output" not in summary


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("status=done", "status"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("order=up", "order"),
        ("created_after=x", "created_after"),
        ("created_before=-1", "created_before"),
        ("background=perhaps", "background"),
        (f"text={'x' * 501}", "text"),
        ("text=%00", "text"),
        ("after=resp_none", "after"),
        ("before=resp_none", "after"),
    ],
)
async def test_a_filter_that_is_invalid_is_named(make_creator: MakeCreator, query: str, param: str) -> None:
    async with open_server(make_creator) as server:
        answer = await server.client.get(f"/v1/responses?{query}")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_an_empty_filter_filters_nothing(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        await server.created()
        assert len((await get(server, "/v1/responses?status=&model=&text=&tool="))["data"]) == 1


async def test_a_chain_is_the_same_from_each_of_its_responses(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        first = (await server.created())["id"]
        second = (await server.created(previous_response_id=first))["id"]
        fork = (await server.created(previous_response_id=first))["id"]
        trees = [await get(server, f"/v1/responses/{each}/chain") for each in (first, second, fork)]
    assert trees[0]["root"] == first
    assert {node["id"]: node["parent"] for node in trees[0]["nodes"]} == {
        first: None,
        second: first,
        fork: first,
    }
    assert all(tree["nodes"] == trees[0]["nodes"] for tree in trees)


async def test_conversations_are_listed(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        made = (await server.client.post("/v1/conversations", json={"metadata": {"a": "b"}})).json()
        await server.created(conversation=made["id"])
        page = await get(server, "/v1/conversations")
    [found] = page["data"]
    assert (found["id"], found["metadata"], found["response_count"]) == (made["id"], {"a": "b"}, 1)


async def test_usage_is_counted_per_model(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        for _ in range(3):
            await server.created()
        page = await get(server, "/v1/usage?bucket=hour&group_by=model,upstream&start=0&end=7200")
        [bucket] = page["data"]
    assert (bucket["object"], bucket["start"], bucket["end"]) == ("usage.bucket", 0, 3600)
    assert (bucket["model"], bucket["upstream"], bucket["key_id"]) == ("m", "scripted", None)
    assert (bucket["responses"], bucket["errors"]) == (3, 0)
    assert set(bucket["total_ms"]) == {"p50", "p95", "p99"}


@pytest.mark.parametrize("how", ["?format=csv", "accept"])
async def test_usage_is_a_table_that_spreadsheets_take_literally(make_creator: MakeCreator, how: str) -> None:
    async with open_server(make_creator) as server:
        await server.created()
        path, headers = ("/v1/usage", {"accept": "text/csv"}) if how == "accept" else (f"/v1/usage{how}", {})
        answer = await server.client.get(path, headers=headers)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert 'filename="usage.csv"' in answer.headers["content-disposition"]
    head, row = csv.reader(io.StringIO(answer.text))
    assert dict(zip(head, row, strict=True))["responses"] == "1"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("bucket=week", "bucket"),
        ("group_by=colour", "group_by"),
        ("start=5&end=4", "start"),
        ("start=0&end=100000000&bucket=hour", "start"),
        ("format=xml", "format"),
        ("start=x", "start"),
    ],
)
async def test_a_question_about_usage_that_is_invalid_is_named(
    make_creator: MakeCreator, query: str, param: str
) -> None:
    async with open_server(make_creator) as server:
        answer = await server.client.get(f"/v1/usage?{query}")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_upstreams_show_their_health_and_their_errors_to_admins_only(
    make_creator: MakeCreator,
) -> None:
    refusal = [BackendRefused("overloaded", status=503)]
    async with open_server(make_creator, ScriptedBackend(refusal)) as server:
        reader, admin = (
            await server.new_key("t", "responses:write", READ),
            await server.new_key("t", ADMIN, READ),
        )
        for _ in range(2):
            await server.client.post("/v1/responses", json={"model": "m", "input": "x"}, headers=reader)
        [shown] = (await server.client.get("/v1/upstreams", headers=reader)).json()["data"]
        [complete] = (await server.client.get("/v1/upstreams", headers=admin)).json()["data"]
    assert (shown["name"], shown["kind"], shown["models"]) == ("scripted", "custom", ["m"])
    assert (shown["requests"], shown["failures"]) == (2, 2)
    assert (shown["last_error"], complete["last_error"]) == (None, "status 503")
    assert shown["concurrency"] == {"limit": None, "in_use": 0, "waiting": 0}


async def test_an_upstream_that_answers_has_times(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        await server.created()
        [shown] = (await get(server, "/v1/upstreams"))["data"]
    assert (shown["requests"], shown["failures"], shown["circuit"]) == (1, 0, "closed")
    assert shown["first_token_ms"]["p50"] >= 0


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/usage", "/v1/conversations", "/v1/upstreams", "/v1/lookup/resp_x"]
)
async def test_these_lists_need_the_scope_of_reading(make_creator: MakeCreator, path: str) -> None:
    async with open_server(make_creator) as server:
        headers = await server.new_key("t", "responses:write")
        answer = await server.client.get(path, headers=headers)
        assert answer.status_code == 403
        assert (await server.client.get(path)).status_code == 401


async def test_a_tenant_sees_its_own_responses_only(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        owner, other = await server.new_key("owner"), await server.new_key("other")
        await server.client.post("/v1/responses", json={"model": "m", "input": "x"}, headers=owner)
        for path in ("/v1/responses", "/v1/usage", "/v1/conversations"):
            assert (await server.client.get(path, headers=other)).json()["data"] == []
