"""Deleting what is there already: whoever is still at work on it is stopped first."""

from collections.abc import AsyncGenerator

import pytest
from msgspec.structs import replace

from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response, ResponseStatus, new_response
from antiphon.service.stored import StoredResponses

CALLER = Caller.of("t")


class Story:
    """A store with one response, and its background: what was asked of them, in order."""

    def __init__(self, status: ResponseStatus) -> None:
        request = create_from(model="m", input="x", background=True)
        self.kept: Response | None = replace(new_response(request, id="resp_1", created_at=1), status=status)
        self.told: list[str] = []
        self.stored = StoredResponses(self, self)  # pyright: ignore[reportArgumentType] -- only what delete needs

    async def response(self, _tenant: str, response_id: str) -> Response:
        if self.kept is None or response_id != self.kept.id:
            raise NotFound
        return self.kept

    async def delete(self, _tenant: str, response_id: str) -> None:
        await self.response(_tenant, response_id)
        self.told.append("deleted")
        self.kept = None

    async def cancel(self, _tenant: str, response_id: str) -> Response:
        self.told.append("cancelled")
        return await self.response(_tenant, response_id)

    async def follow(self, _tenant: str, _id: str, _after: int = -1) -> AsyncGenerator[bytes, None]:
        raise InvalidRequest
        yield b""


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_an_unfinished_response_is_cancelled_and_then_deleted(status: ResponseStatus) -> None:
    story = Story(status)
    await story.stored.delete(CALLER, "resp_1")
    assert story.told == ["cancelled", "deleted"]


@pytest.mark.parametrize("status", ["completed", "failed", "incomplete", "cancelled"])
async def test_a_finished_response_is_just_deleted(status: ResponseStatus) -> None:
    story = Story(status)
    await story.stored.delete(CALLER, "resp_1")
    assert story.told == ["deleted"]


async def test_what_is_not_there_is_neither_cancelled_nor_deleted() -> None:
    story = Story("queued")
    with pytest.raises(NotFound):
        await story.stored.delete(CALLER, "resp_2")
    assert story.told == []
