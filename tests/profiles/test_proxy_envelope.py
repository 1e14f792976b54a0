"""The `proxy` profile: the JSON answer, and rejected requests."""

import json
from typing import Any

import pytest

from antiphon.errors import BackendTimeout
from antiphon.turn.chunks import (
    Chunk,
    Failed,
    Finished,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from tests.profiles.gateway import (
    LISTEN,
    LOOK,
    USAGE,
    call,
    gateway,
    read_message,
    text_of,
    two_calls,
)

JsonObject = dict[str, Any]

MIXED: list[Chunk] = [TextDelta("Let me look."), *two_calls()]
TOOLS = {"tools": [LOOK, LISTEN]}
ZEROS = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


@pytest.mark.requirement(
    "SEED-003/objective-envelope",
    "SEED-003/A-object",
    "SEED-003/A-id",
    "SEED-003/A-created",
    "SEED-003/A-model",
    "SEED-003/A-output",
)
async def test_the_envelope() -> None:
    async with gateway("proxy") as model:
        response = await model.answer()
        assert response["object"] == "response"
        assert isinstance(response["id"], str)
        assert response["id"].startswith("resp_")
        assert type(response["created"]) is int
        assert response["created"] == response["created_at"]
        assert response["created"] < 10**10, "seconds"
        assert response["status"] == "completed"
        assert response["model"] == "m"
        assert isinstance(response["output"], list)


@pytest.mark.requirement("SEED-003/A-created")
async def test_created_is_there_wherever_the_response_is() -> None:
    async with gateway("proxy", state=True) as model:
        streamed = await model.stream()
        stored = (await model.client.get(f"/v1/responses/{streamed.final['id']}")).json()
        shown = [event["response"] for event in streamed.events if "response" in event]
        assert len(shown) == 3
        assert all(response["created"] == stored["created_at"] for response in [*shown, stored])


@pytest.mark.requirement(
    "SEED-003/A-status", "SEED-003/A-first-message", "SEED-003/A-first-content", "SEED-003/task1-text"
)
@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
async def test_how_an_answer_ended_is_its_status(reason: FinishReason, status: str, why: str | None) -> None:
    async with gateway("proxy", TextDelta("Hel"), Finished(reason)) as model:
        response = await model.answer()
        assert response["status"] == status
        assert response["incomplete_details"] == (None if why is None else {"reason": why})
        (message,) = response["output"]
        assert (message["type"], message["content"][0]["type"]) == ("message", "output_text")
        assert text_of(message) == "Hel"


@pytest.mark.requirement(
    "SEED-003/objective-calls",
    "SEED-003/verify-typing",
    "SEED-003/D1-message-position",
    "SEED-003/task1-text",
    "SEED-003/task1-calls",
    "SEED-003/task1-first-message",
    "SEED-003/task1-first-content",
    "SEED-003/task1-others",
    "SEED-003/task1-call-members",
    "SEED-003/A-first-message",
    "SEED-003/A-first-content",
    "SEED-003/A-calls",
    "SEED-003/A-call-members",
)
@pytest.mark.parametrize(
    ("script", "text"),
    [
        (MIXED, "Let me look."),
        ([*two_calls()[:-1], TextDelta("Let me look."), Finished("tool_calls")], "Let me look."),
        ([TextDelta("Let "), *two_calls()[:-1], TextDelta("me"), Finished("tool_calls")], "Let me"),
    ],
    ids=["text-first", "text-last", "text-around"],
)
async def test_the_message_is_first_and_each_call_is_a_separate_item(script: list[Chunk], text: str) -> None:
    async with gateway("proxy", *script) as model:
        message, *calls = (await model.answer(**TOOLS))["output"]
        assert (message["type"], text_of(message)) == ("message", text)
        assert [part["type"] for part in message["content"]] == ["output_text"]
        assert not {"call_id", "name", "arguments"} & set(message)
        assert [one["type"] for one in calls] == ["function_call", "function_call"]
        assert [(one["name"], one["arguments"]) for one in calls] == [
            ("look", '{"at":"sea"}'),
            ("listen", "{}"),
        ]
        for one in calls:
            assert {"id", "call_id", "name", "arguments"} <= set(one)
            assert "content" not in one


@pytest.mark.requirement("SEED-003/tests-call-only", "SEED-003/D1-message-position")
async def test_an_answer_with_only_calls_has_the_message_too() -> None:
    async with gateway("proxy", *two_calls()) as model:
        message, *calls = (await model.answer(**TOOLS))["output"]
        assert (message["type"], text_of(message)) == ("message", "")
        assert message["content"][0]["type"] == "output_text"
        assert len(calls) == 2


async def test_an_empty_answer_is_an_empty_message() -> None:
    async with gateway("proxy", Finished("stop")) as model:
        (message,) = (await model.answer())["output"]
        assert text_of(message) == ""


async def test_reasoning_is_hidden() -> None:
    async with gateway("proxy", ReasoningDelta("hm"), TextDelta("a"), Finished("stop")) as model:
        streamed = await model.stream()
        assert [item["type"] for item in streamed.final["output"]] == ["message"]
        assert "hm" not in "".join(block.data for block in streamed.blocks)
        assert [item["type"] for item in (await model.answer())["output"]] == ["message"]


async def test_a_refusal_is_the_second_part_of_the_message() -> None:
    async with gateway("proxy", RefusalDelta("I will "), RefusalDelta("not."), Finished("stop")) as model:
        (message,) = (await model.answer())["output"]
        text, refusal = message["content"]
        assert (text["type"], text["text"]) == ("output_text", "")
        assert refusal == {"type": "refusal", "refusal": "I will not."}


@pytest.mark.requirement(
    "SEED-003/D3-A-json", "SEED-003/task4-A-omitted", "SEED-003/A-usage-A", "SEED-003/verify-usage-default"
)
async def test_usage_is_there_only_if_it_was_reported() -> None:
    async with gateway("proxy") as model:
        assert "usage" not in await model.answer()
    async with gateway("proxy", *MIXED, UsageReported(USAGE)) as model:
        assert (await model.answer(**TOOLS))["usage"]["total_tokens"] == 12


@pytest.mark.requirement("SEED-003/D3-A-stream", "SEED-003/task4-A-omitted", "SEED-003/task4-A-no-report")
@pytest.mark.parametrize("requested", [True, False, None])
@pytest.mark.parametrize("reported", [True, False])
async def test_usage_is_in_a_stream_only_if_requested_and_reported(
    requested: bool | None, reported: bool
) -> None:
    script = [*MIXED, UsageReported(USAGE)] if reported else MIXED
    async with gateway("proxy", *script) as model:
        options = {} if requested is None else {"stream_options": {"include_usage": requested}}
        streamed = await model.stream(**TOOLS, **options)
        assert ("usage" in streamed.final) == (requested is True and reported)
        assert all("usage" not in event["response"] for event in streamed.of("created", "in_progress"))
        if requested and reported:
            assert streamed.final["usage"]["output_tokens"] == 5


@pytest.mark.requirement(
    "SEED-003/D3-B", "SEED-003/task4-B-zeros", "SEED-003/task4-B-attached", "SEED-003/A-usage-B"
)
async def test_by_the_other_policy_usage_is_always_there() -> None:
    async with gateway("proxy", usage_policy="zeros") as model:
        for response in (await model.answer(), (await model.stream()).final):
            assert {key: response["usage"][key] for key in ZEROS} == ZEROS
            assert response["usage"]["input_tokens_details"]["cached_tokens"] == 0
            assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 0
    async with gateway("proxy", *MIXED, UsageReported(USAGE), usage_policy="zeros") as model:
        for response in (await model.answer(**TOOLS), (await model.stream(**TOOLS)).final):
            assert response["usage"]["total_tokens"] == 12


@pytest.mark.requirement("SEED-003/tests-usage-map")
async def test_the_upstream_s_names_of_usage_become_ours() -> None:
    script = read_message(
        {"content": "hi"}, "stop", usage={"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    )
    async with gateway("proxy", *script) as model:
        usage = (await model.answer())["usage"]
        counts = {name: usage[name] for name in ZEROS}
        assert counts == {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
        assert "prompt_tokens" not in usage


REASONS = [
    ([TextDelta("a"), Finished("stop")], "stop"),
    (MIXED, "tool_calls"),
    ([Finished("length")], "length"),
]


@pytest.mark.requirement("SEED-003/task5-default", "SEED-003/verify-finish-reason")
@pytest.mark.parametrize(("script", "reason"), REASONS, ids=["stop", "tool_calls", "length"])
async def test_the_finish_reason_is_hidden_by_default(script: list[Chunk], reason: str) -> None:
    async with gateway("proxy", *script) as model:
        reply = await model.post(**TOOLS)
        assert "x-proxy-finish-reason" not in reply.headers
        assert "finish_reason" not in reply.text
        assert "_proxy" not in reply.json()
        streamed = await model.stream(**TOOLS)
        assert "finish_reason" not in "".join(block.data for block in streamed.blocks)
        assert "x-proxy-finish-reason" not in streamed.headers


@pytest.mark.requirement("SEED-003/task5-header")
@pytest.mark.parametrize(("script", "reason"), REASONS, ids=["stop", "tool_calls", "length"])
async def test_the_finish_reason_can_be_a_header(script: list[Chunk], reason: str) -> None:
    async with gateway("proxy", *script, finish_reason="header") as model:
        reply = await model.post(**TOOLS)
        assert reply.headers["x-proxy-finish-reason"] == reason
        assert "finish_reason" not in reply.text


@pytest.mark.requirement("SEED-003/task5-body", "SEED-003/task5-not-in-usage", "SEED-003/task5-not-in-output")
@pytest.mark.parametrize(("script", "reason"), REASONS, ids=["stop", "tool_calls", "length"])
async def test_the_finish_reason_can_be_an_extension_of_the_body(script: list[Chunk], reason: str) -> None:
    async with gateway("proxy", *script, UsageReported(USAGE), finish_reason="body") as model:
        reply = await model.post(**TOOLS)
        assert "x-proxy-finish-reason" not in reply.headers
        streamed = await model.stream(**TOOLS, stream_options={"include_usage": True})
        for response in (reply.json(), streamed.final):
            assert response["_proxy"] == {"finish_reason": reason}
            assert "finish_reason" not in json.dumps([response["usage"], response["output"]])


@pytest.mark.requirement("SEED-003/A-status")
async def test_a_failure_without_a_stream_is_an_error_and_the_next_request_is_served() -> None:
    async with gateway("proxy", *call(0, '{"at":'), Failed(BackendTimeout("too late"))) as model:
        status, error = await model.refusal(**TOOLS)
        assert (status, error["message"]) == (504, "too late")
