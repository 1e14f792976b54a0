"""The codex backend on the real codex, with a scripted model."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from antiphon import ScriptedBackend
from antiphon.backends.codex_app_server.backend import CodexBackend
from antiphon.backends.scripted import Step
from antiphon.errors import BackendBroken, BackendRefused
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    ReasoningSummaryDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest, build_turn
from tests.clients.conftest import TEST_TIMEOUT_SECONDS, Driving

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.xdist_group("codex")]

COST = Usage(10, InputTokensDetails(2), 5, OutputTokensDetails(1), 15)
DOUBLE = Usage(20, InputTokensDetails(4), 10, OutputTokensDetails(2), 30)
LOOK: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "description": "Looks.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
}
DONE_ANSWER: list[Step] = [[TextDelta("done")], [UsageReported(COST), Finished("stop")]]


def calls(*ids: str) -> list[Step]:
    """A model that calls `look` once for each id."""
    chunks: list[Chunk] = []
    for index, call_id in enumerate(ids):
        arguments = f'{{ "at": "{call_id}" }}'
        chunks += [CallStarted(index, call_id, "look"), CallDelta(index, arguments), CallFinished(index)]
    return [[*chunks, UsageReported(COST), Finished("tool_calls")]]


def turn_for(**params: Any) -> TurnRequest:
    return build_turn(create_from(**{"model": "codex", "input": "hi", **params}), model="codex")


async def run(backend: CodexBackend, **params: Any) -> list[Chunk]:
    batches = backend.prepare(turn_for(**params)).chunks()
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
        return [chunk async for batch in batches for chunk in batch]


def outputs(*ids: str) -> list[dict[str, Any]]:
    """The client's input after the calls: the complete history, and the outputs."""
    called = [
        {"type": "function_call", "call_id": call_id, "name": "look", "arguments": f'{{ "at": "{call_id}" }}'}
        for call_id in ids
    ]
    done = [
        {"type": "function_call_output", "call_id": call_id, "output": f"saw {call_id}"} for call_id in ids
    ]
    return [{"role": "user", "content": "hi"}, *called, *done]


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def test_an_answer_is_streamed_with_its_usage(codex: Driving) -> None:
    model = ScriptedBackend(
        [
            [ReasoningSummaryDelta("hm")],
            [TextDelta("Hel")],
            [TextDelta("lo")],
            [UsageReported(COST), Finished("stop")],
        ]
    )
    async with codex(model) as backend:
        chunks = await run(backend, instructions="Be brief.")
    assert chunks == [
        ReasoningSummaryDelta("hm"),
        TextDelta("Hel"),
        TextDelta("lo"),
        UsageReported(COST),
        Finished("stop"),
    ]


async def test_the_model_sees_the_history_without_codexs_own_prompts(codex: Driving) -> None:
    model = ScriptedBackend(DONE_ANSWER)
    history = [
        {"role": "system", "content": "Rule."},
        {"role": "user", "content": [{"type": "input_text", "text": "one"}, PIXEL]},
        {"role": "assistant", "content": "two"},
        *outputs("c1"),
    ]
    async with codex(model) as backend:
        await run(backend, input=history, instructions="Be brief.", tools=[LOOK])
    turn = model.turns[0]
    texts = [(item.role, item.content) for item in turn.items if isinstance(item, Message)]
    role_texts = [(role, [getattr(part, "text", "image") for part in parts]) for role, parts in texts]
    assert role_texts[1:] == [
        ("developer", ["Be brief."]),
        ("developer", ["Rule."]),
        ("user", ["one", "image"]),
        ("assistant", ["two"]),
        ("user", ["hi"]),
    ]
    assert [item.call_id for item in turn.items if isinstance(item, FunctionCall)] == ["c1"]
    assert [item.output for item in turn.items if isinstance(item, FunctionCallOutput)] == ["saw c1"]
    assert [tool.name for tool in turn.tools] == ["look"]


