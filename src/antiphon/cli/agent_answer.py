"""Prints what an agent's answer holds besides its text, and says how the command ends."""

from collections.abc import Sequence

import click
import msgspec

from antiphon.cli.agent_progress import shorten
from antiphon.cli.failure import INCOMPLETE, Failure
from antiphon.cli.terminal import errors, harmless, on_terminal
from antiphon.orchestrator.casing import Case, to_json
from antiphon.orchestrator.models import AgentExecuteResponse, AgentToolCall, FileBundle, SourceRef


def print_json(response: AgentExecuteResponse, case: Case) -> None:
    """The whole answer."""
    click.echo(msgspec.json.format(to_json(response, case), indent=2))


def print_text(response: AgentExecuteResponse) -> None:
    """What the model said last."""
    if response.text:
        click.echo(harmless(response.text) if on_terminal() else response.text)


def print_notes(response: AgentExecuteResponse) -> None:
    """Where it comes from, what would be changed, and what somebody has to do, on standard error."""
    _print_sources(response.sources)
    if response.file_bundle is not None:
        _print_bundle(response.file_bundle)
    waiting = [call for call in response.tool_calls if not call.is_server_tool]
    if waiting:
        _print_waiting(waiting, response.response_continuation_id or "ID")


def end(response: AgentExecuteResponse) -> None:
    """End the command as the answer ended."""
    if response.kind == "error":
        raise Failure(response.error_message or "The agent failed.")
    if response.finish_reason == "length":
        _note("The answer was cut by the limit of output tokens.", "yellow")
        click.get_current_context().exit(INCOMPLETE)


def _print_sources(sources: Sequence[SourceRef]) -> None:
    if sources:
        _note("Sources:", "dim")
    for source in sources:
        _note(f"  {source.path}:{source.start}-{source.end}", "dim")


def _print_bundle(bundle: FileBundle) -> None:
    if bundle.files:
        _note("Files that the agent wants to change:", "")
    for item in bundle.files:
        _note(f"  {item.action:<8}{item.path}", "")


def _print_waiting(calls: Sequence[AgentToolCall], continuation: str) -> None:
    _note("The model waits for the results of these calls:", "")
    for call in calls:
        _note(f"  {call.call_id}  {call.name} {shorten(call.arguments_json or '')}", "")
    _note(f"Go on with --continue-from {continuation} --tool-results FILE.", "dim")


def _note(line: str, style: str) -> None:
    errors().print(harmless(line), style=style, markup=False, soft_wrap=True)
