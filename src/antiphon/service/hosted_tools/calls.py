"""Runs the hosted calls of one turn: in parallel, each with a deadline, with heartbeats while they work."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.service.hosted_tools.base import HostedFunction, OpenedTools, ToolScope
from antiphon.tools.audit import AuditOutcome, ToolUse, audit
from antiphon.turn.chunks import HEARTBEAT, Chunk, HostedItemBegun
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
    response_seconds: float = 3600.0
    """The time of a response with hosted tools, over all rounds."""
    response_tokens: int = 0
    """The tokens of such a response, over all rounds, beyond which no other round follows; 0: no limit."""


DEFAULT_LIMITS = HostedLimits()


class _Batch(NamedTuple):
    """Chunks of a call. A durable one waits for `taken` before its work begins: then its start is stored."""

    chunks: Sequence[Chunk]
    taken: asyncio.Event


async def run_calls(
    calls: Sequence[HostedCall],
    opened: OpenedTools,
    limits: HostedLimits,
    *,
    until: float | None = None,
    durable: bool = False,
) -> AsyncGenerator[Sequence[Chunk], None]:
    """Run the calls; their chunks as they are made. A call that fails ends as a failed item.

    `until`: the time of the event loop when the response has to end, and every call with it.

    `durable`: the starts of calls are stored, so that a call with side effects is not run twice. Items are
    sent one after another, so such calls run one after another, too.
    """
    groups = [calls]
    if durable:
        alone = [call for call in calls if not opened.functions[call.key].repeatable]
        groups = [[call for call in calls if call not in alone], *([call] for call in alone)]
    for group in groups:
        async with aclosing(_run_group(group, opened, limits, until, durable=durable)) as batches:
            async for batch in batches:
                yield batch


async def _run_group(
    calls: Sequence[HostedCall],
    opened: OpenedTools,
    limits: HostedLimits,
    until: float | None,
    *,
    durable: bool,
) -> AsyncGenerator[Sequence[Chunk], None]:
    made: asyncio.Queue[_Batch | None] = asyncio.Queue()
    room = asyncio.Semaphore(limits.parallel_calls)

    async def work(call: HostedCall) -> None:
        async with room:
            function = opened.functions[call.key]
            seconds = limits.call_seconds
            if until is not None:
                seconds = min(seconds, max(0.0, until - asyncio.get_running_loop().time()))
            await _audited(call, function, seconds, made, opened.scope, durable=durable)
        made.put_nowait(None)

    tasks = [asyncio.create_task(work(call)) for call in calls]
    try:
        running = len(tasks)
        while running:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    batch = await made.get()
            except TimeoutError:
                yield HEARTBEAT
                continue
            if batch is None:
                running -= 1
            else:
                yield batch.chunks
                batch.taken.set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _audited(
    call: HostedCall,
    function: HostedFunction,
    seconds: float,
    made: asyncio.Queue[_Batch | None],
    scope: ToolScope,
    *,
    durable: bool,
) -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    outcome: AuditOutcome = "cancelled"
    try:
        outcome = await _run(call, function, seconds, made, durable=durable)
    finally:
        audit(
            ToolUse(
                tenant=scope.tenant,
                key_id=scope.key_id,
                response_id=scope.response_id,
                tool=function.form.declared.type,
                name=function.form.name,
                outcome=outcome,
                seconds=clock() - began,
            )
        )


async def _run(
    call: HostedCall,
    function: HostedFunction,
    seconds: float,
    made: asyncio.Queue[_Batch | None],
    *,
    durable: bool,
) -> AuditOutcome:
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline, aclosing(function.run(call)) as batches:
            async for batch in batches:
                sent = _Batch(batch, asyncio.Event())
                made.put_nowait(sent)
                if durable and isinstance(batch[0], HostedItemBegun):
                    await sent.taken.wait()
                    deadline.reschedule(asyncio.get_running_loop().time() + seconds)
        return "completed"
    except TimeoutError:
        reason = f"it took longer than {seconds:g} s" if deadline.expired() else _UNEXPECTED
    except AntiphonError as error:
        reason = error.message
    except Exception:
        logger.exception("a call of the hosted tool '%s' broke", function.form.name)
        reason = _UNEXPECTED
    logger.warning("a call of the hosted tool '%s' failed: %s", function.form.name, reason)
    made.put_nowait(_Batch([function.failure(call, reason)], asyncio.Event()))
    return "timeout" if deadline.expired() else "failed"
