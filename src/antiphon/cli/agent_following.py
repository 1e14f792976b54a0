"""Following a run to its end, whoever makes it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from antiphon.cli.agent_answer import end, print_notes
from antiphon.cli.agent_doors import LocalDoor, RunDoor, ShownRun, open_local
from antiphon.cli.agent_progress import SpeakingPrinter
from antiphon.cli.failure import Failure
from antiphon.cli.run_view import print_tree
from antiphon.cli.terminal import errors, harmless
from antiphon.settings import Settings
from antiphon.store.agent_runs import AgentRun

Begin = Callable[[LocalDoor], Awaitable[AgentRun]]


async def follow(door: RunDoor, run_id: str) -> ShownRun:
    """Print what a run does; then the run is returned."""
    printer = SpeakingPrinter()
    try:
        async with aclosing(door.follow(run_id)) as events:
            async for event in events:
                printer.take(event)
    finally:
        printer.close()
    return await door.show(run_id)


async def make(begin: Begin, settings: Settings, tenant: str) -> ShownRun:
    """Make a run in this process and follow it. Who interrupts it can go on with it later."""
    async with open_local(settings, tenant) as door:
        run = await begin(door)
        announce(run)
        try:
            return await follow(door, run.id)
        except asyncio.CancelledError:
            note(
                f"The run is unfinished. Go on with `antiphon agent resume {run.id}`; "
                "a server on the same store takes it up by itself."
            )
            raise


def announce(run: AgentRun) -> None:
    """Say which run it is."""
    note(f"{run.id}  {run.title}")


def finish(shown: ShownRun) -> None:
    """Draw what was done, and end the command as the run ended."""
    print_tree(shown.tree, errors())
    if shown.run.status == "cancelled":
        raise Failure("The run was cancelled.")
    if shown.response is not None:
        print_notes(shown.response)
        end(shown.response)


def note(line: str) -> None:
    """A remark beside the answer."""
    errors().print(harmless(line), style="dim", markup=False, soft_wrap=True)
