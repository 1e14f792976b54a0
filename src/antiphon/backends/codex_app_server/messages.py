"""Translate items into the history of a codex thread.

Codex accepts items of the Responses API (`thread/inject_items`): roles, calls and outputs are unchanged. An
unsupported part is rejected with its path; no content for the model is omitted.
"""

from typing import Any

from antiphon.backends.codex_app_server.tools import ToolNames
from antiphon.backends.files import FileNotTaken, no_content
from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import (
    InputAudio,
    InputFile,
    InputImage,
    InputText,
    JsonObject,
    MessagePart,
    OutputText,
    Refusal,
)
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from antiphon.protocol.stored_items import item_type
from antiphon.turn.context import TurnRequest

OUTPUT = "function_call_output"
_DETAILS = ("auto", "high", "original")
"""The details that codex accepts; for others the model would see an error message instead of the image."""


def thread_items(turn: TurnRequest, names: ToolNames, downgrades: Downgrades) -> list[JsonObject]:
    """The complete conversation in the form of codex. Adds omissions to `downgrades`."""
    history = _History(names, downgrades)
    for index, item in enumerate(turn.items):
        history.add(item, turn.param(index))
    return history.items


class _History:
    """The conversation so far."""

    def __init__(self, names: ToolNames, downgrades: Downgrades) -> None:
        self.items: list[JsonObject] = []
        self._names = names
        self._downgrades = downgrades
        self._called: set[str] = set()

    def add(self, item: Item, path: str) -> None:
        """One more item."""
        match item:
            case Message():
                self.items.append(self._message(item, f"{path}.content"))
            case FunctionCall():
                self._call(item)
            case FunctionCallOutput():
                self._output(item, path)
            case Reasoning():
                self._downgrades.add(
                    "input_omitted",
                    "reasoning in the input is left out: codex does not take it back",
                    "input",
                )
            case _:
                # Everything else is a function by now, or left out, or refused (turn/function_forms/).
                message = f"codex cannot read an item of type '{item_type(item)}'."
                raise Unsupported(message, param=path, code="unsupported_item")

    def _call(self, item: FunctionCall) -> None:
        self._called.add(item.call_id)
        self.items.append(call_item(item.call_id, self._names.alias(item.name), item.arguments or "{}"))

    def _output(self, item: FunctionCallOutput, path: str) -> None:
        if item.call_id not in self._called:
            message = f"No tool call found for the output with call_id '{item.call_id}'."
            raise InvalidRequest(message, param=path, code="invalid_value")
        output: Any = item.output
        if isinstance(item.output, list):
            output = [
                self._output_part(part, f"{path}.output[{index}]") for index, part in enumerate(item.output)
            ]
        self.items.append({"type": OUTPUT, "call_id": item.call_id, "output": output})

    def _output_part(self, part: MessagePart, path: str) -> JsonObject:
        """Outputs that continue a turn have no field for `detail`; all others are treated alike."""
        sent = _part(part, path)
        if sent.pop("detail", "auto") != "auto":
            self._downgrades.add(
                "not_sent",
                "'detail' of images in tool outputs is not sent: codex has no field for it",
                "input",
            )
        return sent

    def _message(self, item: Message, path: str) -> JsonObject:
        role = "developer" if item.role == "system" else item.role
        kind = "output_text" if role == "assistant" else "input_text"
        if isinstance(item.content, str):
            return {"type": "message", "role": role, "content": [{"type": kind, "text": item.content}]}
        parts = [self._message_part(part, f"{path}[{index}]") for index, part in enumerate(item.content)]
        if kind == "output_text" and any(part["type"] == "input_image" for part in parts):
            raise Unsupported("Only user messages and tool outputs may hold images.", param=path)
        content = [{**part, "type": kind} if "text" in part else part for part in parts]
        return {"type": "message", "role": role, "content": content}

    def _message_part(self, part: MessagePart, path: str) -> JsonObject:
        sent = _part(part, path)
        if sent.get("detail", "auto") not in _DETAILS:
            self._downgrades.add(
                "value_changed",
                f"the image detail '{sent['detail']}' is sent as 'auto': codex does not take it",
                "input",
            )
            sent["detail"] = "auto"
        return sent


def call_item(call_id: str, name: str, arguments: str) -> JsonObject:
    """A call, with codex's name of the tool."""
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def _part(part: MessagePart, path: str) -> JsonObject:
    match part:
        case InputText() | OutputText():
            return {"type": "input_text", "text": part.text}
        case Refusal():
            return {"type": "input_text", "text": part.refusal}
        case InputImage():
            return _image(part, path)
        case InputFile():
            message = "codex does not take files. Send the text of the file as 'input_text'."
            raise FileNotTaken(message, param=path)
        case InputAudio():
            raise Unsupported("codex does not take sound here.", param=path)


def _image(part: InputImage, path: str) -> JsonObject:
    if part.image_url is None:
        raise no_content(part, path)
    if not part.image_url.startswith("data:"):
        message = "codex does not fetch images. Send the image itself, as a data: URL."
        raise InvalidRequest(message, param=f"{path}.image_url", code="invalid_image_url")
    image: JsonObject = {"type": "input_image", "image_url": part.image_url}
    return image if part.detail is None else {**image, "detail": part.detail}
