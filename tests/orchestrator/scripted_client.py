"""A scripted Responses server: it sends the answers of a script, and records its requests."""

import copy
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from antiphon.errors import ResponsesCallFailed
from antiphon.protocol.content import JsonObject

Answer = JsonObject | ResponsesCallFailed


def answers(text: str) -> JsonObject:
    """An answer with text."""
    return {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}


def calls(*wanted: tuple[str, Any], text: str = "") -> JsonObject:
    """An answer with calls, each with name and arguments. Their ids are filled in."""
    output: list[JsonObject] = list(answers(text)["output"]) if text else []
    for name, arguments in wanted:
        written = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        output.append({"type": "function_call", "name": name, "arguments": written})
    return {"output": output}


class ScriptedClient:
    """The port `ResponsesClient` over a script. The answer to a request depends on the length of its chain."""

    def __init__(self, *script: Answer) -> None:
        self._script = script
        self._stored: dict[str, JsonObject] = {}
        self._depth: dict[str, int] = {}
        self.bodies: list[JsonObject] = []
        self.retrieved: list[str] = []

    async def create(self, body: JsonObject) -> bytes:
        return msgspec.json.encode(self._respond(body))

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """The next answer, its text in one delta per word."""
        response = self._respond(body)
        yield {"type": "response.created", "response": {"id": response["id"]}}
        for item in response["output"]:
            for part in item.get("content", []):
                for word in part["text"].split():
                    yield {"type": "response.output_text.delta", "delta": word}
        yield {"type": "response.completed", "response": response}

    async def retrieve(self, response_id: str) -> bytes:
        """A stored answer."""
        self.retrieved.append(response_id)
        if response_id not in self._stored:
            body = msgspec.json.encode({"error": {"message": f"no {response_id}", "code": "not_found"}})
            raise ResponsesCallFailed("nothing there", status=404, body=body)
        return msgspec.json.encode(self._stored[response_id])

    async def default_model(self) -> str:
        return "default-model"

    def _respond(self, body: JsonObject) -> JsonObject:
        self.bodies.append(copy.deepcopy(body))
        before = body.get("previous_response_id")
        depth = self._depth[before] + 1 if before is not None else 0
        answer = self._script[depth]
        if isinstance(answer, ResponsesCallFailed):
            raise answer
        response_id = f"resp_{len(self.bodies)}"
        inherited: list[Any] = self._stored[before]["tools"] if before else []
        tools: list[Any] = body.get("tools", inherited)
        response: JsonObject = {
            "id": response_id,
            "model": body["model"],
            "tools": tools,
            "metadata": body.get("metadata"),
            "usage": USAGE,
            **answer,
        }
        response["output"] = [
            {**item, "call_id": f"call_{depth}_{index}"} if item["type"] == "function_call" else item
            for index, item in enumerate(answer["output"])
        ]
        self._stored[response_id], self._depth[response_id] = response, depth
        return response


USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
