"""Runs a tool, sync or async, and contains everything it may do: hang, exit, cancel, return too much.

An async function runs as a task on the event loop, a sync function in a thread of its own. A call that passes
its deadline is cancelled. A thread cannot be stopped, and a task may ignore its cancellation: such calls are
abandoned, and counted, so that a tool that always hangs is refused after `MAX_ABANDONED_CALLS`.
"""

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

from antiphon.tools.binding import Bound, ToolArgumentsInvalid
from antiphon.tools.declaration import CallContext, Run, ServerTool, Tool, ToolNotRunnable, ToolOutput

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

MAX_ERROR_CHARS = 2_000
"""Length to which an error message for the model is cut."""
CANCEL_GRACE_SECONDS = 1.0
"""Time for an async tool to clean up after its cancellation."""
MAX_ABANDONED_CALLS = 8
"""The most calls of one tool that may run beyond their deadline; then the tool is not called again."""


class ToolTimeout(Exception):
    """The tool passed its deadline. A sync tool may still be running, because a thread cannot be stopped."""


class ToolBusy(Exception):
    """Too many abandoned calls of the tool are still running: another one would hang as well."""


class ToolAborted(Exception):
    """The tool called `sys.exit`, or cancelled its own task."""


async def invoke(
    tool: Tool, arguments: str, *, context: CallContext | None = None, deadline: float | None = None
) -> ToolOutput:
    """Call the tool with the JSON arguments that the model wrote.

    Raises `ToolArgumentsInvalid`, `ToolTimeout`, `ToolBusy`, `ToolAborted`, `ToolNotRunnable`, and whatever
    the tool raises. `deadline` is in seconds; a server tool's own deadline takes precedence.
    """
    bound = tool.binding.bind(arguments, context)
    assert tool.run is not None  # `binding` has raised otherwise
    if isinstance(tool, ServerTool) and tool.deadline is not None:
        deadline = tool.deadline
    _check_abandoned(tool.run, tool.name)
    task = asyncio.create_task(_finish(tool.run, bound))
    try:
        return await _within(deadline, task, tool.name)
    finally:
        if not task.done():
            await _abandon(tool.run, task)


def describe_error(error: BaseException) -> str:
    """An error as the model receives it: type and message as JSON, without a stack trace."""
    text = f"{type(error).__name__}: {_message(error)[:MAX_ERROR_CHARS]}"
    return msgspec.json.encode({"error": _encodable(text)}).decode()


def cut_output(output: str, limit: int) -> str:
    """The output, cut to `limit` characters with a note of how many were cut."""
    if len(output) <= limit:
        return output
    return f"{output[:limit]}\n[cut: {len(output) - limit} more characters]"


async def _within(deadline: float | None, task: "asyncio.Task[ToolOutput]", name: str) -> ToolOutput:
    done, _ = await asyncio.wait({task}, timeout=deadline)
    if not done:
        raise ToolTimeout(f"The tool '{name}' gave no result within {deadline:g} seconds.")
    if task.cancelled():
        raise ToolAborted("CancelledError: the tool cancelled itself.")
    if isinstance(error := task.exception(), GeneratorExit):
        raise _aborted(error) from error
    return task.result()


async def _abandon(run: Run, task: "asyncio.Task[ToolOutput]") -> None:
    """Cancel a call. One that ignores the cancellation keeps running, unobserved and counted."""
    task.add_done_callback(_retrieve_exception)
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=CANCEL_GRACE_SECONDS)
    finally:
        if not task.done():
            _note_abandoned(_AbandonedCall(run, lambda: not task.done()))
            _disown(task)


def _retrieve_exception(task: "asyncio.Task[ToolOutput]") -> None:
    if not task.cancelled():
        task.exception()  # else asyncio logs "exception was never retrieved"


