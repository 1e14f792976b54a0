"""Answers the calls that are the server's: each once, in the order of the calls, whatever a tool does."""

import asyncio
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from antiphon.orchestrator.events import Outcome, ToolCompleted, ToolStarted
from antiphon.orchestrator.invocation import ToolTimeout, cut_output, describe_error, invoke
from antiphon.orchestrator.limits import Limits
from antiphon.orchestrator.models import AgentExecuteRequest, AgentToolCall, FileBundleItem
from antiphon.orchestrator.progress import Progress
from antiphon.orchestrator.repeat_guard import suppressed_output
from antiphon.orchestrator.resolution import Plan
from antiphon.orchestrator.tool import ServerTool, ToolContext


class Answer(Struct, frozen=True, kw_only=True):
    """What became of a call."""

    outcome: Outcome
    output: str
    elapsed_ms: int = 0
    files: tuple[FileBundleItem, ...] = ()
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class CallAnswerer:
    """Runs server tools for one request. What was answered before the run broke off is not run again."""

    request: AgentExecuteRequest
    plan: Plan
    limits: Limits
    tenant: str
    progress: Progress

    async def answer(self, call: AgentToolCall) -> str:
        """The output of a call of the server's."""
        done = self.progress.state.done.get(call.call_id)
        if done is not None:
            return done.output
        answer = await self._without_running(call)
        await self._take_up(call, runs=answer is None)
        if answer is None:
            answer = await self._cut(call, await self.run(self.plan.offered[call.name], call))
        await self._complete(call, answer)
        return answer.output

    async def passes(self, call: AgentToolCall) -> bool:
        """Check a call whose result the client gives: whether it shall be handed on.

        A check does nothing else, so one that was cut off is made again.
        """
        done = self.progress.state.done.get(call.call_id)
        if done is not None:
            return done.outcome == "handed"
        tool = self.plan.offered[call.name]
        if tool.run is None:
            return True
        await self._take_up(call)
        answer = await self.run(tool, call)
        if answer.outcome == "ok":
            answer = Answer(outcome="handed", output="", elapsed_ms=answer.elapsed_ms)
        await self._complete(call, answer)
        return answer.outcome == "handed"

    async def run(self, tool: ServerTool, call: AgentToolCall) -> Answer:
        """Run a tool. Only being cancelled is raised."""
        begin = asyncio.get_running_loop().time()
        try:
            result = await invoke(
                tool, _arguments(call), context=self._context(call), deadline=self.limits.tool_deadline
            )
            answer = Answer(outcome="ok", output=result.output, files=result.files, mode=result.mode)
        except ToolTimeout as error:
            answer = Answer(outcome="timeout", output=describe_error(error))
        except Exception as error:  # noqa: BLE001 -- a tool may raise anything; the model is told
            answer = Answer(outcome="error", output=describe_error(error))
        elapsed = asyncio.get_running_loop().time() - begin
        return msgspec.structs.replace(answer, elapsed_ms=round(elapsed * 1000))

    async def _take_up(self, call: AgentToolCall, *, runs: bool = True) -> None:
        """Tell that a call is taken up, if that was not told before the run broke off."""
        state = self.progress.state
        if call.call_id in state.begun:
            return
        started = ToolStarted(
            sequence_number=self.progress.number,
            turn=state.turn,
            call_id=call.call_id,
            name=call.name,
            arguments_json=_arguments(call),
            runs=runs,
        )
        await self.progress.add(started)

    async def _without_running(self, call: AgentToolCall) -> Answer | None:
        """The answer to a call that shall not be run; None: run it."""
        tool = self.plan.offered.get(call.name)
        begun = self.progress.state.begun.get(call.call_id)
        if begun is not None and begun.runs and (tool is None or tool.side_effects):
            return await self._interrupted(call)
        if tool is None:
            return await self._unknown(call)
        verdict = self.progress.state.guard.judge(call.name, _arguments(call))
        if verdict == "suppressed":
            await self.progress.warn(
                f"The model has called '{call.name}' again with the same arguments; it was not run."
            )
            return Answer(outcome="suppressed", output=suppressed_output(call.name))
        if verdict == "repeated":
            await self.progress.warn(f"The model has called '{call.name}' twice with the same arguments.")
        return None

    async def _unknown(self, call: AgentToolCall) -> Answer:
        if call.name in self.plan.taken:
            reason = f"The tool '{call.name}' is not offered in the mode '{self.plan.mode.key}'."
        else:
            reason = f"There is no tool '{call.name}'."
        await self.progress.warn(f"The model has called an unknown tool. {reason}")
        known = ", ".join(sorted({*self.plan.offered, *self.plan.client_tools})) or "none"
        return Answer(outcome="error", output=_error(f"{reason} Tools that you can call: {known}."))

    async def _interrupted(self, call: AgentToolCall) -> Answer:
        await self.progress.warn(
            f"The server was stopped while '{call.name}' was running. It is unknown whether the call "
            f"'{call.call_id}' took effect; it was not run again."
        )
        told = (
            "The server was stopped while this tool was running: it is unknown whether it took effect; it "
            "was not run again. Find out before you call it again."
        )
        return Answer(outcome="interrupted", output=_error(told))

    async def _cut(self, call: AgentToolCall, answer: Answer) -> Answer:
        limit = self.limits.max_tool_output
        if len(answer.output) <= limit:
            return answer
        await self.progress.warn(
            f"The output of '{call.name}' is truncated: the model is told {limit} of its "
            f"{len(answer.output)} characters."
        )
        return msgspec.structs.replace(answer, output=cut_output(answer.output, limit))

    async def _complete(self, call: AgentToolCall, answer: Answer) -> None:
        completed = ToolCompleted(
            sequence_number=self.progress.number,
            turn=self.progress.state.turn,
            call_id=call.call_id,
            name=call.name,
            outcome=answer.outcome,
            output=answer.output,
            elapsed_ms=answer.elapsed_ms,
            files=answer.files,
            mode=answer.mode,
        )
        await self.progress.add(completed)

    def _context(self, call: AgentToolCall) -> ToolContext:
        return ToolContext(
            request=self.request,
            call_id=call.call_id,
            tenant=self.tenant,
            mode=self.plan.mode.key,
            files=dict(self.progress.state.files),
        )


def _arguments(call: AgentToolCall) -> str:
    return call.arguments_json or ""


def _error(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()
