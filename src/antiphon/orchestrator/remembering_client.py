"""`RememberingClient`: makes a server that keeps nothing fit for conversations."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec
from msgspec import Struct

from antiphon.errors import ResponsesCallFailed
from antiphon.orchestrator.client import ResponsesClient
from antiphon.orchestrator.wire import items_of
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import TERMINAL_TYPES

REMEMBERED = 1_000
"""Responses that can be gone on from."""


class _Answer(Struct):
    id: Any = None
    output: Any = None


class _Kept(Struct, frozen=True):
    """A response with all that led to it."""

    raw: bytes
    items: Sequence[object]
    tools: object


class RememberingClient:
    """The port `ResponsesClient` over another one. A continuation is sent as the whole conversation so far,
    with its tools, and without the id that the server would not know.

    What is remembered ends with this object; beyond `limit` responses, the oldest are forgotten.
    """

    def __init__(self, client: ResponsesClient, *, limit: int = REMEMBERED) -> None:
        self._client = client
        self._limit = limit
        self._kept: dict[str, _Kept] = {}

    async def create(self, body: JsonObject) -> bytes:
        """One response, whole."""
        sent = self._whole(body)
        raw = await self._client.create(sent)
        self._keep(sent, raw)
        return raw

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """The events of one response."""
        sent = self._whole(body)
        async with aclosing(self._client.stream(sent)) as events:
            async for event in events:
                if event.get("type") in TERMINAL_TYPES:
                    self._keep(sent, msgspec.json.encode(event.get("response")))
                yield event

    async def retrieve(self, response_id: str) -> bytes:
        """A response that was made here; any other is asked for."""
        kept = self._kept.get(response_id)
        return await self._client.retrieve(response_id) if kept is None else kept.raw

    async def default_model(self) -> str:
        """The model of the other client."""
        return await self._client.default_model()

    def _whole(self, body: JsonObject) -> JsonObject:
        previous = body.get("previous_response_id")
        if not previous:
            return {**body, "store": False}
        kept = self._kept.get(previous)
        if kept is None:
            message = f"The response '{previous}' was not made here, or is forgotten: begin anew."
            raise ResponsesCallFailed(message, status=404, code="previous_response_not_found")
        whole = {name: value for name, value in body.items() if name != "previous_response_id"}
        if kept.tools is not None:
            whole.setdefault("tools", kept.tools)
        return {**whole, "store": False, "input": [*kept.items, *items_of(body.get("input"))]}

    def _keep(self, sent: JsonObject, raw: bytes) -> None:
        try:
            answer = msgspec.json.decode(raw, type=_Answer)
        except (msgspec.MsgspecError, UnicodeError):
            return  # what is no response cannot be gone on from; whoever asked sees that
        if not isinstance(answer.id, str):
            return
        items = [*items_of(sent.get("input")), *filter(_can_be_said_again, items_of(answer.output))]
        self._kept[answer.id] = _Kept(raw, items, sent.get("tools"))
        if len(self._kept) > self._limit:
            del self._kept[next(iter(self._kept))]


def _can_be_said_again(item: object) -> bool:
    """Reasoning without its sealed content is a name that only the server that made it could resolve."""
    body = cast("JsonObject", item) if isinstance(item, dict) else {}
    return body.get("type") != "reasoning" or bool(body.get("encrypted_content"))
