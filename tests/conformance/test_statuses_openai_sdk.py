"""What the official `openai` SDK raises or returns for each status that was corrected after recordings of the
real API: the exception, its code, its parameter and its message."""

from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, cast

import openai
import pytest
from openai.types.responses import Response

from tests.serving import Served, run_server
from tests.upstream import Upstream

KEY = "the-key-of-the-server"
Call = Callable[[openai.AsyncOpenAI], Awaitable[object]]


async def error_of(call: Awaitable[object], kind: type[openai.APIStatusError]) -> openai.APIStatusError:
    """The exception, which must be of exactly this class."""
    with pytest.raises(openai.APIStatusError) as caught:
        await call
    assert type(caught.value) is kind
    return caught.value


def message_of(error: openai.APIStatusError) -> str:
    return cast("dict[str, Any]", error.body)["message"]


@pytest.mark.requirement("PROTOCOL/errors-previous")
@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_previous_response(client: openai.AsyncOpenAI, stream: bool) -> None:
    call = client.responses.create(model="echo", input="x", previous_response_id="resp_nope", stream=stream)
    error = await error_of(call, openai.BadRequestError)
    assert (error.status_code, error.code, error.param, error.type) == (
        400,
        "previous_response_not_found",
        "previous_response_id",
        "invalid_request_error",
    )
    assert message_of(error) == "Previous response with id 'resp_nope' not found."


async def _create(client: openai.AsyncOpenAI, **params: Any) -> object:
    return await _unstreamed(client, {"model": "echo", "input": "x", **params})


async def _first_page(client: openai.AsyncOpenAI) -> object:
    return await client.responses.input_items.list("nope")


WRONG_FORMS: dict[str, tuple[Call, str, str]] = {
    "previous": (lambda client: _create(client, previous_response_id="nope"), "previous_response_id", "resp"),
    "conversation": (lambda client: _create(client, conversation="nope"), "conversation", "conv"),
    "retrieve": (lambda client: client.responses.retrieve("nope"), "response_id", "resp"),
    "delete": (lambda client: client.responses.delete("nope"), "response_id", "resp"),
    "cancel": (lambda client: client.responses.cancel("nope"), "response_id", "resp"),
    "input items": (_first_page, "response_id", "resp"),
    "conversations": (lambda client: client.conversations.retrieve("nope"), "conversation_id", "conv"),
}


@pytest.mark.requirement("PROTOCOL/errors-id-form")
@pytest.mark.parametrize("name", WRONG_FORMS)
async def test_an_id_of_a_wrong_form(client: openai.AsyncOpenAI, name: str) -> None:
    call, param, prefix = WRONG_FORMS[name]
    error = await error_of(call(client), openai.BadRequestError)
    assert (error.status_code, error.code, error.param) == (400, "invalid_value", param)
    assert message_of(error) == f"Invalid '{param}': 'nope'. Expected an ID that begins with '{prefix}'."


UNKNOWN: dict[str, tuple[Call, str]] = {
    "retrieve": (lambda client: client.responses.retrieve("resp_nope"), "resp_nope"),
    "delete": (lambda client: client.responses.delete("resp_nope"), "resp_nope"),
    "cancel": (lambda client: client.responses.cancel("resp_nope"), "resp_nope"),
    "conversation": (lambda client: client.conversations.retrieve("conv_nope"), "conv_nope"),
    "in a conversation": (lambda client: _create(client, conversation="conv_nope"), "conv_nope"),
}


@pytest.mark.requirement("PROTOCOL/errors-response", "PROTOCOL/conversations-unknown")
@pytest.mark.parametrize("name", UNKNOWN)
async def test_an_unknown_id_of_the_right_form(client: openai.AsyncOpenAI, name: str) -> None:
    call, value = UNKNOWN[name]
    error = await error_of(call(client), openai.NotFoundError)
    assert error.status_code == 404
    assert value in message_of(error)


