"""The port of a compatible API: reads a body into a request of the engine, and renders the answer."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from antiphon.caller import Caller
from antiphon.errors import AntiphonError
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import Event
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response

_ITEM = re.compile(r"input\[(\d+)\](?:\.(?:content|output)\[(\d+)\])?([A-Za-z_.]*)")


class Place(NamedTuple):
    """The place of an item in the body. `blocks`: for each part of the item, the index of its block in the
    body; empty: they are in order."""

    path: str
    blocks: tuple[int, ...] = ()


class Names(Struct, frozen=True):
    """The names that this API has for parameters of the Responses API and for members of an item."""

    params: Mapping[str, str]
    members: Mapping[str, str]


class CompatRequest(Struct, frozen=True, kw_only=True):
    """One request. `downgrades` are those of this API, in its own names; `stops` end the answer."""

    request: CreateResponse
    names: Names
    streamed: bool = False
    places: tuple[Place, ...] = ()
    downgrades: tuple[Downgrade, ...] = ()
    stops: tuple[str, ...] = ()

    def blame(self, error: AntiphonError) -> None:
        """Rename the parameter of an engine's error to the one that the caller sent."""
        if error.param is None:
            return
        named = self._own_name(error.param)
        error.message = error.message.replace(f"'{error.param}'", f"'{named}'")
        error.param = named

    def _own_name(self, param: str) -> str:
        found = _ITEM.fullmatch(param)
        if found is None:
            return self.names.params.get(param, param)
        index = int(found[1])
        if index >= len(self.places):
            return param
        path, blocks = self.places[index]
        part = "" if found[2] is None else f".content[{_block(int(found[2]), blocks)}]"
        return path + part + self.names.members.get(found[3], found[3])


def _block(part: int, blocks: tuple[int, ...]) -> int:
    return blocks[part] if part < len(blocks) else part


class Renderer(Protocol):
    """Renders one answer."""

    def render(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events."""
        ...

    def render_response(self, response: Response, stop: str | None) -> bytes:
        """The complete JSON answer. `stop`: the sequence that ended it."""
        ...

    def stopped(self, stop: str) -> None:
        """The next events are the last, because this stop sequence was found."""
        ...

    def downgraded(self, downgrades: Sequence[Downgrade]) -> None:
        """The engine's downgrades, known before the answer ends."""
        ...

    def private_sides(self, sides: Mapping[str, str]) -> None:
        """What the model was shown of items that have ended, by item id, as it is stored."""
        ...

    def failed(self, status: int, request_id: str) -> None:
        """The next error event has this status."""
        ...


class CompatApi(Protocol):
    """Reads the requests of one API."""

    def read(self, body: bytes, caller: Caller) -> tuple[CompatRequest, Renderer]:
        """The request of this caller, and the renderer of its answer; raises `InvalidRequest`."""
        ...
