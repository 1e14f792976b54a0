"""`antiphon vector-stores search`: the passages that answer a question."""

import asyncio
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import click
from rich.text import Text

from antiphon.caller import Caller
from antiphon.cli.failure import WrongUsage
from antiphon.cli.options import JSON_OPTION, TENANT_OPTION
from antiphon.cli.terminal import output, print_json, print_note, printable
from antiphon.cli.vector_stores.attributes import parse_filters
from antiphon.cli.vector_stores.chosen_store import (
    DATABASE_OPTIONS,
    STORE_ARGUMENT,
    find_store,
    load_database,
)
from antiphon.retrieval.terms import text_query_terms, text_terms
from antiphon.service.vector_stores.local_files import PATH_ATTRIBUTE
from antiphon.service.vector_stores.passages import Passage, PassageQuery
from antiphon.settings import Settings
from antiphon.wiring import open_vector_stores

EXCERPT_CHARACTERS = 400
CONTEXT_CHARACTERS = 80
"""Shown before the first word that was found."""
MAX_RESULTS = 50
_WORD = re.compile(r"\w+")


@click.command("search", short_help="Find the passages that answer a question.")
@STORE_ARGUMENT
@click.argument("question", metavar="QUESTION")
@click.option(
    "--limit", type=click.IntRange(1, MAX_RESULTS), default=5, show_default=True, metavar="N",
    help="How many passages, best first.",
)  # fmt: skip
@click.option(
    "--filter", "filters", metavar="KEY=VALUE", multiple=True,
    help="Only files with this attribute, or that a filter in JSON admits; may be repeated.",
)  # fmt: skip
@TENANT_OPTION
@JSON_OPTION
@DATABASE_OPTIONS
def search_command(
    *,
    name: str,
    question: str,
    limit: int,
    filters: tuple[str, ...],
    tenant: str,
    machine: bool,
    **options: Any,
) -> None:
    """Find the passages of STORE that answer QUESTION: score, file, page, and the text around the words.

    \b
    Examples:
      antiphon vector-stores search handbook "How many days off do I get?"
      antiphon vector-stores search reports profit --filter year=2026 --limit 3
      antiphon vector-stores search reports profit \\
        --filter '{"type": "gte", "key": "year", "value": 2025}'
    """
    settings, wanted = load_database(**options), parse_filters(filters)
    if not question.strip():
        raise WrongUsage("The question is empty.")
    query = PassageQuery(queries=(question,), filter=wanted, limit=limit)
    found = asyncio.run(_search(settings, Caller.of(tenant), name, query))
    if machine:
        print_json(found)
    elif found:
        print_passages(found, question)
    else:
        print_note("Nothing was found.")


async def _search(settings: Settings, caller: Caller, name: str, query: PassageQuery) -> Sequence[Passage]:
    async with open_vector_stores(settings) as opened:
        store = await find_store(opened.stores, caller, name)
        return await opened.stores.search.search(caller.tenant, [store.id], query)


def print_passages(passages: Sequence[Passage], question: str) -> None:
    """Each passage with a heading; the words of the question are highlighted."""
    console, terms = output(), frozenset(text_query_terms(question))
    for number, passage in enumerate(passages):
        path = str(passage.attributes.get(PATH_ATTRIBUTE, passage.filename))
        where = f"{path}, {passage.label}" if passage.label else path
        if number:
            console.print()
        heading = Text.assemble((f"{passage.score:.2f}", "bold cyan"), "  ", (printable(where), "bold"))
        console.print(heading, soft_wrap=True)
        console.print(highlighted(printable(passage.text), terms), soft_wrap=True)


def highlighted(text: str, terms: Collection[str]) -> Text:
    """A part of the text around the words with one of these terms, on one line."""
    line = " ".join(text.split())
    first = next(_matches(line, terms), (0, 0))[0]
    start = max(0, min(first - CONTEXT_CHARACTERS, len(line) - EXCERPT_CHARACTERS))
    if start:
        start = line.find(" ", start, first) + 1 or start
    end = min(len(line), start + EXCERPT_CHARACTERS)
    excerpt = line[start:end]
    shown = Text(excerpt)
    for begin, stop in _matches(excerpt, terms):
        shown.stylize("bold yellow", begin, stop)
    return Text("…" if start else "") + shown + Text("…" if end < len(line) else "")


def _matches(line: str, terms: Collection[str]) -> Iterator[tuple[int, int]]:
    """The places of words that have one of the terms; of a script without spaces, of pairs of characters."""
    for word in _WORD.finditer(line):
        found = [term for term in text_terms(word[0]) if term in terms]
        inside = [place.span() for term in found for place in re.finditer(re.escape(term), word[0])]
        if found and word[0].isascii():
            yield word.span()
        elif found:
            spans = inside or [(0, len(word[0]))]
            yield from ((word.start() + begin, word.start() + stop) for begin, stop in spans)
