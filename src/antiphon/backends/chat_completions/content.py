"""Content parts of a message in the form of chat completions.

Text alone is one string, which every server accepts. A part that an endpoint does not support is rejected
with its path; no content for the model is omitted. Nothing is fetched: a URL is passed on, or rejected.
"""

from collections.abc import Sequence
from functools import partial

from antiphon.backends.files import FileNotTaken, no_content
from antiphon.backends.registry import Quirks
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


def chat_content(
    content: str | Sequence[MessagePart], quirks: Quirks, path: str, downgrades: Downgrades
) -> str | list[JsonObject]:
    """A message's content: a string if it is all text, else a list of parts."""
    if isinstance(content, str):
        return content
    parts = [chat_part(part, quirks, f"{path}[{index}]", downgrades) for index, part in enumerate(content)]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def plain_text(content: str | Sequence[MessagePart], path: str) -> str:
    """The content of a message that can only be text: a system message, or the model's own text."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for index, part in enumerate(content):
        match part:
            case InputText() | OutputText():
                texts.append(part.text)
            case Refusal():
                texts.append(part.refusal)
            case InputImage() | InputFile() | InputAudio():
                message = "Only user messages and tool outputs may hold images, files and sound."
                raise Unsupported(message, param=f"{path}[{index}]")
    return "\n".join(texts)


def chat_part(part: MessagePart, quirks: Quirks, path: str, downgrades: Downgrades) -> JsonObject:
    """One part."""
    if isinstance(part, InputText | InputImage | InputFile) and part.prompt_cache_breakpoint:
        downgrades.add("not_sent", "prompt cache breakpoints are not sent", "input")
    match part:
        case InputText() | OutputText():
            return {"type": "text", "text": part.text}
        case Refusal():
            return {"type": "text", "text": part.refusal}
        case InputImage():
            return {"type": "image_url", "image_url": _image(part, quirks, path, downgrades)}
        case InputFile():
            return {"type": "file", "file": _file(part, quirks, path)}
        case InputAudio():
            if not quirks.audio:
                raise Unsupported("This model's server does not take sound.", param=path)
            return {"type": "input_audio", "input_audio": part.input_audio}


def _image(part: InputImage, quirks: Quirks, path: str, downgrades: Downgrades) -> JsonObject:
    if quirks.images is None:
        raise Unsupported("This model's server does not take images.", param=path)
    if part.image_url is None:
        raise no_content(part, path)
    if not part.image_url.startswith("data:"):
        if quirks.images == "data":
            message = "This model's server fetches no images. Send the image as a 'data:' URL."
            raise Unsupported(message, param=f"{path}.image_url")
        if not part.image_url.startswith("https://"):
            # Not only for secrecy: servers take file: URLs too, and http: reaches into their networks.
            message = "An image URL must begin with 'https://' or 'data:'."
            raise InvalidRequest(message, param=f"{path}.image_url", code="invalid_image_url")
    detail = part.detail
    if detail == "original":
        downgrades.add("value_changed", "image detail 'original' is sent as 'high'", "input")
        detail = "high"
    return {"url": part.image_url} if detail is None else {"url": part.image_url, "detail": detail}


def _file(part: InputFile, quirks: Quirks, path: str) -> JsonObject:
    source = part.file_data or part.file_url
    if source is None:
        raise no_content(part, path, partial(_takes_file, quirks=quirks))
    if not _takes_file(part, quirks):
        member = "file_data" if part.file_data is not None else "file_url"
        message = "This model's server does not take such files. Send the text of the file as 'input_text'."
        raise FileNotTaken(message, param=f"{path}.{member}", takes=partial(_takes_file, quirks=quirks))
    return {"filename": part.filename or "file.pdf", "file_data": source}


def _takes_file(part: InputFile, quirks: Quirks) -> bool:
    if quirks.files is None or part.file_data is not None:
        return quirks.files is not None
    return quirks.files == "url" and (part.file_url or "").startswith("https://")