PIXEL = {
    "type": "input_image",
    "image_url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
}


async def test_calls_of_the_clients_tools_go_out_and_their_outputs_come_back(codex: Driving) -> None:
    model = ScriptedBackend(calls("c1", "c2"), calls("c3"), DONE_ANSWER)
    async with codex(model) as backend:
        first = await run(backend, tools=[LOOK])
        second = await run(backend, tools=[LOOK], input=outputs("c1", "c2"))
        third = await run(backend, tools=[LOOK], input=[*outputs("c1", "c2"), *outputs("c3")[1:]])
    assert first == [
        CallStarted(0, "c1", "look"),
        CallDelta(0, '{ "at": "c1" }'),
        CallFinished(0),
        CallStarted(1, "c2", "look"),
        CallDelta(1, '{ "at": "c2" }'),
        CallFinished(1),
        UsageReported(COST),
        Finished("tool_calls"),
    ]
    assert [chunk for chunk in second if isinstance(chunk, CallStarted)] == [CallStarted(0, "c3", "look")]
    assert third == [TextDelta("done"), UsageReported(COST), Finished("stop")]
    outputs_received = [item for item in model.turns[2].items if isinstance(item, FunctionCallOutput)]
    assert {item.call_id: item.output for item in outputs_received} == {
        "c1": "saw c1",
        "c2": "saw c2",
        "c3": "saw c3",
    }
    # One thread of codex for all three: the third model call has the cache key of the first.
    assert len({turn.params.prompt_cache_key for turn in model.turns}) == 1


