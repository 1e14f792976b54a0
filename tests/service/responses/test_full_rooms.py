"""Files that find no room: rounds wait for it, background responses are tried again, nothing is lost."""

import asyncio
from collections.abc import Collection

import msgspec
import pytest

from antiphon.backends.files import FileNotTaken
from antiphon.backends.scripted import ScriptedBackend, ScriptedTurn, Step
from antiphon.documents.reader import DocumentReader
from antiphon.errors import BackendUnreachable, Overloaded, Unavailable
from antiphon.http.download import Downloader
from antiphon.http.egress import AllowPublic
from antiphon.isolated.pool import IsolatedPool
from antiphon.jobs.worker import Worker
from antiphon.protocol.content import InputImage
from antiphon.protocol.items import Message
from antiphon.protocol.parse_create import create_from, parse_create
from antiphon.service.background import Background
from antiphon.service.hosted_tools.web_search import WebSearch
from antiphon.service.responses import file_texts
from antiphon.service.responses.create import Creator
from antiphon.service.responses.file_room import SentContent
from antiphon.service.responses.file_texts import FileTexts
from antiphon.service.responses.finish import Finisher
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator
from tests.service.responses.searches import ANSWER, CALLER, stream
from tests.service.responses.test_web_search import SEARCH, ScriptedWeb
from tests.service.test_background import followed

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(92)
PICTURED = [{"role": "user", "content": [{"type": "input_image", "file_id": f"file-{'0' * 44}"}]}]
WEB = [{"type": "web_search"}]


class NoIds(ScriptedBackend):
    """A model whose server takes no ids of images."""

    def prepare(self, turn: TurnRequest) -> ScriptedTurn:
        for item in turn.items:
            parts = item.content if isinstance(item, Message) else ()
            if any(isinstance(part, InputImage) and part.image_url is None for part in parts):
                raise FileNotTaken("no ids", param="input")
        return super().prepare(turn)


class OnePicture:
    """Stored files that are all the same."""

    async def content(self, tenant: str, file_id: str, max_bytes: int) -> tuple[str, bytes]:
        return "a.png", PICTURE

    async def size(self, tenant: str, file_id: str) -> int:
        return len(PICTURE)


class Refusing(SentContent):
    """Has no room when it is asked for the times with these numbers."""

    def __init__(self, refused: Collection[int]) -> None:
        super().__init__()
        self.asked = 0
        self.sizes: list[int] = []
        self._refused = refused

    def reserve(self, tenant: str, size: int, own: int) -> None:
        self.asked += 1
        if self.asked in self._refused:
            raise Overloaded("no room")
        super().reserve(tenant, size, own)
        self.sizes.append(size)

    def release(self, tenant: str, size: int) -> None:
        super().release(tenant, size)
        self.sizes.remove(size)


def files(sent: SentContent) -> FileTexts:
    return FileTexts(
        DocumentReader(IsolatedPool()), Downloader(AllowPublic(), 1000, 1.0), OnePicture(), 1000, sent
    )


def failing_over(make_creator: MakeCreator, sent: SentContent) -> Creator:
    """A model that takes ids and fails in its second round; then another one that takes none."""
    first = ScriptedBackend([SEARCH], [BackendUnreachable()])
    tools = (WebSearch(ScriptedWeb()),)
    return make_creator(first, NoIds([ANSWER]), files=files(sent), served_tools=tools)


async def test_all_rounds_hold_what_they_send(make_creator: MakeCreator) -> None:
    sent, sizes = Refusing(()), list[list[int]]()

    def play(turn: TurnRequest) -> list[Step]:
        sizes.append(sent.sizes.copy())
        return [SEARCH] if len(sizes) == 1 else [ANSWER]

    creator = make_creator(NoIds(play), files=files(sent), served_tools=(WebSearch(ScriptedWeb()),))
    events = await stream(creator, input=PICTURED, tools=WEB)
    assert events[-1]["type"] == "response.completed"
    assert (sizes, sent.sizes) == ([[300]] * 2, [])


async def test_a_later_round_waits_for_room(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_texts, "FULL_PAUSE_SECONDS", 0.01)
    sent = Refusing({1, 2, 3})
    events = await stream(failing_over(make_creator, sent), input=PICTURED, tools=WEB)
    assert events[-1]["type"] == "response.completed"
    assert (sent.asked, sent.sizes) == (4, [])


async def test_a_round_waits_no_longer_than_its_time(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_texts, "FULL_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(file_texts, "MAX_WAIT_SECONDS", 0.05)
    sent = Refusing(range(10_000))
    with pytest.raises(Overloaded):
        await asyncio.wait_for(stream(failing_over(make_creator, sent), input=PICTURED, tools=WEB), 10)
    assert sent.asked > 1


async def test_the_first_round_does_not_wait(make_creator: MakeCreator) -> None:
    sent = Refusing({1})
    creator = make_creator(NoIds([ANSWER]), files=files(sent))
    with pytest.raises(Overloaded):
        await creator.start(create_from(model="m", input=PICTURED), CALLER).result()
    assert sent.asked == 1


async def test_a_background_response_without_room_is_tried_again(make_creator: MakeCreator) -> None:
    sent = Refusing({2})  # the first time is its submission
    creator = make_creator(NoIds([ANSWER]), files=files(sent))
    jobs = Worker(creator.store.jobs, creator.store.signals, owner="process")
    background = Background(creator, jobs)
    body = msgspec.json.encode({"model": "m", "input": PICTURED, "background": True})
    response = await background.submit(parse_create(body), body, CALLER)
    async with asyncio.timeout(10):
        events = await followed(background, response.id)
    await jobs.aclose()
    assert events[-1]["type"] == "response.completed"
    assert sent.asked == 3


@pytest.mark.parametrize(("error", "hurries"), [(Overloaded(), 0), (Unavailable(), 1)])
async def test_only_a_shutdown_hurries_the_end(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch, error: Unavailable, hurries: int
) -> None:
    hurried: list[Finisher] = []

    def hurry(finisher: Finisher) -> None:
        hurried.append(finisher)

    monkeypatch.setattr(Finisher, "hurry", hurry)
    creator = make_creator(ScriptedBackend([[TextDelta("a")], [Finished("stop")]]))
    run = creator.start(create_from(model="m", input="hi", stream=True), CALLER)
    async for _ in run.events():
        break
    await run.abort(error)
    assert len(hurried) == hurries
