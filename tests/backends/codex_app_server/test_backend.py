"""The backend on a scripted child: turns, tools, and every failure of the process."""

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from antiphon.backends.codex_app_server.backend import CodexBackend, Limits
from antiphon.backends.codex_app_server.parking import Parking
from antiphon.backends.codex_app_server.process import ChildOptions
from antiphon.backends.codex_app_server.request import ThreadOptions
from antiphon.errors import (
    BackendBroken,
    BackendRefused,
    BackendTimeout,
    BackendUnreachable,
    Unavailable,
)
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    HEARTBEAT,
    CallDelta,
    CallFinished,
    CallStarted,
    Failed,
    Finished,
    TextDelta,
    UsageReported,
)
from tests.backends.codex_app_server.child_support import LOOK, answered, staged, text_of, turn_for

COST = UsageReported(Usage(10, InputTokensDetails(2), 5, OutputTokensDetails(1), 15))
TEST_TIMEOUT_SECONDS = 30.0


async def until(happened: Callable[[], bool]) -> None:
    """Wait for a condition that another process fulfils."""
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
        while not happened():  # noqa: ASYNC110 -- a file of another process sets no event
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_an_answer_received_twice_is_emitted_once(tmp_path: Path) -> None:
    async with staged(tmp_path, "answer") as stage:
        assert await stage.run() == [TextDelta("Hel"), TextDelta("lo"), COST, Finished("stop")]


async def test_one_process_serves_all_turns_and_is_started_by_the_first(tmp_path: Path) -> None:
    async with staged(tmp_path, "answer") as stage:
        assert stage.pids == []
        for _ in range(3):
            assert text_of(await stage.run()) == "Hello"
        assert len(stage.pids) == 1
    assert not is_running(stage.pids[0])


async def test_a_missing_program_error_includes_the_remedy(tmp_path: Path) -> None:
    child = ChildOptions(str(tmp_path / "nothing"), {}, tmp_path)
    backend = CodexBackend(child, ThreadOptions(folder=str(tmp_path)), Limits())
    with pytest.raises(BackendUnreachable, match=r"npm install -g @openai/codex.*codex\.command"):
        await anext(backend.prepare(turn_for()).chunks())
    await backend.aclose()


async def test_a_handshake_that_is_not_answered_times_out(tmp_path: Path) -> None:
    async with staged(tmp_path, "mute", "answer", handshake=0.5) as stage:
        with pytest.raises(BackendTimeout, match=r"did not answer 'initialize' within 0\.5 s"):
            await stage.run()
        assert not any(map(is_running, stage.pids))


async def test_a_process_that_dies_at_startup_reports_its_last_error_output(tmp_path: Path) -> None:
    async with staged(tmp_path, "dies_at_start", "answer") as stage:
        with pytest.raises(BackendBroken) as caught:
            await stage.run()
        assert caught.value.message == "codex exited with status 3: no licence, token=[redacted]"
        assert text_of(await stage.run()) == "Hello"


@pytest.mark.parametrize(
    ("scenario", "cause"),
    [
        ("dies_in_turn", "codex exited with status 7: out of luck"),
        ("garbage", "codex sent something that is not its protocol: this is not it"),
        ("absurd", "codex sent something that is not its protocol"),
    ],
)
async def test_a_process_that_breaks_in_mid_turn_fails_it_and_serves_the_next(
    tmp_path: Path, scenario: str, cause: str
) -> None:
    async with staged(tmp_path, scenario, "answer") as stage:
        first, last = await stage.run()
        assert first == TextDelta("Hel")
        assert isinstance(last, Failed)
        assert isinstance(last.error, BackendBroken)
        assert last.error.message.startswith(cause)
        await until(lambda: not is_running(stage.pids[0]))
        assert text_of(await stage.run()) == "Hello"


@pytest.mark.parametrize(
    ("signal", "cause"), [("9", "9: for lack of memory, or by hand."), ("15", "15: no reason was given")]
)
async def test_a_killed_process_reports_the_signal_and_not_its_startup_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal: str, cause: str
) -> None:
    monkeypatch.setenv("SIGNAL", signal)
    async with staged(tmp_path, "warns_and_is_killed") as stage:
        last = (await stage.run())[-1]
        assert isinstance(last, Failed)
        assert last.error.message == f"codex was killed by signal {cause}"


async def test_a_folder_that_cannot_be_created_is_reported_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    child = ChildOptions("true", {}, tmp_path / "file" / "work")
    backend = CodexBackend(child, ThreadOptions(folder=str(tmp_path)), Limits())
    with pytest.raises(BackendUnreachable, match=r"file/work', cannot be made.*'codex\.folder'"):
        await anext(backend.prepare(turn_for()).chunks())
    await backend.aclose()


