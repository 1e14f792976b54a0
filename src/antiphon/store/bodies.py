"""Responses as text: the body without its output, since output items are items like all others."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.protocol.items import Item, OutputItem
from antiphon.protocol.parse_tools import read_tools
from antiphon.protocol.response import Response, ResponseStatus
from antiphon.protocol.stored_items import item_from_text, item_to_text, item_type, items_from_texts
from antiphon.protocol.tools import Tool
from antiphon.store.database import Row


class _Declared(Struct, frozen=True):
    tools: list[Any] = []


_body = msgspec.json.Decoder(Response)
_declared = msgspec.json.Decoder(_Declared)
_input = msgspec.json.Decoder(list[tuple[str, str]])


def response_to_text(response: Response) -> str:
    """The JSON of a response, without its output."""
    return msgspec.json.encode(replace(response, output=[])).decode()


def response_from_text(text: str, status: ResponseStatus, output: Sequence[Item] = ()) -> Response:
    """The response again. While it is unfinished, `status` is newer than the text."""
    body = _body.decode(text)
    return replace(body, status=status, output=cast("list[OutputItem]", list(output)))


def tools_from_text(text: str) -> tuple[Tool, ...]:
    """The tools that a response declares."""
    return read_tools(_declared.decode(text).tools)


def input_to_text(items: Sequence[Item]) -> str:
    """The input of an unfinished response."""
    return msgspec.json.encode([(item_type(item), item_to_text(item)) for item in items]).decode()


def input_from_text(text: str) -> tuple[Item, ...]:
    """The input of an unfinished response again."""
    return tuple(item_from_text(kind, body) for kind, body in _input.decode(text))


def items_from_rows(rows: Sequence[Row]) -> list[Item]:
    """The items of rows that hold a type and a text."""
    return items_from_texts(rows)
