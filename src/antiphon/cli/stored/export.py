"""Reads stored responses, and exports them as JSON Lines: oldest first, and every item once.

A line contains the input items that no earlier line contains. Usually these are the items of its request. If
the response before it was deleted, or items were added to its conversation by hand, the history from there
is included, so that no item is missing.
"""

import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Raw, Struct
from rich.progress import Progress

from antiphon.cli.stored.views import parents_of
from antiphon.cli.terminal import errors
from antiphon.errors import NotFound
from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.protocol.stored_items import item_to_text
from antiphon.store.base import Page, StoredResponse
from antiphon.store.ports import ResponseStore


class ExportedResponse(Struct, frozen=True, kw_only=True):
    """One line of the export."""

    response: Response
    continues: str | None
    conversation: str | None
    expires_at: int | None
    input: Sequence[Raw]


async def export_to(target: Path | None, store: ResponseStore, tenant: str) -> int:
    """Write all responses of a tenant to a file, or to standard output; returns their number.

    The file appears under its name when it is complete.
    """
    if target is None:
        return await _export(sys.stdout.buffer, store, tenant)
    with _opened(target) as file:
        return await _export(file, store, tenant)


@contextmanager
def _opened(target: Path) -> Generator[IO[bytes], None, None]:
    """A temporary file that replaces the target at the end. A device or a pipe is written directly."""
    target = target.resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(handle, "wb") as file:
            yield file
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


async def _export(file: IO[bytes], store: ResponseStore, tenant: str) -> int:
    console = errors()
    written = 0
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("exporting", total=None)
        found = await newest_responses(store, tenant)
        progress.update(task, total=len(found))
        async with aclosing(export_lines(store, tenant, found)) as lines:
            async for line in lines:
                file.write(line)
                written += bool(line)
                progress.advance(task)
    return written


async def export_lines(
    store: ResponseStore, tenant: str, newest_first: Sequence[StoredResponse]
) -> AsyncGenerator[bytes, None]:
    """A line for each of these responses; an empty one if it was deleted meanwhile."""
    oldest_first = newest_first[::-1]
    parents = parents_of(oldest_first)
    ends: dict[str, int] = {}
    for stored in oldest_first:
        response_id = stored.response.id
        try:
            response = await store.response(tenant, response_id)
            items = await full_input(store, tenant, response_id)
        except NotFound:
            yield b""
            continue
        ends[response_id] = len(items) + len(response.output)
        line = ExportedResponse(
            response=response,
            continues=stored.parent,
            conversation=stored.conversation,
            expires_at=stored.expires_at,
            input=to_raw(items[ends.get(parents.get(response_id, ""), 0) :]),
        )
        yield msgspec.json.encode(line) + b"\n"


def to_raw(items: Sequence[Item]) -> list[Raw]:
    """The items as JSON."""
    return [Raw(item_to_text(item)) for item in items]


_PAGE_SIZE = 100


_ALL_ITEMS = Page(limit=1_000_000, order="asc")


async def all_responses(store: ResponseStore, tenant: str) -> AsyncGenerator[StoredResponse, None]:
    """Every response, newest first, without its input."""
    after: str | None = None
    while page := await store.list_responses(tenant, limit=_PAGE_SIZE, after=after):
        for stored in page:
            yield stored
        after = page[-1].response.id


async def newest_responses(
    store: ResponseStore, tenant: str, limit: int | None = None
) -> list[StoredResponse]:
    """The newest responses, at most `limit`."""
    found: list[StoredResponse] = []
    async with aclosing(all_responses(store, tenant)) as responses:
        async for stored in responses:
            if len(found) == limit:
                break
            found.append(stored)
    return found


async def full_input(store: ResponseStore, tenant: str, response_id: str) -> Sequence[Item]:
    """The complete input of a response, oldest first: its history and the items of its request."""
    return (await store.input_items(tenant, response_id, _ALL_ITEMS)).items