async def test_a_process_that_dies_before_the_first_delta_raises_an_error(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path, "dies_before_it_speaks") as stage:
        with pytest.raises(BackendBroken, match="exited with status 7: no reason was given"):
            await stage.run()


async def test_a_silent_turn_times_out_and_is_interrupted(tmp_path: Path) -> None:
    async with staged(tmp_path, "silent", silence=1.0) as stage:
        _, last = await stage.run()
        assert isinstance(last, Failed)
        assert isinstance(last.error, BackendTimeout)
        assert last.error.message == "codex sent nothing for 1 s."
        await until(lambda: stage.notes == ["interrupted t1"])


async def test_an_unresponsive_process_is_restarted(tmp_path: Path) -> None:
    async with staged(tmp_path, "hangs", "answer", silence=0.3) as stage:
        with pytest.raises(BackendTimeout, match="did not answer 'thread/start'"):
            await stage.run()
        await until(lambda: not is_running(stage.pids[0]))
        assert await stage.backend.models()


async def test_a_rejected_request_is_an_error_with_codexs_message(tmp_path: Path) -> None:
    async with staged(tmp_path, "refuses") as stage:
        with pytest.raises(BackendRefused, match="mcp__x") as caught:
            await stage.run()
        assert caught.value.status == 400


async def test_approval_requests_are_declined_and_unknown_requests_rejected(tmp_path: Path) -> None:
    async with staged(tmp_path, "asks") as stage:
        approval, question, unknown = text_of(await stage.run()).splitlines()
    assert '"decision":"decline"' in approval
    assert '"answers":{}' in question
    assert '"code":-32601' in unknown


async def test_calls_are_emitted_verbatim_and_their_outputs_resume_the_turn(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path, "tools") as stage:
        assert await stage.run(tools=[LOOK]) == [
            CallStarted(0, "c1", "look"),
            CallDelta(0, '{ "at" : 1 }'),
            CallFinished(0),
            CallStarted(1, "c2", "look"),
            CallDelta(1, '{ "at" : 1 }'),
            CallFinished(1),
            COST,
            Finished("tool_calls"),
        ]
        chunks = await stage.run(tools=[LOOK], input=answered("c1", "c2"))
        assert chunks == [TextDelta("done"), COST, Finished("stop")]
        assert [("ask-c1" in note, "saw c1" in note) for note in stage.notes] == [
            (True, True),
            (False, False),
        ]


@pytest.mark.parametrize(
    "history",
    [
        answered("c1", "c2", question="somebody else's"),
        answered("c1"),
        [*answered("c1", "c2")[:3], {"role": "user", "content": "stop"}, *answered("c1", "c2")[3:]],
    ],
)
async def test_outputs_of_another_conversation_do_not_go_on_with_the_turn(
    tmp_path: Path, history: list[dict[str, object]]
) -> None:
    async with staged(tmp_path, "tools") as stage:
        await stage.run(tools=[LOOK])
        assert (
            stage.backend.parking.take(stage.backend.prepare(turn_for(tools=[LOOK], input=history)).request)
            is None
        )
        assert len(stage.backend.parking) == 1


def continued(at: int, *, text: str = "words", arguments: str = "") -> list[dict[str, object]]:
    """The client's request after the call of `calls_alike`."""
    call = {"call_id": "c1", "name": "look", "arguments": arguments or f'{{"at":{at}}}'}
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": text},
        {"type": "function_call", **call},
        {"type": "function_call_output", "call_id": "c1", "output": f"saw {at}"},
    ]


async def test_equal_questions_and_equal_call_ids_do_not_mix_up_two_turns(tmp_path: Path) -> None:
    async with staged(tmp_path, "calls_alike") as stage:
        for _ in range(2):
            await stage.run(tools=[LOOK])
        for number in (2, 1):
            answer = text_of(await stage.run(tools=[LOOK], input=continued(number)))
            assert f"ask-c1-t{number}" in answer
            assert f"saw {number}" in answer


async def test_a_tenant_does_not_continue_the_turn_of_another(tmp_path: Path) -> None:
    async with staged(tmp_path, "calls_alike") as stage:
        await stage.run(tools=[LOOK])
        turn = turn_for(tools=[LOOK], input=continued(1))
        foreign = stage.backend.prepare(replace(turn, tenant="umbra")).request
        assert stage.backend.parking.take(foreign) is None
        assert stage.backend.parking.take(stage.backend.prepare(turn).request) is not None


