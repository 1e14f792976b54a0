"""`execute`, the reasoner: context resolution → retrieval → model → server tools → model → … → the response.

A turn's calls of client tools are returned with the response. The client sends their results with the next
request, and only then does the server run its own calls of that turn: so no state is needed between two
requests, and no tool runs twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from antiphon.errors import InvalidRequest, ResponsesCallFailed
from antiphon.orchestrator.approvals import (
    approval_items,
    as_tool_call,
    check_answers,
    decisions,
    waiting_for,
)
from antiphon.orchestrator.asking import Asker
from antiphon.orchestrator.client import ResponsesClient
from antiphon.orchestrator.continuation import (
    Previous,
    abandoned,
    missing_result,
    owner_of,
    previous_of,
    results_for,
    without_result,
)
from antiphon.orchestrator.events import (
    AgentCancelled,
    AgentCompleted,
    AgentEvent,
    AgentFailed,
    AgentStarted,
    AgentWaiting,
)
from antiphon.orchestrator.grounding import ground
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    AgentToolCall,
    ApprovalRequest,
    ConversationContext,
    Limits,
)
from antiphon.orchestrator.modes import BUILT_IN, Modes
from antiphon.orchestrator.resolution import Plan, resolve
from antiphon.orchestrator.response_mapper import map_error, map_response
from antiphon.orchestrator.run_state import Emit, RunLog
from antiphon.orchestrator.tool import ToolContext
from antiphon.retrieval.base import Retriever
from antiphon.tools.call_record import CallKey
from antiphon.tools.call_runner import CallRunner
from antiphon.tools.declaration import CallContext, ToolCall
from antiphon.tools.registry import ToolRegistry

__all__ = ["Emit", "Limits", "execute"]


async def execute(  # noqa: PLR0913 -- the parts of an agent; each has a default that does without
    request: AgentExecuteRequest,
    *,
    client: ResponsesClient,
    context: ConversationContext | None = None,
    tools: ToolRegistry | None = None,
    modes: Modes | None = None,
    retriever: Retriever | None = None,
    limits: Limits = Limits(),  # noqa: B008 -- frozen
    tell: Emit | None = None,
    past: Sequence[AgentEvent] = (),
    tenant: str = "",
    key_id: str | None = None,
    durable: bool = False,
) -> AgentExecuteResponse:
    """Process a request in as many turns as it needs.

    The response is the mapping of the last turn. Its usage is the sum over all turns of this request. Its
    tool calls are those that the server has answered, in order, then the open ones. The client answers those
    that are not `is_server_tool`: it sends all results together, with the `response_continuation_id`.

    `tell` receives every event before the next step is taken. A run that was cut off resumes from `past`, the
    events that it emitted: answered turns are not requested again, and a tool with side effects is not run
    again. A call that needs an approval ends the request: the response has it in `approvals`, and the client
    continues with the answers. A `durable` run emits `AgentWaiting` instead; it is resumed with the answers
    in `past`.

    An invalid request raises `InvalidRequest` before the first event; if the model cannot be called, the
    response is of kind `error`. Cancelling the task cancels the current turn or tool.
    """
    log = RunLog(past, tell)
    end = log.state.end
    if isinstance(end, AgentCancelled):
        raise InvalidRequest("The run was cancelled and cannot be resumed.", code="run_cancelled")
    if end is not None:
        return end.response
    context, registry = context or ConversationContext(), tools or ToolRegistry()
    reasoner = _Reasoner(request, client, context, limits, log, durable)
    resolved = request
    try:
        plan, previous = await reasoner.resolve(registry, modes or Modes(BUILT_IN))
        resolved = plan.request
        runner = _call_runner(request, plan, limits, log, CallContext(tenant=tenant, key_id=key_id))
        return await reasoner.reason(plan, previous, runner, retriever)
    except ResponsesCallFailed as error:
        return await reasoner.fail(error, resolved, registry)


def _call_runner(
    request: AgentExecuteRequest, plan: Plan, limits: Limits, log: RunLog, caller: CallContext
) -> CallRunner:
    """Runs the server tools of one request. The log of the run is the record of its calls."""

    def context(call: ToolCall) -> ToolContext:
        files, mode = dict(log.state.files), plan.mode.key
        return ToolContext(
            request,
            call_id=call.id,
            tenant=caller.tenant,
            key_id=caller.key_id,
            mode=mode,
            files=files,
        )

    def explain_unknown(name: str) -> str:
        if name in plan.taken:
            return f"The tool '{name}' is not offered in the mode '{plan.mode.key}'."
        return f"There is no tool '{name}'."

    return CallRunner(
        tools=plan.offered,
        callable_names={*plan.offered, *plan.client_tools},
        explain_unknown=explain_unknown,
        context=context,
        record=log,
        guard=log.state.guard,
        warn=log.warn,
        approvals=decisions(request, log.state.approvals),
        deadline=limits.tool_deadline,
        max_output=limits.max_tool_output,
    )


@dataclass(frozen=True, slots=True)
class _Reasoner:
    request: AgentExecuteRequest
    client: ResponsesClient
    context: ConversationContext
    limits: Limits
    log: RunLog
    durable: bool

    async def resolve(self, tools: ToolRegistry, modes: Modes) -> tuple[Plan, Previous]:
        """The plan of the request, and the response that it continues, which no longer matters once a turn of
        this request has been answered."""
        previous = Previous()
        if _present(self.request.response_continuation_id) and self.log.state.answer is None:
            raw = await self.client.retrieve(self.request.response_continuation_id or "")
            response = map_response(raw, self.request, self.context)
            previous = previous_of(response)
        request = msgspec.structs.replace(self.request, mode=self._mode(previous))
        return resolve(request, self.context, tools, modes, previous.chain), previous

    def _mode(self, previous: Previous) -> str | None:
        """The requested mode; else that of the run, if it has started, or of the conversation."""
        if _present(self.request.mode):
            return self.request.mode
        if self.log.state.started is not None:
            return self.log.state.started.mode
        return previous.chain.mode if previous.chain else self.request.mode

    async def reason(
        self, plan: Plan, previous: Previous, runner: CallRunner, retriever: Retriever | None
    ) -> AgentExecuteResponse:
        """Turn by turn, until no call is left that the server could answer."""
        state = self.log.state
        asker = Asker(self.client, plan, self.log, self.limits.max_output_tokens)
        if state.answer is None:
            results = await self._results(plan, previous, runner)
            if state.started is None:
                await self._start(plan, previous, retriever)
            outputs = [await self._output(call, results, runner) for call in previous.calls]
            answer = await asker.ask(outputs, approval_items(previous.approvals, 0, runner.approvals))
        else:
            answer = state.answer
        while (left := await self._left(plan, answer, runner)) is None:
            outputs = [await self._output(call, {}, runner) for call in answer.tool_calls]
            answer = await asker.ask(outputs, approval_items(answer.approvals, state.turn, runner.approvals))
        return await (self._wait(answer, left) if left.run_waits else self.end(answer, left))

    async def _wait(self, answer: AgentExecuteResponse, left: "_Left") -> AgentExecuteResponse:
        """Leave the run until a person has answered."""
        number, turn = self.log.number, self.log.state.turn
        await self.log.add(AgentWaiting(sequence_number=number, turn=turn, approvals=left.approvals))
        return self.log.state.finished(answer, left.calls, left.approvals)

    async def fail(
        self, error: ResponsesCallFailed, resolved: AgentExecuteRequest, tools: ToolRegistry
    ) -> AgentExecuteResponse:
        """End the run: the model could not be called."""
        response = self.log.state.finished(_failure(error, resolved, self.context))
        done = [call.name for call in self.log.state.executed if call.was_executed]
        if names := ", ".join(name for name in done if (tool := tools.get(name)) and tool.side_effects):
            # There is no response to continue from, so the results of these tools are lost.
            warning = f"Tools ran before the error ({names}). Sending the request again runs them again."
            response = msgspec.structs.replace(response, warnings=(*response.warnings, warning))
        number = self.log.number
        await self.log.add(AgentFailed(sequence_number=number, response=response, code=error.code or ""))
        return response

    async def end(self, answer: AgentExecuteResponse, left: "_Left") -> AgentExecuteResponse:
        """End the run with the last answer, completed with the results of all turns."""
        response = self.log.state.finished(answer, left.calls, left.approvals)
        ended = AgentFailed if response.kind == "error" else AgentCompleted
        await self.log.add(ended(sequence_number=self.log.number, response=response))
        return response

    async def _results(self, plan: Plan, previous: Previous, runner: CallRunner) -> dict[str, AgentToolCall]:
        """The client's results by call id, checked before the first event is emitted."""
        results = results_for(self.request, previous, plan)
        check_answers(self.request, previous, runner)
        for call in without_result(results, previous, plan):
            # A call that our check rejected was never handed to the client: its error is the result.
            tool = plan.offered.get(call.name)
            checked = None
            if tool is not None and tool.run is not None:
                checked = await runner.run(tool, as_tool_call(call))
            if checked is None or checked.outcome == "ok":
                raise missing_result(self.request, call)
            results[call.call_id] = _answered(call, checked.result.output)
        return results

    async def _start(self, plan: Plan, previous: Previous, retriever: Retriever | None) -> None:
        model = plan.context.model_name or await self.client.default_model()
        grounding = await ground(plan, retriever, self.limits)
        started = AgentStarted(
            sequence_number=self.log.number,
            mode=plan.mode.key,
            model=model,
            context_block=grounding.block,
            sources=grounding.sources,
            warnings=(*plan.warnings, *grounding.warnings, *abandoned(self.request, previous)),
        )
        await self.log.add(started)

    async def _left(self, plan: Plan, answer: AgentExecuteResponse, runner: CallRunner) -> "_Left | None":
        """What is open when the run ends or waits; None: it continues, the server answers all calls."""
        if answer.kind == "error" or not (answer.tool_calls or answer.approvals):
            return _Left()
        handed = await self._handed(plan, answer, runner)
        turn = self.log.state.turn
        open_calls = [*handed, *self._open_server_calls(answer, handed)]
        approvals = waiting_for(answer.tool_calls, answer.approvals, turn, runner)
        if handed or (approvals and not self.durable):
            return _Left(open_calls, approvals)
        if turn < (plan.mode.max_turns or self.limits.max_turns) and answer.response_continuation_id:
            return _Left(open_calls, approvals, run_waits=True) if approvals else None
        reason = f"all {turn} turns are used" if answer.response_continuation_id else "it has no id"
        await self.log.warn(f"The calls of the last response were not run: {reason}.")
        return _Left(open_calls, approvals)

    async def _handed(
        self, plan: Plan, answer: AgentExecuteResponse, runner: CallRunner
    ) -> Sequence[AgentToolCall]:
        """The calls for the client. Calls that the server checks first are checked."""
        goes_on = _present(self.request.response_continuation_id)
        tools = previous_of(answer).tools if goes_on else frozenset[str]()
        turn, handed = self.log.state.turn, list[AgentToolCall]()
        for call in answer.tool_calls:
            owner = owner_of(call, plan, tools)
            if owner == "client" or (owner == "both" and await runner.check(as_tool_call(call), turn)):
                handed.append(call)
        return handed

    def _open_server_calls(
        self, answer: AgentExecuteResponse, handed: Sequence[AgentToolCall]
    ) -> list[AgentToolCall]:
        """The server's calls that were not run: beside calls for the client they wait for its results."""
        return [
            msgspec.structs.replace(call, is_server_tool=True)
            for call in answer.tool_calls
            if call not in handed and not self._is_answered(call)
        ]

    def _is_answered(self, call: AgentToolCall) -> bool:
        recorded = self.log.find(CallKey(self.log.state.turn, call.call_id))
        return recorded is not None and recorded.ended is not None

    async def _output(
        self, call: AgentToolCall, results: Mapping[str, AgentToolCall], runner: CallRunner
    ) -> AgentToolCall:
        if call.call_id in results:
            return results[call.call_id]
        return _answered(call, (await runner.answer(as_tool_call(call), self.log.state.turn)).output)


class _Left(NamedTuple):
    """Open calls, and those of them that wait for a person."""

    calls: Sequence[AgentToolCall] = ()
    approvals: tuple[ApprovalRequest, ...] = ()
    run_waits: bool = False
    """Whether the run continues when a person has answered."""


def _answered(call: AgentToolCall, output: str) -> AgentToolCall:
    return AgentToolCall(call_id=call.call_id, name=call.name, was_executed=True, result_json=output)


def _failure(
    error: ResponsesCallFailed, request: AgentExecuteRequest, context: ConversationContext
) -> AgentExecuteResponse:
    if error.body:
        return map_error(error.status, error.body, request, context)
    mapped = map_error(error.status, {"error": error.to_wire()}, request, context)
    return msgspec.structs.replace(mapped, raw_response_json=None)


def _present(text: str | None) -> bool:
    return bool(text and text.strip())