async def test_a_slow_call_belongs_to_the_same_response(codex: Driving) -> None:
    requested = asyncio.Event()

    async def two_calls(turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [CallStarted(0, "c1", "look"), CallDelta(0, "{}"), CallFinished(0)]
        await asyncio.wait_for(requested.wait(), TEST_TIMEOUT_SECONDS)
        yield [CallStarted(1, "c2", "look"), CallDelta(1, "{}"), Finished("tool_calls")]

    async with codex(ScriptedBackend(two_calls)) as backend:
        running = asyncio.create_task(run(backend, tools=[LOOK]))
        # Codex requests the first tool as soon as it is called; one second suffices for that, and is harmless if not.
        await asyncio.wait({running}, timeout=1.0)
        assert not running.done()
        requested.set()
        chunks = await running
    assert [chunk.call_id for chunk in chunks if isinstance(chunk, CallStarted)] == ["c1", "c2"]


async def test_outputs_for_a_turn_that_is_gone_begin_a_new_thread(codex: Driving) -> None:
    model = ScriptedBackend(calls("c1"), DONE_ANSWER)
    async with codex(model) as backend:
        await run(backend, tools=[LOOK])
        backend.parking.clear()
        chunks = await run(backend, tools=[LOOK], input=outputs("c1"))
    assert text_of(chunks) == "done"
    assert [item.output for item in model.turns[1].items if isinstance(item, FunctionCallOutput)] == [
        "saw c1"
    ]


async def test_structured_output_and_effort_reach_the_model(codex: Driving) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    model = ScriptedBackend([[TextDelta('{"a":1}')], [Finished("stop")]])
    async with codex(model) as backend:
        text = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
        chunks = await run(backend, text=text, reasoning={"effort": "low", "summary": "detailed"})
    assert text_of(chunks) == '{"a":1}'
    turn_params = model.turns[0].params
    assert turn_params.text is not None
    assert turn_params.text.format is not None
    assert turn_params.text.format.schema == schema
    assert turn_params.reasoning is not None
    assert (turn_params.reasoning.effort, turn_params.reasoning.summary) == ("low", "detailed")


@pytest.mark.parametrize(
    ("refusal", "status", "code"),
    [
        (
            BackendRefused("too long", status=400, code="context_length_exceeded"),
            400,
            "context_length_exceeded",
        ),
        (BackendRefused("slow down", status=429), 429, "rate_limit_exceeded"),
        (BackendRefused("bad key", status=401), 401, "unauthorized"),
        (BackendRefused("not for you", status=403), 403, "forbidden"),
        (BackendRefused("too much", status=413), 400, "request_too_large"),
        (BackendRefused("no such model", status=404, code="model_not_found"), 404, "model_not_found"),
        (BackendRefused("broken", status=500), 500, "server_error"),
    ],
)
async def test_a_refusal_of_its_model_is_ours(
    codex: Driving, refusal: BackendRefused, status: int, code: str
) -> None:
    async with codex(ScriptedBackend([refusal], DONE_ANSWER)) as backend:
        with pytest.raises(BackendRefused) as caught:
            await run(backend)
        assert (caught.value.status, caught.value.code) == (status, code)
        assert text_of(await run(backend)) == "done"


def text_steps(*role_texts: str) -> list[Step]:
    """A model that answers with these deltas."""
    return [*([TextDelta(delta)] for delta in role_texts), [Finished("stop")]]


BREAKS_OFF: list[Step] = [[TextDelta("Hel")], BackendRefused("gone", status=502)]


async def test_an_answer_repeated_after_an_interruption_is_emitted_once(codex: Driving) -> None:
    model = ScriptedBackend(BREAKS_OFF, BREAKS_OFF, text_steps("Hell", "o!"))
    async with codex(model, retries=2) as backend:
        chunks = await run(backend)
    assert len(model.turns) == 3
    assert text_of(chunks) == "Hello!"
    assert chunks[-1] == Finished("stop")


async def test_another_answer_after_the_first_broke_off_fails_the_turn(codex: Driving) -> None:
    model = ScriptedBackend(BREAKS_OFF, text_steps("Good day"), DONE_ANSWER)
    async with codex(model, retries=1) as backend:
        chunks = await run(backend)
        assert text_of(chunks) == "Hel"
        last = chunks[-1]
        assert isinstance(last, Failed)
        assert (last.error.status, last.error.code) == (502, "stream_disconnected")
        assert text_of(await run(backend)) == "done"


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_stream_that_breaks_after_a_call_does_not_hold_the_response(
    codex: Driving, retries: int
) -> None:
    async def call_and_break(turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [CallStarted(0, "c1", "look"), CallDelta(0, '{ "at": "c1" }'), CallFinished(0)]
        yield BackendRefused("gone", status=502)

    model = ScriptedBackend(call_and_break, DONE_ANSWER)
    async with codex(model, retries=retries, quiet=1.0) as backend:
        first = await run(backend, tools=[LOOK])
        assert [chunk.call_id for chunk in first if isinstance(chunk, CallStarted)] == ["c1"]
        assert first[-1] == Finished("tool_calls")
        assert len(backend.parking) == 0
        assert text_of(await run(backend, tools=[LOOK], input=outputs("c1"))) == "done"
    outputs_received = [item.output for item in model.turns[-1].items if isinstance(item, FunctionCallOutput)]
    assert outputs_received == ["saw c1"]


async def test_outputs_go_to_the_turn_of_the_call_even_with_equal_ids(codex: Driving) -> None:
    def calls_with(at: str) -> list[Step]:
        arguments = f'{{"at":"{at}"}}'
        return [[CallStarted(0, "c1", "look"), CallDelta(0, arguments), Finished("tool_calls")]]

    def answer(at: str) -> list[dict[str, Any]]:
        question, call, output = outputs("c1")
        return [
            question,
            {**call, "arguments": f'{{"at":"{at}"}}'},
            {**output, "output": f"for {at}"},
        ]

    def steps_for(turn: TurnRequest) -> list[Step]:
        call = next(item for item in turn.items if isinstance(item, FunctionCall))
        output = next(item for item in turn.items if isinstance(item, FunctionCallOutput))
        return text_steps(f"{call.arguments} {output.output}")

    model = ScriptedBackend(calls_with("one"), calls_with("two"), steps_for)
    async with codex(model) as backend:
        for _ in range(2):
            await run(backend, tools=[LOOK])
        for at in ("two", "one"):
            text = text_of(await run(backend, tools=[LOOK], input=answer(at)))
            assert text == f'{{"at":"{at}"}} for {at}'
        # An edited call is a different history.
        await run(backend, tools=[LOOK], input=answer("three"))
    assert len({turn.params.prompt_cache_key for turn in model.turns}) == 3


async def test_a_custom_tool_resumes_its_turn(codex: Driving) -> None:
    model = ScriptedBackend(
        [[CallStarted(0, "c1", "free"), CallDelta(0, '{ "input": "words" }'), Finished("tool_calls")]],
        DONE_ANSWER,
    )
    history = [
        {"role": "user", "content": "hi"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "free", "input": "words"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
    ]
    free = {"type": "custom", "name": "free"}
    async with codex(model) as backend:
        await run(backend, tools=[free])
        assert len(backend.parking) == 1
        assert text_of(await run(backend, tools=[free], input=history)) == "done"
        assert len(backend.parking) == 0


@pytest.mark.parametrize("own_tools", [False, True])
@pytest.mark.parametrize("name", ["exec_command", "shell_command", "mcp__files__read", "view_image", "look"])
async def test_tools_may_be_named_like_codexs_own(codex: Driving, name: str, own_tools: bool) -> None:
    def call_it(turn: TurnRequest) -> list[Step]:
        shown = next(tool.name for tool in turn.tools if tool.description == "Mine.")
        return [[CallStarted(0, "c1", shown), CallDelta(0, "{}"), Finished("tool_calls")]]

    model = ScriptedBackend(call_it, DONE_ANSWER)
    tool = {**LOOK, "name": name, "description": "Mine."}
    question, call, output = outputs("c1")
    async with codex(model, own_tools=own_tools) as backend:
        first = await run(backend, tools=[tool])
        assert [chunk.name for chunk in first if isinstance(chunk, CallStarted)] == [name]
        sent_back = {**call, "name": name, "arguments": "{}"}
        assert text_of(await run(backend, tools=[tool], input=[question, sent_back, output])) == "done"
        # Also when the turn has ended.
        backend.parking.clear()
        assert text_of(await run(backend, tools=[tool], input=[question, sent_back, output])) == "done"
    assert [item.output for item in model.turns[-1].items if isinstance(item, FunctionCallOutput)] == [
        "saw c1"
    ]


async def test_the_model_sees_images_of_every_detail(codex: Driving) -> None:
    model = ScriptedBackend(DONE_ANSWER)
    images = [{**PIXEL, "detail": detail} for detail in ("low", "auto", "high", "original")]
    question, call, output = outputs("c1")
    history = [{"role": "user", "content": images}, question, call, {**output, "output": images}]
    async with codex(model) as backend:
        await run(backend, input=history, tools=[LOOK])
    shown = next(item for item in model.turns[0].items if isinstance(item, Message) and item.role == "user")
    assert [type(part).__name__ for part in shown.content] == ["InputImage"] * 4
    output_received = next(item for item in model.turns[0].items if isinstance(item, FunctionCallOutput))
    assert [type(part).__name__ for part in output_received.output] == ["InputImage"] * 4


async def test_a_call_without_its_output_is_shown_as_aborted(codex: Driving) -> None:
    model = ScriptedBackend(calls("c1", "c2"), DONE_ANSWER)
    async with codex(model) as backend:
        await run(backend, tools=[LOOK])
        assert text_of(await run(backend, tools=[LOOK], input=outputs("c1", "c2")[:-1])) == "done"
        assert len(backend.parking) == 1
    outputs_received = [item for item in model.turns[1].items if isinstance(item, FunctionCallOutput)]
    assert {item.call_id: item.output for item in outputs_received} == {"c1": "saw c1", "c2": "aborted"}


async def test_it_reports_whether_it_needs_a_login(codex: Driving) -> None:
    async with codex(ScriptedBackend(DONE_ANSWER)) as backend:
        state = await backend.account()
    assert (state.account, state.requires_openai_auth) == (None, False)


async def test_a_failure_in_mid_answer_is_a_failed_chunk(codex: Driving) -> None:
    broken = BackendRefused("broken", status=500)
    async with codex(ScriptedBackend([[TextDelta("Hel")], broken])) as backend:
        chunks = await run(backend)
    assert chunks[0] == TextDelta("Hel")
    last = chunks[-1]
    assert isinstance(last, Failed)


async def test_a_truncated_answer_is_incomplete(codex: Driving) -> None:
    async with codex(ScriptedBackend([[TextDelta("Hel")], [Finished("length")]])) as backend:
        chunks = await run(backend)
    assert (chunks[0], chunks[-1]) == (TextDelta("Hel"), Finished("length"))


async def test_a_client_disconnect_interrupts_codex(codex: Driving) -> None:
    interrupted = asyncio.Event()

    async def endless(turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("Hel")]
            await asyncio.Event().wait()
        finally:
            interrupted.set()

    async with codex(ScriptedBackend(endless)) as backend:
        async with aclosing(backend.prepare(turn_for()).chunks()) as batches:
            async for batch in batches:
                if batch:
                    break
        await asyncio.wait_for(interrupted.wait(), TEST_TIMEOUT_SECONDS)


async def test_two_turns_run_at_once(codex: Driving) -> None:
    both = asyncio.Barrier(2)

    async def together(turn: TurnRequest) -> AsyncGenerator[Step, None]:
        async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
            await both.wait()
        message = turn.items[-1]
        assert isinstance(message, Message)
        assert not isinstance(message.content, str)
        yield [TextDelta(f"{getattr(message.content[0], 'text', '')}!")]
        yield [Finished("stop")]

    async with codex(ScriptedBackend(together)) as backend:
        one, other = await asyncio.gather(run(backend, input="one"), run(backend, input="other"))
    assert (text_of(one), text_of(other)) == ("one!", "other!")


async def test_a_codex_that_is_killed_fails_the_turn_and_serves_the_next(codex: Driving) -> None:
    async def endless(turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("Hel")]
        await asyncio.Event().wait()

    async with codex(ScriptedBackend(endless, DONE_ANSWER)) as backend:
        chunks: list[Chunk] = []
        async with aclosing(backend.prepare(turn_for()).chunks()) as batches:
            async for batch in batches:
                if batch and not chunks:
                    os.killpg((await backend.supervisor.child()).pid, signal.SIGKILL)
                chunks += batch
        last = chunks[-1]
        assert isinstance(last, Failed)
        assert isinstance(last.error, BackendBroken)
        assert "was killed by signal 9" in last.error.message
        assert text_of(await run(backend)) == "done"


async def test_it_lists_its_models(codex: Driving) -> None:
    async with codex(ScriptedBackend(DONE_ANSWER)) as backend:
        assert all(info.owned_by == "codex" for info in await backend.models())


async def test_with_its_own_tools_enabled_codex_uses_them(codex: Driving) -> None:
    command: list[Step] = [
        [
            CallStarted(0, "c1", "exec_command"),
            CallDelta(0, '{"cmd":"echo here"}'),
            UsageReported(COST),
            Finished("tool_calls"),
        ]
    ]
    model = ScriptedBackend(command, DONE_ANSWER)
    async with codex(model, own_tools=True, sandbox="danger-full-access") as backend:
        chunks = await run(backend)
    assert chunks == [TextDelta("done"), UsageReported(DOUBLE), Finished("stop")]
    outputs_received = [item.output for item in model.turns[1].items if isinstance(item, FunctionCallOutput)]
    assert "here" in str(outputs_received)
