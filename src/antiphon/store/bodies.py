"""Responses as JSON text. The body omits the output, because output items are stored as items."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.protocol.items import Item, OutputItem
from antiphon.protocol.parse_tools import read_tools
from antiphon.protocol.public_tools import public_declarations
from antiphon.protocol.response import Response, ResponseStatus
from antiphon.protocol.stored_items import item_id, item_to_text, item_type, items_from_texts
from antiphon.protocol.tools import Tool
from antiphon.store.base import NONE_PRIVATE, PrivateSides, Progress
from antiphon.store.database import Row


class _Declared(Struct, frozen=True):
    tools: list[Any] = []


_body = msgspec.json.Decoder(Response)
_declared = msgspec.json.Decoder(_Declared)
_input = msgspec.json.Decoder(list[list[str]])
_private_side = itemgetter(2)
_sides = msgspec.json.Decoder(dict[str, str])
_progress = msgspec.json.Decoder(Progress)


def response_to_text(response: Response) -> str:
    """The JSON of a response, without its output."""
    return msgspec.json.encode(replace(response, output=[])).decode()


def response_from_text(text: str, status: ResponseStatus, output: Sequence[Item] = ()) -> Response:
    """Parse a response. While it is unfinished, `status` is newer than the text."""
    body = _body.decode(text)
    # A database of an older version may hold secrets of tools.
    tools = public_declarations(body.tools)
    return replace(body, status=status, output=cast("list[OutputItem]", list(output)), tools=tools)


def tools_from_text(text: str) -> tuple[Tool, ...]:
    """The tools that a response declares."""
    return read_tools(_declared.decode(text).tools)


def input_to_text(items: Sequence[Item], private: PrivateSides) -> str:
    """The input of an unfinished response: type, text and, where there is one, private side of each item."""
    return msgspec.json.encode([_row(item, private.get(item_id(item))) for item in items]).decode()


def _row(item: Item, private: str | None) -> tuple[str, ...]:
    row = item_type(item), item_to_text(item)
    return row if private is None else (*row, private)


def input_from_text(text: str) -> tuple[list[Item], PrivateSides]:
    """Parse the input of an unfinished response."""
    return items_with_private([(*row, None) if len(row) == 2 else row for row in _input.decode(text)])


def items_from_rows(rows: Sequence[Row]) -> list[Item]:
    """The items of rows that hold a type and a text."""
    return items_from_texts(rows)


def sides_to_text(private: PrivateSides) -> str | None:
    """Private sides by item id; None if there are none."""
    return msgspec.json.encode(private).decode() if private else None


def sides_from_text(text: str | None) -> PrivateSides:
    """The private sides of a row of the event log."""
    return NONE_PRIVATE if text is None else _sides.decode(text)


def progress_to_text(progress: Progress | None) -> str | None:
    """What the attempts at a response have used; None: no news."""
    return None if progress is None else msgspec.json.encode(progress).decode()


def progress_from_text(text: str | None) -> Progress | None:
    """Parse it."""
    return None if text is None else _progress.decode(text)


def items_with_private(rows: Sequence[Row]) -> tuple[list[Item], PrivateSides]:
    """The items of rows that hold a type, a text and a private side, and those private sides that are not
    NULL."""
    items = items_from_texts(rows)
    if not any(map(_private_side, rows)):
        return items, NONE_PRIVATE
    return items, {item_id(item): row[2] for item, row in zip(items, rows, strict=True) if row[2] is not None}
