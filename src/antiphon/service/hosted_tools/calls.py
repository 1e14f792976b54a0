"""Runs the hosted calls of one turn: in parallel, each with a deadline, with heartbeats while they work."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.service.hosted_tools.base import HostedFunction
from antiphon.turn.chunks import HEARTBEAT, Chunk
from antiphon.turn.hosted_calls import HostedCall

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
_UNEXPECTED = "an internal error of the server"


class HostedLimits(Struct, frozen=True, kw_only=True):
    """Limits of the hosted tools of one response."""

    max_rounds: int = 64
    """Rounds in which a model may call hosted tools before it has to answer."""
    parallel_calls: int = 8
    """Calls of one turn that run at the same time."""
    call_seconds: float = 120.0
    """The time of one call."""


DEFAULT_LIMITS = HostedLimits()


async def run_calls(
    calls: Sequence[HostedCall], functions: Mapping[str, HostedFunction], limits: HostedLimits
) -> AsyncGenerator[Sequence[Chunk], None]:
    """Run the calls; their chunks as they are made. A call that fails ends as a failed item."""
    made: asyncio.Queue[Sequence[Chunk] | None] = asyncio.Queue()
    room = asyncio.Semaphore(limits.parallel_calls)

    async def work(call: HostedCall) -> None:
        async with room:
            await _run(call, functions[call.key], limits.call_seconds, made)
        made.put_nowait(None)

    tasks = [asyncio.create_task(work(call)) for call in calls]
    try:
        running = len(tasks)
        while running:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    batch = await made.get()
            except TimeoutError:
                batch = HEARTBEAT
            if batch is None:
                running -= 1
            else:
                yield batch
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(
    call: HostedCall,
    function: HostedFunction,
    seconds: float,
    made: asyncio.Queue[Sequence[Chunk] | None],
) -> None:
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline, aclosing(function.run(call)) as batches:
            async for batch in batches:
                made.put_nowait(batch)
        return
    except TimeoutError:
        reason = f"it took longer than {seconds:g} s" if deadline.expired() else _UNEXPECTED
    except AntiphonError as error:
        reason = error.message
    except Exception:
        logger.exception("a call of the hosted tool '%s' broke", function.form.name)
        reason = _UNEXPECTED
    logger.warning("a call of the hosted tool '%s' failed: %s", function.form.name, reason)
    made.put_nowait([function.failure(call, reason)])
