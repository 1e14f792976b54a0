"""Any sequence of create, continue, branch, delete, cancel and conversations, against a simple model of it.

The scripted model answers with everything that it received, so every answer proves its complete history. The
same machine runs on every store, through the official SDK, in memory and over real HTTP.
"""

import asyncio
import json
from collections.abc import Coroutine, Generator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    rule,
    run_state_machine_as_test,
)
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.responses import Response

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.embedded import Antiphon
from antiphon.protocol.items import Message
from antiphon.service.routing.router import Route
from antiphon.settings import Settings, StoreSettings
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.postgres import PostgresServer
from tests.serving import run_server
from tests.upstream import run_upstream

T = TypeVar("T")
MODEL = "transcript"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("state")]


def transcript(turn: TurnRequest) -> list[Step]:
    """The same as the upstream's model `transcript`, in process."""
    received = [text_of(item) for item in turn.items if isinstance(item, Message)]
    return [[TextDelta(json.dumps(received))], [Finished("stop")]]


def text_of(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(getattr(part, "text", "") for part in message.content)


class StateMachine(RuleBasedStateMachine):
    """`histories` maps responses to all texts up to their end, `talks` maps conversations to their items."""

    store = "memory:"
    over_http = False

    alive = Bundle("alive")
    dead = Bundle("dead")
    talks = Bundle("talks")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = ExitStack()
        self.histories: dict[str, list[str]] = {}
        self.items: dict[str, list[str]] = {}
        self.client = self.http_client() if self.over_http else self.memory_client()

    def memory_client(self) -> AsyncOpenAI:
        store = self.store.replace("FOLDER", self.stack.enter_context(TemporaryDirectory()))
        backend = ScriptedBackend(transcript)
        self.antiphon = Antiphon(Settings(store=StoreSettings(url=store)), routes=[Route(MODEL, backend)])
        self.run(self.antiphon.__aenter__())
        self.stack.callback(lambda: self.run(self.antiphon.__aexit__(None, None, None)))
        return self.antiphon.openai_client()

    def http_client(self) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=self.store, api_key="-", max_retries=0)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.client.close())
        self.stack.close()
        self.runner.close()

    def create(self, text: str, **params: Any) -> Response:
        create: Any = self.client.responses.create
        return self.run(create(model=MODEL, input=text, **params))

    def expect(self, response: Response, before: list[str], text: str) -> None:
        history = [*before, text]
        assert json.loads(response.output_text) == history, "the model received exactly this history"
        self.histories[response.id] = [*history, response.output_text]

    @initialize(target=alive, text=st.text("abc", min_size=1, max_size=3))
    def first(self, text: str) -> str:
        return self.start(text)

    @rule(target=alive, text=st.text("abc", min_size=1, max_size=3))
    def begin(self, text: str) -> str:
        return self.start(text)

    def start(self, text: str) -> str:
        response = self.create(text)
        self.expect(response, [], text)
        return response.id

    @rule(target=alive, parent=alive, text=st.text("abc", min_size=1, max_size=3), background=st.booleans())
    def go_on(self, parent: str, text: str, background: bool) -> str:
        response = self.create(text, previous_response_id=parent, background=background)
        if background:
            response = self.wait(response.id)
        self.expect(response, self.histories[parent], text)
        return response.id

    def wait(self, response_id: str) -> Response:
        async def ended() -> Response:
            async for _ in await self.client.responses.retrieve(response_id, stream=True):
                pass
            return await self.client.responses.retrieve(response_id)

        return self.run(ended())

    @rule(response_id=alive)
    def retrieve(self, response_id: str) -> None:
        response = self.run(self.client.responses.retrieve(response_id))
        assert response.output_text == self.histories[response_id][-1]
        assert response.status == "completed"

    @rule(response_id=alive, limit=st.integers(1, 5))
    def list_input(self, response_id: str, limit: int) -> None:
        async def all_items() -> list[str]:
            pages = self.client.responses.input_items.list(response_id, limit=limit, order="asc")
            return [item.content[0].text async for item in pages]  # type: ignore[union-attr]

        assert self.run(all_items()) == self.histories[response_id][:-1]

    @rule(target=dead, response_id=consumes(alive))
    def delete(self, response_id: str) -> str:
        self.run(self.client.responses.delete(response_id))
        return response_id

    @rule(response_id=dead)
    def what_is_deleted_is_not_found(self, response_id: str) -> None:
        with pytest.raises(NotFoundError):
            self.run(self.client.responses.retrieve(response_id))
        with pytest.raises(BadRequestError):
            self.create("x", previous_response_id=response_id)

    @rule(response_id=alive)
    def cancel_what_has_ended(self, response_id: str) -> None:
        before = self.run(self.client.responses.retrieve(response_id))
        if before.background:
            assert self.run(self.client.responses.cancel(response_id)) == before
        else:
            with pytest.raises(BadRequestError):
                self.run(self.client.responses.cancel(response_id))

    @rule(target=talks, given=st.lists(st.text("abc", min_size=1, max_size=3), max_size=2))
    def converse(self, given: list[str]) -> str:
        items: Any = [{"role": "user", "content": text} for text in given]
        conversation = self.run(self.client.conversations.create(items=items))
        self.items[conversation.id] = list(given)
        return conversation.id

    @rule(target=alive, conversation=talks, text=st.text("abc", min_size=1, max_size=3))
    def say_in(self, conversation: str, text: str) -> str:
        response = self.create(text, conversation=conversation)
        self.expect(response, self.items[conversation], text)
        self.items[conversation] = list(self.histories[response.id])
        return response.id

    @rule(conversation=talks)
    def list_talk(self, conversation: str) -> None:
        async def all_items() -> list[str]:
            pages = self.client.conversations.items.list(conversation, limit=3, order="asc")
            return [item.content[0].text async for item in pages]  # type: ignore[union-attr]

        assert self.run(all_items()) == self.items[conversation]

    @rule(conversation=talks, place=st.integers(0, 5))
    def take_out(self, conversation: str, place: int) -> None:
        async def items() -> list[Any]:
            return [item async for item in self.client.conversations.items.list(conversation, order="asc")]

        found = self.run(items())
        if place < len(found):
            self.run(self.client.conversations.items.delete(found[place].id, conversation_id=conversation))
            del self.items[conversation][place]

    @rule(conversation=consumes(talks))
    def end_talk(self, conversation: str) -> None:
        self.run(self.client.conversations.delete(conversation))
        with pytest.raises(NotFoundError):
            self.create("x", conversation=conversation)


def check(store: str, *, over_http: bool = False, examples: int = 12) -> None:
    machine = type("Machine", (StateMachine,), {"store": store, "over_http": over_http})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=20, deadline=None)
    )


def test_in_memory() -> None:
    check("memory:")


def test_on_sqlite() -> None:
    check("sqlite:FOLDER/antiphon.db")


def test_on_postgres(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        check(url, examples=8)


@pytest.fixture
def served(tmp_path: Path) -> Generator[str, None, None]:
    with run_upstream() as upstream, run_server(tmp_path, "--upstream", upstream.url) as running:
        yield running.base_url


def test_over_http(served: str) -> None:
    check(served, over_http=True, examples=8)
