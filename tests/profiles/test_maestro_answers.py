"""The `maestro` profile's answers: output, events, ids, errors."""

import logging
import re
from typing import Any

import pytest

from antiphon import ScriptedBackend
from antiphon.errors import BackendBroken, BackendError, BackendRefused, BackendTimeout, BackendUnreachable
from antiphon.turn.chunks import AnnotationAdded, Failed, Finished, ReasoningDelta, TextDelta, UsageReported
from tests.profiles.gateway import LISTEN, LOOK, USAGE, call, gateway, refusal_of, text_of, two_calls
from tests.turn.order import check_order

CITATION: dict[str, Any] = {"type": "url_citation", "url": "https://example.com", "start_index": 0, "end_index": 1}  # fmt: skip
MIXED = [TextDelta("Let me "), TextDelta("look."), *two_calls()]


@pytest.mark.requirement(
    "SEED-002/comparison-endpoint", "SEED-002/comparison-output", "SEED-002/output-text", "SEED-002/flow-output"
)  # fmt: skip
async def test_text_is_a_message() -> None:
    async with gateway("maestro") as model:
        response = await model.answer()
        (message,) = response["output"]
        assert (message["type"], message["role"], text_of(message)) == ("message", "assistant", "Hello")
        assert message["content"][0]["type"] == "output_text"
        assert (response["object"], response["status"], response["model"]) == ("response", "completed", "m")
        assert response["error"] is None
        assert response["incomplete_details"] is None
        assert response["metadata"] == {}


@pytest.mark.requirement("SEED-002/output-call", "SEED-002/comparison-calls")
async def test_calls_are_separate_items_after_the_text() -> None:
    async with gateway("maestro", *MIXED) as model:
        message, look, listen = (await model.answer(tools=[LOOK, LISTEN]))["output"]
        assert text_of(message) == "Let me look."
        assert (look["type"], look["name"], look["arguments"]) == ("function_call", "look", '{"at":"sea"}')
        assert (listen["type"], listen["name"], listen["arguments"]) == ("function_call", "listen", "{}")


@pytest.mark.requirement("SEED-002/flow-stream", "SEED-002/flow-send")
async def test_a_stream_ends_with_the_json_answer() -> None:
    async with gateway("maestro", *MIXED, UsageReported(USAGE)) as model:
        streamed = (await model.stream(tools=[LOOK, LISTEN])).final
        assert len(model.backend.turns) == 1
        complete = await model.answer(tools=[LOOK, LISTEN])
        assert len(model.backend.turns) == 2
        for response in (streamed, complete):
            assert response["usage"]["total_tokens"] == 12
            for item in response["output"]:
                item["id"] = item["type"]
        assert streamed["output"] == complete["output"]


@pytest.mark.requirement(
    "SEED-002/stream-on-request",
    "SEED-002/stream-lifecycle",
    "SEED-002/stream-items",
    "SEED-002/stream-text",
    "SEED-002/stream-calls",
    "SEED-002/comparison-events",
)
async def test_the_events_of_a_stream_are_ordered_and_without_end_marker() -> None:
    async with gateway(
        "maestro", TextDelta("One."), *call(0, '{"at":', '"sea"}'), Finished("tool_calls")
    ) as model:
        streamed = await model.stream(tools=[LOOK])
        check_order(streamed.events)
        assert [block.name for block in streamed.blocks] == [event["type"] for event in streamed.events]
        assert streamed.kinds == [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]


@pytest.mark.requirement("SEED-002/stream-items")
async def test_text_after_a_call_is_a_new_message() -> None:
    model_chunks = [TextDelta("a"), *call(0, "{}"), TextDelta("b"), Finished("stop")]
    async with gateway("maestro", *model_chunks) as model:
        streamed = await model.stream(tools=[LOOK])
        check_order(streamed.events)
        assert [item["type"] for item in streamed.final["output"]] == ["message", "function_call", "message"]


@pytest.mark.requirement("SEED-002/limits-annotations")
async def test_annotations_are_always_empty() -> None:
    async with gateway("maestro", TextDelta("a"), AnnotationAdded(CITATION), Finished("stop")) as model:
        streamed = await model.stream()
        check_order(streamed.events)
        assert streamed.of("output_text.annotation.added") == []
        assert streamed.final["output"][0]["content"][0]["annotations"] == []


@pytest.mark.requirement("SEED-002/limits-reasoning")
async def test_reasoning_is_never_shown() -> None:
    async with gateway("maestro", ReasoningDelta("hm, well"), TextDelta("a"), Finished("stop")) as model:
        streamed = await model.stream()
        check_order(streamed.events)
        assert [item["type"] for item in streamed.final["output"]] == ["message"]
        assert "hm, well" not in "".join(block.data for block in streamed.blocks)


