"""Content parts as parts of the dialect: text, images, files, sound.

Blank texts are omitted, because the API rejects them. Nothing is fetched: a URL is passed on, or rejected.
The server decides which types of files a model accepts.
"""

import mimetypes
from collections.abc import Sequence
from urllib.parse import urlsplit

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

_PDF = "application/pdf"
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
"""Media types that are text, besides all of ``text/``."""
_OFFICE = frozenset(
    {
        "application/msword",
        "application/vnd.ms-excel",
        "application/vnd.oasis.opendocument.spreadsheet",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "message/rfc822",
    }
)
"""Documents that are not taken; their text is."""
_USUAL_NAMES = {"image/jpg": "image/jpeg"}


def parts_of(content: str | Sequence[MessagePart], path: str, downgrades: Downgrades) -> list[JsonObject]:
    if isinstance(content, str):
        return [text_part(content)] if content.strip() else []
    found = [_part(part, f"{path}[{index}]", downgrades) for index, part in enumerate(content)]
    return [part for part in found if part is not None]


def texts_of(content: str | Sequence[MessagePart], path: str) -> list[str]:
    """The texts of content that may contain nothing else: a system message, or the model's own."""
    if isinstance(content, str):
        return [content]
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
    return texts


def text_part(text: str) -> JsonObject:
    return {"text": text}


def _part(part: MessagePart, path: str, downgrades: Downgrades) -> JsonObject | None:
    if isinstance(part, InputText | InputImage | InputFile) and part.prompt_cache_breakpoint:
        downgrades.add(
            "not_sent", "prompt cache breakpoints are not sent: this model's server caches by itself", "input"
        )
    match part:
        case InputText() | OutputText():
            return text_part(part.text) if part.text.strip() else None
        case Refusal():
            return text_part(part.refusal) if part.refusal.strip() else None
        case InputImage():
            return _image(part, path, downgrades)
        case InputFile():
            return _file(part, path)
        case InputAudio():
            return _sound(part, path)


def _image(part: InputImage, path: str, downgrades: Downgrades) -> JsonObject:
    if part.image_url is None:
        raise no_content(part, path)
    if part.detail not in (None, "auto"):
        downgrades.add(
            "not_sent", "the detail of images is not sent: this model's server does not take it", "input"
        )
    if part.image_url.startswith("data:"):
        return _inline(*_data_url(part.image_url, f"{path}.image_url"))
    if not part.image_url.startswith("https://"):
        message = "An image URL must begin with 'https://' or 'data:'."
        raise InvalidRequest(message, param=f"{path}.image_url", code="invalid_image_url")
    return _linked(part.image_url)


def _file(part: InputFile, path: str) -> JsonObject:
    if part.file_data is not None:
        media, data = mimetypes.guess_type(part.filename or "")[0] or _PDF, part.file_data
        if data.startswith("data:"):
            media, data = _data_url(data, f"{path}.file_data")
        if media in _OFFICE:
            message = f"This model's server takes no files of type '{media}'. Send a PDF or a text."
            raise FileNotTaken(message, param=f"{path}.file_data", takes=_takes_file)
        return _inline(media, data)
    if part.file_url is None:
        raise no_content(part, path, _takes_file)
    if not part.file_url.startswith("https://"):
        message = "A file URL must begin with 'https://'. Or send the file in 'file_data' as a 'data:' URL."
        raise FileNotTaken(message, param=f"{path}.file_url", takes=_takes_file)
    return _linked(part.file_url)


def _takes_file(part: InputFile) -> bool:
    if part.file_data is None:
        return (part.file_url or "").startswith("https://")
    media = mimetypes.guess_type(part.filename or "")[0] or _PDF
    if part.file_data.startswith("data:"):
        media = part.file_data[5:].partition(",")[0].partition(";")[0].strip().lower()
    return media not in _OFFICE


def _sound(part: InputAudio, path: str) -> JsonObject:
    data, form = part.input_audio.get("data"), part.input_audio.get("format")
    if not isinstance(data, str) or not isinstance(form, str):
        message = "Sound needs 'data' in base64 and a 'format' such as 'wav'."
        raise InvalidRequest(message, param=f"{path}.input_audio")
    return _inline(f"audio/{form}", data)


def _inline(media: str, data: str) -> JsonObject:
    if media.startswith("text/") or media in _TEXTS:
        media = "text/plain"
    return {"inlineData": {"mimeType": _USUAL_NAMES.get(media, media), "data": data}}


def _linked(url: str) -> JsonObject:
    """A part by URL. If the URL does not imply a media type, the server determines it."""
    media = mimetypes.guess_type(urlsplit(url).path)[0]
    return {"fileData": {"fileUri": url, **({"mimeType": media} if media else {})}}


def _data_url(url: str, path: str) -> tuple[str, str]:
    """Media type and base64 of a data URL."""
    head, comma, data = url.removeprefix("data:").partition(",")
    media, *options = head.split(";")
    if not comma or "base64" not in options:
        message = "A 'data:' URL must look like 'data:image/png;base64,…'."
        raise InvalidRequest(message, param=path)
    return media.strip().lower() or "text/plain", data