async def test_a_tenant_with_many_waiting_turns_replaces_its_own(tmp_path: Path) -> None:
    async with staged(tmp_path, "calls") as stage:
        stage.backend.parking = Parking(TEST_TIMEOUT_SECONDS, capacity=2)
        await stage.run(tools=[LOOK])
        for _ in range(2):
            prepared = stage.backend.prepare(replace(turn_for(tools=[LOOK]), tenant="umbra"))
            async with aclosing(prepared.chunks()) as batches:
                async for _batch in batches:
                    pass
        assert len(stage.backend.parking) == 2
        await until(lambda: stage.notes == ["interrupted t2"])


@pytest.mark.parametrize("edit", [{"text": "Words"}, {"text": ""}, {"arguments": '{"at": 1}'}])
async def test_an_edited_history_begins_a_new_thread(tmp_path: Path, edit: dict[str, str]) -> None:
    async with staged(tmp_path, "calls_alike") as stage:
        await stage.run(tools=[LOOK])
        edited = stage.backend.prepare(turn_for(tools=[LOOK], input=continued(1, **edit))).request
        assert stage.backend.parking.take(edited) is None
        same = stage.backend.prepare(turn_for(tools=[LOOK], input=continued(1))).request
        assert stage.backend.parking.take(same) is not None


async def test_silence_after_a_call_does_not_delay_the_response(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(TEST_TIMEOUT_SECONDS),
        staged(tmp_path, "falls_silent_after_a_call", quiet=0.2, silence=10 * TEST_TIMEOUT_SECONDS) as stage,
    ):
        assert await stage.run(tools=[LOOK]) == [
            TextDelta("words"),
            CallStarted(0, "c1", "look"),
            CallDelta(0, '{ "at" : 1 }'),
            CallFinished(0),
            Finished("tool_calls"),
        ]
        assert len(stage.backend.parking) == 0
        await until(lambda: stage.notes == ["interrupted t1"])
        assert text_of(await stage.run(tools=[LOOK], input=answered("c1"))) == "Hello"


async def test_a_turn_without_tool_outputs_is_interrupted(tmp_path: Path) -> None:
    async with staged(tmp_path, "tools", tools=0.01) as stage:
        await stage.run(tools=[LOOK])
        await until(lambda: "interrupted t1" in stage.notes)
        assert len(stage.backend.parking) == 0


async def test_the_oldest_waiting_turn_is_dropped_beyond_the_limit(tmp_path: Path) -> None:
    async with staged(tmp_path, "calls") as stage:
        stage.backend.parking = Parking(TEST_TIMEOUT_SECONDS, capacity=2)
        for _ in range(3):
            await stage.run(tools=[LOOK])
        assert len(stage.backend.parking) == 2
        await until(lambda: stage.notes == ["interrupted t1"])


async def test_waiting_turns_do_not_count_as_running_turns(tmp_path: Path) -> None:
    async with staged(tmp_path, "tools", turns=1) as stage:
        await stage.run(tools=[LOOK])
        async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
            assert text_of(await stage.run(tools=[LOOK], input=answered("c1", "c2"))) == "done"


async def test_no_more_turns_than_allowed_are_worked_on_at_once(tmp_path: Path) -> None:
    async with staged(tmp_path, "counts", turns=2) as stage:
        answers = await asyncio.gather(*(stage.run() for _ in range(6)))
    assert all(chunks[-1] == Finished("stop") for chunks in answers)
    assert max(int(text_of(chunks)) for chunks in answers) <= 2


async def test_a_client_disconnect_interrupts_the_turn(tmp_path: Path) -> None:
    async with staged(tmp_path, "silent") as stage:
        async with aclosing(stage.backend.prepare(turn_for()).chunks()) as batches:
            assert await anext(batches) == [TextDelta("Hel")]
        await until(lambda: stage.notes == ["interrupted t1"])


async def test_silence_is_filled_with_heartbeats(tmp_path: Path) -> None:
    async with (
        staged(tmp_path, "silent", heartbeat=0.02) as stage,
        aclosing(stage.backend.prepare(turn_for()).chunks()) as batches,
    ):
        async for batch in batches:
            if batch != HEARTBEAT:
                break
        assert await anext(batches) == HEARTBEAT
        assert await anext(batches) == HEARTBEAT


async def test_the_models_are_read_from_codex(tmp_path: Path) -> None:
    async with staged(tmp_path, "answer") as stage:
        assert [info.id for info in await stage.backend.models()] == ["model-1", "model-2"]


async def test_after_the_end_no_process_is_started(tmp_path: Path) -> None:
    async with staged(tmp_path, "answer") as stage:
        await stage.backend.aclose()
        with pytest.raises(Unavailable):
            await stage.run()
        assert stage.pids == []
