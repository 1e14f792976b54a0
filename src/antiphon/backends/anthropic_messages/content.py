"""Content parts as blocks: text, images, documents.

Blank texts are omitted, because the API rejects them. Nothing is fetched: a URL is passed on, or rejected. A
breakpoint for the prompt cache stays on its block; `caching.py` applies the rules for all of them.
"""

import base64
import binascii
import mimetypes
from collections.abc import Sequence

from antiphon.backends.anthropic_messages.caching import marker
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

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
"""Media types that are text, besides all of ``text/``."""


def blocks_of(content: str | Sequence[MessagePart], path: str, downgrades: Downgrades) -> list[JsonObject]:
    parts: Sequence[MessagePart] = [InputText(text=content)] if isinstance(content, str) else content
    found = [_block(part, f"{path}[{index}]", downgrades) for index, part in enumerate(parts)]
    return [block for block in found if block is not None]


def texts_of(content: str | Sequence[MessagePart], path: str) -> list[JsonObject]:
    """Content that can only be text: of a system message, or of the model."""
    for index, part in enumerate(() if isinstance(content, str) else content):
        if isinstance(part, InputImage | InputFile | InputAudio):
            message = "Only user messages and tool outputs may hold images, files and sound."
            raise Unsupported(message, param=f"{path}[{index}]")
    return blocks_of(content, path, Downgrades())


def text_block(text: str) -> JsonObject:
    """A text."""
    return {"type": "text", "text": text}


def _block(part: MessagePart, path: str, downgrades: Downgrades) -> JsonObject | None:
    match part:
        case InputText() | OutputText():
            block = text_block(part.text) if part.text.strip() else None
        case Refusal():
            block = text_block(part.refusal) if part.refusal.strip() else None
        case InputImage():
            block = _image(part, path, downgrades)
        case InputFile():
            block = _file(part, path)
        case InputAudio():
            raise Unsupported("This model's server does not take sound.", param=path)
    if block is not None and isinstance(part, InputText | InputImage | InputFile | OutputText):
        block |= marker(part.prompt_cache_breakpoint)
    return block


def _image(part: InputImage, path: str, downgrades: Downgrades) -> JsonObject:
    if part.image_url is None:
        raise no_content(part, path)
    if part.detail not in (None, "auto"):
        downgrades.add(
            "not_sent", "the detail of images is not sent: this model's server does not take it", "input"
        )
    if part.image_url.startswith("data:"):
        media, data = _data_url(part.image_url, f"{path}.image_url")
        return _image_data(media, data, f"{path}.image_url")
    if not part.image_url.startswith("https://"):
        message = "An image URL must begin with 'https://' or 'data:'."
        raise InvalidRequest(message, param=f"{path}.image_url", code="invalid_image_url")
    return {"type": "image", "source": {"type": "url", "url": part.image_url}}


def _image_data(media: str, data: str, path: str) -> JsonObject:
    if media not in _IMAGES:
        message = f"This model's server takes no images of type '{media}'. Send JPEG, PNG, GIF or WebP."
        raise Unsupported(message, param=path)
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def _file(part: InputFile, path: str) -> JsonObject:
    if part.file_data is not None:
        return _document(part, f"{path}.file_data")
    if part.file_url is None:
        raise no_content(part, path, _takes_file)
    if not part.file_url.startswith("https://"):
        message = "A file URL must begin with 'https://'. Or send the file in 'file_data' as a 'data:' URL."
        raise FileNotTaken(message, param=f"{path}.file_url", takes=_takes_file)
    return _titled({"type": "url", "url": part.file_url}, part)


def _document(part: InputFile, path: str) -> JsonObject:
    """A file that was sent along: a PDF or a text as a document, an image as an image."""
    given = part.file_data or ""
    if given.startswith("data:"):
        media, data = _data_url(given, path)
    else:
        media, data = mimetypes.guess_type(part.filename or "")[0] or _PDF, given
    if media.startswith("image/"):
        return _image_data(media, data, path)
    if media == _PDF:
        return _titled({"type": "base64", "media_type": _PDF, "data": data}, part)
    if media.startswith("text/") or media in _TEXTS:
        return _titled({"type": "text", "media_type": "text/plain", "data": _decoded(data, path)}, part)
    message = f"This model's server takes no files of type '{media}'. Send a PDF, a text or an image."
    raise FileNotTaken(message, param=path, takes=_takes_file)


def _takes_file(part: InputFile) -> bool:
    """Whether a file is sent as it is: a PDF, a text or an image; or anything at an https URL."""
    if part.file_data is None:
        return (part.file_url or "").startswith("https://")
    media = mimetypes.guess_type(part.filename or "")[0] or _PDF
    if part.file_data.startswith("data:"):
        media = part.file_data[5:].partition(",")[0].partition(";")[0].strip().lower()
    return media == _PDF or media.startswith(("text/", "image/")) or media in _TEXTS


def _titled(source: JsonObject, part: InputFile) -> JsonObject:
    document: JsonObject = {"type": "document", "source": source}
    return {**document, "title": part.filename} if part.filename else document


def _data_url(url: str, path: str) -> tuple[str, str]:
    """Media type and base64 of a data URL."""
    head, comma, data = url.removeprefix("data:").partition(",")
    media, *options = head.split(";")
    if not comma or "base64" not in options:
        message = "A 'data:' URL must look like 'data:image/png;base64,…'."
        raise InvalidRequest(message, param=path)
    return media.strip().lower() or "text/plain", data


def _decoded(data: str, path: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        message = "The content of a text file must be UTF-8, in base64."
        raise InvalidRequest(message, param=path) from None
