"""Deletion of stored responses: a running response is cancelled first."""

from collections.abc import AsyncGenerator

import pytest
from msgspec.structs import replace

from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response, ResponseStatus, new_response
from antiphon.service.stored import StoredResponses

CALLER = Caller.of("t")


class RecordingStore:
    """A store with one response, and its background service, which record their calls in order."""

    def __init__(self, status: ResponseStatus) -> None:
        request = create_from(model="m", input="x", background=True)
        self.stored_response: Response | None = replace(
            new_response(request, id="resp_1", created_at=1), status=status
        )
        self.calls: list[str] = []
        self.stored = StoredResponses(self, self)  # pyright: ignore[reportArgumentType] -- only what delete needs

    async def response(self, _tenant: str, response_id: str) -> Response:
        if self.stored_response is None or response_id != self.stored_response.id:
            raise NotFound
        return self.stored_response

    async def delete(self, _tenant: str, response_id: str) -> None:
        await self.response(_tenant, response_id)
        self.calls.append("deleted")
        self.stored_response = None

    def unfinished(self, caller: Caller, response_id: str) -> Response | None:
        del caller, response_id
        return None

    async def cancel(self, _tenant: str, response_id: str) -> Response:
        self.calls.append("cancelled")
        return await self.response(_tenant, response_id)

    async def follow(self, _tenant: str, _id: str, _after: int = -1) -> AsyncGenerator[bytes, None]:
        raise InvalidRequest
        yield b""


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_an_unfinished_response_is_cancelled_and_then_deleted(status: ResponseStatus) -> None:
    recording = RecordingStore(status)
    await recording.stored.delete(CALLER, "resp_1")
    assert recording.calls == ["cancelled", "deleted"]


@pytest.mark.parametrize("status", ["completed", "failed", "incomplete", "cancelled"])
async def test_a_finished_response_is_just_deleted(status: ResponseStatus) -> None:
    recording = RecordingStore(status)
    await recording.stored.delete(CALLER, "resp_1")
    assert recording.calls == ["deleted"]


async def test_a_missing_response_is_neither_cancelled_nor_deleted() -> None:
    recording = RecordingStore("queued")
    with pytest.raises(NotFound):
        await recording.stored.delete(CALLER, "resp_2")
    assert recording.calls == []
