"""From chat messages to items: one message may become several items, text before calls."""

from collections.abc import Sequence

from msgspec import Struct

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.bounds import check_count, check_nesting, check_texts
from antiphon.protocol.content import (
    InputAudio,
    InputFile,
    InputImage,
    InputText,
    MessagePart,
    OutputText,
    ReasoningText,
    Refusal,
)
from antiphon.protocol.downgrade import Downgrade, Downgrades
from antiphon.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
    ToolOutput,
)
from antiphon.protocol.parse import missing
from antiphon.protocol.parse_items import MAX_ITEMS, MAX_PARTS
from antiphon.server.compat.api import Place
from antiphon.server.compat.chat_completions.wire import (
    AudioPart,
    ChatCall,
    ChatMessage,
    ChatPart,
    FilePart,
    ImagePart,
    RefusalPart,
    TextPart,
)


class Conversation(Struct, frozen=True):
    """The items, their positions in the body, and the omissions."""

    items: tuple[Item, ...]
    places: tuple[Place, ...]
    downgrades: tuple[Downgrade, ...]


def read_messages(messages: Sequence[ChatMessage]) -> Conversation:
    """All messages."""
    _check_bounds(messages)
    reader = _Reader()
    for index, message in enumerate(messages):
        reader.add(message, f"messages[{index}]")
    return Conversation(tuple(reader.items), tuple(reader.places), tuple(reader.downgrades))


def _check_bounds(messages: Sequence[ChatMessage]) -> None:
    calls = [call for message in messages for call in message.tool_calls or ()]
    check_count(len(messages) + len(calls), MAX_ITEMS, "messages", "messages and calls")
    parts = sum(len(message.content) for message in messages if isinstance(message.content, list))
    check_count(parts, MAX_PARTS, "messages", "content parts")
    arguments = [call.function.arguments for call in calls if call.function is not None]
    check_texts([text for text in arguments if isinstance(text, str)], "messages")
    for nested in arguments:
        if isinstance(nested, dict):
            check_nesting(nested, "messages")


