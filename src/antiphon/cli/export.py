"""Stored responses as JSON Lines: oldest first, and every item once.

A line holds the input that no line before it holds. Usually that is what its request sent; if what it
continued was deleted, or a conversation was filled by hand, the history from there is in it too. So nothing
is lost.
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

from antiphon.cli.kept import newest_responses, whole_input
from antiphon.cli.terminal import errors
from antiphon.cli.tree import parents_of
from antiphon.errors import NotFound
from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.protocol.stored_items import item_to_text
from antiphon.store.base import StoredResponse
from antiphon.store.ports import ResponseStore


class ExportedResponse(Struct, frozen=True, kw_only=True):
    """One line."""

    response: Response
    continues: str | None
    conversation: str | None
    expires_at: int | None
    input: Sequence[Raw]


async def export_to(target: Path | None, store: ResponseStore, tenant: str) -> int:
    """Write all responses of a tenant to a file, or to standard output; how many there were.

    The file has its name when it is whole, not before.
    """
    if target is None:
        return await _export(sys.stdout.buffer, store, tenant)
    with _opened(target) as file:
        return await _export(file, store, tenant)


@contextmanager
def _opened(target: Path) -> Generator[IO[bytes], None, None]:
    """The file, in place once it is whole. A device or a pipe is written to, not replaced."""
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
    """A line for each of these responses; an empty one if it is gone by now."""
    oldest_first = newest_first[::-1]
    parents = parents_of(oldest_first)
    ends: dict[str, int] = {}
    for stored in oldest_first:
        response_id = stored.response.id
        try:
            response = await store.response(tenant, response_id)
            items = await whole_input(store, tenant, response_id)
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
    """Items that are encoded already, each in its own way."""
    return [Raw(item_to_text(item)) for item in items]
