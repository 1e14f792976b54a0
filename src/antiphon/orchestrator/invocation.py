"""Runs a tool, sync or async, so that nothing that it does can hurt whoever asked for it."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from antiphon.orchestrator.binding import Bound, ToolArgumentsInvalid
from antiphon.orchestrator.tool import Run, ServerTool, Tool, ToolContext, ToolNotRunnable, ToolResult

__all__ = [
    "ToolAborted",
    "ToolArgumentsInvalid",
    "ToolBusy",
    "ToolNotRunnable",
    "ToolTimeout",
    "cut_output",
    "describe_error",
    "invoke",
]

MAX_ERROR = 2_000
"""Characters of an error's message that are told."""
GRACE = 1.0
"""Seconds that an async tool has to clean up after it was cancelled."""
MAX_LEFT = 8
"""Calls of one tool that may go on after they were given up."""


class ToolTimeout(Exception):
    """A tool has used up its time. If it is sync, it may still be running: nobody can stop it."""


class ToolBusy(Exception):
    """Too many calls of the tool were given up and go on: one more would only join them."""


class ToolAborted(Exception):
    """A tool wanted to end more than itself: it called `sys.exit`, or was cancelled from inside."""


async def invoke(
    tool: Tool, arguments: str, *, context: ToolContext | None = None, deadline: float | None = None
) -> ToolResult:
    """Call the tool with the JSON that the model wrote.

    What the tool raises is raised, and `ToolArgumentsInvalid`, `ToolTimeout`, `ToolBusy` and
    `ToolNotRunnable`.
    `deadline` is in seconds; a server tool's own one goes first.
    """
    bound = tool.binding.bind(arguments, context)
    assert tool.run is not None  # or it had no binding
    if isinstance(tool, ServerTool) and tool.deadline is not None:
        deadline = tool.deadline
    _check_left(tool.run, tool.name)
    task = asyncio.create_task(_finish(tool.run, bound))
    try:
        return await _within(deadline, task, tool.name)
    finally:
        if not task.done():
            await _give_up(tool.run, task)


def describe_error(error: BaseException) -> str:
    """What the model is told about an error: its type and message as JSON, and no stack trace."""
    text = f"{type(error).__name__}: {_message(error)[:MAX_ERROR]}"
    return msgspec.json.encode({"error": _speakable(text)}).decode()


def cut_output(output: str, limit: int) -> str:
    """The output, or as much of it as the model is told, with a note that it is not all."""
    if len(output) <= limit:
        return output
    return f"{output[:limit]}\n[cut: {len(output) - limit} more characters]"


async def _within(deadline: float | None, task: "asyncio.Task[ToolResult]", name: str) -> ToolResult:
    """The result, or `ToolTimeout`."""
    done, _ = await asyncio.wait({task}, timeout=deadline)
    if not done:
        raise ToolTimeout(f"The tool '{name}' gave no result within {deadline:g} seconds.")
    if task.cancelled():
        raise ToolAborted("CancelledError: the tool was cancelled, and not by whoever called it.")
    if isinstance(error := task.exception(), GeneratorExit):
        raise _aborted(error) from error
    return task.result()


async def _give_up(run: Run, task: "asyncio.Task[ToolResult]") -> None:
    """Cancel a call. One that does not want to be cancelled is left to itself."""
    task.add_done_callback(_hear_out)
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=GRACE)
    finally:
        if not task.done():
            _leave(_Left(run, lambda: not task.done()))
            _disown(task)


def _hear_out(task: "asyncio.Task[ToolResult]") -> None:
    if not task.cancelled():
        task.exception()  # or asyncio would complain that nobody has asked


def _disown(task: "asyncio.Task[ToolResult]") -> None:
    """Whoever ends the event loop waits for every task that it knows, for ever if need be."""
    asyncio._unregister_task(task)  # pyright: ignore -- documented for those who manage the life of tasks
    task._log_destroy_pending = False  # pyright: ignore -- as `asyncio.gather` does: it is left on purpose


class _Left(NamedTuple):
    """A call that was given up."""

    run: Run
    goes_on: Callable[[], bool]


_left: list[_Left] = []
"""The calls that go on though they were given up; and the event loop alone does not keep a task alive."""
_leaving = threading.Lock()


def _leave(call: _Left) -> None:
    with _leaving:
        _left[:] = [*(one for one in _left if one.goes_on()), call]


def _check_left(run: Run, name: str) -> None:
    if sum(call.run is run and call.goes_on() for call in tuple(_left)) >= MAX_LEFT:
        raise ToolBusy(f"The tool '{name}' is still busy with {MAX_LEFT} calls that never came back.")


async def _finish(run: Run, bound: Bound) -> ToolResult:
    call = partial(run, *bound.positional, **bound.named)
    if _is_async(run):
        return _result(await _guarded(call()))
    outcome = await _in_thread(run, call)
    if isinstance(outcome, ToolResult):
        return outcome
    return _result(await _guarded(outcome))


def _is_async(run: Run) -> bool:
    return inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(getattr(run, "__call__", None))  # noqa: B004


async def _guarded(work: Awaitable[Any]) -> Any:
    """SystemExit in a task would end the event loop. GeneratorExit may mean that the task itself is over."""
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise _aborted(error) from error


class _Outcome(NamedTuple):
    value: Any
    error: Exception | None


async def _in_thread(run: Run, call: Callable[[], Any]) -> "ToolResult | Awaitable[Any]":
    """The result of a sync function, or what it wants to have awaited.

    Each call has a thread of its own, which the end of the process does not wait for: a function that hangs
    would take a place in a pool for good.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[_Outcome] = loop.create_future()
    context = contextvars.copy_context()

    def body() -> None:
        outcome = context.run(_attempt, call)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, arrived, outcome)

    thread = threading.Thread(target=body, name="antiphon-tool", daemon=True)
    thread.start()
    try:
        value, error = await arrived
    except asyncio.CancelledError:
        _leave(_Left(run, thread.is_alive))
        raise
    if error is not None:
        raise error
    return value


def _settle(arrived: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not arrived.done():
        arrived.set_result(outcome)
    elif inspect.iscoroutine(outcome.value):
        outcome.value.close()  # too late: nobody will await it


def _attempt(call: Callable[[], Any]) -> _Outcome:
    try:
        value = call()
        return _Outcome(value if inspect.isawaitable(value) else _result(value), None)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is raised where the tool is awaited
        return _Outcome(None, error)
    except BaseException as error:  # noqa: BLE001 -- the end of the thread must not be the end of the news
        return _Outcome(None, _aborted(error))


def _aborted(error: BaseException) -> ToolAborted:
    return ToolAborted(f"{type(error).__name__}: {_message(error)}")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 -- a broken error must not hide that there was one
        return "(its message cannot be read)"


def _result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return replace(value, output=_speakable(value.output))
    if isinstance(value, str):
        return ToolResult(output=_speakable(value))
    return ToolResult(output=msgspec.json.encode(value, enc_hook=str).decode())


def _speakable(text: str) -> str:
    """Without lone surrogates, which file names can bring in and no JSON can carry."""
    return text.encode("utf-8", "replace").decode()
