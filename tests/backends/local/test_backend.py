import asyncio
import importlib.util
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.backends.base import ModelInfo
from antiphon.backends.local.backend import REPEATED, LocalBackend
from antiphon.errors import (
    BackendBroken,
    BackendError,
    BackendRefused,
    SettingsError,
)
from antiphon.turn.chunks import CallDelta, CallStarted, DowngradesAdded, Failed, Finished, TextDelta
from tests.backends.local.fake_llama import Answer, FakeLlama, ending, looping, piece, sending
from tests.backends.local.turns import ADD, WEATHER, finish_of, run, text_of, usage_of


def by_schema(answers: dict[str, str], text: str = "Hello") -> Answer:
    """Answers a choice with `choice`, arguments with the other `answers`, and everything else with `text`."""

    def answer(body: dict[str, Any]) -> Iterable[bytes]:
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if "enum" in schema:
            return [piece(f'"{answers["choice"]}"'), *ending(prompt=100, completion=3, cached=10)]
        if "properties" in schema:
            return [*map(piece, answers["arguments"]), *ending(prompt=50, completion=7, cached=20)]
        return [piece(text), *ending()]

    return answer


async def test_an_answer_is_text_usage_and_the_reason_it_finished(backend: LocalBackend) -> None:
    chunks = await run(backend, input="Hi")
    assert [type(chunk).__name__ for chunk in chunks] == [
        "TextDelta",
        "TextDelta",
        "UsageReported",
        "Finished",
    ]
    assert text_of(chunks) == "Hello there"
    usage = usage_of(chunks)
    assert (usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens) == (5, 2, 1)


async def test_a_truncated_answer_finishes_with_length(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = sending([piece("Hel"), *ending("length")])
    assert finish_of(await run(backend, input="Hi", max_output_tokens=1)) == "length"


async def test_a_forced_call_is_one_request_and_streams_its_arguments(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    llama.answer = by_schema({"arguments": '{"a":1}'})
    chunks = await run(backend, input="1 plus 1?", tools=[ADD], tool_choice="required")
    assert chunks[0] == CallStarted(0, "", "add")
    assert chunks[1:-2] == [CallDelta(0, letter) for letter in '{"a":1}']
    assert chunks[-1] == Finished("tool_calls")
    assert len(llama.bodies) == 1


async def test_usage_sums_the_choice_and_the_call(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = by_schema({"choice": "add", "arguments": '{"a":1}'})
    chunks = await run(backend, input="1 plus 1?", tools=[WEATHER, ADD], tool_choice="required")
    usage = usage_of(chunks)
    assert chunks[0] == CallStarted(0, "", "add")
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (150, 10, 160)
    assert usage.input_tokens_details.cached_tokens == 30


async def test_a_model_that_may_answer_and_wants_to_just_answers(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    llama.answer = by_schema({"choice": "answer"}, "Hello!")
    chunks = await run(backend, input="Hi", tools=[WEATHER, ADD], max_output_tokens=20)
    assert text_of(chunks) == "Hello!"
    assert finish_of(chunks) == "stop"
    assert usage_of(chunks).output_tokens == 5
    assert llama.bodies[-1]["max_tokens"] == 17


async def test_a_required_call_is_made_even_if_the_choice_was_truncated(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    llama.answer = by_schema({"choice": 'no"such', "arguments": "{}"})
    chunks = await run(backend, input="Hi", tools=[WEATHER, ADD], tool_choice="required")
    assert chunks[0] == CallStarted(0, "", "get_weather")


async def test_a_tool_without_parameters_is_called_without_a_model_request(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    tool: dict[str, Any] = {
        "type": "function",
        "name": "now",
        "parameters": {"type": "object", "properties": {}},
    }
    chunks = await run(backend, input="What time is it?", tools=[tool], tool_choice="required")
    assert chunks[:2] == [CallStarted(0, "", "now"), CallDelta(0, "{}")]
    assert llama.bodies == []


async def test_a_truncated_call_finishes_with_length(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = sending([piece('{"a":'), *ending("length")])
    chunks = await run(backend, input="1 plus 1?", tools=[ADD], tool_choice="required")
    assert finish_of(chunks) == "length"


async def test_an_input_that_is_too_long_is_rejected(backend: LocalBackend, llama: FakeLlama) -> None:
    detail = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9021, "n_ctx": 4096}
    llama.answer = sending([msgspec.json.encode({"error": detail})])
    with pytest.raises(BackendRefused, match="9021 tokens") as caught:
        await run(backend, input="Hi")
    error = caught.value
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "input")


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (b'{"error":{"code":400,"message":"bad"}}', 400),
        (b'{"error":{"code":500,"message":"bad"}}', 502),
        (b'{"error":3}', 502),
    ],
)
async def test_other_errors_of_the_engine_are_raised(
    payload: bytes, status: int, backend: LocalBackend, llama: FakeLlama
) -> None:
    llama.answer = sending([payload])
    with pytest.raises(BackendError) as caught:
        await run(backend, input="Hi")
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"tools": [ADD], "tool_choice": "required"}, "tools"),
        (
            {
                "text": {
                    "format": {
                        "type": "json_schema",
                        "name": "x",
                        "schema": {"type": "object", "properties": {}},
                    }
                }
            },
            "text.format",
        ),
    ],
)
async def test_an_unenforceable_schema_error_names_its_param(
    params: dict[str, Any], param: str, backend: LocalBackend, llama: FakeLlama
) -> None:
    llama.answer = sending([_error(400, "failed: JSON schema error at #: unrecognized type zzz")])
    with pytest.raises(BackendRefused, match="unrecognized type zzz") as caught:
        await run(backend, input="Hi", **params)
    assert (caught.value.status, caught.value.param) == (400, param)


