"""A durable run: its process ends before the run does, and the next process resumes from the log.

From the command line: `antiphon agent run TASK.toml`, Ctrl-C, `antiphon agent resume ID`.
"""

import asyncio
import itertools
import json
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

from antiphon import Route, ScriptedBackend, load_settings
from antiphon.caller import Caller
from antiphon.orchestrator import AgentExecuteRequest, ServerTool
from antiphon.orchestrator.agent_runs import AgentRuns
from antiphon.orchestrator.events import ToolStarted
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta
from antiphon.wiring.application import open_agents

ME = Caller.of("default")
attempts = itertools.count(1)


async def count_stars(region: str) -> int:
    """Count the stars of a region of the sky."""
    if next(attempts) == 1:
        await asyncio.Event().wait()  # the first process does not live to see the result
    return len(region)


COUNT_STARS = ServerTool.from_function(count_stars, side_effects=False)  # so it may be run again
CALL = [CallStarted(0, "call_1", "count_stars"), CallDelta(0, json.dumps({"region": "Lyra"}))]
MODEL = ScriptedBackend([[*CALL, Finished("tool_calls")]], [[TextDelta("There are 4."), Finished("stop")]])


@asynccontextmanager
async def process(folder: str) -> AsyncGenerator[AgentRuns, None]:
    """The parts of a server: an agent, and the store of its runs."""
    agent = {"model": "m", "tools": ["__main__:COUNT_STARS"]}
    settings = load_settings(overrides={"store": {"url": f"sqlite:{folder}/kept.db"}, "agent": agent})
    async with open_agents(settings, [Route("m", MODEL)]) as served:
        assert served.agents is not None
        yield served.agents.runs


async def follow(runs: AgentRuns, run_id: str, after: int = -1) -> int:
    """Print events until a tool runs, or until the end; return the number of the last one."""
    async with aclosing(runs.follow(ME, run_id, after)) as events:
        async for event in events:
            if event is not None:
                after = event.sequence_number
                print(f"  {after} {type(event).__name__}")
            if isinstance(event, ToolStarted):
                break
    return after


async def main() -> None:
    """Start a run in one process and resume it in another."""
    with tempfile.TemporaryDirectory() as folder:
        async with process(folder) as runs:
            run = await runs.submit(ME, AgentExecuteRequest(instruction="Count the stars of Lyra."))
            print("the first process:")
            seen = await follow(runs, run.id)
        async with process(folder) as runs:
            print("the second one:")
            await runs.resume(ME, run.id)  # a server does this by itself when it starts
            await follow(runs, run.id, seen)
            print((await runs.show(ME, run.id)).run.status)


asyncio.run(main())
