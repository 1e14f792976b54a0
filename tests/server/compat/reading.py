"""Streams as their clients read them: checked for order, and folded into the complete answer."""

import json
from typing import Any

JsonObject = dict[str, Any]


def chat_chunks(stream: str) -> list[JsonObject]:
    """The chunks of a successful chat stream."""
    *blocks, done, rest = stream.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(block.removeprefix("data: ")) for block in blocks if not block.startswith(":")]


def fold_chat(stream: str) -> JsonObject:
    """Fold a chat stream into the shape of the non-streamed answer."""
    chunks = chat_chunks(stream)
    first = chunks[0]
    assert first["choices"][0]["delta"]["role"] == "assistant"
    message: JsonObject = {}
    logprobs: list[Any] = []
    answer: JsonObject = {"usage": None}
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk"
        assert [chunk[name] for name in ("id", "created", "model")] == [
            first[name] for name in ("id", "created", "model")
        ]
        if not chunk["choices"]:
            answer["usage"] = chunk["usage"]
            continue
        [choice] = chunk["choices"]
        assert "finish_reason" not in answer, "no delta follows the finish reason"
        _take_delta(message, choice["delta"])
        logprobs += _tokens(choice)
        if choice["finish_reason"] is not None:
            answer["finish_reason"] = choice["finish_reason"]
        if "downgrades" in chunk:
            answer["downgrades"] = chunk["downgrades"]
    return {**answer, "message": message, "logprobs": logprobs}


def complete_chat(answer: JsonObject) -> JsonObject:
    """The non-streamed answer, in the same shape."""
    [choice] = answer["choices"]
    message = {name: value for name, value in choice["message"].items() if value not in (None, [], "")}
    optional_members = {name: answer[name] for name in ("usage", "downgrades") if name in answer}
    return {
        **optional_members,
        "finish_reason": choice["finish_reason"],
        "message": message,
        "logprobs": _tokens(choice),
    }


def _tokens(choice: JsonObject) -> list[Any]:
    return choice["logprobs"]["content"] if choice["logprobs"] else []


def _take_delta(message: JsonObject, delta: JsonObject) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            calls: list[JsonObject] = message.setdefault("tool_calls", [])
            _take_call(calls, value)
        elif name == "annotations":
            message[name] = message.get(name, []) + value
        elif name == "function_call":
            called = message.setdefault(name, {"arguments": ""})
            called.update({key: called.get(key, "") + part for key, part in value.items()})
        elif value:
            message[name] = message.get(name, "") + value


def _take_call(calls: list[JsonObject], deltas: list[JsonObject]) -> None:
    assert len(deltas) == 1
    delta = deltas[0]
    if delta["index"] == len(calls):
        calls.append({name: value for name, value in delta.items() if name != "index"})
        return
    index: int = delta["index"]
    call = calls[index]
    for kind in ("function", "custom"):
        for name, piece in delta.get(kind, {}).items():
            call[kind][name] += piece


def message_events(stream: str) -> list[JsonObject]:
    """The events of a message stream, after checking that each name is its type."""
    *blocks, rest = stream.split("\n\n")
    assert rest == ""
    events: list[JsonObject] = []
    for block in blocks:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def fold_message(stream: str) -> JsonObject:
    """Fold a message stream into the message."""
    events = [event for event in message_events(stream) if event["type"] != "ping"]
    assert events[0]["type"] == "message_start"
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    message = events[0]["message"]
    open_block: int | None = None
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            assert open_block is None
            assert event["index"] == len(message["content"])
            open_block = event["index"]
            message["content"].append({**event["content_block"], "_json": ""})
            continue
        assert event["index"] == open_block
        if event["type"] == "content_block_stop":
            open_block = None
        else:
            _take_block_delta(message["content"][open_block], event["delta"])
    assert open_block is None
    for block in message["content"]:
        pieces = block.pop("_json")
        if block["type"] in ("tool_use", "server_tool_use", "mcp_tool_use"):
            block["input"] = json.loads(pieces or "{}")
    message |= events[-2]["delta"]
    message["usage"] = events[-2]["usage"]
    if "downgrades" in events[-2]:
        message["downgrades"] = events[-2]["downgrades"]
    return message


def _take_block_delta(block: JsonObject, delta: JsonObject) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] += delta["signature"]
        case "citations_delta":
            block.setdefault("citations", []).append(delta["citation"])
        case "input_json_delta":
            block["_json"] += delta["partial_json"]
        case kind:
            raise AssertionError(f"no delta of this API: {kind}")


def complete_message(message: JsonObject) -> JsonObject:
    """The non-streamed message, in the same shape."""
    for block in message["content"]:
        if block["type"] == "text" and block["citations"] is None:
            block.pop("citations")
    return message
