"""The loop of an agent that ends with a decision: seed 004, line by line."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from antiphon.errors import SettingsError
from antiphon.orchestrator.provider import DeclaredTool, Message
from antiphon.protocol.content import JsonObject
from antiphon.tools.binding import decode_object
from antiphon.tools.declaration import Tool, ToolCall
from antiphon.tools.invocation import ToolArgumentsInvalid, cut_output, describe_error, invoke

DECISION = "submit_decision"
"""The tool whose call ends the loop; its arguments are the decision."""
TOOL_DEADLINE_SECONDS = 60.0
MAX_OUTPUT_CHARS = 100_000


class ToolUnknown(Exception):
    """The model called a tool that was not declared."""


class TurnProvider(Protocol):
    """Makes the turns: `antiphon.orchestrator.provider.Provider`, or an equivalent."""

    def generate_responses_turn(
        self,
        previous_response_id: str | None,
        user_input: Message | None,
        tools: Sequence[DeclaredTool] | None,
        function_outputs: Mapping[str, str] | None,
    ) -> Awaitable[tuple[str, Sequence[ToolCall], str]]:
        """One turn: the model's text, its calls, and the response id to continue from."""
        ...


async def run_orchestrator(
    provider: TurnProvider,
    tools: Sequence[DeclaredTool],
    prompt: Message,
    max_turns: int = 20,
    *,
    deadline: float | None = TOOL_DEADLINE_SECONDS,
    max_output: int = MAX_OUTPUT_CHARS,
) -> JsonObject:
    """Let the model call tools until it submits its decision, which is returned.

    A tool that fails, passes its `deadline` (seconds; None: no deadline) or returns more than `max_output`
    characters does not end the loop: the model receives an error or the cut output. Errors of the provider
    are raised. A tool that cannot be called raises `SettingsError` at the start.
    """
    by_name = _by_name(tools)
    previous_response_id: str | None = None
    pending_outputs: dict[str, str] = {}
    for _ in range(max_turns):
        starts = previous_response_id is None
        assistant_text, tool_calls, previous_response_id = await provider.generate_responses_turn(
            previous_response_id=previous_response_id,
            user_input=prompt if starts else None,
            tools=tools if starts else None,
            function_outputs=None if starts else pending_outputs,
        )
        pending_outputs = {}
        for call in tool_calls:
            if call.name == DECISION:
                return _decision(call.arguments)
            output = await _run_tool(by_name, call, deadline)
            pending_outputs[call.id] = cut_output(output, max_output)
        if not tool_calls and not assistant_text.strip():
            break
    return {"is_approved": False, "reason": "Max turns reached or no actionable response"}


def _by_name(tools: Sequence[object]) -> dict[str, Tool]:
    """The tools that the loop runs. A mistake in one of them is raised at the start, for the programmer."""
    for tool in tools:
        if isinstance(tool, Tool):
            tool.check()
            if tool.run is not None and tool.binding.needs_context:
                raise SettingsError(
                    f"The tool '{tool.name}' needs the context of a call; this loop has none."
                )
        elif not isinstance(tool, dict):
            raise SettingsError(f"{tool!r} is not a tool. For a typed function, use Tool.from_function.")
    return {tool.name: tool for tool in tools if isinstance(tool, Tool)}


async def _run_tool(tools: Mapping[str, Tool], call: ToolCall, deadline: float | None) -> str:
    try:
        if call.name not in tools:
            raise ToolUnknown(f"There is no tool '{call.name}'. Known: {', '.join(tools)}.")
        return (await invoke(tools[call.name], call.arguments, deadline=deadline)).output
    except Exception as error:  # noqa: BLE001 -- a tool may raise anything; the model receives it
        return describe_error(error)


def _decision(arguments: str) -> JsonObject:
    try:
        return decode_object(arguments)
    except ToolArgumentsInvalid as error:
        return {"is_approved": False, "reason": f"Failed to parse the decision: {error}"}
