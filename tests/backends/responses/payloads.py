"""Events of an upstream, and the chunks that a reader returns for them."""

from typing import Any

import msgspec

from antiphon.backends.registry import default_endpoint
from antiphon.backends.responses.stream import StreamReader
from antiphon.backends.responses.tools import Names
from antiphon.errors import BackendError
from antiphon.turn.chunks import (
    Chunk,
    Failed,
    Finished,
)

ENDPOINT = default_endpoint("openai-responses")
NAMES = Names({("time", "now"): "time__now"}, {"shell": "shell_2"})
TEXT = "response.output_text.delta"
CITED = {"type": "url_citation", "url": "u"}


def event(kind: str, **members: Any) -> bytes:
    return msgspec.json.encode({"type": kind, **members})


def text_event(value: str, item: str = "msg_1", at: int = 0, **members: Any) -> bytes:
    return event(TEXT, item_id=item, output_index=at, content_index=0, delta=value, **members)


def done(item: dict[str, Any], at: int | None = 0) -> bytes:
    return event("response.output_item.done", item=item, **({} if at is None else {"output_index": at}))


def added(item: dict[str, Any], at: int = 0) -> bytes:
    return event("response.output_item.added", item=item, output_index=at)


def ended(*output: dict[str, Any], status: str = "completed", **members: Any) -> bytes:
    response = {"status": status, "output": output, **members}
    return event(f"response.{status}", response=response)


def message(value: str, **members: Any) -> dict[str, Any]:
    content: list[Any] = [{"type": "output_text", "text": value, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **members}


def read(*payloads: bytes) -> list[Chunk]:
    reader = StreamReader(ENDPOINT, NAMES)
    return reader.feed(payloads) + reader.end()


def read_complete(**members: Any) -> list[Chunk]:
    return StreamReader(ENDPOINT, NAMES).read_body(msgspec.json.encode(members))


def failure_of(chunks: list[Chunk]) -> BackendError:
    last = chunks[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, BackendError)
    return last.error


STOP = Finished("stop")
CALLED = Finished("tool_calls")


def reasoning(**members: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], **members}


def call(arguments: Any = "", kind: str = "function_call", **members: Any) -> dict[str, Any]:
    written = "input" if kind == "custom_tool_call" else "arguments"
    return {"type": kind, "id": "fc_1", "call_id": "c1", "name": "f", written: arguments, **members}


def write(piece: str, item: str = "fc_1", at: int = 0) -> bytes:
    return event("response.function_call_arguments.delta", item_id=item, output_index=at, delta=piece)