@pytest.mark.requirement(
    "SEED-002/ids-mark", "SEED-002/ids-response", "SEED-002/ids-message", "SEED-002/ids-function-call"
)
async def test_ids_have_the_profiles_format() -> None:
    async with gateway("maestro", *MIXED) as model:
        response = await model.answer(tools=[LOOK, LISTEN])
        stamp = re.fullmatch(r"resp_AM-(\d{13})-[a-z0-9]{8}", response["id"])
        assert stamp
        assert abs(int(stamp[1]) / 1000 - response["created_at"]) <= 1.5
        message, look, listen = response["output"]
        assert re.fullmatch(r"msg_AM-[a-z0-9]{12}", message["id"])
        for one in (look, listen):
            assert re.fullmatch(r"fc_AM-[a-z0-9]{12}", one["id"])
        assert len({response["id"], message["id"], look["id"], listen["id"]}) == 4
        assert (await model.answer(tools=[LOOK, LISTEN]))["id"] != response["id"]


@pytest.mark.requirement("SEED-002/ids-call")
async def test_a_call_id_is_the_upstreams_or_generated_in_the_profiles_format() -> None:
    model_chunks = [*call(0, "{}", call_id="call_theirs"), *call(1, "{}", call_id=""), Finished("tool_calls")]
    async with gateway("maestro", *model_chunks) as model:
        theirs, ours = (await model.answer(tools=[LOOK]))["output"]
        assert theirs["call_id"] == "call_theirs"
        assert re.fullmatch(r"call_AM-[a-z0-9]{12}", ours["call_id"])


@pytest.mark.requirement("SEED-002/errors-model-not-found", "SEED-002/flow-model")
@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_model_is_a_404(stream: bool) -> None:
    async with gateway("maestro", models=["gpt-5.1-codex"]) as model:
        status, error = refusal_of(
            await model.send({"model": "gpt-5-codex", "input": "hi", "stream": stream})
        )
        assert (status, error["type"], error["code"]) == (404, "invalid_request_error", "model_not_found")
        assert model.backend.turns == []


@pytest.mark.parametrize(
    ("requested", "served"),
    [
        ("gpt-5-codex", "gpt-5.1-codex"),
        ("gpt-5.1-codex", "gpt-5.1-codex"),
        ("GPT_4", "gpt-4o"),
        ("claude-opus-4-6", "claude-opus-4.6"),
    ],
)
async def test_a_similar_model_serves_if_the_operator_wants_that(requested: str, served: str) -> None:
    models = ["gpt-4o", "gpt-5.1-codex", "claude-opus-4.6", "claude-opus-4.6-1m"]
    async with gateway("maestro", models=models, similar_models=True) as model:
        reply = await model.send({"model": requested, "input": "hi"})
        assert reply.status_code == 200, reply.text
        assert reply.json()["model"] == requested
        assert model.turn.model == served


@pytest.mark.parametrize(
    ("only", "status"), [("gpt-5-mini", 200), ("gpt-5-mini-high-x", 404), ("llama-3", 404)]
)
async def test_a_model_that_is_not_similar_enough_does_not_serve(only: str, status: int) -> None:
    """Bigrams of `gpt5`: 3, shared with `gpt5mini`: 3 of 7; with `gpt5minihighx`: 3 of 12."""
    async with gateway("maestro", models=[only], similar_models=True) as model:
        assert (await model.send({"model": "gpt-5", "input": "hi"})).status_code == status


FAULTS = [
    BackendUnreachable("nobody is at home"),
    BackendTimeout("too late"),
    BackendBroken("gibberish"),
    BackendRefused("out of order", status=500),
    BackendRefused("overloaded", status=503),
]


@pytest.mark.requirement("SEED-002/errors-server", "SEED-002/errors-server-logged")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.message)
async def test_an_upstream_error_is_a_500_and_logged(
    fault: BackendError, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with gateway("maestro", ScriptedBackend([fault])) as model:
        status, error = await model.refusal(stream=stream)
        assert (status, error["type"]) == (500, "internal_error")
        assert fault.message in error["message"]
        assert fault.message in caplog.text


@pytest.mark.requirement("SEED-002/errors-server")
async def test_an_error_in_a_non_streamed_answer_is_a_500() -> None:
    async with gateway("maestro", TextDelta("half"), Failed(BackendBroken("gibberish"))) as model:
        status, error = await model.refusal()
        assert (status, error["type"]) == (500, "internal_error")


@pytest.mark.requirement("SEED-002/errors-streaming")
async def test_an_error_in_mid_stream_is_only_response_failed() -> None:
    async with gateway("maestro", TextDelta("half"), Failed(BackendBroken("gibberish"))) as model:
        streamed = await model.stream()
        check_order(streamed.events)
        assert "error" not in streamed.kinds
        assert streamed.kinds[-1] == "failed"
        assert streamed.blocks[-1].name == "response.failed"
        assert streamed.final["status"] == "failed"
        assert streamed.final["error"] == {"code": "server_error", "message": "gibberish"}
        assert streamed.final["id"] == streamed.events[0]["response"]["id"]


async def test_after_an_error_the_next_request_is_served() -> None:
    broken = [[TextDelta("half")], [Failed(BackendBroken("gibberish"))]]
    backend = ScriptedBackend(broken, [[TextDelta("fine"), Finished("stop")]])
    async with gateway("maestro", backend) as model:
        await model.stream()
        assert text_of((await model.answer())["output"][0]) == "fine"