def _error(code: int, message: str) -> bytes:
    return msgspec.json.encode({"error": {"code": code, "message": message, "type": "server_error"}})


def _raising(error: Exception) -> Answer:
    def answer(_body: dict[str, Any]) -> Iterable[bytes]:
        raise error

    return answer


@pytest.mark.parametrize("error", [BackendBroken("its process ended"), RuntimeError("a bug")])
async def test_an_exception_of_the_engine_ends_only_its_own_request(
    error: Exception, backend: LocalBackend, llama: FakeLlama
) -> None:
    calm, llama.answer = llama.answer, _raising(error)
    with pytest.raises(BackendError) as caught:
        await run(backend, input="Hi")
    assert caught.value.status == 502
    llama.answer = calm
    assert text_of(await run(backend, input="Hi")) == "Hello there"


async def test_an_answer_that_breaks_off_after_its_first_delta_ends_with_failed(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    llama.answer = sending([piece("Hel")])
    chunks = await run(backend, input="Hi")
    assert chunks[0] == TextDelta("Hel")
    assert isinstance(chunks[-1], Failed)
    assert isinstance(chunks[-1].error, BackendBroken)


async def test_an_answer_that_never_begins_is_an_error(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = sending([])
    with pytest.raises(BackendBroken):
        await run(backend, input="Hi")


async def test_it_offers_its_one_model_without_loading_it(backend: LocalBackend, llama: FakeLlama) -> None:
    assert await backend.models() == [ModelInfo("tiny")]
    assert (backend.name, backend.model, llama.loads) == ("local", "tiny", 0)


def test_a_missing_extra_is_reported_at_startup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(_name: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", absent)
    with pytest.raises(SettingsError, match=r"make -C .* setup"):
        LocalBackend("smollm2-135m", tmp_path)


async def test_an_answer_that_repeats_itself_is_ended_and_the_engine_is_stopped(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    progress = b'{"choices":[],"prompt_progress":{"total":31,"cache":0,"processed":31,"time_ms":4}}'
    llama.answer = sending(itertools.chain([progress], looping()({})))
    chunks = await run(backend, input="Hi", stream=True)
    assert finish_of(chunks) == "length"
    assert DowngradesAdded((REPEATED,)) in chunks
    assert text_of(chunks).count("word") < 1000
    usage = usage_of(chunks)
    assert (usage.input_tokens, usage.output_tokens) == (31, text_of(chunks).count("word"))
    assert await asyncio.to_thread(llama.stopped.wait, 10)


async def test_an_answer_by_a_schema_may_repeat_itself(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = sending([piece("word "), *[piece("word ")] * 300, *ending()])
    form = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    chunks = await run(backend, input="Hi", text={"format": form})
    assert finish_of(chunks) == "stop"
    assert text_of(chunks).count("word") == 301
