"""Requests with as many items as are permitted are parsed in a thread, over HTTP and on WebSockets."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.parse_create import check_create
from antiphon.server.app import App
from antiphon.server.memory import memory_client
from antiphon.service.long_work import THREAD_ITEMS
from antiphon.turn.chunks import Finished, TextDelta
from tests.server.conftest import never_opened, options
from tests.server.websocket_client import World, id_of
from tests.service.conftest import MakeCreator, services_of

MESSAGE = {"role": "user", "content": "word"}
ANSWER = [TextDelta("a"), Finished("stop")]


@pytest.fixture
def parsed_in(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the main thread has parsed each request."""
    seen: list[bool] = []

    def watching(check: Callable[..., Any]) -> Callable[..., Any]:
        def check_and_note(*args: Any, **kwargs: Any) -> Any:
            seen.append(threading.current_thread() is threading.main_thread())
            return check(*args, **kwargs)

        return check_and_note

    for module in ("parse_create", "frames"):
        monkeypatch.setattr(f"antiphon.protocol.{module}.check_create", watching(check_create))
    return seen


async def test_a_request_with_many_items_is_parsed_in_a_thread(
    make_creator: MakeCreator, parsed_in: list[bool]
) -> None:
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator(ScriptedBackend([ANSWER], [ANSWER]))))
    async with memory_client(app) as client:
        for count in (10, THREAD_ITEMS + 1):
            answer = await client.post("/v1/responses", json={"model": "m", "input": [MESSAGE] * count})
            assert answer.status_code == 200, answer.text
        broken = [*[MESSAGE] * THREAD_ITEMS, {"role": "nobody"}]
        refused = await client.post("/v1/responses", json={"model": "m", "input": broken})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, f"input[{THREAD_ITEMS}].content")
    assert parsed_in == [True, False, False]


async def test_so_is_one_on_a_websocket(parsed_in: list[bool]) -> None:
    async with World(ScriptedBackend([ANSWER], [ANSWER])).connect() as socket:
        for count in (10, THREAD_ITEMS + 1):
            id_of(await socket.respond(input=[MESSAGE] * count))
    assert parsed_in == [True, False]
