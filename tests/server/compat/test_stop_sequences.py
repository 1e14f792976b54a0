"""Stop sequences on the compatible endpoints."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.protocol.content import Logprob
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Finished,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest
from tests.server.compat.reading import fold_chat, fold_message, message_events
from tests.server.conftest import OpenClient
from tests.turn.chunk_strategies import USAGE

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = {**CHAT, "max_tokens": 9}


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_citation_amid_a_sequence_does_not_hide_it(open_client: OpenClient, streamed: bool) -> None:
    cited = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
    script = [[TextDelta("one ST")], [AnnotationAdded(cited)], [TextDelta("OP two")], [Finished("stop")]]
    async with open_client(ScriptedBackend(script)) as client:
        request_body = {**MESSAGES, "stop_sequences": ["STOP"], "stream": streamed}
        answer = await client.post("/v1/messages", json=request_body)
    message = fold_message(answer.text) if streamed else answer.json()
    assert (message["stop_sequence"], message["content"][0]["text"]) == ("STOP", "one ")


async def test_chat_ends_with_stop(open_client: OpenClient) -> None:
    backend = ScriptedBackend([[TextDelta("one ST")], [TextDelta("OP two")], [Finished("stop")]])
    async with open_client(backend) as client:
        streamed = await client.post("/v1/chat/completions", json={**CHAT, "stop": "STOP", "stream": True})
        complete = await client.post("/v1/chat/completions", json={**CHAT, "stop": ["x", "STOP"]})
    assert fold_chat(streamed.text)["message"]["content"] == "one "
    assert fold_chat(streamed.text)["finish_reason"] == "stop"
    assert complete.json()["choices"][0]["message"]["content"] == "one "


async def test_messages_report_the_matched_sequence(open_client: OpenClient) -> None:
    backend = ScriptedBackend(
        [[TextDelta("one ")], [TextDelta("two")], [CallStarted(0, "c", "f"), CallDelta(0, "{}")], [Finished("stop")]]
    )  # fmt: skip
    request_body = {**MESSAGES, "stop_sequences": ["tw", "o"]}
    async with open_client(backend) as client:
        streamed = await client.post("/v1/messages", json={**request_body, "stream": True})
        complete = await client.post("/v1/messages", json=request_body)
    for message in (fold_message(streamed.text), complete.json()):
        assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "o")
        assert [block["type"] for block in message["content"]] == []


async def test_the_model_is_let_go_at_the_sequence(open_client: OpenClient) -> None:
    let_go = asyncio.Event()

    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("one STOP")]
            await asyncio.sleep(60)
        finally:
            let_go.set()

    async with open_client(ScriptedBackend(steps)) as client:
        async with asyncio.timeout(5):
            body = {**MESSAGES, "stop_sequences": ["STOP"], "stream": True}
            answer = await client.post("/v1/messages", json=body)
    assert let_go.is_set()
    assert message_events(answer.text)[-2]["usage"]["output_tokens"] == 0


async def test_held_text_is_sent_when_it_is_no_stop_sequence(open_client: OpenClient) -> None:
    backend = ScriptedBackend([[TextDelta("1 < 2 <")], [Finished("length")], [UsageReported(USAGE)]])
    async with open_client(backend) as client:
        request_body = {**CHAT, "stop": ["<end>"], "stream": True}
        answer = await client.post("/v1/chat/completions", json=request_body)
    assert fold_chat(answer.text)["message"]["content"] == "1 < 2 <"
    assert fold_chat(answer.text)["finish_reason"] == "length"


@pytest.mark.parametrize("streamed", [True, False])
async def test_logprobs_of_removed_text_are_not_sent(open_client: OpenClient, streamed: bool) -> None:
    deltas = [TextDelta(piece, (Logprob(piece, None, -1.0),)) for piece in ("a", "b ", "ST", "OP")]
    request_body = {**CHAT, "stop": "STOP", "logprobs": True, "stream": streamed}
    async with open_client(ScriptedBackend([*([piece] for piece in deltas), [Finished("stop")]])) as client:
        answer = await client.post("/v1/chat/completions", json=request_body)
    if streamed:
        logprobs = fold_chat(answer.text)["logprobs"]
    else:
        logprobs = answer.json()["choices"][0]["logprobs"]["content"]
    assert [token["token"] for token in logprobs] == ["a", "b "]


@pytest.mark.parametrize(
    ("path", "request_body", "param"),
    [
        ("/v1/chat/completions", {**CHAT, "stop": ""}, "stop"),
        ("/v1/chat/completions", {**CHAT, "stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ("/v1/messages", {**MESSAGES, "stop_sequences": ["a", ""]}, "stop_sequences"),
    ],
)
async def test_sequences_that_cannot_be(
    open_client: OpenClient, path: str, request_body: dict[str, object], param: str
) -> None:
    async with open_client(ScriptedBackend.saying("hi")) as client:
        answer = await client.post(path, json=request_body)
    assert answer.status_code == 400
    assert param in answer.text
