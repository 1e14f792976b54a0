"""Shows stored responses: as a tree of continuations, as a summary, as a transcript.

In the tree, a chain of turns stays in one column; a branch has its own:

● resp_1
● resp_2
├─● resp_4    a second continuation of resp_2
│ ● resp_5
● resp_3
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from antiphon.cli.terminal import format_date, format_duration, output, printable
from antiphon.protocol.items import (
    Compaction,
    CompactionTrigger,
    CustomToolCall,
    FunctionCall,
    Item,
    ItemReference,
    Message,
    Reasoning,
    is_call,
    is_output,
)
from antiphon.protocol.response import Response
from antiphon.protocol.stored_items import item_to_text, item_type
from antiphon.protocol.tool_items import AdditionalTools
from antiphon.store.base import StoredResponse, response_not_found
from antiphon.turn.function_forms.outputs import call_output, tool_names
from antiphon.turn.transcript import call_text, content_text, kind_of_call

NODE = "●"
MISSING_PARENT = "┄"
"""Stands above a response whose parent is not in the store."""

_UNSUCCESSFUL = frozenset({"failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a tree: its lead, and the response; None if the parent of the root is missing."""

    lead: str
    stored: StoredResponse | None


class Forest:
    """Responses by the response that they continue; given newest first, as stores list them."""

    def __init__(self, newest_first: Iterable[StoredResponse]) -> None:
        oldest_first = list(newest_first)[::-1]
        self._responses = {stored.response.id: stored for stored in oldest_first}
        self._parents = parents_of(oldest_first)
        self._children: dict[str, list[str]] = {}
        for child, parent in self._parents.items():
            self._children.setdefault(parent, []).append(child)

    @property
    def roots(self) -> list[str]:
        """The responses that continue nothing, or something that is not in the store; oldest first."""
        return [found for found in self._responses if self._parents.get(found) not in self._responses]

    def root_of(self, response_id: str) -> str:
        """The root of the tree that contains this response."""
        if response_id not in self._responses:
            raise response_not_found(response_id)
        while (parent := self._parents.get(response_id)) in self._responses:
            response_id = parent
        return response_id

    def draw(self, root: str) -> Iterator[Line]:
        """One tree, a line per response. Branches are drawn between a response and its main continuation."""
        if root in self._parents:
            yield Line(MISSING_PARENT, None)
        waiting = [("", "", root)]
        while waiting:
            column, turn_off, found = waiting.pop()
            yield Line(f"{column}{turn_off}{NODE}", self._responses[found])
            column = f"{column}│ " if turn_off else column
            first, branches = self._continuations(found)
            waiting += [(column, "", child) for child in first]
            waiting += [(column, "├─", child) for child in reversed(branches)]

    def _continuations(self, response_id: str) -> tuple[Sequence[str], Sequence[str]]:
        """The continuation in the same column, if any, and the branches.

        The oldest continuation stays in the column; unsuccessful ones come last.
        """
        found = self._children.get(response_id, [])
        found = sorted(found, key=lambda child: self._responses[child].response.status in _UNSUCCESSFUL)
        return found[:1], found[1:]


def parents_of(oldest_first: Iterable[StoredResponse]) -> Mapping[str, str]:
    """The response that each one continues; in a conversation, the last successful one before it."""
    parents: dict[str, str] = {}
    heads: dict[str, str] = {}
    for stored in oldest_first:
        parent = stored.parent
        if stored.conversation is not None:
            parent = parent or heads.get(stored.conversation)
            if stored.response.status not in _UNSUCCESSFUL:
                heads[stored.conversation] = stored.response.id
        if parent is not None:
            parents[stored.response.id] = parent
    return parents


COLOURS = {"completed": "green", "incomplete": "yellow", "failed": "red", "cancelled": "red"}


def brief(response: Response, now: float) -> tuple[str, str, str, str]:
    """Status, model, tokens and age."""
    tokens = "" if response.usage is None else f"{response.usage.total_tokens:,}"
    return (
        response.status.replace("_", " "),
        response.model,
        tokens,
        format_duration(now - response.created_at),
    )


def print_summary(response: Response, now: float, console: Console) -> None:
    """Print status, model, error, usage, date and parent of a response."""
    status, model, _, age = brief(response, now)
    console.print(_coloured(status, response).append(f"  {printable(model)}"), soft_wrap=True)
    if response.error is not None:
        console.print(Text(printable(response.error.message), style="red"), soft_wrap=True)
    if response.incomplete_details is not None:
        console.print(
            Text(f"cut off by {response.incomplete_details.reason}", style="yellow"), soft_wrap=True
        )
    if response.usage is not None:
        tokens = f"{response.usage.input_tokens:,} tokens in, {response.usage.output_tokens:,} out"
        console.print(Text(tokens, style="dim"), soft_wrap=True)
    console.print(Text(f"{format_date(response.created_at)}, {age} ago", style="dim"), soft_wrap=True)
    if response.previous_response_id is not None:
        continues = printable(response.previous_response_id)
        console.print(Text(f"continues {continues}", style="dim"), soft_wrap=True)


def print_forest(forest: Forest, roots: Sequence[str], marked: str | None, now: float) -> None:
    """Print trees, separated by blank lines; the marked response is bold."""
    console = output()
    for number, root in enumerate(roots):
        if number:
            console.print()
        for line in forest.draw(root):
            console.print(_drawn(line, marked, now), soft_wrap=True)


def _drawn(line: Line, marked: str | None, now: float) -> Text:
    text = Text(line.lead, style="dim")
    if line.stored is None:
        return text.append(" its parent is not in the store")
    response = line.stored.response
    status, model, tokens, age = brief(response, now)
    text = Text(f"{line.lead} ").append(response.id, style="bold" if response.id == marked else "")
    text.append("  ").append_text(_coloured(status, response)).append(f"  {printable(model)}")
    if tokens:
        text.append(f"  {tokens} tokens")
    return text.append(f"  {age}", style="dim")


def _coloured(status: str, response: Response) -> Text:
    return Text(status, style=COLOURS.get(response.status, "cyan"))


SEALED = "(sealed)"


def transcribe(item: Item) -> tuple[str, str]:
    """A heading (`user`, `assistant`, `call NAME`, `output`, `reasoning`, …) and the text of an item."""
    if is_call(item):
        named = item.name if isinstance(item, FunctionCall | CustomToolCall) else kind_of_call(item)
        return f"call {named}", call_text(item)
    if is_output(item):
        return "output", content_text(call_output(item))
    match item:
        case Message():
            return item.role, content_text(item.content)
        case AdditionalTools():
            return "tools", ", ".join(tool_names(item.tools))
        case Reasoning():
            return "reasoning", _reasoning_text(item)
        case ItemReference():
            return "reference", item.id
        case Compaction():
            return "compaction", SEALED
        case CompactionTrigger():
            return "compaction trigger", ""
        case _:
            return item_type(item), item_to_text(item)


def print_transcript(items: Iterable[Item], console: Console) -> None:
    """Print every item under its heading."""
    for item in items:
        heading, text = transcribe(item)
        console.print(Text(printable(heading), style="bold"), soft_wrap=True)
        console.print(Text(printable(text)), soft_wrap=True)
        console.print()


def _reasoning_text(item: Reasoning) -> str:
    parts = [part.text for part in item.content or ()] or [part.text for part in item.summary]
    return "\n".join(parts) or SEALED
