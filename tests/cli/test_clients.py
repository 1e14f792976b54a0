"""Calling a foreign server over HTTP, with arbitrary behaviour."""

import json
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web

from antiphon.errors import Unauthorized
from tests.cli.conftest import Run
from tests.cli.http_thread import serving

BODY: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "theirs",
    "output": [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}},
        {"type": "message", "content": [{"type": "output_text", "text": "Found it.", "annotations": []}]},
    ],
    "usage": None,
    "news": "a field that nobody knows",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextmanager
def responding(handler: Handler) -> Generator[str, None, None]:
    app = web.Application()
    app.router.add_post("/v1/responses", handler)
    app.router.add_get("/v1/models", _models)
    with serving(app) as url:
        yield url


async def _models(_request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "theirs", "object": "model"}]})


def answering(body: object, status: int = 200) -> Handler:
    async def handle(_request: web.Request) -> web.Response:
        if isinstance(body, str):
            return web.Response(text=body, status=status, content_type="text/html")
        return web.json_response(body, status=status)

    return handle


def streaming(*events: dict[str, Any]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    return handle


def delta(text: str, kind: str = "output_text") -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "delta": text, "obfuscation": "xyz"}


def test_unknown_members_of_an_answer_are_ignored(run: Run) -> None:
    with responding(answering(BODY)) as url:
        text, complete = run("ask", "Hi", "--base-url", url), run("ask", "Hi", "--json", "--base-url", url)
    assert (text.exit_code, text.stdout) == (0, "Found it.\n")
    assert json.loads(complete.stdout) == BODY


def test_a_stream_is_printed_as_it_arrives(run: Run) -> None:
    events = [
        {"type": "response.created", "response": {**BODY, "status": "in_progress"}},
        delta("thinking", "reasoning_summary_text"),
        {"type": "response.content_part.added", "part": {"type": "output_text"}},
        delta("Found"),
        delta(" it."),
        {"type": "response.content_part.added", "part": {"type": "refusal"}},
        delta("No more.", "refusal"),
        {"type": "some.new.event"},
        {"type": "response.completed", "response": BODY},
    ]
    with responding(streaming(*events)) as url:
        result = run("ask", "Hi", "--stream", "--base-url", url)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Found it.\nNo more.\n", "")


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([delta("Once")], "closed the stream before the response ended"),
        ([delta("Once"), {"type": "error", "error": {"message": "out of tokens"}}], "out of tokens"),
        ([delta("Once"), {"type": "error", "message": "flat words"}], "flat words"),
        (
            [delta("Once"), {"type": "response.failed", "response": {**BODY, "status": "failed", "error": {"code": "x", "message": "it broke"}}}],
            "it broke",
        ),
        ([delta("Once"), {"type": "response.completed", "response": {"object": "response"}}], "not a response object"),
    ],
)  # fmt: skip
def test_a_stream_that_ends_badly_is_a_failure(run: Run, events: list[dict[str, Any]], message: str) -> None:
    with responding(streaming(*events)) as url:
        result = run("ask", "Hi", "--stream", "--base-url", url)
    assert (result.exit_code, result.stdout) == (1, "Once\n")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (400, {"error": {"message": "no such thing"}}, 2, "no such thing"),
        (
            401,
            {"error": {"message": "who are you?"}},
            2,
            "who are you? (the key is taken from ANTIPHON_API_KEY)",
        ),
        (
            401,
            {"error": {"message": Unauthorized().message}},
            2,
            "as `Authorization: Bearer KEY` or `x-api-key: KEY`. (the key is taken from ANTIPHON_API_KEY)",
        ),
        (404, "<h1>Not Found</h1>", 2, "answered with status 404: Not Found"),
        (429, {"error": {"message": "slow down"}}, 1, "slow down"),
        (500, {"detail": "other shape"}, 1, "answered with status 500"),
        (302, "", 1, "answered with status 302"),
        (200, "<html>login</html>", 1, "which cannot be read: login"),
        (200, {"hello": "world"}, 1, "not a response object"),
    ],
)
def test_a_refusal_is_reported_with_the_message_of_the_server(
    run: Run, status: int, body: object, code: int, message: str
) -> None:
    with responding(answering(body, status)) as url:
        result = run("ask", "Hi", "--base-url", url)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr


def test_a_non_streamed_answer_is_reported_with_the_remedy(run: Run) -> None:
    with responding(answering(BODY)) as url:
        result = run("ask", "Hi", "--stream", "--base-url", url)
    assert result.exit_code == 1
    assert "--no-stream" in result.stderr


def test_the_path_is_added_to_an_address_without_one(run: Run) -> None:
    with responding(answering(BODY)) as url:
        assert run("ask", "Hi", "--base-url", url.removesuffix("/v1")).exit_code == 0
        assert run("ask", "Hi", "--base-url", url + "/").exit_code == 0


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8080",
        "ftp://localhost",
        "http://",
        "http://localhost:many",
        "http://u:hidden-word@localhost",
    ],
)
def test_an_invalid_address_is_wrong_usage(run: Run, url: str) -> None:
    result = run("ask", "Hi", "--base-url", url)
    assert result.exit_code == 2
    assert "base_url" in result.stderr
    assert "hidden-word" not in result.stderr


def test_a_server_that_is_not_there_is_a_failure(run: Run) -> None:
    result = run("ask", "Hi", "--base-url", "http://127.0.0.1:1/v1")
    assert result.exit_code == 1
    assert "'http://127.0.0.1:1/v1' cannot be reached: Connection refused." in result.stderr
