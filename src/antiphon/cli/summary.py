"""Responses in a line: status, model, tokens, age."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from antiphon.cli.durations import say_date, say_span
from antiphon.cli.terminal import harmless, output
from antiphon.cli.tree import Forest, Line
from antiphon.protocol.response import Response

COLOURS = {"completed": "green", "incomplete": "yellow", "failed": "red", "cancelled": "red"}


def brief(response: Response, now: float) -> tuple[str, str, str, str]:
    """Status, model, tokens and age."""
    tokens = "" if response.usage is None else f"{response.usage.total_tokens:,}"
    return response.status.replace("_", " "), response.model, tokens, say_span(now - response.created_at)


def print_summary(response: Response, now: float, console: Console) -> None:
    """What a transcript does not say."""
    status, model, _, age = brief(response, now)
    console.print(_coloured(status, response).append(f"  {harmless(model)}"), soft_wrap=True)
    if response.error is not None:
        console.print(Text(harmless(response.error.message), style="red"), soft_wrap=True)
    if response.incomplete_details is not None:
        console.print(Text(f"cut by {response.incomplete_details.reason}", style="yellow"), soft_wrap=True)
    if response.usage is not None:
        tokens = f"{response.usage.input_tokens:,} tokens in, {response.usage.output_tokens:,} out"
        console.print(Text(tokens, style="dim"), soft_wrap=True)
    console.print(Text(f"{say_date(response.created_at)}, {age} ago", style="dim"), soft_wrap=True)
    if response.previous_response_id is not None:
        continues = harmless(response.previous_response_id)
        console.print(Text(f"continues {continues}", style="dim"), soft_wrap=True)


def print_forest(forest: Forest, roots: Sequence[str], marked: str | None, now: float) -> None:
    """Trees, a blank line between two of them; the marked response is bold."""
    console = output()
    for number, root in enumerate(roots):
        if number:
            console.print()
        for line in forest.draw(root):
            console.print(_drawn(line, marked, now), soft_wrap=True)


def _drawn(line: Line, marked: str | None, now: float) -> Text:
    text = Text(line.lead, style="dim")
    if line.stored is None:
        return text.append(" its beginning is not here")
    response = line.stored.response
    status, model, tokens, age = brief(response, now)
    text = Text(f"{line.lead} ").append(response.id, style="bold" if response.id == marked else "")
    text.append("  ").append_text(_coloured(status, response)).append(f"  {harmless(model)}")
    if tokens:
        text.append(f"  {tokens} tokens")
    return text.append(f"  {age}", style="dim")


def _coloured(status: str, response: Response) -> Text:
    return Text(status, style=COLOURS.get(response.status, "cyan"))
