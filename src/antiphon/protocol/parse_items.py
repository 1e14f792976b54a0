"""Input items, read liberally: `{role, content}` needs no type, `text` is a content type, arguments that
are objects are encoded once, null members are absent ones."""

from typing import Any, cast

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import (
    ITEM_TYPES,
    KNOWN_ITEMS,
    CompactionTrigger,
    Item,
    Message,
    OpaqueItem,
)
from antiphon.protocol.parse import as_object, convert, missing
from antiphon.protocol.parse_tool_items import TOOL_ITEM_FORMS

MAX_ITEMS = 10_000
MAX_ID = 256


def parse_input(value: str | list[Any]) -> tuple[Item, ...]:
    """The `input` parameter: a string is one user message."""
    if isinstance(value, str):
        return (Message(role="user", content=value),)
    if len(value) > MAX_ITEMS:
        message = f"'input' holds {len(value)} items; at most {MAX_ITEMS} are taken."
        raise InvalidRequest(message, param="input", code="array_above_max_length")
    items = tuple(parse_item(item, f"input[{index}]") for index, item in enumerate(value))
    for index, item in enumerate(items[:-1]):
        if isinstance(item, CompactionTrigger):
            message = "A 'compaction_trigger' must be the last item of 'input'. Move it to the end."
            raise InvalidRequest(message, param=f"input[{index}]", code="invalid_value")
    return items


def parse_item(value: object, path: str) -> Item:
    """One item."""
    body = as_object(value, path)
    kind = _kind(body, path)
    body = _check_id(body, kind, path)
    if kind in ITEM_TYPES:
        normal = _NORMALISE.get(kind, _as_it_is)(body, path)
        return convert({**normal, "type": kind}, ITEM_TYPES[kind], path)
    if kind in KNOWN_ITEMS or ":" in kind:  # `slug:type` is Open Responses' way to extend
        return OpaqueItem(kind, body)
    message = f"Invalid value for '{path}.type': '{kind}' is not an item type of the Responses API."
    raise InvalidRequest(message, param=f"{path}.type", code="invalid_value")


def _check_id(body: JsonObject, kind: str, path: str) -> JsonObject:
    """An id names an item, so it is a string that an index can hold; an empty one is none."""
    given = body.get("id")
    if given is None:
        return body
    given = convert(given, str, f"{path}.id")
    if len(given) > MAX_ID:
        message = f"'{path}.id' is too long; at most {MAX_ID} characters are taken."
        raise InvalidRequest(message, param=f"{path}.id", code="string_above_max_length")
    if given or kind == "item_reference":
        return body
    return {name: value for name, value in body.items() if name != "id"}


def _kind(body: JsonObject, path: str) -> str:
    kind = body.get("type")
    if kind is None and "role" in body:
        return "message"
    if kind is None and body.keys() == {"id"}:
        return "item_reference"
    if kind is None:
        raise missing(f"{path}.type", "An item is a message (role and content) or says its type.")
    return convert(kind, str, f"{path}.type")


def _as_it_is(body: JsonObject, _path: str) -> JsonObject:
    return body


def _message(body: JsonObject, path: str) -> JsonObject:
    # A replayed assistant message may come without content; an absent answer is an empty one.
    content: object = body.get("content", [] if body.get("role") == "assistant" else None)
    if content is None:
        raise missing(f"{path}.content")
    text_type = "output_text" if body.get("role") == "assistant" else "input_text"
    return {**body, "content": _parts(content, text_type, f"{path}.content")}


def _parts(content: object, text_type: str, path: str) -> object:
    if not isinstance(content, list):
        return content
    parts: list[JsonObject] = []
    for index, value in enumerate(cast("list[object]", content)):
        part = as_object(value, f"{path}[{index}]")
        if part.get("type") == "text":
            part["type"] = text_type
        if part.get("type") == "input_image" and isinstance(part.get("image_url"), dict):
            # The chat-completions spelling: {"image_url": {"url": …, "detail": …}}.
            part = {**part, **_chat_image(cast("JsonObject", part["image_url"]))}
        parts.append(part)
    return parts


def _chat_image(image: JsonObject) -> JsonObject:
    detail = {"detail": image["detail"]} if image.get("detail") is not None else {}
    return {"image_url": image.get("url"), **detail}


def _call(body: JsonObject, _path: str) -> JsonObject:
    arguments = body.get("arguments", "{}")
    return {**body, "arguments": arguments if isinstance(arguments, str) else _json(arguments)}


def _output(body: JsonObject, path: str) -> JsonObject:
    if "output" not in body:
        raise missing(f"{path}.output")
    output: object = body["output"]
    if isinstance(output, list):
        return {**body, "output": _parts(cast("list[object]", output), "input_text", f"{path}.output")}
    return {**body, "output": output if isinstance(output, str) else _json(output)}


def _reasoning(body: JsonObject, _path: str) -> JsonObject:
    return {"summary": [], **body}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_NORMALISE = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "reasoning": _reasoning,
    **TOOL_ITEM_FORMS,
}
