"""Prints responses and runs of an agent: text, sources, files, open calls; tables and trees of runs."""

from collections.abc import Sequence

import click
import msgspec
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from antiphon.cli.agent.runs import RunDetails
from antiphon.cli.failure import INCOMPLETE, Failure
from antiphon.cli.terminal import (
    errors,
    format_date,
    format_duration,
    on_terminal,
    print_table,
    printable,
    shorten,
)
from antiphon.orchestrator.casing import Case, to_json
from antiphon.orchestrator.models import (
    AgentExecuteResponse,
    AgentToolCall,
    FileBundle,
    HostedCallRecord,
    SourceRef,
)
from antiphon.orchestrator.run_tree import CallNode, RunTree, TurnNode
from antiphon.store.agent_runs import AgentRun


def print_response_json(response: AgentExecuteResponse, case: Case) -> None:
    click.echo(msgspec.json.format(to_json(response, case), indent=2))


def print_text(response: AgentExecuteResponse) -> None:
    """Print the text of the last turn."""
    if response.text:
        click.echo(printable(response.text) if on_terminal() else response.text)


def print_notes(response: AgentExecuteResponse) -> None:
    """Print sources, proposed file changes and open tool calls on standard error."""
    _print_sources(response.sources)
    if response.file_bundle is not None:
        _print_bundle(response.file_bundle)
    waiting = [call for call in response.tool_calls if not call.is_server_tool]
    if waiting:
        _print_waiting(waiting, response.response_continuation_id or "ID")


def exit_with(response: AgentExecuteResponse) -> None:
    """Exit with the code that matches the response."""
    if response.kind == "error":
        raise Failure(response.error_message or "The agent failed.")
    if response.finish_reason == "length":
        _note("The answer was cut off by the limit of output tokens.", "yellow")
        click.get_current_context().exit(INCOMPLETE)


def _print_sources(sources: Sequence[SourceRef]) -> None:
    if sources:
        _note("Sources:", "dim")
    for source in sources:
        lines = f":{source.start}-{source.end}" if source.end else ""
        _note(f"  {source.path}{lines}", "dim")


def _print_bundle(bundle: FileBundle) -> None:
    if bundle.files:
        _note("Proposed file changes:", "")
    for item in bundle.files:
        _note(f"  {item.action:<8}{item.path}", "")


def _print_waiting(calls: Sequence[AgentToolCall], continuation: str) -> None:
    _note("The model needs the results of these calls:", "")
    for call in calls:
        _note(f"  {call.call_id}  {call.name} {shorten(call.arguments_json or '')}", "")
    _note(f"Continue with --continue-from {continuation} --tool-results FILE.", "dim")


def _note(line: str, style: str) -> None:
    errors().print(printable(line), style=style, markup=False, soft_wrap=True)


HEADINGS = ("id", "status", "title", "took", "age")
_COLOURS = {"completed": "green", "failed": "red", "cancelled": "red"}


def print_runs(runs: Sequence[AgentRun], now: float) -> None:
    print_table(HEADINGS, [_row(run, now) for run in runs])


def print_run(details: RunDetails, now: float, console: Console) -> None:
    """Print a run: its title, its status, and its turns and calls."""
    run = details.run
    head = Text(run.id, style="bold").append("  ").append_text(_status(run.status))
    console.print(head.append(f"  {printable(run.title)}"), soft_wrap=True)
    when = f"{format_date(run.created_at)}, {format_duration(now - run.created_at)} ago"
    console.print(Text(when, style="dim"), soft_wrap=True)
    if run.attempts > 1:
        console.print(Text(f"attempts: {run.attempts}", style="yellow"))
    print_tree(details.tree, console)


def print_tree(tree: RunTree, console: Console) -> None:
    """Print a tree of turns and tool calls."""
    drawn = Tree(_line(f"{tree.mode or 'not started'}  {tree.model}", "dim"), guide_style="dim")
    for turn in tree.turns:
        branch = drawn.add(_turn(turn))
        if turn.text:
            branch.add(_excerpt(turn.text))
        for call in turn.calls:
            branch.add(_call(call))
        for hosted in turn.hosted_calls:
            branch.add(_hosted(hosted))
    console.print(drawn, soft_wrap=True)
    for request in tree.approvals:
        line = f"? {request.name} {shorten(request.arguments, 60)} waits for an approval ({request.id})"
        console.print(_line(line, "yellow"), soft_wrap=True)
    for warning in tree.warnings:
        console.print(_line(f"Warning: {warning}", "yellow"), soft_wrap=True)
    if tree.error:
        console.print(_line(tree.error, "red"), soft_wrap=True)


def _row(run: AgentRun, now: float) -> tuple[str, ...]:
    took = "" if run.ended_at is None else format_duration(run.ended_at - run.created_at)
    age = format_duration(now - run.created_at)
    return run.id, run.status.replace("_", " "), shorten(run.title, 60), took, age


def _turn(turn: TurnNode) -> Text:
    if turn.response_id is None and turn.finish_reason is None:
        return _line(f"turn {turn.number}  not answered", "cyan")
    line = Text(f"turn {turn.number}  ").append(printable(turn.response_id or ""), style="dim")
    return line.append(f"  {turn.usage.total_tokens:,} tokens", style="dim")


def _call(call: CallNode) -> Text:
    line = Text(printable(call.name), style="bold").append(f" {printable(shorten(call.arguments, 60))}  ")
    if call.outcome is None:
        return line.append("running" if call.started else "not run here", style="cyan")
    line.append(call.outcome, style="green" if call.outcome == "ok" else "yellow")
    if call.elapsed_ms is not None:
        line.append(f"  {call.elapsed_ms:,} ms", style="dim")
    return line


def _hosted(call: HostedCallRecord) -> Text:
    name = f"{call.server_label}.{call.name}" if call.server_label else call.name
    line = Text(printable(name), style="bold").append(
        f" {printable(shorten(call.arguments_json or '', 60))}  "
    )
    status = call.status or "running"
    return line.append(printable(status), style="green" if status == "completed" else "yellow")


def _status(status: str) -> Text:
    return Text(status.replace("_", " "), style=_COLOURS.get(status, "cyan"))


def _excerpt(text: str) -> Text:
    """The text on one line, cut with an ellipsis."""
    return Text(" ".join(printable(text).split()), no_wrap=True, overflow="ellipsis")


def _line(text: str, style: str) -> Text:
    return Text(printable(text), style=style)
