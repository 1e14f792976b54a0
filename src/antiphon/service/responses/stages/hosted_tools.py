"""Hosted tools that this server runs: their calls become items, and the model continues with the results."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.requests import CreateBody
from antiphon.protocol.tools import AllowedTools, ToolChoice
from antiphon.service.hosted_tools.base import OpenedTools
from antiphon.service.hosted_tools.calls import HostedLimits, run_calls
from antiphon.service.responses.stages.base import Cut, RoundPlan
from antiphon.tools.repeat_guard import suppressed_output
from antiphon.turn.chunks import Chunk, HostedItemDone, UsageSpent
from antiphon.turn.context import TurnRequest
from antiphon.turn.hosted_calls import HostedCall, HostedCalls


class HostedToolStage:
    """Takes the calls of hosted tools out of the turn, and runs them at its end."""

    cut: Cut | None = None

    def __init__(
        self,
        calls: HostedCalls,
        opened: OpenedTools,
        turn: TurnRequest,
        plan: RoundPlan,
        limits: HostedLimits,
    ) -> None:
        self._calls = calls
        self._opened = opened
        self._turn = turn
        self._plan = plan
        self._limits = limits
        self.next: RoundPlan | None = None

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Chunks of other calls pass on."""
        return self._calls.feed(chunks)

    async def end(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run the calls. If the client has none to answer, the model continues in another round. Calls beyond
        `max_tool_calls` are ignored."""
        calls, plan = self._calls, self._plan
        requested = calls.calls
        assumed = self._assumed_call() if calls.text_instead else None
        if assumed is not None:
            requested = [assumed]
            plan = replace(plan, downgrades=(*plan.downgrades, _called_for_it(self._turn)))
        left = _calls_left(plan, self._turn.params)
        run = requested if left is None else requested[:left]
        functions = self._opened.functions
        requests = [found for call in run if (found := functions[call.key].approval_request(call))]
        ready = [call for call in run if functions[call.key].approval_request(call) is None]
        goes_on = bool(run) and not requests and not calls.ends_response
        if goes_on and calls.usage is not None:
            yield [UsageSpent(calls.usage)]
        async with aclosing(self._run(ready)) as batches:
            async for batch in batches:
                yield batch
        if requests:
            yield [HostedItemDone(request) for request in requests]
        if not run and calls.held_text:
            yield calls.held_text
        if not goes_on:
            if ending := calls.ending:
                yield ending
            return
        self.next = replace(
            plan, hosted_calls=plan.hosted_calls + len(run), hosted_rounds=plan.hosted_rounds + 1
        )

    async def _run(self, calls: Sequence[HostedCall]) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run calls, and answer those that the model has made too often."""
        functions, repeated = self._opened.functions, self._plan.repeated
        admitted = [call for call in calls if repeated.admit(call, functions[call.key])]
        if admitted:
            durable = self._turn.params.background is True
            running = run_calls(admitted, self._opened, self._limits, until=self._plan.until, durable=durable)
            async with aclosing(running) as batches:
                async for batch in batches:
                    yield batch
        for call in calls:
            if call not in admitted:
                function = functions[call.key]
                yield [function.failure(call, suppressed_output(function.form.name))]

    def _assumed_call(self) -> HostedCall | None:
        """A call in place of the one that the model had to make, and did not."""
        for tool in self._turn.tools:
            arguments = self._opened.functions[tool.origin].without_model(self._turn.items)
            if arguments is not None:
                return HostedCall(0, tool.origin, arguments)
        return None


def hosted_tool_stage(
    turn: TurnRequest, opened: OpenedTools, plan: RoundPlan, limits: HostedLimits
) -> HostedToolStage | None:
    """None if the turn has no tool that this server runs."""
    if not turn.spent and not any(tool.kind == "hosted" for tool in turn.tools):
        return None
    return HostedToolStage(HostedCalls(turn), opened, turn, plan, limits)


def after_hosted_calls(choice: ToolChoice, types: frozenset[str]) -> ToolChoice:
    """The choice in the rounds after hosted calls: a call that was required has been made."""
    if isinstance(choice, AllowedTools):
        return AllowedTools("auto", choice.tools)
    if isinstance(choice, str):
        return "none" if choice == "none" else "auto"
    return "auto" if choice.type in types else choice


def without_spent_tools(turn: TurnRequest, plan: RoundPlan, limits: HostedLimits) -> TurnRequest:
    """The turn without hosted tools, once the model has called them often enough."""
    if plan.hosted_rounds >= limits.max_rounds:
        text = f"after {plan.hosted_rounds} rounds with hosted tools the model has to answer without them"
        turn = replace(turn, downgrades=(*turn.downgrades, Downgrade("tool_limit", text, ("tools",))))
    elif _calls_left(plan, turn.params) != 0:
        return turn
    tools = tuple(tool for tool in turn.tools if tool.kind != "hosted")
    spent = frozenset(tool.name for tool in turn.tools if tool.kind == "hosted")
    return replace(turn, tools=tools, spent=spent, choice=turn.choice if tools or turn.hosted else "none")


def _calls_left(plan: RoundPlan, params: CreateBody) -> int | None:
    """The hosted calls that `max_tool_calls` leaves; None without it."""
    limit = params.max_tool_calls
    return None if limit is None else max(0, limit - plan.hosted_calls)


def _called_for_it(turn: TurnRequest) -> Downgrade:
    names = ", ".join(sorted({tool.hosted_type or tool.name for tool in turn.tools}))
    text = f"the model did not make the call that {{param}} demands: the server called '{names}' for it"
    return Downgrade("emulated", text, ("tool_choice",))
