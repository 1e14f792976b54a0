"""A chat-completions server whose models behave as tests and pictures of the page need it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from aiohttp import web

from tests.page.samples import ANSWERS, HOSTILE_TEXT
from tests.upstream import USAGE, JsonObject, Upstream

STOP: JsonObject = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
STAND_INS = {"phi-4": "breaks", "granite-4": "agent"}
"""Real names, for pictures, of models that behave as those of all tests."""
DELETED = {"path": "/srv/<b>notes</b>.md", "recursive": True}
"""The arguments of the call of `deletes`."""
LONG_LINE_BYTES = 2**20
THINKING_STEPS = 30_000
"""Of 20 ms each, of the model that does not come to an answer."""
WORDS = 400
"""Of the model that streams for a while, if nothing else is set."""


class ModelServer(Upstream):
    """Beside the models of all tests: `deletes`, `hostile`, `one-line`, `steady`, and `qwen3-32b` and others with
    real answers."""

    def __init__(self) -> None:
        super().__init__()
        self.word_seconds = 0.02
        self.words = WORDS
        self.paragraph_words = 0
        """After so many words of `steady` a paragraph ends; 0: none does."""

    async def _behave(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        match body["model"]:
            case "hostile":
                return await self._stream(request, [HOSTILE_TEXT])
            case "one-line":
                return await self._stream(request, ["x" * 65_536] * (LONG_LINE_BYTES // 65_536))
            case "steady":
                return await self._steady(request)
            case "deletes":
                return await self._delete(request, body["messages"][-1])
            case "llama-3.3-70b":
                return await self._think(request)
            case "phi-4" | "granite-4" as name:
                return await super()._behave(request, {**body, "model": STAND_INS[name]})
            case "qwen3-32b" | "gpt-oss-20b" | "mistral-small":
                return await self._sample(request, body)
            case _:
                return await super()._behave(request, body)

    async def _stream(self, request: web.Request, pieces: Sequence[str]) -> web.StreamResponse:
        async with _Answer(request) as deltas:
            for piece in pieces:
                await deltas.send({"content": piece})
        return deltas.response

    async def _think(self, request: web.Request) -> web.StreamResponse:
        """A thought, and then nothing for minutes, or until the connection closes."""
        async with _Answer(request) as deltas:
            await deltas.send({"reasoning_content": "Sorting the tickets by their cause."})
            for _ in range(THINKING_STEPS):
                if request.transport is None or request.transport.is_closing():
                    break
                await asyncio.sleep(0.02)
        return deltas.response

    async def _steady(self, request: web.Request) -> web.StreamResponse:
        """One numbered word at a time, each at its own time: a word that is late does not delay the next one."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with _Answer(request) as deltas:
            for number in range(self.words):
                ends = self.paragraph_words and number % self.paragraph_words == self.paragraph_words - 1
                await deltas.send({"content": f"word{number}" + ("\n\n" if ends else " ")})
                due = began + (number + 1) * self.word_seconds
                await asyncio.sleep(max(0, due - loop.time()))
        return deltas.response

    async def _delete(self, request: web.Request, last: JsonObject) -> web.StreamResponse:
        """A call that deletes a folder, and then what the model gets of it."""
        async with _Answer(request) as deltas:
            if last["role"] == "tool":
                await deltas.send({"content": f"I was told: {last['content']}"})
            else:
                await deltas.call("delete_folder", json.dumps(DELETED))
        return deltas.response

    async def _sample(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        """The answer to a known question, or the call of the tool that it needs."""
        messages = body["messages"]
        asked = next(_text(message) for message in reversed(messages) if message["role"] == "user")
        sample = next((each for each in ANSWERS if each.question in asked), ANSWERS[-1])
        called = messages[-1]["role"] == "tool"
        names = {tool["function"]["name"] for tool in body.get("tools", ())}
        async with _Answer(request, usage=_usage(messages, sample.answer)) as deltas:
            if sample.reasoning and not called:
                async for piece in _words(sample.reasoning):
                    await deltas.send({"reasoning_content": piece})
            if sample.call and sample.call[0] in names and not called:
                await deltas.call(*sample.call)
            else:
                async for piece in _words(sample.answer):
                    await deltas.send({"content": piece})
        return deltas.response


class _Answer:
    """The chunks of a streamed answer."""

    def __init__(self, request: web.Request, usage: JsonObject = USAGE) -> None:
        self.response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        self._request = request
        self._usage = usage
        self._reason = "stop"

    async def __aenter__(self) -> "_Answer":
        await self.response.prepare(self._request)
        return self

    async def __aexit__(self, *error: object) -> None:
        if error[0] is None:
            await self._write({"choices": [{"index": 0, "delta": {}, "finish_reason": self._reason}]})
            await self._write({"choices": [], "usage": self._usage})
            await self.response.write(b"data: [DONE]\n\n")

    async def send(self, delta: JsonObject) -> None:
        await self._write({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

    async def call(self, name: str, arguments: str) -> None:
        function = {"name": name, "arguments": arguments}
        await self.send(
            {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
        )
        self._reason = "tool_calls"

    async def _write(self, members: dict[str, Any]) -> None:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **members}
        await self.response.write(f"data: {json.dumps(chunk)}\n\n".encode())


async def _words(text: str) -> AsyncGenerator[str, None]:
    words = text.split(" ")
    for index, word in enumerate(words):
        yield word if index == len(words) - 1 else f"{word} "
        await asyncio.sleep(0.002)


def _text(message: JsonObject) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def _usage(messages: Sequence[JsonObject], answer: str) -> JsonObject:
    prompt = sum(len(json.dumps(message)) // 4 for message in messages)
    completion = len(answer) // 4
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": prompt // 2 if len(messages) > 2 else 0},
    }