def _disown(task: "asyncio.Task[ToolOutput]") -> None:
    """Hide a task from the event loop, because closing the loop waits for every task that it knows."""
    asyncio._unregister_task(task)  # pyright: ignore -- documented for custom task managers
    task._log_destroy_pending = False  # pyright: ignore -- as `asyncio.gather` does: abandoned on purpose


class _AbandonedCall(NamedTuple):
    run: Run
    is_running: Callable[[], bool]


_abandoned: list[_AbandonedCall] = []
"""Calls that still run after their deadline. The list also keeps tasks alive: the event loop holds only weak
references to them."""
_abandoned_lock = threading.Lock()


def _note_abandoned(call: _AbandonedCall) -> None:
    with _abandoned_lock:
        _abandoned[:] = [*(one for one in _abandoned if one.is_running()), call]


def _check_abandoned(run: Run, name: str) -> None:
    if sum(call.run is run and call.is_running() for call in tuple(_abandoned)) >= MAX_ABANDONED_CALLS:
        raise ToolBusy(f"The tool '{name}' is busy: {MAX_ABANDONED_CALLS} earlier calls have not returned.")


async def _finish(run: Run, bound: Bound) -> ToolOutput:
    call = partial(run, *bound.positional, **bound.named)
    if _is_async(run):
        return _result(await _guarded(call()))
    outcome = await _in_thread(run, call)
    if isinstance(outcome, ToolOutput):
        return outcome
    return _result(await _guarded(outcome))


def _is_async(run: Run) -> bool:
    return inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(getattr(run, "__call__", None))  # noqa: B004


async def _guarded(work: Awaitable[Any]) -> Any:
    """Contain SystemExit, which would end the event loop. GeneratorExit may mean that the task is closed."""
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise _aborted(error) from error


class _Outcome(NamedTuple):
    value: Any
    error: Exception | None


async def _in_thread(run: Run, call: Callable[[], Any]) -> "ToolOutput | Awaitable[Any]":
    """The result of a sync function, or the awaitable that it returned.

    Each call has a daemon thread of its own: in a pool, a function that hangs would occupy a worker for good,
    and the process would wait for it at exit.
    """
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[_Outcome] = loop.create_future()
    context = contextvars.copy_context()

    def body() -> None:
        outcome = context.run(_attempt, call)
        with suppress(RuntimeError):  # the loop is closed, so nobody waits for the result
            loop.call_soon_threadsafe(_settle, finished, outcome)

    thread = threading.Thread(target=body, name="antiphon-tool", daemon=True)
    thread.start()
    try:
        value, error = await finished
    except asyncio.CancelledError:
        _note_abandoned(_AbandonedCall(run, thread.is_alive))
        raise
    if error is not None:
        raise error
    return value


def _settle(finished: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not finished.done():
        finished.set_result(outcome)
    elif inspect.iscoroutine(outcome.value):
        outcome.value.close()  # abandoned: nobody will await it


def _attempt(call: Callable[[], Any]) -> _Outcome:
    try:
        value = call()
        return _Outcome(value if inspect.isawaitable(value) else _result(value), None)
    except Exception as error:  # noqa: BLE001 -- raised again where the tool is awaited
        return _Outcome(None, error)
    except BaseException as error:  # noqa: BLE001 -- SystemExit ends the thread; the caller must still learn of it
        return _Outcome(None, _aborted(error))


def _aborted(error: BaseException) -> ToolAborted:
    return ToolAborted(f"{type(error).__name__}: {_message(error)}")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 -- the error must be reported even if its message cannot be read
        return "(its message cannot be read)"


def _result(value: Any) -> ToolOutput:
    if isinstance(value, ToolOutput):
        return replace(value, output=_encodable(value.output))
    if isinstance(value, str):
        return ToolOutput(output=_encodable(value))
    return ToolOutput(output=msgspec.json.encode(value, enc_hook=str).decode())


def _encodable(text: str) -> str:
    """Replace lone surrogates, which file names may contain and JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()