async def _streamed(client: openai.AsyncOpenAI, params: Any) -> Response:
    async with client.responses.stream(**params) as events:
        return await events.get_final_response()


async def _unstreamed(client: openai.AsyncOpenAI, params: Any) -> Response:
    responses: Any = client.responses  # its overloads need to know the parameters
    return await responses.create(**params)


@pytest.mark.requirement("PROTOCOL/conversations-unstored")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_without_storing(client: openai.AsyncOpenAI, stream: bool) -> None:
    items: Any = [{"role": "user", "content": "My name is Ada."}]
    conversation = await client.conversations.create(items=items)
    params: Any = {
        "model": "transcript",
        "input": "Who am I?",
        "conversation": conversation.id,
        "store": False,
    }
    response = await (_streamed(client, params) if stream else _unstreamed(client, params))
    assert response.output_text == '["My name is Ada.", "Who am I?"]'
    kept = [item async for item in client.conversations.items.list(conversation.id)]
    assert len(kept) == 1
    await error_of(client.responses.retrieve(response.id), openai.NotFoundError)


@pytest.mark.requirement("PROTOCOL/background-cancel-foreground")
async def test_the_cancellation_of_a_synchronous_response(client: openai.AsyncOpenAI) -> None:
    created = await client.responses.create(model="echo", input="x")
    error = await error_of(client.responses.cancel(created.id), openai.BadRequestError)
    assert error.status_code == 400
    assert message_of(error) == "Cannot cancel a synchronous response."


@pytest.mark.requirement("PROTOCOL/object-billing", "PROTOCOL/object-conversation-absent")
async def test_the_members_of_a_response(client: openai.AsyncOpenAI) -> None:
    response = await client.responses.create(model="echo", input="x", reasoning={"summary": "auto"})
    sent = response.to_dict()
    assert (sent["billing"], sent["moderation"]) == ({"payer": "developer"}, None)
    assert "conversation" not in sent
    assert response.conversation is None
    assert response.usage is not None
    assert "cache_write_tokens" in response.usage.input_tokens_details.to_dict()
    assert "summary" in str(sent["downgrades"])


@pytest.mark.requirement("PROTOCOL/compat-chat-reasoning")
async def test_reasoning_on_the_chat_endpoint(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="reasoning", messages=[{"role": "user", "content": "x"}]
    )
    sent = answer.choices[0].message.model_extra or {}
    assert (sent["reasoning_content"], sent["reasoning"]) == ("Let me think.", "Let me think.")


@pytest.fixture(scope="module")
def locked(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    """A server that needs a key."""
    folder: Path = tmp_path_factory.mktemp("locked")
    environment = {"ANTIPHON_SERVER__API_KEYS": f'["{KEY}"]'}
    options = ("--upstream", upstream.url, "--log-level", "warning")
    with run_server(folder, *options, environment=environment) as served:
        yield served


KEYS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "missing": ("none", {"Authorization": openai.Omit()}, "missing_api_key", "This server needs an API key."),
    "wrong": ("sk-wrong", {}, "invalid_api_key", "Incorrect API key."),
}


@pytest.mark.requirement("PROTOCOL/errors-key", "PROTOCOL/errors-key-missing")
@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_missing_key_and_a_wrong_key(locked: Served, name: str, stream: bool) -> None:
    key, headers, code, says = KEYS[name]
    options: Any = {"base_url": locked.base_url, "api_key": key, "max_retries": 0}
    async with openai.AsyncOpenAI(**options) as client:
        call = client.responses.create(model="echo", input="x", stream=stream, extra_headers=headers)
        error = await error_of(call, openai.AuthenticationError)
    assert (error.status_code, error.code, error.param) == (401, code, None)
    assert message_of(error).startswith(says)
    assert error.response.headers["www-authenticate"].startswith("Bearer")


async def test_the_right_key(locked: Served) -> None:
    async with openai.AsyncOpenAI(base_url=locked.base_url, api_key=KEY, max_retries=0) as client:
        assert (await client.responses.create(model="echo", input="x")).status == "completed"