class _Reader:
    """The conversation so far."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.places: list[Place] = []
        self.downgrades = Downgrades()
        self._custom: set[str] = set()
        self._unanswered: dict[str, str] = {}
        """Calls of the time before calls had ids, by the name of their function."""

    def add(self, message: ChatMessage, path: str) -> None:
        """One more message."""
        if message.name and message.role != "function":
            text = "the names of speakers are not shown to the model"
            self.downgrades.add("input_omitted", text, "messages")
        match message.role:
            case "system" | "developer":
                self._put(Message(role=message.role, content=_texts(message, path)), path)
            case "user":
                self._put(Message(role="user", content=_content(message, path)), path)
            case "assistant":
                self._assistant(message, path)
            case "tool":
                self._output(message, path)
            case "function":
                self._function_output(message, path)

    def _put(self, item: Item, path: str) -> None:
        self.items.append(item)
        self.places.append(Place(path))

    def _assistant(self, message: ChatMessage, path: str) -> None:
        if message.audio is not None:
            text = "Audio of the model is not stored here. Send its text as 'content'."
            raise Unsupported(text, param=f"{path}.audio", code="unsupported_parameter")
        thought = message.reasoning_content or message.reasoning
        if thought:
            self._put(Reasoning(summary=[], content=[ReasoningText(thought)]), path)
        calls = message.tool_calls or ()
        parts = _assistant_content(message, path)
        if parts or not (calls or message.function_call):
            self._put(Message(role="assistant", content=parts), path)
        for index, call in enumerate(calls):
            self._put(self._call(call, f"{path}.tool_calls[{index}]"), path)
        if message.function_call is not None:
            call_id = f"call_{len(self.items)}"
            self._unanswered[message.function_call.name] = call_id
            called = message.function_call
            self._put(FunctionCall(call_id=call_id, name=called.name, arguments=called.text), path)

    def _call(self, call: ChatCall, path: str) -> Item:
        if call.type == "custom":
            if call.custom is None:
                raise missing(f"{path}.custom")
            self._custom.add(call.id)
            return CustomToolCall(call_id=call.id, name=call.custom.name, input=call.custom.input)
        if call.function is None:
            raise missing(f"{path}.function")
        return FunctionCall(call_id=call.id, name=call.function.name, arguments=call.function.text)

    def _output(self, message: ChatMessage, path: str) -> None:
        if message.tool_call_id is None:
            raise missing(f"{path}.tool_call_id", "It is the id of the call that this is the output of.")
        output = _tool_output(message, path)
        if message.tool_call_id in self._custom:
            self._put(CustomToolCallOutput(call_id=message.tool_call_id, output=output), path)
        else:
            self._put(FunctionCallOutput(call_id=message.tool_call_id, output=output), path)

    def _function_output(self, message: ChatMessage, path: str) -> None:
        if message.name is None:
            raise missing(f"{path}.name")
        call_id = self._unanswered.pop(message.name, None)
        if call_id is None:
            text = f"'{path}' answers the function '{message.name}', but no message before it calls that."
            raise InvalidRequest(text, param=f"{path}.name", code="invalid_value")
        self._put(FunctionCallOutput(call_id=call_id, output=_tool_output(message, path)), path)


def _content(message: ChatMessage, path: str) -> str | list[MessagePart]:
    if message.content is None:
        raise missing(f"{path}.content")
    if isinstance(message.content, str):
        return message.content
    return [_input_part(part, f"{path}.content[{index}]") for index, part in enumerate(message.content)]


def _texts(message: ChatMessage, path: str) -> str | list[MessagePart]:
    content = _content(message, path)
    for index, part in enumerate(content):
        if not isinstance(part, str | InputText):
            text = f"A message of the role '{message.role}' holds text only."
            raise InvalidRequest(text, param=f"{path}.content[{index}].type", code="invalid_value")
    return content


def _input_part(part: ChatPart, path: str) -> InputText | InputImage | InputFile | InputAudio:
    match part:
        case TextPart():
            return InputText(text=part.text)
        case ImagePart():
            return InputImage(image_url=part.image_url.url, detail=part.image_url.detail)
        case FilePart():
            file = part.file
            return InputFile(file_data=file.file_data, file_id=file.file_id, filename=file.filename)
        case AudioPart():
            return InputAudio(input_audio=part.input_audio)
        case RefusalPart():
            text = "Only the assistant refuses: send 'text'."
            raise InvalidRequest(text, param=f"{path}.type", code="invalid_value")


def _assistant_content(message: ChatMessage, path: str) -> str | list[MessagePart]:
    """The content of the assistant: text, refusals, or both."""
    if isinstance(message.content, str | None) and not message.refusal:
        return message.content or ""
    content = [TextPart(message.content)] if isinstance(message.content, str) else message.content or []
    parts: list[MessagePart] = []
    for index, part in enumerate(content):
        match part:
            case TextPart():
                parts.append(OutputText(text=part.text))
            case RefusalPart():
                parts.append(Refusal(part.refusal))
            case _:
                text = "The assistant's messages hold text and refusals only."
                raise InvalidRequest(text, param=f"{path}.content[{index}].type", code="invalid_value")
    if message.refusal:
        parts.append(Refusal(message.refusal))
    return parts


def _tool_output(message: ChatMessage, path: str) -> ToolOutput:
    content = _content(message, path)
    if isinstance(content, str):
        return content
    parts: list[InputText | InputImage | InputFile] = []
    for index, part in enumerate(content):
        if not isinstance(part, InputText | InputImage | InputFile):
            text = "The output of a tool holds text, images and files only."
            raise InvalidRequest(text, param=f"{path}.content[{index}].type", code="invalid_value")
        parts.append(part)
    return parts
