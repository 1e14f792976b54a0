"""Stop sequences: how the text is cut into deltas changes nothing, and nothing of a sequence is told."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import count
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import AntiphonError
from antiphon.protocol.content import Logprob
from antiphon.protocol.events import Event, OutputTextDelta, ResponseCompleted
from antiphon.protocol.items import Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response, new_response
from antiphon.server.compat.stopping import Stopping
from antiphon.server.compat.words import message_text
from antiphon.service.create import Run
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Failed,
    Finished,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest
from antiphon.turn.machine import Machine
from tests.server.compat.reading import fold_chat, fold_message, message_events
from tests.server.conftest import OpenClient
from tests.turn.saying import USAGE

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = {**CHAT, "max_tokens": 9}


class SpokenRun:
    """A run that says these words, with a sign of life after each."""

    def __init__(self, words: Sequence[str]) -> None:
        numbers = count()
        self.ended = False
        self._words = words
        self._machine = Machine(
            new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1),
            new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        )

    async def events(self) -> AsyncGenerator[list[Event], None]:
        yield self._machine.start()
        for word in self._words:
            yield self._machine.feed([TextDelta(word)])
            yield self._machine.keepalive()
        yield self._machine.feed([Finished("stop")])
        yield self._end()

    async def abort(self, error: AntiphonError) -> list[Event]:
        return [*self._machine.feed([Failed(error)]), *self._end()]

    async def result(self) -> Response:
        async for _ in self.events():
            pass
        return self._machine.response

    def _end(self) -> list[Event]:
        self.ended = True
        return self._machine.end(2)


def stopping(words: Sequence[str], stops: Sequence[str]) -> Stopping:
    return Stopping(cast("Run", SpokenRun(words)), stops)


def said(response: Response) -> str:
    return "".join(message_text(item) for item in response.output if isinstance(item, Message))


def expected(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """What is told: read letter by letter, as a model writes it."""
    for end in range(len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            if text[:end].endswith(stop):
                return text[: end - len(stop)], stop
    return text, None


def test_many_sequences_cost_little() -> None:
    """Each piece of the answer is compared with their beginnings, not with all of them."""

    class Counted(str):
        compared = 0

        def startswith(self, *args: object) -> bool:
            Counted.compared += 1
            return str(self).startswith(*args)  # pyright: ignore[reportArgumentType]

    async def listen() -> None:
        stream = stopping(["xa" * 10] * 20, [Counted("a" * 40 + chr(256 + number)) for number in range(64)])
        async for _ in stream.events():
            pass

    asyncio.run(listen())
    assert Counted.compared <= 20 * 41


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_citation_amid_a_sequence_does_not_hide_it(open_client: OpenClient, streamed: bool) -> None:
    cited = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
    script = [[TextDelta("one ST")], [AnnotationAdded(cited)], [TextDelta("OP two")], [Finished("stop")]]
    async with open_client(ScriptedBackend(script)) as client:
        asked = {**MESSAGES, "stop_sequences": ["STOP"], "stream": streamed}
        answer = await client.post("/v1/messages", json=asked)
    message = fold_message(answer.text) if streamed else answer.json()
    assert (message["stop_sequence"], message["content"][0]["text"]) == ("STOP", "one ")


STOPS = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=3)


@given(st.lists(st.text("abc", max_size=4), max_size=6), STOPS)
@example(["a", "b"], ["b", "ab"])
def test_the_answer_ends_before_the_first_sequence(words: list[str], stops: list[str]) -> None:
    async def listen() -> None:
        stream = stopping(words, stops)
        events = [event async for batch in stream.events() for event in batch]
        text = "".join(event.delta for event in events if isinstance(event, OutputTextDelta))
        assert (text, stream.found) == expected("".join(words), stops)
        assert isinstance(events[-1], ResponseCompleted)
        assert (said(events[-1].response), events[-1].response.status) == (text, "completed")
        assert stream.ended
        whole = stopping(words, stops)
        assert (said(await whole.result()), whole.found) == (text, stream.found)

    asyncio.run(listen())


async def test_chat_ends_with_stop(open_client: OpenClient) -> None:
    backend = ScriptedBackend([[TextDelta("one ST")], [TextDelta("OP two")], [Finished("stop")]])
    async with open_client(backend) as client:
        streamed = await client.post("/v1/chat/completions", json={**CHAT, "stop": "STOP", "stream": True})
        whole = await client.post("/v1/chat/completions", json={**CHAT, "stop": ["x", "STOP"]})
    assert fold_chat(streamed.text)["message"]["content"] == "one "
    assert fold_chat(streamed.text)["finish_reason"] == "stop"
    assert whole.json()["choices"][0]["message"]["content"] == "one "


async def test_messages_say_which_sequence_it_was(open_client: OpenClient) -> None:
    backend = ScriptedBackend(
        [[TextDelta("one ")], [TextDelta("two")], [CallStarted(0, "c", "f"), CallDelta(0, "{}")], [Finished("stop")]]
    )  # fmt: skip
    asked = {**MESSAGES, "stop_sequences": ["tw", "o"]}
    async with open_client(backend) as client:
        streamed = await client.post("/v1/messages", json={**asked, "stream": True})
        whole = await client.post("/v1/messages", json=asked)
    for message in (fold_message(streamed.text), whole.json()):
        assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "o")
        assert [block["type"] for block in message["content"]] == []


async def test_the_model_is_let_go_at_the_sequence(open_client: OpenClient) -> None:
    let_go = asyncio.Event()

    async def play(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("one STOP")]
            await asyncio.sleep(60)
        finally:
            let_go.set()

    async with open_client(ScriptedBackend(play)) as client:
        async with asyncio.timeout(5):
            body = {**MESSAGES, "stop_sequences": ["STOP"], "stream": True}
            answer = await client.post("/v1/messages", json=body)
    assert let_go.is_set()
    assert message_events(answer.text)[-2]["usage"]["output_tokens"] == 0


async def test_what_is_held_back_is_told_when_it_is_no_sequence(open_client: OpenClient) -> None:
    backend = ScriptedBackend([[TextDelta("1 < 2 <")], [Finished("length")], [UsageReported(USAGE)]])
    async with open_client(backend) as client:
        asked = {**CHAT, "stop": ["<end>"], "stream": True}
        answer = await client.post("/v1/chat/completions", json=asked)
    assert fold_chat(answer.text)["message"]["content"] == "1 < 2 <"
    assert fold_chat(answer.text)["finish_reason"] == "length"


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_likelihood_of_what_was_cut_is_not_told(open_client: OpenClient, streamed: bool) -> None:
    words = [TextDelta(word, (Logprob(word, None, -1.0),)) for word in ("a", "b ", "ST", "OP")]
    asked = {**CHAT, "stop": "STOP", "logprobs": True, "stream": streamed}
    async with open_client(ScriptedBackend([*([word] for word in words), [Finished("stop")]])) as client:
        answer = await client.post("/v1/chat/completions", json=asked)
    if streamed:
        logprobs = fold_chat(answer.text)["logprobs"]
    else:
        logprobs = answer.json()["choices"][0]["logprobs"]["content"]
    assert [token["token"] for token in logprobs] == ["a", "b "]


@pytest.mark.parametrize(
    ("path", "asked", "param"),
    [
        ("/v1/chat/completions", {**CHAT, "stop": ""}, "stop"),
        ("/v1/chat/completions", {**CHAT, "stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ("/v1/messages", {**MESSAGES, "stop_sequences": ["a", ""]}, "stop_sequences"),
    ],
)
async def test_sequences_that_cannot_be(
    open_client: OpenClient, path: str, asked: dict[str, object], param: str
) -> None:
    async with open_client(ScriptedBackend.saying("hi")) as client:
        answer = await client.post(path, json=asked)
    assert answer.status_code == 400
    assert param in answer.text
