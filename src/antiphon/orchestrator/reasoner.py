"""`execute`, the reasoner: context resolution → retrieval → model → server tools → model → … → the response.

The calls of a turn that are the client's are handed back with the response; the client sends their results
with the next request, and only then the server runs its own calls of that turn: so nothing has to be
remembered between two requests, and no tool is run twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from antiphon.errors import InvalidRequest, ResponsesCallFailed
from antiphon.orchestrator.asking import Asker
from antiphon.orchestrator.builtin_modes import BUILT_IN
from antiphon.orchestrator.call_answering import CallAnswerer
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
)
from antiphon.orchestrator.grounding import ground
from antiphon.orchestrator.limits import Limits
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    AgentToolCall,
    ConversationContext,
)
from antiphon.orchestrator.modes import Modes
from antiphon.orchestrator.progress import Progress, Tell
from antiphon.orchestrator.registry import ToolRegistry
from antiphon.orchestrator.resolution import Plan, resolve
from antiphon.orchestrator.response_mapper import map_error, map_response
from antiphon.retrieval.base import Retriever

__all__ = ["Limits", "Tell", "execute"]


async def execute(  # noqa: PLR0913 -- the parts of an agent; each has a default that does without
    request: AgentExecuteRequest,
    *,
    client: ResponsesClient,
    context: ConversationContext | None = None,
    tools: ToolRegistry | None = None,
    modes: Modes | None = None,
    retriever: Retriever | None = None,
    limits: Limits = Limits(),  # noqa: B008 -- frozen
    tell: Tell | None = None,
    past: Sequence[AgentEvent] = (),
    tenant: str = "",
) -> AgentExecuteResponse:
    """Do what a request asks for, in as many turns as it takes.

    The response is the mapping of the last turn. Its usage is the sum over all turns of this request. Its
    tool calls are those that the server has answered, in order, then those that are left. The client answers
    the ones that are not `is_server_tool`: it sends all results together, with the
    `response_continuation_id`.

    `tell` hears every event before the next thing is done. A run that broke off goes on from `past`, the
    events that it had told: what was answered is not asked again, and a tool with side effects is not run
    again. A request that is wrong raises `InvalidRequest` before anything is told; a model that cannot be
    asked gives a response of kind `error`. Cancelling the task cancels what is under way.
    """
    progress = Progress(past, tell)
    end = progress.state.end
    if isinstance(end, AgentCancelled):
        raise InvalidRequest("The run was cancelled: it cannot go on.", code="run_cancelled")
    if end is not None:
        return end.response
    context, registry = context or ConversationContext(), tools or ToolRegistry()
    reasoner = _Reasoner(request, client, context, limits, progress)
    asked = request
    try:
        plan, previous = await reasoner.resolve(registry, modes or Modes(BUILT_IN))
        asked = plan.request
        answerer = CallAnswerer(request, plan, limits, tenant, progress)
        return await reasoner.reason(plan, previous, answerer, retriever)
    except ResponsesCallFailed as error:
        return await reasoner.fail(error, asked, registry)


@dataclass(frozen=True, slots=True)
class _Reasoner:
    request: AgentExecuteRequest
    client: ResponsesClient
    context: ConversationContext
    limits: Limits
    progress: Progress

    async def resolve(self, tools: ToolRegistry, modes: Modes) -> tuple[Plan, Previous]:
        """What holds for the request, and what it goes on from. Once there is an answer, that counts."""
        previous = Previous()
        if _present(self.request.response_continuation_id) and self.progress.state.answer is None:
            raw = await self.client.retrieve(self.request.response_continuation_id or "")
            response = map_response(raw, self.request, self.context)
            previous = previous_of(response)
        request = msgspec.structs.replace(self.request, mode=self._mode(previous))
        return resolve(request, self.context, tools, modes, previous.chain), previous

    def _mode(self, previous: Previous) -> str | None:
        """The mode that is named; else that of the run, if it was begun, or of the conversation."""
        if _present(self.request.mode):
            return self.request.mode
        if self.progress.state.started is not None:
            return self.progress.state.started.mode
        return previous.chain.mode if previous.chain else self.request.mode

    async def reason(
        self, plan: Plan, previous: Previous, answerer: CallAnswerer, retriever: Retriever | None
    ) -> AgentExecuteResponse:
        """Turn by turn, until nothing is left that the server could do."""
        state = self.progress.state
        asker = Asker(self.client, plan, self.progress, self.limits.max_output_tokens)
        if state.answer is None:
            results = await self._results(plan, previous, answerer)
            if state.started is None:
                await self._start(plan, previous, retriever)
            answer = await asker.ask([await _output(call, results, answerer) for call in previous.calls])
        else:
            answer = state.answer
        while (left := await self._left(plan, answer, answerer)) is None:
            answer = await asker.ask([await _output(call, {}, answerer) for call in answer.tool_calls])
        return await self.end(answer, left)

    async def fail(
        self, error: ResponsesCallFailed, asked: AgentExecuteRequest, tools: ToolRegistry
    ) -> AgentExecuteResponse:
        """Tell the end: the model could not be asked."""
        response = self.progress.state.finished(_failure(error, asked, self.context))
        done = [call.name for call in self.progress.state.executed if call.was_executed]
        if names := ", ".join(name for name in done if (tool := tools.get(name)) and tool.side_effects):
            # There is nothing to go on from: what the tools gave is known nowhere but here.
            warning = f"Tools were run before the error ({names}). Sending the request again runs them again."
            response = msgspec.structs.replace(response, warnings=(*response.warnings, warning))
        number = self.progress.number
        await self.progress.add(AgentFailed(sequence_number=number, response=response, code=error.code or ""))
        return response

    async def end(
        self, answer: AgentExecuteResponse, left: Sequence[AgentToolCall] = ()
    ) -> AgentExecuteResponse:
        """Tell the end: the last answer, with what all turns have brought."""
        response = self.progress.state.finished(answer, left)
        ended = AgentFailed if response.kind == "error" else AgentCompleted
        await self.progress.add(ended(sequence_number=self.progress.number, response=response))
        return response

    async def _results(
        self, plan: Plan, previous: Previous, answerer: CallAnswerer
    ) -> dict[str, AgentToolCall]:
        """What the client answers. Nothing is told before that is known to be right."""
        results = results_for(self.request, previous, plan)
        for call in without_result(results, previous, plan):
            # A call that our check has held back was never handed to the client: its error is the result.
            tool = plan.offered.get(call.name)
            checked = await answerer.run(tool, call) if tool is not None and tool.run is not None else None
            if checked is None or checked.outcome == "ok":
                raise missing_result(self.request, call)
            results[call.call_id] = _answered(call, checked.output)
        return results

    async def _start(self, plan: Plan, previous: Previous, retriever: Retriever | None) -> None:
        model = plan.context.model_name or await self.client.default_model()
        grounding = await ground(plan, retriever, self.limits)
        started = AgentStarted(
            sequence_number=self.progress.number,
            mode=plan.mode.key,
            model=model,
            context_block=grounding.block,
            sources=grounding.sources,
            warnings=(*plan.warnings, *grounding.warnings, *abandoned(self.request, previous)),
        )
        await self.progress.add(started)

    async def _left(
        self, plan: Plan, answer: AgentExecuteResponse, answerer: CallAnswerer
    ) -> Sequence[AgentToolCall] | None:
        """The calls with which the run ends, because the server cannot answer them now; None: it goes on."""
        if answer.kind == "error" or not answer.tool_calls:
            return ()
        handed = await self._handed(plan, answer, answerer)
        if handed:
            return handed
        turn = self.progress.state.turn
        if turn < (plan.mode.max_turns or self.limits.max_turns) and answer.response_continuation_id:
            return None
        reason = f"all {turn} turns are used up" if answer.response_continuation_id else "it has no id"
        await self.progress.warn(f"The calls of the last response were not run: {reason}.")
        open_calls = [call for call in answer.tool_calls if call.call_id not in self.progress.state.done]
        return [msgspec.structs.replace(call, is_server_tool=True) for call in open_calls]

    async def _handed(
        self, plan: Plan, answer: AgentExecuteResponse, answerer: CallAnswerer
    ) -> Sequence[AgentToolCall]:
        """The calls that are the client's. Those that the server must check first are checked."""
        goes_on = _present(self.request.response_continuation_id)
        tools = previous_of(answer).tools if goes_on else frozenset[str]()
        handed: list[AgentToolCall] = []
        for call in answer.tool_calls:
            owner = owner_of(call, plan, tools)
            if owner == "client" or (owner == "both" and await answerer.passes(call)):
                handed.append(call)
        return handed


async def _output(
    call: AgentToolCall, results: Mapping[str, AgentToolCall], answerer: CallAnswerer
) -> AgentToolCall:
    return results.get(call.call_id) or _answered(call, await answerer.answer(call))


def _answered(call: AgentToolCall, output: str) -> AgentToolCall:
    return AgentToolCall(call_id=call.call_id, name=call.name, was_executed=True, result_json=output)


def _failure(
    error: ResponsesCallFailed, request: AgentExecuteRequest, context: ConversationContext
) -> AgentExecuteResponse:
    if error.body:
        return map_error(error.status, error.body, request, context)
    told = map_error(error.status, {"error": error.to_wire()}, request, context)
    return msgspec.structs.replace(told, raw_response_json=None)


def _present(text: str | None) -> bool:
    return bool(text and text.strip())
