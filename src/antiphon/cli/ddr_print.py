"""Design documents in the terminal."""

import click
import msgspec
from rich.markdown import Markdown
from rich.text import Text

from antiphon.cli.kept import print_table
from antiphon.cli.terminal import harmless, output
from antiphon.orchestrator.documents.document import DesignDocument
from antiphon.orchestrator.documents.entry import Entry


def header_of(entry: Entry) -> tuple[str, str, str, str, str]:
    """Status, title, domain, owner and tags."""
    document = entry.document
    if document is None:
        return "damaged", entry.name, "", "", ""
    tags = ", ".join(document.tags)
    return document.status.value, document.title, document.domain, document.owner, tags


def print_columns(rows: list[tuple[str, ...]], headings: tuple[str, ...]) -> None:
    """A table without the columns in which nothing stands."""
    kept = [column for column in range(len(headings)) if any(row[column] for row in rows)]
    print_table([headings[column] for column in kept], [[row[column] for column in kept] for row in rows])


def print_document(document: DesignDocument) -> None:
    """The header in a few lines, then the text."""
    console = output()
    console.print(Text(harmless(f"{document.id}  {document.title}"), style="bold"), soft_wrap=True)
    facts = {
        "Status": document.status.value,
        "Domain": document.domain,
        "Owner": document.owner,
        "Tags": ", ".join(document.tags),
        **dict(document.further),
    }
    for name, value in facts.items():
        if value:
            console.print(Text(harmless(f"{name}: {value}"), style="dim"), soft_wrap=True)
    console.print()
    console.print(Markdown(harmless(document.body), hyperlinks=False))


def print_diff(diff: str) -> None:
    """What would go in red, what would come in green."""
    console = output()
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in diff.split("\n"):
        console.print(Text(harmless(line), style=colours.get(line[:1], "")), soft_wrap=True)


def print_json(value: object) -> None:
    """For programs."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def say(line: str) -> None:
    """A remark where the result would stand."""
    output().print(line, style="dim", markup=False, soft_wrap=True)
