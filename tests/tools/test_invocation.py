"""Running tools: no behaviour of a tool harms its caller."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Never

import pytest
from msgspec import Struct, json

from antiphon.protocol.content import JsonObject
from antiphon.tools.declaration import CallContext, ServerTool, Tool, ToolOutput
from antiphon.tools.invocation import (
    ToolAborted,
    ToolArgumentsInvalid,
    ToolBusy,
    ToolNotRunnable,
    ToolTimeout,
    cut_output,
    describe_error,
    invoke,
)

EMPTY: JsonObject = {"type": "object", "properties": {}}
SHORT = 0.02
"""Seconds; only for tools that would never end."""


class Weather(Struct):
    sky: str


class Odd:
    def __str__(self) -> str:
        return "odd"


def tool(run: Callable[..., Any]) -> Tool:
    return Tool("tool", "", EMPTY, run=run)


async def output_of(run: Callable[..., Any], arguments: str = "{}") -> str:
    return (await invoke(tool(run), arguments)).output


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Releases the hanging threads."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "null"),
        ({"sky": "blue"}, '{"sky":"blue"}'),
        ([1, 2.5, True], "[1,2.5,true]"),
        (Weather("blue"), '{"sky":"blue"}'),
        (Odd(), '"odd"'),
        ({"deep": [Odd()]}, '{"deep":["odd"]}'),
        ("lone \ud800 surrogate", "lone ? surrogate"),
    ],
)
async def test_the_result_of_a_tool_is_text_or_json(value: object, output: str) -> None:
    async def later() -> object:
        return value

    assert await output_of(lambda: value) == output
    assert await output_of(later) == output


class Rich(ToolOutput, frozen=True, kw_only=True):
    """A result type of a loop that accepts more than text."""

    score: int


async def test_a_tool_may_return_more_than_text() -> None:
    result = Rich(output="done \ud800", score=3)
    assert await invoke(tool(lambda: result), "") == Rich(output="done ?", score=3)


async def test_a_result_that_is_no_json_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        await output_of(lambda: endless)


async def test_sync_and_async_functions_are_run_alike() -> None:
    class Service:
        async def __call__(self, city: str) -> str:
            return f"{city} called"

        async def method(self, city: str) -> str:
            return f"{city} method"

    async def function(city: str) -> str:
        return f"{city} async"

    arguments_json = '{"city": "Rome"}'
    schema: JsonObject = {"type": "object", "properties": {"city": {}}}

    def sync(city: str) -> str:
        return f"{city} sync"

    def hands_on(city: str) -> object:
        return function(city)

    runs: list[Any] = [Service(), Service().method, function, sync, hands_on]
    outputs = [(await invoke(Tool("t", "", schema, run=run), arguments_json)).output for run in runs]
    assert outputs == ["Rome called", "Rome method", "Rome async", "Rome sync", "Rome async"]


async def test_the_context_of_the_call_is_passed() -> None:
    def whose(context: CallContext) -> str:
        return context.tenant

    result = await invoke(tool(whose), "", context=CallContext(tenant="ada"))
    assert result.output == "ada"


async def test_a_sync_tool_runs_in_a_thread_with_its_context_variables() -> None:
    who = contextvars.ContextVar("who", default="nobody")
    who.set("ada")
    assert (
        await output_of(lambda: f"{who.get()} {threading.current_thread() is threading.main_thread()}")
        == "ada False"
    )


async def test_hanging_tools_do_not_block_others(release: threading.Event) -> None:
    hanging = [asyncio.create_task(invoke(tool(release.wait), "")) for _ in range(100)]
    assert await output_of(lambda: "free") == "free"
    release.set()
    assert {result.output for result in await asyncio.gather(*hanging)} == {"true"}


async def test_a_hanging_sync_tool_is_abandoned_at_its_deadline(release: threading.Event) -> None:
    with pytest.raises(ToolTimeout, match=r"'tool' gave no result within 0\.02 seconds"):
        await invoke(tool(release.wait), "", deadline=SHORT)


async def test_an_async_tool_that_hangs_is_cancelled_at_its_deadline() -> None:
    cancelled = asyncio.Event()

    async def hang() -> Never:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    with pytest.raises(ToolTimeout):
        await invoke(tool(hang), "", deadline=SHORT)
    await asyncio.wait_for(cancelled.wait(), 10)


async def test_a_tool_that_ignores_cancellation_is_abandoned() -> None:
    release, ended = asyncio.Event(), asyncio.Event()
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, complaint: complaints.append(complaint))

    async def stubborn() -> None:
        try:
            await release.wait()
        except asyncio.CancelledError:
            await release.wait()
        ended.set()
        raise ValueError("nobody hears this")

    with pytest.raises(ToolTimeout):
        await invoke(tool(stubborn), "", deadline=SHORT)
    release.set()
    await asyncio.wait_for(ended.wait(), 10)
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


async def test_an_abandoned_running_call_is_no_task_of_the_event_loop() -> None:
    release, refused = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                refused.set()

    before = asyncio.all_tasks()
    with pytest.raises(ToolTimeout):
        await invoke(tool(stubborn), "", deadline=SHORT)
    after = asyncio.all_tasks()
    release.set()
    assert refused.is_set()
    assert after == before


async def test_a_tool_with_hanging_calls_is_not_called_until_they_return(
    release: threading.Event,
) -> None:
    hanging, other = tool(release.wait), tool(lambda: "free")
    before = set(threading.enumerate())
    for _ in range(8):
        with pytest.raises(ToolTimeout):
            await invoke(hanging, "", deadline=SHORT)
    threads = set(threading.enumerate()) - before
    for _ in range(2):
        with pytest.raises(ToolBusy, match="'tool' is busy: 8 earlier calls have not returned"):
            await invoke(hanging, "", deadline=SHORT)
    assert set(threading.enumerate()) - before == threads
    assert (await invoke(other, "")).output == "free"

    release.set()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert (await invoke(hanging, "")).output == "true"


async def test_async_calls_that_do_not_come_back_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.tools.invocation.CANCEL_GRACE_SECONDS", 0)
    release, ended = asyncio.Event(), asyncio.Semaphore(0)

    async def stubborn() -> str:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        ended.release()
        return "free"

    hanging = tool(stubborn)
    for _ in range(8):
        with pytest.raises(ToolTimeout):
            await invoke(hanging, "", deadline=SHORT)
    with pytest.raises(ToolBusy):
        await invoke(hanging, "", deadline=SHORT)
    release.set()
    for _ in range(8):
        await asyncio.wait_for(ended.acquire(), 10)
    await asyncio.sleep(0)
    assert (await invoke(hanging, "")).output == "free"


async def test_a_cancelled_tool_has_time_to_clean_up() -> None:
    cleaned: list[str] = []

    async def careful() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(SHORT)
            cleaned.append("up")

    with pytest.raises(ToolTimeout):
        await invoke(tool(careful), "", deadline=SHORT)
    assert cleaned == ["up"]


async def test_the_result_of_a_late_tool_is_dropped(release: threading.Event) -> None:
    finished = threading.Event()

    async def more() -> None: ...

    def late() -> object:
        release.wait()
        finished.set()
        return more()

    with pytest.raises(ToolTimeout):
        await invoke(tool(late), "", deadline=SHORT)
    release.set()
    await asyncio.to_thread(finished.wait)
    assert await output_of(lambda: "next") == "next"


async def test_a_server_tool_has_its_own_deadline(release: threading.Event) -> None:
    own = ServerTool("own", "", EMPTY, run=release.wait, deadline=SHORT)
    with pytest.raises(ToolTimeout):
        await invoke(own, "", deadline=600)


async def test_a_cancelled_caller_cancels_the_tool() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    call = asyncio.create_task(invoke(tool(hang), ""))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(cancelled.wait(), 10)


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("city"), OSError(2, "gone")])
async def test_an_exception_of_a_tool_is_raised(error: Exception) -> None:
    def fail() -> Never:
        raise error

    async def fail_later() -> Never:
        raise error

    for run in (fail, fail_later):
        with pytest.raises(type(error)) as caught:
            await output_of(run)
        assert caught.value is error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("stop"), GeneratorExit("end")])
async def test_a_tool_cannot_end_the_process(error: BaseException) -> None:
    def leave() -> Never:
        raise error

    async def leave_later() -> Never:
        raise error

    for run in (leave, leave_later):
        with pytest.raises(ToolAborted, match=type(error).__name__):
            await output_of(run)


async def test_a_tool_cannot_cancel_its_caller() -> None:
    def cancel() -> Never:
        raise asyncio.CancelledError

    async def cancel_later() -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    for run in (cancel, cancel_later):
        with pytest.raises(ToolAborted, match="CancelledError"):
            await output_of(run)


async def test_a_tool_that_raises_stop_iteration_ends_like_any_other() -> None:
    def stop() -> Never:
        raise StopIteration("over")

    with pytest.raises(RuntimeError):
        await output_of(stop)


async def test_wrong_arguments_never_reach_the_tool() -> None:
    called: list[str] = []

    def note(city: str) -> None:
        called.append(city)

    for arguments in ("{", "[]", '{"city": 5}', "{}"):
        with pytest.raises(ToolArgumentsInvalid):
            await invoke(Tool.from_function(note), arguments)
    assert called == []


async def test_a_tool_without_a_function_is_not_run() -> None:
    with pytest.raises(ToolNotRunnable, match="'tool' is only declared"):
        await invoke(Tool("tool", "", EMPTY), "")


def test_an_error_is_described_as_json_with_its_type_and_message() -> None:
    assert describe_error(ValueError("no such city")) == '{"error":"ValueError: no such city"}'


@pytest.mark.parametrize(
    "message", ['say "hi"', "line\nbreak", "back\\slash", "\x00", "\ud800", "é😀", "x" * 10**6]
)
def test_the_description_of_an_error_is_always_json_and_bounded(message: str) -> None:
    described = json.decode(describe_error(ValueError(message)))
    assert described["error"].startswith("ValueError: ")
    assert len(described["error"]) <= len("ValueError: ") + 2_000


def test_an_error_that_cannot_even_be_read_is_described() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("worse")

    assert json.decode(describe_error(Broken()))["error"].startswith("Broken: ")


def test_a_stack_trace_is_never_sent() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        assert "Traceback" not in describe_error(error)
        assert __file__ not in describe_error(error)


def test_long_outputs_are_truncated_with_a_note() -> None:
    assert cut_output("12345", 5) == "12345"
    assert cut_output("1234567", 5) == "12345\n[cut: 2 more characters]"


HANGING = "threading.Event().wait"
STUBBORN = "stubborn"


@pytest.mark.slow
@pytest.mark.parametrize("run", [HANGING, STUBBORN])
def test_a_tool_that_hangs_does_not_hold_up_the_end_of_the_process(run: str) -> None:
    program = f"""
import asyncio, threading
from antiphon.tools.invocation import invoke, ToolTimeout
from antiphon.tools.declaration import Tool
async def stubborn():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
async def main():
    try:
        await invoke(Tool("t", "", {{"type": "object"}}, run={run}), "", deadline=0.05)
    except ToolTimeout:
        print("given up")
asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert (ended.stdout, ended.stderr) == ("given up\n", "")
