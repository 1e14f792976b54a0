"""Stored responses: retrieve, follow, delete, cancel, and list input items."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.caller import DEFAULT_TENANT
from antiphon.errors import InvalidRequest, StoreUnavailable
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response, new_response
from antiphon.server.types import Message, Scope
from antiphon.store.base import StoredResponse
from tests.server.stateful import Log, ServerUnderTest, open_server
from tests.service.conftest import MakeCreator

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "42"}


def queued(response_id: str = "resp_q") -> Response:
    request = create_from(model="m", input="x", background=True)
    return replace(new_response(request, id=response_id, created_at=1), status="queued")


async def ids_of(server: ServerUnderTest, path: str, **query: Any) -> tuple[list[str], bool]:
    answer = await server.client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    listed = answer.json()
    ids = [item["id"] for item in listed["data"]]
    assert listed["object"] == "list"
    assert (listed["first_id"], listed["last_id"]) == (ids[0] if ids else "", ids[-1] if ids else "")
    return ids, listed["has_more"]


@pytest.mark.requirement("PROTOCOL/state-retrieve-same")
async def test_a_retrieved_response_is_the_created_one_byte_for_byte(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        created = await server.client.post(
            "/v1/responses", json={"model": "m", "input": "hi", "metadata": {"a": "b"}}
        )
        retrieved = await server.client.get(f"/v1/responses/{created.json()['id']}")
        assert retrieved.status_code == 200
        assert retrieved.content == created.content


@pytest.mark.requirement("PROTOCOL/state-delete", "PROTOCOL/errors-response")
async def test_a_deleted_response_is_gone(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        created = await server.created()
        deleted = await server.client.delete(f"/v1/responses/{created['id']}")
        assert deleted.json() == {"id": created["id"], "object": "response", "deleted": True}
        for method, tail in (("GET", ""), ("DELETE", ""), ("GET", "/input_items")):
            answer = await server.client.request(method, f"/v1/responses/{created['id']}{tail}")
            assert answer.status_code == 404
            assert answer.json()["error"]["code"] == "not_found"


@pytest.mark.requirement("PROTOCOL/state-store-false")
async def test_a_response_that_was_not_stored_is_not_found(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        created = await server.created(store=False)
        assert (await server.client.get(f"/v1/responses/{created['id']}")).status_code == 404


@pytest.mark.requirement("PROTOCOL/errors-id-form")
@pytest.mark.parametrize(
    ("method", "path", "param"),
    [
        ("GET", "/v1/responses/msg_1", "response_id"),
        ("DELETE", "/v1/responses/1", "response_id"),
        ("POST", "/v1/responses/conv_1/cancel", "response_id"),
        ("GET", "/v1/responses/1/input_items", "response_id"),
        ("GET", "/v1/conversations/resp_1", "conversation_id"),
        ("GET", "/v1/conversations/1/items/msg_1", "conversation_id"),
        ("DELETE", "/v1/conversations/1", "conversation_id"),
    ],
)
async def test_an_id_of_another_form_is_rejected(
    make_creator: MakeCreator, method: str, path: str, param: str
) -> None:
    async with open_server(make_creator) as server:
        answer = await server.client.request(method, path)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_value", param)
    assert "begins with" in error["message"]


async def test_an_unfinished_response_is_cancelled_before_it_is_deleted(make_creator: MakeCreator) -> None:
    log = Log()
    async with open_server(make_creator, background=log) as server:
        log.response = queued()
        await server.services.store.responses.save(DEFAULT_TENANT, StoredResponse(response=queued()))
        assert (await server.client.delete("/v1/responses/resp_q")).json()["deleted"] is True
        assert log.cancelled == [(DEFAULT_TENANT, "resp_q")]
        assert (await server.client.get("/v1/responses/resp_q")).status_code == 404
        finished = await server.created()
        await server.client.delete(f"/v1/responses/{finished['id']}")
        assert len(log.cancelled) == 1


async def test_cancel_answers_with_the_response(make_creator: MakeCreator) -> None:
    log = Log()
    log.response = replace(queued(), status="cancelled")
    async with open_server(make_creator, background=log) as server:
        answer = await server.client.post("/v1/responses/resp_q/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert log.cancelled == [(DEFAULT_TENANT, "resp_q")]


@pytest.mark.parametrize(
    ("query", "after"),
    [
        ("stream=true", -1),
        ("stream=1&starting_after=0", 0),
        ("stream=True&starting_after=7&include_obfuscation=false", 7),
        ("stream=true&include[]=message.output_text.logprobs", -1),
    ],
)
@pytest.mark.requirement("PROTOCOL/background-resume", "PROTOCOL/divergence-include-later")
async def test_a_log_is_followed_from_the_last_received_event(
    make_creator: MakeCreator, query: str, after: int
) -> None:
    log = Log(b"event: a\ndata: {}\n\n", b"event: b\ndata: {}\n\n")
    async with open_server(make_creator, background=log) as server:
        answer = await server.client.get(f"/v1/responses/resp_q?{query}")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text == "event: a\ndata: {}\n\nevent: b\ndata: {}\n\ndata: [DONE]\n\n"
    assert log.follows == [(DEFAULT_TENANT, "resp_q", after)]


async def test_a_log_without_further_events_is_an_empty_stream(make_creator: MakeCreator) -> None:
    async with open_server(make_creator, background=Log()) as server:
        answer = await server.client.get("/v1/responses/resp_q?stream=true&starting_after=9")
    assert (answer.status_code, answer.text) == (200, "data: [DONE]\n\n")


@pytest.mark.requirement("PROTOCOL/background-resume-refused")
async def test_a_response_that_cannot_be_followed_is_rejected_with_a_status(
    make_creator: MakeCreator,
) -> None:
    log = Log(InvalidRequest("there is no log", param="stream"))
    async with open_server(make_creator, background=log) as server:
        answer = await server.client.get("/v1/responses/resp_q?stream=true")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream")


async def follow(server: ServerUnderTest, on_first: Callable[[], None]) -> list[Message]:
    """The messages that the server sends to a follower; `on_first` is called with the first piece."""
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)
        if len(sent) == 2:
            on_first()

    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/responses/resp_q",
        "query_string": b"stream=true",
        "headers": [(b"host", b"localhost")],
    }
    await server.app(scope, receive, send)
    return sent


async def test_a_truncated_stream_ends_without_the_done_marker(make_creator: MakeCreator) -> None:
    async with open_server(make_creator, background=Log(b"data: 1\n\n", StoreUnavailable())) as server:
        start, *bodies = await follow(server, lambda: None)
    assert start["status"] == 200
    assert [(body["body"], body.get("more_body", False)) for body in bodies] == [
        (b"data: 1\n\n", True),
        (b"", False),
    ]


async def test_a_server_that_ends_lets_its_followers_go(make_creator: MakeCreator) -> None:
    async with open_server(make_creator, background=Log(b"data: 1\n\n", asyncio.Event())) as server:
        _, *bodies = await asyncio.wait_for(follow(server, lambda: server.app.lifetimes.drain(0)), 10)
    assert bodies[-1]["body"] == b""
    assert not bodies[-1].get("more_body")


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("starting_after=1", "starting_after"),
        ("stream=true&starting_after=-1", "starting_after"),
        ("stream=true&starting_after=x", "starting_after"),
        ("stream=true&starting_after=²", "starting_after"),
        ("stream=true&starting_after=", "starting_after"),
        ("stream=maybe", "stream"),
        ("stream=true&stream=false", "stream"),
        ("include=everything", "include"),
        ("include[]=message.output_text.logprobs&include[]=all", "include"),
        ("include_obfuscation=2", "include_obfuscation"),
    ],
)
async def test_an_invalid_query_parameter_is_reported(
    make_creator: MakeCreator, query: str, param: str
) -> None:
    async with open_server(make_creator, background=Log()) as server:
        answer = await server.client.get(f"/v1/responses/resp_x?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert answer.json()["error"]["code"] == "invalid_value"


async def test_too_many_parameters_are_rejected(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        answer = await server.client.get("/v1/responses/resp_x?" + "&".join(["a=b"] * 101))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_query")


@pytest.mark.requirement("PROTOCOL/state-input-items")
async def test_input_items_are_the_history_and_the_input_newest_first(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        first = await server.created(input="one")
        second = await server.created(input="two", previous_response_id=first["id"])
        path = f"/v1/responses/{second['id']}/input_items"
        data = (await server.client.get(path)).json()["data"]
        assert [(item["role"], item["content"][0]["text"]) for item in data] == [
            ("user", "two"),
            ("assistant", "Hello"),
            ("user", "one"),
        ]
        newest_first, _ = await ids_of(server, path)
        assert await ids_of(server, path, order="asc") == (newest_first[::-1], False)
        assert await ids_of(server, path, limit=2) == (newest_first[:2], True)
        assert await ids_of(server, path, limit=2, after=newest_first[1]) == (newest_first[2:], False)
        assert await ids_of(server, path, before=newest_first[1]) == (newest_first[:1], False)
        assert await ids_of(server, path, after=newest_first[2]) == ([], False)


@pytest.mark.requirement("PROTOCOL/items-listed-whole")
async def test_listed_items_are_complete(make_creator: MakeCreator) -> None:
    """Items that were sent in short form are listed in the form that the official client reads."""
    sent = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        CALL,
        OUTPUT,
        {"type": "acme:note", "id": "note_1", "text": "1"},
    ]
    async with open_server(make_creator) as server:
        created = await server.created(input=sent)
        listed = await server.client.get(f"/v1/responses/{created['id']}/input_items?order=asc")
    shown = [{**item, "id": ""} for item in listed.json()["data"]]
    assert shown == [
        {
            "type": "message",
            "id": "",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_text", "text": "q"}],
        },
        {
            "type": "message",
            "id": "",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}],
        },
        {**CALL, "id": "", "status": "completed"},
        {**OUTPUT, "id": "", "status": "completed"},
        {"type": "acme:note", "id": "", "text": "1"},
    ]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=ten", "limit"),
        ("order=up", "order"),
        ("include=x", "include"),
        ("after=msg_unknown", "after"),
        ("before=msg_unknown", "before"),
    ],
)
@pytest.mark.requirement("PROTOCOL/state-input-items-refused")
async def test_a_page_that_does_not_exist_is_rejected_by_name(
    make_creator: MakeCreator, query: str, param: str
) -> None:
    async with open_server(make_creator) as server:
        created = await server.created()
        answer = await server.client.get(f"/v1/responses/{created['id']}/input_items?{query}")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
