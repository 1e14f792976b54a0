"""Runs of an agent on the terminal: a table of them, and one as a tree of turns and tool calls."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from antiphon.cli.agent_doors import ShownRun
from antiphon.cli.agent_progress import shorten
from antiphon.cli.durations import say_date, say_span
from antiphon.cli.kept import print_table
from antiphon.cli.terminal import harmless
from antiphon.orchestrator.run_tree import CallNode, RunTree, TurnNode
from antiphon.store.agent_runs import AgentRun

HEADINGS = ("id", "status", "title", "took", "age")
_COLOURS = {"completed": "green", "failed": "red", "cancelled": "red"}


def print_runs(runs: Sequence[AgentRun], now: float) -> None:
    """A line for each run."""
    print_table(HEADINGS, [_row(run, now) for run in runs])


def print_run(shown: ShownRun, now: float, console: Console) -> None:
    """A run: what it was asked, how it stands, and its tree."""
    run = shown.run
    head = Text(run.id, style="bold").append("  ").append_text(_status(run.status))
    console.print(head.append(f"  {harmless(run.title)}"), soft_wrap=True)
    when = f"{say_date(run.created_at)}, {say_span(now - run.created_at)} ago"
    console.print(Text(when, style="dim"), soft_wrap=True)
    if run.attempts > 1:
        console.print(Text(f"taken up {run.attempts} times", style="yellow"))
    print_tree(shown.tree, console)


def print_tree(tree: RunTree, console: Console) -> None:
    """The turns, and under each of them its calls."""
    drawn = Tree(_line(f"{tree.mode or 'not begun'}  {tree.model}", "dim"), guide_style="dim")
    for turn in tree.turns:
        branch = drawn.add(_turn(turn))
        if turn.text:
            branch.add(_excerpt(turn.text))
        for call in turn.calls:
            branch.add(_call(call))
    console.print(drawn, soft_wrap=True)
    for warning in tree.warnings:
        console.print(_line(f"Warning: {warning}", "yellow"), soft_wrap=True)
    if tree.error:
        console.print(_line(tree.error, "red"), soft_wrap=True)


def _row(run: AgentRun, now: float) -> tuple[str, ...]:
    took = "" if run.ended_at is None else say_span(run.ended_at - run.created_at)
    age = say_span(now - run.created_at)
    return run.id, run.status.replace("_", " "), shorten(run.title, 60), took, age


def _turn(turn: TurnNode) -> Text:
    if turn.response_id is None and turn.finish_reason is None:
        return _line(f"turn {turn.number}  not answered", "cyan")
    line = Text(f"turn {turn.number}  ").append(harmless(turn.response_id or ""), style="dim")
    return line.append(f"  {turn.usage.total_tokens:,} tokens", style="dim")


def _call(call: CallNode) -> Text:
    line = Text(harmless(call.name), style="bold").append(f" {harmless(shorten(call.arguments, 60))}  ")
    if call.outcome is None:
        return line.append("is running" if call.started else "not run here", style="cyan")
    line.append(call.outcome, style="green" if call.outcome == "ok" else "yellow")
    if call.elapsed_ms is not None:
        line.append(f"  {call.elapsed_ms:,} ms", style="dim")
    return line


def _status(status: str) -> Text:
    return Text(status.replace("_", " "), style=_COLOURS.get(status, "cyan"))


def _excerpt(text: str) -> Text:
    """As much as fits into the line, with a sign that there is more."""
    return Text(" ".join(harmless(text).split()), no_wrap=True, overflow="ellipsis")


def _line(text: str, style: str) -> Text:
    return Text(harmless(text), style=style)
