"""The same answers in each HTTP dialect, as sent by the fake upstreams of the contract."""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

ARGUMENTS = '{"at":1}'
INPUT_TOKENS, OUTPUT_TOKENS = 10, 5
SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

Payload = dict[str, Any]


def event(payload: Payload | str) -> bytes:
    """One server-sent event, as a chunk of a chunked body."""
    data = payload if isinstance(payload, str) else json.dumps(payload)
    body = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(body), body)


class Writer(Protocol):
    """Writes the parts of an answer in one dialect."""

    models: ClassVar[Payload]
    error: ClassVar[Payload]

    def text(self, text: str) -> list[Payload]: ...

    def reasoning(self, text: str) -> list[Payload]: ...

    def call(self, index: int) -> list[Payload]: ...

    def end(self, reason: str) -> list[Payload | str]:
        """The end of an answer, with its usage. `reason` is stop, tool_calls or length."""
        ...


class ChatCompletions:
    models: ClassVar[Payload] = {"data": [{"id": "model-1", "created": 1, "owned_by": "maker"}]}
    error: ClassVar[Payload] = {"error": {"message": "The server is overloaded.", "type": "server_error"}}

    def text(self, text: str) -> list[Payload]:
        return [self._choice({"content": text})]

    def reasoning(self, text: str) -> list[Payload]:
        return [self._choice({"reasoning_content": text})]

    def call(self, index: int) -> list[Payload]:
        function = {"name": "look", "arguments": ARGUMENTS}
        return [self._choice({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})]

    def end(self, reason: str) -> list[Payload | str]:
        usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
        return [self._choice({}, reason), {"choices": [], "usage": usage}, "[DONE]"]

    def _choice(self, delta: Payload, reason: str | None = None) -> Payload:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


class AnthropicMessages:
    models: ClassVar[Payload] = {"data": [{"id": "model-1", "created_at": "2026-01-01T00:00:00Z"}]}
    error: ClassVar[Payload] = {
        "type": "error",
        "error": {"type": "api_error", "message": "The server failed."},
    }

    def __init__(self) -> None:
        self._blocks = 0

    def text(self, text: str) -> list[Payload]:
        return self._block({"type": "text", "text": ""}, {"type": "text_delta", "text": text})

    def reasoning(self, text: str) -> list[Payload]:
        return self._block({"type": "thinking"}, {"type": "thinking_delta", "thinking": text})

    def call(self, index: int) -> list[Payload]:
        block: Payload = {"type": "tool_use", "id": f"c{index}", "name": "look", "input": {}}
        return self._block(block, {"type": "input_json_delta", "partial_json": ARGUMENTS})

    def end(self, reason: str) -> list[Payload | str]:
        stop = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}[reason]
        usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
        end = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}
        return [end, {"type": "message_stop"}]

    def _block(self, block: Payload, delta: Payload) -> list[Payload]:
        index, self._blocks = self._blocks, self._blocks + 1
        return [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]


class Gemini:
    models: ClassVar[Payload] = {"models": [{"name": "models/model-1"}]}
    error: ClassVar[Payload] = {"error": {"code": 500, "message": "The server failed.", "status": "INTERNAL"}}

    def text(self, text: str) -> list[Payload]:
        return [self._candidate({"text": text})]

    def reasoning(self, text: str) -> list[Payload]:
        return [self._candidate({"text": text, "thought": True})]

    def call(self, index: int) -> list[Payload]:
        call = {"id": f"c{index}", "name": "look", "args": json.loads(ARGUMENTS)}
        return [self._candidate({"functionCall": call})]

    def end(self, reason: str) -> list[Payload | str]:
        usage = {"promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS}
        stop = "MAX_TOKENS" if reason == "length" else "STOP"
        return [{"candidates": [{"index": 0, "finishReason": stop}], "usageMetadata": usage}]

    def _candidate(self, part: Payload) -> Payload:
        return {"candidates": [{"index": 0, "content": {"parts": [part]}}]}


class Responses:
    models: ClassVar[Payload] = {"data": [{"id": "model-1", "created": 1, "owned_by": "maker"}]}
    error: ClassVar[Payload] = {
        "error": {"message": "The server failed.", "type": "server_error", "code": None}
    }

    def text(self, text: str) -> list[Payload]:
        place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
        return [{"type": "response.output_text.delta", **place, "delta": text}]

    def reasoning(self, text: str) -> list[Payload]:
        place = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
        return [{"type": "response.reasoning_text.delta", **place, "delta": text}]

    def call(self, index: int) -> list[Payload]:
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"c{index}", "name": "look"}
        done = {**item, "arguments": ARGUMENTS, "status": "completed"}
        return [{"type": "response.output_item.done", "output_index": 2 + index, "item": done}]

    def end(self, reason: str) -> list[Payload | str]:
        status = "incomplete" if reason == "length" else "completed"
        usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
        response: Payload = {"status": status, "usage": usage}
        if reason == "length":
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        return [{"type": f"response.{status}", "response": response}]


WRITERS: Mapping[str, Callable[[], Writer]] = {
    "chat_completions": ChatCompletions,
    "anthropic_messages": AnthropicMessages,
    "gemini": Gemini,
    "responses": Responses,
}
