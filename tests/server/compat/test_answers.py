"""Answers of the compatible endpoints, through the application in memory on a scripted backend."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendRefused, BackendTimeout
from antiphon.protocol.content import Logprob, TopLogprob
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.items import Reasoning
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.protocol.tool_items import FileSearchCall
from antiphon.turn.chunks import (
    HEARTBEAT,
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Failed,
    Finished,
    HostedItemDone,
    ProviderStateAdded,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest
from antiphon.turn.provider_state import OpenedReasoning, ProviderState
from tests.server.compat.reading import chat_chunks, fold_chat, fold_message, message_events
from tests.server.conftest import OpenClient
from tests.turn.chunk_strategies import USAGE

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES: dict[str, Any] = {**CHAT, "max_tokens": 9}
CALL = [CallStarted(0, "call_1", "weather"), CallDelta(0, '{"city":'), CallDelta(0, '"Rome"}')]
CHAT_TOOL = {"type": "function", "function": {"name": "weather"}}
TOOL = {"name": "weather", "input_schema": {"type": "object"}}


async def test_a_chat_completion(open_client: OpenClient) -> None:
    script = [[TextDelta("Hel")], [TextDelta("lo")], [Finished("stop"), UsageReported(USAGE)]]
    async with open_client(ScriptedBackend(script)) as client:
        answer = await client.post("/v1/chat/completions", json=CHAT)
    assert answer.status_code == 200
    assert answer.headers["x-request-id"] == "req_1"
    completion = answer.json()
    assert completion.pop("id").startswith("chatcmpl-")
    assert completion == {
        "object": "chat.completion",
        "created": 1000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 5,
            "total_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        "service_tier": "default",
        "system_fingerprint": None,
    }


async def test_a_message(open_client: OpenClient) -> None:
    script = [[TextDelta("Hel")], [TextDelta("lo")], [Finished("stop"), UsageReported(USAGE)]]
    async with open_client(ScriptedBackend(script)) as client:
        answer = await client.post("/v1/messages?beta=true", json=MESSAGES)
    assert (answer.headers["x-request-id"], answer.headers["request-id"]) == ("req_1", "req_1")
    message = answer.json()
    assert message.pop("id").startswith("msg_")
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hello", "citations": None}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 2,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 1,
            "output_tokens": 5,
        },
    }


async def test_cache_writes_are_counted_separately(open_client: OpenClient) -> None:
    cost = Usage(10, InputTokensDetails(3, 4), 5, OutputTokensDetails(), 15)
    script = [[TextDelta("Hi")], [Finished("stop"), UsageReported(cost)]]
    async with open_client(ScriptedBackend(script)) as client:
        message = (await client.post("/v1/messages", json=MESSAGES)).json()
        response = (await client.post("/v1/responses", json={"model": "m", "input": "hi"})).json()
    assert message["usage"] == {
        "input_tokens": 3,
        "cache_creation_input_tokens": 4,
        "cache_read_input_tokens": 3,
        "output_tokens": 5,
    }
    assert response["usage"]["input_tokens_details"] == {"cached_tokens": 3, "cache_write_tokens": 4}


@pytest.mark.parametrize("wanted", [True, False])
async def test_usage_is_sent_last_on_request(open_client: OpenClient, wanted: bool) -> None:
    script = [[TextDelta("Hi")], [Finished("stop"), UsageReported(USAGE)]]
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": wanted}}
    async with open_client(ScriptedBackend(script)) as client:
        chunks = chat_chunks((await client.post("/v1/chat/completions", json=body)).text)
    assert [chunk["usage"]["total_tokens"] for chunk in chunks if chunk.get("usage")] == [8] * wanted
    assert (chunks[-1]["choices"] == []) is wanted
    assert all(("usage" in chunk) is wanted for chunk in chunks)


async def test_unreported_usage_is_null(open_client: OpenClient) -> None:
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    async with open_client(ScriptedBackend.saying("hi")) as client:
        chunks = chat_chunks((await client.post("/v1/chat/completions", json=body)).text)
        complete = await client.post("/v1/chat/completions", json=CHAT)
    assert all(chunk["usage"] is None for chunk in chunks)
    assert all(chunk["choices"] for chunk in chunks)
    assert complete.json()["usage"] is None


async def test_calls_with_and_without_text(open_client: OpenClient) -> None:
    both = [[TextDelta("Let me see."), *CALL, CallStarted(1, "call_2", "weather")], [Finished("tool_calls")]]
    backend = ScriptedBackend(both, both, both, [CALL, [Finished("tool_calls")]])
    async with open_client(backend) as client:
        body = {**CHAT, "tools": [CHAT_TOOL]}
        chat = (await client.post("/v1/chat/completions", json={**body, "stream": True})).text
        message = (await client.post("/v1/messages", json={**MESSAGES, "tools": [TOOL], "stream": True})).text
        complete = (await client.post("/v1/messages", json={**MESSAGES, "tools": [TOOL]})).json()
        calls_only = (await client.post("/v1/chat/completions", json=body)).json()
    first = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Rome"}'},
    }
    second = {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    assert fold_chat(chat)["message"] == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [first, second],
    }
    assert fold_chat(chat)["finish_reason"] == "tool_calls"
    for answer in (fold_message(message), complete):
        assert [block["type"] for block in answer["content"]] == ["text", "tool_use", "tool_use"]
        assert answer["content"][1] == {
            "type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Rome"},
        }  # fmt: skip
        assert answer["stop_reason"] == "tool_use"
    assert calls_only["choices"][0]["message"]["content"] is None
    assert calls_only["choices"][0]["message"]["tool_calls"] == [first]


async def test_an_answer_in_two_messages_is_one_text(open_client: OpenClient) -> None:
    script = [[TextDelta("One.")], CALL, [TextDelta("Two.")], [Finished("tool_calls")]]
    async with open_client(ScriptedBackend(script)) as client:
        body = {**CHAT, "tools": [CHAT_TOOL]}
        streamed = await client.post("/v1/chat/completions", json={**body, "stream": True})
        complete = await client.post("/v1/chat/completions", json=body)
    assert fold_chat(streamed.text)["message"]["content"] == "One.\n\nTwo."
    assert complete.json()["choices"][0]["message"]["content"] == "One.\n\nTwo."


async def test_custom_tools_in_chat(open_client: OpenClient) -> None:
    script = [
        [CallStarted(0, "call_1", "sql"), CallDelta(0, '{"input":"select 1"}')],
        [Finished("tool_calls")],
    ]
    body = {**CHAT, "tools": [{"type": "custom", "custom": {"name": "sql"}}]}
    async with open_client(ScriptedBackend(script)) as client:
        streamed = await client.post("/v1/chat/completions", json={**body, "stream": True})
        complete = await client.post("/v1/chat/completions", json=body)
    call = {"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    assert fold_chat(streamed.text)["message"]["tool_calls"] == [call]
    assert complete.json()["choices"][0]["message"]["tool_calls"] == [call]


async def test_functions_of_the_old_kind(open_client: OpenClient) -> None:
    script = [[*CALL, CallStarted(1, "call_2", "weather"), CallDelta(1, "{}")], [Finished("tool_calls")]]
    body = {**CHAT, "functions": [{"name": "weather"}]}
    async with open_client(ScriptedBackend(script)) as client:
        streamed = fold_chat((await client.post("/v1/chat/completions", json={**body, "stream": True})).text)
        complete = (await client.post("/v1/chat/completions", json=body)).json()
    called = {"name": "weather", "arguments": '{"city":"Rome"}'}
    assert streamed["message"]["function_call"] == called
    assert streamed["finish_reason"] == "function_call"
    assert complete["choices"][0]["message"]["function_call"] == called
    assert "tool_calls" not in complete["choices"][0]["message"]
    assert "the model called several functions" in complete["downgrades"][0]


@pytest.mark.parametrize(
    ("chunk", "finish", "stop"),
    [
        (Finished("stop"), "stop", "end_turn"),
        (Finished("length"), "length", "max_tokens"),
        (Finished("content_filter"), "content_filter", "refusal"),
    ],
)
async def test_reasons(open_client: OpenClient, chunk: Finished, finish: str, stop: str) -> None:
    async with open_client(ScriptedBackend([[TextDelta("hi")], [chunk]])) as client:
        chat = await client.post("/v1/chat/completions", json=CHAT)
        message = await client.post("/v1/messages", json=MESSAGES)
    assert chat.json()["choices"][0]["finish_reason"] == finish
    assert message.json()["stop_reason"] == stop


async def test_refusals(open_client: OpenClient) -> None:
    async with open_client(
        ScriptedBackend([[RefusalDelta("No"), RefusalDelta(".")], [Finished("stop")]])
    ) as client:
        chat = await client.post("/v1/chat/completions", json=CHAT)
        streamed = await client.post("/v1/chat/completions", json={**CHAT, "stream": True})
        message = await client.post("/v1/messages", json={**MESSAGES, "stream": True})
    assert (chat.json()["choices"][0]["message"]["content"], chat.json()["choices"][0]["message"]["refusal"]) == (None, "No.")  # fmt: skip
    assert fold_chat(streamed.text)["message"]["refusal"] == "No."
    assert fold_message(message.text)["content"] == [{"type": "text", "text": "No."}]
    assert fold_message(message.text)["stop_reason"] == "refusal"


async def test_logprobs_and_citations(open_client: OpenClient) -> None:
    token = Logprob("Hi", [72, 105], -0.5, [TopLogprob("Ho", None, -1.5)])
    cited = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
    script = [[TextDelta("Hi", (token,)), AnnotationAdded(cited), TextDelta("!")], [Finished("stop")]]
    body = {**CHAT, "logprobs": True, "top_logprobs": 1}
    async with open_client(ScriptedBackend(script)) as client:
        streamed = fold_chat((await client.post("/v1/chat/completions", json={**body, "stream": True})).text)
        choice = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]
        message = (await client.post("/v1/messages", json=MESSAGES)).json()
    wire = {"token": "Hi", "bytes": [72, 105], "logprob": -0.5, "top_logprobs": [{"token": "Ho", "bytes": None, "logprob": -1.5}]}  # fmt: skip
    assert choice["logprobs"] == {"content": [wire], "refusal": None}
    assert streamed["logprobs"] == [wire]
    annotation = {"type": "url_citation", "url_citation": {key: cited[key] for key in ("url", "title", "start_index", "end_index")}}  # fmt: skip
    assert choice["message"]["annotations"] == [annotation]
    assert streamed["message"]["annotations"] == [annotation]
    assert message["downgrades"] == [
        "citations are left out: this API requires the quoted text, which is not known"
    ]


async def test_omitted_params_are_reported(open_client: OpenClient) -> None:
    work = HostedItemDone(FileSearchCall(status="completed"))
    backend = ScriptedBackend([[work], [TextDelta("hi")], [Finished("stop")]])
    async with open_client(backend) as client:
        complete = (await client.post("/v1/chat/completions", json={**CHAT, "seed": 1})).json()
        streamed = await client.post("/v1/messages", json={**MESSAGES, "top_k": 1, "stream": True})
    untold = "items of type 'file_search_call' have no place in this API and are left out"
    assert complete["downgrades"] == ["not used here: seed", untold]
    assert fold_message(streamed.text)["downgrades"] == ["not used here: top_k", untold]
    assert [block["type"] for block in fold_message(streamed.text)["content"]] == ["text"]


async def test_responses_are_not_stored(open_client: OpenClient) -> None:
    async with open_client(ScriptedBackend.saying("hi")) as client:
        answer = (await client.post("/v1/chat/completions", json={**CHAT, "store": True})).json()
        retrieved = await client.get(f"/v1/responses/{answer['id'].replace('chatcmpl-', 'resp_')}")
    assert retrieved.status_code == 404


REASONING = [
    ReasoningDelta("Let me"),
    ReasoningDelta(" think."),
    ProviderStateAdded(ProviderState("maker", {"sig": "s"})),
]


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_thinking_block_is_sent_back_with_its_provider_state(
    open_client: OpenClient, streamed: bool
) -> None:
    backend = ScriptedBackend(
        [REASONING, CALL, [Finished("tool_calls")]], [[TextDelta("Done.")], [Finished("stop")]]
    )
    body = {**MESSAGES, "tools": [TOOL], "thinking": {"type": "enabled", "budget_tokens": 1024}}
    async with open_client(backend) as client:
        answer = await client.post("/v1/messages", json={**body, "stream": streamed})
        first = fold_message(answer.text) if streamed else answer.json()
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"}
        messages = [*body["messages"], {"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]  # fmt: skip
        second = await client.post("/v1/messages", json={**body, "messages": messages})
    assert [block["type"] for block in first["content"]] == ["thinking", "tool_use"]
    assert first["content"][0]["thinking"] == "Let me think."
    assert second.json()["content"][0]["text"] == "Done."
    reasoning = backend.turns[1].items[1]
    assert isinstance(reasoning, OpenedReasoning)
    assert reasoning.states_from("maker") == [{"sig": "s"}]
    assert reasoning.content
    assert reasoning.content[0].text == "Let me think."
    assert "downgrades" not in second.json()


async def test_a_thinking_block_without_text_is_redacted(open_client: OpenClient) -> None:
    backend = ScriptedBackend([REASONING[2:], [TextDelta("hi")], [Finished("stop")]])
    async with open_client(backend) as client:
        streamed = fold_message((await client.post("/v1/messages", json={**MESSAGES, "stream": True})).text)
        messages = [
            *MESSAGES["messages"],
            {"role": "assistant", "content": streamed["content"]},
            *MESSAGES["messages"],
        ]
        await client.post("/v1/messages", json={**MESSAGES, "messages": messages})
    assert [block["type"] for block in streamed["content"]] == ["redacted_thinking", "text"]
    reasoning = backend.turns[1].items[1]
    assert isinstance(reasoning, OpenedReasoning)
    assert reasoning.states_from("maker") == [{"sig": "s"}]


@pytest.mark.parametrize("streamed", [True, False])
async def test_thinking_with_omitted_display(open_client: OpenClient, streamed: bool) -> None:
    backend = ScriptedBackend([REASONING, [TextDelta("hi")], [Finished("stop")]])
    body = {**MESSAGES, "thinking": {"type": "adaptive", "display": "omitted"}, "stream": streamed}
    async with open_client(backend) as client:
        answer = await client.post("/v1/messages", json=body)
    message = fold_message(answer.text) if streamed else answer.json()
    assert message["content"][0]["thinking"] == ""
    assert message["content"][0]["signature"].startswith("antiphon2.")


@pytest.mark.requirement("PROTOCOL/compat-chat-reasoning")
async def test_reasoning_in_chat(open_client: OpenClient) -> None:
    async with open_client(ScriptedBackend([REASONING, [TextDelta("hi")], [Finished("stop")]])) as client:
        complete = (await client.post("/v1/chat/completions", json=CHAT)).json()["choices"][0]["message"]
        streamed = await client.post("/v1/chat/completions", json={**CHAT, "stream": True})
    assert (complete["reasoning_content"], complete["content"]) == ("Let me think.", "hi")
    assert complete["reasoning"] == complete["reasoning_content"]
    assert fold_chat(streamed.text)["message"]["reasoning_content"] == "Let me think."
    assert streamed.text.count('"reasoning":"') == streamed.text.count('"reasoning_content":"') > 0


@pytest.mark.requirement("PROTOCOL/compat-chat-reasoning")
@pytest.mark.parametrize(
    "names", [("reasoning_content",), ("reasoning",), ("reasoning_content", "reasoning")]
)
async def test_reasoning_in_chat_is_read_back_once(open_client: OpenClient, names: tuple[str, ...]) -> None:
    backend = ScriptedBackend.saying("hi")
    said = {"role": "assistant", "content": "Hm.", **dict.fromkeys(names, "Let me think.")}
    body = {**CHAT, "messages": [*CHAT["messages"], said, {"role": "user", "content": "And?"}]}
    async with open_client(backend) as client:
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    thoughts = [item for item in backend.turns[0].items if isinstance(item, Reasoning)]
    assert len(thoughts) == 1


async def test_signs_of_life(open_client: OpenClient) -> None:
    script: list[Step] = [HEARTBEAT, [TextDelta("hi")], HEARTBEAT, [Finished("stop")]]
    async with open_client(ScriptedBackend(script)) as client:
        chat = (await client.post("/v1/chat/completions", json={**CHAT, "stream": True})).text
        message = (await client.post("/v1/messages", json={**MESSAGES, "stream": True})).text
    assert chat.count(": still here\n\n") == 2
    assert fold_chat(chat)["message"]["content"] == "hi"
    assert [event["type"] for event in message_events(message)].count("ping") == 3


@pytest.mark.requirement("PROTOCOL/compat-errors")
async def test_an_error_in_mid_stream(open_client: OpenClient) -> None:
    script = [[TextDelta("half")], [Failed(BackendTimeout("Too slow."))]]
    async with open_client(ScriptedBackend(script)) as client:
        chat = (await client.post("/v1/chat/completions", json={**CHAT, "stream": True})).text
        message = (await client.post("/v1/messages", json={**MESSAGES, "stream": True})).text
    last = chat.removesuffix("\n\n").split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: ")) == {
        "error": {"message": "Too slow.", "type": "server_error", "param": None, "code": "upstream_timeout"}
    }
    assert message_events(message)[-1] == {
        "type": "error",
        "error": {"type": "timeout_error", "message": "Too slow."},
        "request_id": "req_1",
    }


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (BackendRefused("Busy.", status=529), "overloaded_error"),
        (BackendRefused("Busy.", status=503), "overloaded_error"),
        (BackendRefused("Slow down.", status=429), "rate_limit_error"),
        (BackendRefused("Odd.", status=502), "api_error"),
    ],
)
async def test_an_error_has_the_same_type_before_and_in_a_stream(
    open_client: OpenClient, fault: Any, kind: str
) -> None:
    script = [[TextDelta("half")], [Failed(fault)]]
    async with open_client(ScriptedBackend(script)) as client:
        streamed = (await client.post("/v1/messages", json={**MESSAGES, "stream": True})).text
        complete = (await client.post("/v1/messages", json=MESSAGES)).json()
    assert message_events(streamed)[-1] == complete
    assert complete["error"]["type"] == kind


async def test_a_bug_in_mid_stream(open_client: OpenClient) -> None:
    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("half")]
        raise ZeroDivisionError

    async with open_client(ScriptedBackend(steps)) as client:
        chat = (await client.post("/v1/chat/completions", json={**CHAT, "stream": True})).text
        message = (await client.post("/v1/messages", json={**MESSAGES, "stream": True})).text
    assert '"code":"internal_error"' in chat
    assert message_events(message)[-1]["error"]["type"] == "api_error"


async def test_a_client_disconnect_cancels_the_turn(open_client: OpenClient) -> None:
    let_go = asyncio.Event()

    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("one")]
            await asyncio.sleep(60)
        finally:
            let_go.set()

    async with open_client(ScriptedBackend(steps)) as client:
        async with client.stream("POST", "/v1/messages", json={**MESSAGES, "stream": True}) as answer:
            async for _ in answer.aiter_bytes():
                break
        async with asyncio.timeout(5):
            await let_go.wait()


async def test_arguments_that_are_no_object(open_client: OpenClient) -> None:
    script = [[CallStarted(0, "call_1", "weather"), CallDelta(0, '{"city":')], [Finished("length")]]
    async with open_client(ScriptedBackend(script)) as client:
        message = (await client.post("/v1/messages", json={**MESSAGES, "tools": [TOOL]})).json()
    assert message["content"][0]["input"] == {"INVALID_JSON": '{"city":'}
    assert message["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("streamed", [True, False])
async def test_downgrades_name_the_parameters_of_the_callers_api(
    open_client: OpenClient, streamed: bool
) -> None:
    class Cautious(ScriptedBackend):
        def prepare(self, turn: TurnRequest) -> Any:
            prepared = super().prepare(turn)
            prepared.downgrades = (
                Downgrade("not_sent", "not sent: {param}", ("max_output_tokens", "reasoning.effort")),
            )
            return prepared

    async with open_client(Cautious([[TextDelta("hi")], [Finished("stop")]])) as client:
        chat = await client.post("/v1/chat/completions", json={**CHAT, "stream": streamed})
        message = await client.post("/v1/messages", json={**MESSAGES, "stream": streamed})
    messages = [
        (fold_chat if streamed else json.loads)(chat.text)["downgrades"],
        (fold_message if streamed else json.loads)(message.text)["downgrades"],
    ]
    assert messages == [
        ["not sent: max_completion_tokens, reasoning_effort"],
        ["not sent: max_tokens, output_config.effort"],
    ]
