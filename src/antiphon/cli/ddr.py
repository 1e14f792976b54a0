"""`antiphon ddr`: design documents."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from antiphon.cli.agent_files import read_text
from antiphon.cli.ddr_author import Author, AuthorOptions, Check
from antiphon.cli.ddr_print import header_of, print_columns, print_diff, print_document, print_json, say
from antiphon.cli.failure import WrongUsage
from antiphon.cli.kept import JSON_OPTION
from antiphon.cli.log import configure_logging
from antiphon.cli.options import (
    BASE_URL_OPTION,
    CONFIG_OPTION,
    LOG_OPTION,
    MODEL_OPTION,
    STORE_OPTION,
    UPSTREAM_OPTIONS,
    with_options,
)
from antiphon.cli.terminal import errors, harmless, on_terminal
from antiphon.orchestrator.documents.document import check_title
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
    click.option("--domain", metavar="TEXT", help="The part of the system that it is about."),
    click.option("--owner", metavar="NAME", help="Who answers for it."),
    click.option("--tag", "tags", multiple=True, metavar="WORD", help="To find it by; may be repeated."),
    click.option("--body", metavar="FILE", help="The text below the header; - is standard input."),
    click.option("--ask", metavar="INSTRUCTION", help="Have the model write it."),
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
    """What a document shall say, who writes it, and where it is."""

    folder: Path | None = None
    title: str | None = None
    status: str | None = None
    domain: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    body: str | None = None
    ask: str | None = None

    def check(self) -> None:
        """Refuse what contradicts itself."""
        if self.ask is not None and self.body is not None:
            raise WrongUsage("--ask and --body do not go together: the model writes the whole body.")
        if self.ask is not None and not self.ask.strip():
            raise WrongUsage("--ask is empty. Say what the model shall write.")

    def draft(self) -> Draft:
        """What was said about the document."""
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
    """A library, and a model that may write for it."""

    options: DocumentOptions
    settings: Settings
    library: Library

    def complete(self, draft: Draft, instruction: str, check: Check) -> Draft:
        """The draft; with --ask, the model has said what nobody else has."""
        if self.options.ask is None:
            return draft
        asked = f"{self.options.ask.strip()}\n\n{instruction}"
        author = Author(self.options.base_url, self.settings, self.library)
        return draft.or_else(author.write(asked, lambda written: check(draft.or_else(written))))


@click.group("ddr")
def command() -> None:
    """Keep design documents.

    They are Markdown files, TLA-NNN - Title.md: a series of three letters, a number, and a status.

    \b
    Examples:
      antiphon ddr new AGN "Retries"
      antiphon ddr list --status proposed
      antiphon ddr refine AGN-004 --status accepted
      antiphon ddr search "what happens when a tool hangs"
    """


@command.command("new", short_help="Make a document under the next number.")
@click.argument("tla")
@click.argument("title")
@CONTENT_OPTIONS
@AUTHOR_OPTIONS
def new_document(tla: str, **values: Any) -> None:
    """Make a document called TITLE in the series TLA, under its next number.

    Its path alone is on standard output. Without --body and --ask, its sections are empty.

    \b
    Examples:
      antiphon ddr new AGN "Retries" --owner Ada --tag http --tag errors
      antiphon ddr new AGN "Retries" --ask "Retry twice, with jitter. Only before the first byte."
      $EDITOR "$(antiphon ddr new AGN Retries)"
    """
    options = _options(values)
    series, title = check_letters(tla.upper()), check_title(options.title or "")
    desk = _desk(options)
    draft = desk.complete(
        options.draft(),
        f"This is a new design document. Its title is: {title}",
        lambda written: desk.library.compose(series, written),
    )
    entry = desk.library.create(series, draft)
    click.echo(entry.path)
    errors().print(f"{entry.id} is {Status.PROPOSED}.", style="dim", markup=False, soft_wrap=True)


@command.command("list", short_help="List the documents.")
@STATUS_OPTION
@JSON_OPTION
@PLACE_OPTIONS
def list_documents(status: str | None, machine: bool, folder: Path | None, config: Path | None) -> None:
    """List the documents by id; what is wrong with one is said in its note.

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
        say(f"There are no {what} in {library.folder}. Make one: antiphon ddr new TLA TITLE")


@command.command("show", short_help="Show a document.")
@ID_ARGUMENT
@click.option("--raw", is_flag=True, help="Print the file as it is.")
@PLACE_OPTIONS
def show_document(document_id: str, raw: bool, folder: Path | None, config: Path | None) -> None:
    """Show the document ID; AGN-4 is AGN-004.

    What is damaged is told, with exit code 2; --raw prints it first, as far as it is text.

    \b
    Examples:
      antiphon ddr show AGN-004
      antiphon ddr show agn-4 --raw
    """
    entry = _library(folder, load_settings(config)).find(document_id)
    if raw:
        click.echo(harmless(entry.text) if on_terminal() else entry.text.encode(), nl=False)
    document = entry.parsed()
    if not raw:
        print_document(document)


@command.command("refine", short_help="Change a document, after showing what would change.")
@ID_ARGUMENT
@click.option("--title", metavar="TEXT", help="The file keeps its name, since others may point to it.")
@STATUS_OPTION
@CONTENT_OPTIONS
@click.option("--yes", is_flag=True, help="Do not ask.")
@AUTHOR_OPTIONS
def refine_document(document_id: str, yes: bool, **values: Any) -> None:
    """Change the document ID, after showing what would change.

    What is not named stays. Proposed becomes Accepted or Rejected, Accepted becomes Superseded, Rejected may
    be Proposed again. With --ask, the model is shown the document and writes the new version.

    \b
    Examples:
      antiphon ddr refine AGN-004 --status accepted
      antiphon ddr refine AGN-004 --ask "Say what happens when the disk is full."
      antiphon ddr refine AGN-004 --body better.md --yes
    """
    options = _options(values)
    if options.body == "-" and not yes:
        raise WrongUsage("--body - needs --yes: standard input cannot also answer the question.")
    draft = options.draft()
    if options.ask is None and draft == Draft():
        raise WrongUsage(
            "Nothing to change: give --title, --status, --domain, --owner, --tag, --body or --ask."
        )
    desk = _desk(options)
    library, entry = desk.library, desk.library.find(document_id)
    shown = current_ddr_block(entry.text)
    change = library.revise(
        entry, desk.complete(draft, shown, lambda written: library.revise(entry, written))
    )
    if not change.diff:
        say(f"{entry.id} stays as it is.")
        return
    print_diff(change.diff)
    if not yes:
        click.confirm(f"Write {entry.path}?", abort=True, err=True)
    library.apply(change)
    errors().print(f"{entry.id} is changed.", style="dim", markup=False, soft_wrap=True)


@command.command("search", short_help="Find documents by what they say.")
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, metavar="N")
@JSON_OPTION
@PLACE_OPTIONS
def search_documents(query: str, limit: int, machine: bool, folder: Path | None, config: Path | None) -> None:
    """Find the documents that fit QUERY, best first, with the section that fits best.

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
        say(f"No document in {library.folder} says anything like that.")


def _options(values: dict[str, Any]) -> DocumentOptions:
    options = DocumentOptions(**values)
    configure_logging(options.log_level or "warning")
    options.check()
    return options


def _desk(options: DocumentOptions) -> DocumentTools:
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
