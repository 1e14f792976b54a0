"""`antiphon ddr`: design documents."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.markdown import Markdown
from rich.text import Text

from antiphon.cli.agent.inputs import read_text
from antiphon.cli.ddr.author import Author, AuthorOptions, DraftCheck
from antiphon.cli.failure import WrongUsage
from antiphon.cli.log import configure_logging
from antiphon.cli.options import (
    BASE_URL_OPTION,
    CONFIG_OPTION,
    JSON_OPTION,
    LOG_OPTION,
    MODEL_OPTION,
    STORE_OPTION,
    UPSTREAM_OPTIONS,
    with_options,
)
from antiphon.cli.terminal import errors, on_terminal, output, print_json, print_note, print_table, printable
from antiphon.orchestrator.documents.document import DesignDocument, check_title
from antiphon.orchestrator.documents.entry import Draft, Entry
from antiphon.orchestrator.documents.library import Library
from antiphon.orchestrator.documents.naming import check_letters
from antiphon.orchestrator.documents.status import Status, read_status
from antiphon.orchestrator.documents.tools import current_ddr_block, describe
from antiphon.settings import Settings, load_settings

HEADINGS = ("id", "status", "title", "domain", "owner", "tags", "note")
ID_ARGUMENT = click.argument("document_id", metavar="ID")
FOLDER_OPTION = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="PATH",
    help="Where the documents are.  [default: agent.ddr_folder of the settings: docs/ddr]",
)
PLACE_OPTIONS = with_options(FOLDER_OPTION, CONFIG_OPTION)
STATUS_OPTION = click.option("--status", metavar="STATUS", help=f"{', '.join(Status)}.")
CONTENT_OPTIONS = with_options(
    click.option("--domain", metavar="TEXT", help="The part of the system that the document is about."),
    click.option("--owner", metavar="NAME", help="The person who is responsible."),
    click.option("--tag", "tags", multiple=True, metavar="WORD", help="A tag; may be repeated."),
    click.option("--body", metavar="FILE", help="The text below the header; - is standard input."),
    click.option("--ask", metavar="INSTRUCTION", help="Let the model write the document."),
)
AUTHOR_OPTIONS = with_options(
    FOLDER_OPTION,
    MODEL_OPTION,
    BASE_URL_OPTION,
    CONFIG_OPTION,
    *UPSTREAM_OPTIONS,
    STORE_OPTION,
    LOG_OPTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOptions(AuthorOptions):
    """The contents of a document, the model that writes it, and its folder."""

    folder: Path | None = None
    title: str | None = None
    status: str | None = None
    domain: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    body: str | None = None
    ask: str | None = None

    def check(self) -> None:
        """Raise `WrongUsage` for options that exclude each other."""
        if self.ask is not None and self.body is not None:
            raise WrongUsage("--ask and --body cannot be combined: the model writes the complete body.")
        if self.ask is not None and not self.ask.strip():
            raise WrongUsage("--ask is empty. Describe what the model should write.")

    def draft(self) -> Draft:
        """The draft that the options describe."""
        return Draft(
            title=self.title,
            status=None if self.status is None else read_status(self.status),
            domain=self.domain,
            owner=self.owner,
            tags=self.tags or None,
            body=None if self.body is None else _read_body(self.body),
        )


@dataclass(frozen=True, slots=True)
class DocumentTools:
    """A library, and the model that may write for it."""

    options: DocumentOptions
    settings: Settings
    library: Library

    def complete(self, draft: Draft, instruction: str, check: DraftCheck) -> Draft:
        """The draft; with --ask, the model has filled in what the options leave open."""
        if self.options.ask is None:
            return draft
        asked = f"{self.options.ask.strip()}\n\n{instruction}"
        author = Author(self.options.base_url, self.settings, self.library)
        return draft.or_else(author.write(asked, lambda written: check(draft.or_else(written))))


@click.group("ddr")
def command() -> None:
    """Create, show, change and search design documents.

    They are Markdown files named TLA-NNN - Title.md, with a series of three letters and a number. Each has a
    status.

    \b
    Examples:
      antiphon ddr new AGN "Retries"
      antiphon ddr list --status proposed
      antiphon ddr refine AGN-004 --status accepted
      antiphon ddr search "what happens when a tool hangs"
    """


@command.command("new", short_help="Create a document with the next number.")
@click.argument("tla")
@click.argument("title")
@CONTENT_OPTIONS
@AUTHOR_OPTIONS
def new_document(tla: str, **values: Any) -> None:
    """Create a document with the title TITLE in the series TLA, with its next number.

    Prints nothing but its path on standard output. Without --body and --ask, its sections are empty.

    \b
    Examples:
      antiphon ddr new AGN "Retries" --owner Ada --tag http --tag errors
      antiphon ddr new AGN "Retries" --ask "Retry twice, with jitter. Only before the first byte."
      $EDITOR "$(antiphon ddr new AGN Retries)"
    """
    options = _options(values)
    series, title = check_letters(tla.upper()), check_title(options.title or "")
    documents = _document_tools(options)
    draft = documents.complete(
        options.draft(),
        f"This is a new design document. Its title is: {title}",
        lambda written: documents.library.compose(series, written),
    )
    entry = documents.library.create(series, draft)
    click.echo(entry.path)
    errors().print(f"{entry.id} is {Status.PROPOSED}.", style="dim", markup=False, soft_wrap=True)


@command.command("list", short_help="List the documents.")
@STATUS_OPTION
@JSON_OPTION
@PLACE_OPTIONS
def list_documents(status: str | None, machine: bool, folder: Path | None, config: Path | None) -> None:
    """List the documents by id. The note of a damaged document describes the damage.

    \b
    Examples:
      antiphon ddr list
      antiphon ddr list --status accepted --json
    """
    library = _library(folder, load_settings(config))
    wanted = None if status is None else read_status(status)
    found = [entry for entry in library.list() if wanted is None or _has_status(entry, wanted)]
    if machine:
        print_json([describe(entry) for entry in found])
    elif found:
        print_columns([(entry.id, *header_of(entry), entry.note) for entry in found], HEADINGS)
    else:
        what = "documents" if wanted is None else f"documents that are {wanted}"
        print_note(f"There are no {what} in {library.folder}. Create one: antiphon ddr new TLA TITLE")


@command.command("show", short_help="Show a document.")
@ID_ARGUMENT
@click.option("--raw", is_flag=True, help="Print the file as it is.")
@PLACE_OPTIONS
def show_document(document_id: str, raw: bool, folder: Path | None, config: Path | None) -> None:
    """Show the document ID; AGN-4 is AGN-004.

    For a damaged document, the exit code is 2; --raw prints its text nevertheless.

    \b
    Examples:
      antiphon ddr show AGN-004
      antiphon ddr show agn-4 --raw
    """
    entry = _library(folder, load_settings(config)).find(document_id)
    if raw:
        click.echo(printable(entry.text) if on_terminal() else entry.text.encode(), nl=False)
    document = entry.understood()
    if not raw:
        print_document(document)


@command.command("refine", short_help="Change a document, after showing the diff.")
@ID_ARGUMENT
@click.option(
    "--title",
    metavar="TEXT",
    help="The new title. The name of the file does not change, so that references stay valid.",
)
@STATUS_OPTION
@CONTENT_OPTIONS
@click.option("--yes", is_flag=True, help="Do not ask.")
@AUTHOR_OPTIONS
def refine_document(document_id: str, yes: bool, **values: Any) -> None:
    """Change the document ID, after showing the diff.

    Fields that are not given stay as they are. Proposed can become Accepted or Rejected, Accepted can become
    Superseded, Rejected can become Proposed. With --ask, the model reads the document and writes the new
    version.

    \b
    Examples:
      antiphon ddr refine AGN-004 --status accepted
      antiphon ddr refine AGN-004 --ask "Say what happens when the disk is full."
      antiphon ddr refine AGN-004 --body better.md --yes
    """
    options = _options(values)
    if options.body == "-" and not yes:
        raise WrongUsage("--body - needs --yes: standard input cannot also confirm the change.")
    draft = options.draft()
    if options.ask is None and draft == Draft():
        raise WrongUsage(
            "Nothing to change: give --title, --status, --domain, --owner, --tag, --body or --ask."
        )
    documents = _document_tools(options)
    library, entry = documents.library, documents.library.find(document_id)
    shown = current_ddr_block(entry.text)
    change = library.revise(
        entry, documents.complete(draft, shown, lambda written: library.revise(entry, written))
    )
    if not change.diff:
        print_note(f"{entry.id} is unchanged.")
        return
    print_diff(change.diff)
    if not yes:
        click.confirm(f"Write {entry.path}?", abort=True, err=True)
    library.apply(change)
    errors().print(f"{entry.id} was changed.", style="dim", markup=False, soft_wrap=True)


@command.command("search", short_help="Search the documents.")
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, metavar="N")
@JSON_OPTION
@PLACE_OPTIONS
def search_documents(query: str, limit: int, machine: bool, folder: Path | None, config: Path | None) -> None:
    """Find the documents that match QUERY, best first, each with its best section.

    \b
    Examples:
      antiphon ddr search "retry after a timeout"
      antiphon ddr search jitter --limit 3 --json
    """
    library = _library(folder, load_settings(config))
    hits = library.search(query, limit)
    if machine:
        print_json([{**describe(hit.entry), "section": hit.section} for hit in hits])
    elif hits:
        rows = [(hit.entry.id, *header_of(hit.entry)[:2], hit.section) for hit in hits]
        print_columns(rows, ("id", "status", "title", "section"))
    else:
        print_note(f"No document in {library.folder} matches.")


def _options(values: dict[str, Any]) -> DocumentOptions:
    options = DocumentOptions(**values)
    configure_logging(options.log_level or "warning")
    options.check()
    return options


def _document_tools(options: DocumentOptions) -> DocumentTools:
    settings = options.load()
    return DocumentTools(options, settings, _library(options.folder, settings))


def _library(folder: Path | None, settings: Settings) -> Library:
    return Library(folder or Path(settings.agent.ddr_folder))


def _read_body(name: str) -> str:
    if name != "-":
        body = read_text(Path(name), "--body")
    else:
        try:
            body = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError:
            raise WrongUsage("--body: standard input is not UTF-8 text.") from None
    if not body.strip():
        raise WrongUsage("--body is empty.")
    return body


def _has_status(entry: Entry, status: Status) -> bool:
    return entry.document is not None and entry.document.status is status


def header_of(entry: Entry) -> tuple[str, str, str, str, str]:
    """Status, title, domain, owner and tags."""
    document = entry.document
    if document is None:
        return "damaged", entry.name, "", "", ""
    tags = ", ".join(document.tags)
    return document.status.value, document.title, document.domain, document.owner, tags


def print_columns(rows: list[tuple[str, ...]], headings: tuple[str, ...]) -> None:
    """Print a table without its empty columns."""
    used = [column for column in range(len(headings)) if any(row[column] for row in rows)]
    print_table([headings[column] for column in used], [[row[column] for column in used] for row in rows])


def print_document(document: DesignDocument) -> None:
    """Print the header and the text."""
    console = output()
    console.print(Text(printable(f"{document.id}  {document.title}"), style="bold"), soft_wrap=True)
    facts = {
        "Status": document.status.value,
        "Domain": document.domain,
        "Owner": document.owner,
        "Tags": ", ".join(document.tags),
        **dict(document.further),
    }
    for name, value in facts.items():
        if value:
            console.print(Text(printable(f"{name}: {value}"), style="dim"), soft_wrap=True)
    console.print()
    console.print(Markdown(printable(document.body), hyperlinks=False))


def print_diff(diff: str) -> None:
    console = output()
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in diff.split("\n"):
        console.print(Text(printable(line), style=colours.get(line[:1], "")), soft_wrap=True)
