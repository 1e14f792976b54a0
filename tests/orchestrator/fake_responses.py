"""A fake Responses server: it records the bodies that it receives, and sends scripted answers."""

from collections.abc import AsyncGenerator

import msgspec

from antiphon.protocol.content import JsonObject


def message(*texts: str) -> JsonObject:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text} for text in texts],
    }


def function_call(call_id: str, name: str, arguments: object = "{}") -> JsonObject:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


def response(*output: JsonObject, **members: object) -> JsonObject:
    return {"id": "resp_1", "object": "response", "status": "completed", "output": list(output), **members}


class FakeResponsesClient:
    """The port `ResponsesClient`. Responses without their own id are numbered."""

    def __init__(self, *answers: JsonObject | Exception) -> None:
        self.bodies: list[JsonObject] = []
        self.model_requests = 0
        self._answers = answers

    async def create(self, body: JsonObject) -> bytes:
        self.bodies.append(msgspec.json.decode(msgspec.json.encode(body)))
        answer = self._answers[min(len(self.bodies), len(self._answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        raise AssertionError("this fake does not stream")
        yield body

    async def retrieve(self, response_id: str) -> bytes:
        raise AssertionError(f"unexpected retrieval of {response_id}: its answer is known")

    async def default_model(self) -> str:
        self.model_requests += 1
        return "first"
