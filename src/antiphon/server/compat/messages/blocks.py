"""Content blocks that a caller sends, as the parts of a message or of a tool's output."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.protocol.bounds import check_length
from antiphon.protocol.content import InputFile, InputImage, InputText, JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.parse import as_object, convert, required
from antiphon.protocol.parse_items import MAX_PARTS

Part = InputText | InputImage | InputFile


class CacheControl(Struct, frozen=True):
    """Up to here the prompt shall be cached."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class TextBlock(Struct, frozen=True):
    """Text."""

    text: str
    cache_control: CacheControl | None = None


class Source(Struct, frozen=True):
    """Where an image or a document is; which members it has depends on its type."""

    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""
    file_id: str = ""
    content: str | list[Any] | None = None


class MediaBlock(Struct, frozen=True):
    """An image or a document."""

    source: Source
    title: str | None = None
    context: str | None = None
    citations: JsonObject | None = None
    cache_control: CacheControl | None = None


class SearchResult(Struct, frozen=True):
    """Something that was found."""

    source: str
    title: str
    content: list[Any]
    citations: JsonObject | None = None
    cache_control: CacheControl | None = None


class Parts:
    """The parts of a content, and for each of them the index of the block that it was made of."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.blocks: list[int] = []

    def add(self, index: int, parts: Sequence[Part]) -> None:
        """The result of translating a block."""
        self.parts += parts
        self.blocks += [index] * len(parts)

    def mark_last(self, marker: CacheControl | None) -> None:
        """Put the marker on the last part."""
        self.parts = _marked(self.parts, marker)


def read_parts(content: str | list[Any], path: str, downgrades: Downgrades) -> list[Part]:
    """The parts of a content that is not the model's own."""
    if isinstance(content, str):
        return [InputText(text=content)]
    check_length(content, MAX_PARTS, path, "content blocks")
    parts: list[Part] = []
    for index, value in enumerate(content):
        place = f"{path}[{index}]"
        parts += read_part(as_object(value, place), place, downgrades)
    return parts


def read_part(block: JsonObject, path: str, downgrades: Downgrades) -> list[Part]:
    """One block; some are more than one part to a model of another kind."""
    kind = block_type(block, path)
    match kind:
        case "text":
            text = convert(block, TextBlock, path)
            return [InputText(text=text.text, prompt_cache_breakpoint=breakpoint_of(text.cache_control))]
        case "image":
            image = convert(block, MediaBlock, path)
            return _marked([_image(image.source, f"{path}.source")], image.cache_control)
        case "document":
            document = convert(block, MediaBlock, path)
            return _marked(_document(document, path, downgrades), document.cache_control)
        case "search_result":
            found = convert(block, SearchResult, path)
            _list_citations(found.citations, downgrades)
            inner = read_parts(found.content, f"{path}.content", downgrades)
            heading = InputText(text=f"{found.title} ({found.source})")
            return _marked([heading, *inner], found.cache_control)
        case _:
            message = f"Invalid value for '{path}.type': a content block of type '{kind}' cannot stand here."
            raise InvalidRequest(message, param=f"{path}.type", code="invalid_value")


def block_type(block: JsonObject, path: str) -> str:
    """The type of a block."""
    return convert(required(block, "type", path), str, f"{path}.type")


def read_texts(content: str | list[Any], path: str) -> list[InputText]:
    """The content of a system prompt: text alone."""
    parts = read_parts(content, path, Downgrades())
    texts = [part for part in parts if isinstance(part, InputText)]
    if len(texts) != len(parts):
        raise InvalidRequest("A system prompt holds text only.", param=path, code="invalid_value")
    return texts


def breakpoint_of(marker: CacheControl | None) -> JsonObject | UnsetType:
    """A cache marker as the engine's `prompt_cache_breakpoint`."""
    if marker is None:
        return UNSET
    return {"mode": "explicit"} if marker.ttl is None else {"mode": "explicit", "ttl": marker.ttl}


def _marked(parts: list[Part], marker: CacheControl | None) -> list[Part]:
    if marker is not None and parts:
        parts[-1] = replace(parts[-1], prompt_cache_breakpoint=breakpoint_of(marker))
    return parts


def _image(source: Source, path: str) -> InputImage:
    if source.type == "base64":
        return InputImage(image_url=f"data:{source.media_type};base64,{source.data}")
    if source.type == "url":
        return InputImage(image_url=source.url)
    if source.type == "file":
        return InputImage(file_id=source.file_id)
    raise _no_source(source, path)


def _document(block: MediaBlock, path: str, downgrades: Downgrades) -> list[Part]:
    _list_citations(block.citations, downgrades)
    source = block.source
    match source.type:
        case "base64":
            data = f"data:{source.media_type or 'application/pdf'};base64,{source.data}"
            return [*_heading(block.context), InputFile(file_data=data, filename=block.title)]
        case "url":
            return [*_heading(block.context), InputFile(file_url=source.url, filename=block.title)]
        case "file":
            return [*_heading(block.context), InputFile(file_id=source.file_id, filename=block.title)]
        case "text":
            return [*_heading(block.title, block.context), InputText(text=source.data)]
        case "content":
            inner = read_parts(source.content or [], f"{path}.source.content", downgrades)
            return [*_heading(block.title, block.context), *inner]
        case _:
            raise _no_source(source, f"{path}.source")


def _heading(*lines: str | None) -> list[Part]:
    """The text before a document. The title of a file is the file's name."""
    text = "\n".join(filter(None, lines))
    return [InputText(text=text)] if text else []


def _list_citations(wanted: JsonObject | None, downgrades: Downgrades) -> None:
    if wanted and wanted.get("enabled"):
        text = "citations of documents and search results are not made here"
        downgrades.add("not_used", text, "messages")


def _no_source(source: Source, path: str) -> InvalidRequest:
    message = f"Invalid value for '{path}.type': '{source.type}' is no source of this block."
    return InvalidRequest(message, param=f"{path}.type", code="invalid_value")
