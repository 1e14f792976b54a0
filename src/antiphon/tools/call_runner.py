"""Answers the calls that the server runs: each once, whatever a tool does and wherever an attempt breaks off.

It combines the record of calls, the repeat guard and the invocation. A loop calls `answer` for each call of a
turn, in order, and sends the outputs to the model.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from antiphon.known_secrets import KNOWN_SECRETS
from antiphon.tools.audit import AuditOutcome, ToolUse, audit
from antiphon.tools.call_record import CallEnded, CallKey, CallRecord, CallStarted, RecordedCall, next_step
from antiphon.tools.declaration import CallContext, ServerTool, ToolCall, ToolOutput
from antiphon.tools.invocation import ToolTimeout, cut_output, describe_error, invoke
from antiphon.tools.repeat_guard import RepeatGuard, suppressed_output


class Approval(NamedTuple):
    """What a person has decided about a call."""

    approved: bool
    reason: str = ""
    """For the model, if the call is rejected."""


Warn = Callable[[str], Awaitable[None]]
"""Receives a warning for the client."""

_INTERRUPTED = (
    "The server was stopped while this tool was running: it is unknown whether it took effect; it "
    "was not run again. Find out before you call it again."
)


_UNDECIDED = Approval(False, "nobody has approved it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRunner:
    """Answers calls for one request."""

    tools: Mapping[str, ServerTool]
    """The tools that the model may call, by name."""
    callable_names: Collection[str]
    """All names that the model may call, those of the client's tools included."""
    explain_unknown: Callable[[str], str]
    """Why there is no tool of this name, as a sentence."""
    context: Callable[[ToolCall], CallContext]
    record: CallRecord
    guard: RepeatGuard
    """Has counted the calls that the record holds; the owner of the record counts new ones."""
    warn: Warn
    deadline: float
    """Seconds, for tools without a deadline of their own."""
    max_output: int
    """Characters of an output; more is cut."""
    approvals: Mapping[CallKey, Approval] = field(default_factory=dict[CallKey, Approval])
    """The decisions about calls of tools that need an approval. Without one such a call is not run."""

    def waits(self, call: ToolCall, turn: int) -> bool:
        """Whether a call needs an approval about which nobody has decided."""
        key = CallKey(turn, call.id)
        undecided = key not in self.approvals and self.record.find(key) is None
        return undecided and self.waits_by_tool(call.name)

    def waits_by_tool(self, name: str) -> bool:
        """Whether the calls of a tool need approvals."""
        tool = self.tools.get(name)
        return tool is not None and tool.final == "server" and tool.needs_approval

    async def answer(self, call: ToolCall, turn: int) -> ToolOutput:
        """The result of a call, run now or recorded earlier."""
        key = CallKey(turn, call.id)
        recorded, tool = self.record.find(key), self.tools.get(call.name)
        step = next_step(recorded, has_side_effects=tool is None or tool.side_effects)
        if step == "use_result" and recorded is not None and recorded.ended is not None:
            return recorded.ended.result
        ended = await self._interrupted(call) if step == "report_unknown" else await self._refused(call, key)
        await self._start(key, call, recorded, runs=ended is None)
        if ended is None:
            ended = await self._cut(call, await self.run(self.tools[call.name], call))
        await self.record.end(key, ended)
        return ended.result

    async def check(self, call: ToolCall, turn: int) -> bool:
        """Whether a call with a result of the client may be sent to it. A check has no effect, so an
        interrupted one is repeated."""
        key = CallKey(turn, call.id)
        recorded, tool = self.record.find(key), self.tools[call.name]
        if recorded is not None and recorded.ended is not None:
            return recorded.ended.outcome == "handed"
        if tool.run is None:
            return True
        await self._start(key, call, recorded)
        ended = await self.run(tool, call)
        if ended.outcome == "ok":
            ended = CallEnded(outcome="handed", result=ToolOutput(output=""), elapsed_ms=ended.elapsed_ms)
        await self.record.end(key, ended)
        return ended.outcome == "handed"

    async def run(self, tool: ServerTool, call: ToolCall) -> CallEnded:
        """Run a tool, without recording it. Raises nothing but `CancelledError`."""
        clock = asyncio.get_running_loop().time
        begin, context = clock(), self.context(call)
        outcome: AuditOutcome = "cancelled"
        try:
            result = await invoke(tool, call.arguments, context=context, deadline=self.deadline)
            ended, outcome = CallEnded(outcome="ok", result=result), "completed"
        except ToolTimeout as error:
            outcome = "timeout"
            ended = CallEnded(outcome="timeout", result=ToolOutput(output=describe_error(error)))
        except Exception as error:  # noqa: BLE001 -- a tool may raise anything; the model receives it
            outcome = "failed"
            ended = CallEnded(outcome="error", result=ToolOutput(output=describe_error(error)))
        finally:
            audit(
                ToolUse(
                    tenant=context.tenant,
                    key_id=context.key_id,
                    tool="server_tool",
                    name=call.name,
                    outcome=outcome,
                    seconds=clock() - begin,
                )
            )
        return replace(ended, elapsed_ms=round((clock() - begin) * 1000))

    async def _start(
        self, key: CallKey, call: ToolCall, recorded: RecordedCall | None, *, runs: bool = True
    ) -> None:
        if recorded is None:
            started = CallStarted(key=key, name=call.name, arguments=call.arguments, runs=runs)
            await self.record.start(started)

    async def _refused(self, call: ToolCall, key: CallKey) -> CallEnded | None:
        """The answer to a call that is not run; None: run it."""
        if call.name not in self.tools:
            return await self._unknown(call)
        decision = self.approvals.get(key, _UNDECIDED)
        if self.tools[call.name].needs_approval and not decision.approved:
            return CallEnded(outcome="rejected", result=_error(_rejection(call, decision.reason)))
        verdict = self.guard.judge(call.name, call.arguments)
        if verdict == "suppressed":
            await self.warn(
                f"The model has called '{call.name}' again with the same arguments; it was not run."
            )
            return CallEnded(outcome="suppressed", result=ToolOutput(output=suppressed_output(call.name)))
        if verdict == "repeated":
            await self.warn(f"The model has called '{call.name}' twice with the same arguments.")
        return None

    async def _unknown(self, call: ToolCall) -> CallEnded:
        reason = self.explain_unknown(call.name)
        await self.warn(f"The model has called an unknown tool. {reason}")
        known = ", ".join(sorted(self.callable_names)) or "none"
        return CallEnded(outcome="error", result=_error(f"{reason} Tools that you can call: {known}."))

    async def _interrupted(self, call: ToolCall) -> CallEnded:
        await self.warn(
            f"The server was stopped while '{call.name}' was running. It is unknown whether the call "
            f"'{call.id}' took effect; it was not run again."
        )
        return CallEnded(outcome="interrupted", result=_error(_INTERRUPTED))

    async def _cut(self, call: ToolCall, ended: CallEnded) -> CallEnded:
        output = KNOWN_SECRETS.scrub(ended.result.output)
        if output != ended.result.output:
            await self.warn(f"The output of '{call.name}' contained a secret of the server; it is redacted.")
            ended = replace(ended, result=replace(ended.result, output=output))
        if len(output) <= self.max_output:
            return ended
        await self.warn(
            f"The output of '{call.name}' is truncated: the model receives {self.max_output} of its "
            f"{len(output)} characters."
        )
        return replace(ended, result=replace(ended.result, output=cut_output(output, self.max_output)))


def _rejection(call: ToolCall, reason: str) -> str:
    why = f" Reason: {reason.strip()}" if reason.strip() else ""
    return f"The call of '{call.name}' was rejected by a person and not run.{why}"


def _error(message: str) -> ToolOutput:
    return ToolOutput(output=msgspec.json.encode({"error": message}).decode())
