"""Files for models whose servers do not take them: their text is sent instead, or pages as images."""

import asyncio
import base64
import binascii
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from antiphon.backends.files import FileNotTaken
from antiphon.documents.document import Document, Unreadable
from antiphon.documents.reader import MAX_FILE_BYTES, DocumentReader
from antiphon.errors import InvalidRequest, NotFound, Overloaded
from antiphon.http.download import Downloaded, Downloader
from antiphon.protocol.content import InputFile, InputImage, InputText, MessagePart
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.ids import is_stored_file_id
from antiphon.protocol.items import CustomToolCallOutput, FunctionCallOutput, Item, Message
from antiphon.service.responses.context import Context
from antiphon.service.responses.file_room import HeldContent, ReadingRoom, SentContent
from antiphon.service.responses.stages.base import RoundPlan
from antiphon.turn.token_estimate import BYTES_PER_TOKEN

MAX_FILES = 100
"""Of one turn, the newest ones; others are left out."""
MAX_FILES_AT_ONCE = 4
"""Of one tenant, in all of its requests; others wait."""
MAX_PAGE_IMAGES = 10
"""Of one file."""
MAX_CACHED_CHARS = 16_000_000
MAX_CACHED_FILES = 1_000
MAX_SENT_BYTES = 32 * 1024 * 1024
"""Of all files and images of one turn whose content is sent along, instead of an id or a URL."""
SENT_COPIES = 3
"""How often content that is sent along is in memory: in base64, and in the request to the model."""
MAX_WAIT_SECONDS = 30.0
"""How long a turn waits for room for its files at most, and the pause between two tries."""
FULL_PAUSE_SECONDS = 0.5
DOWNLOADED_BYTES = MAX_FILE_BYTES // 4
"""What a file is expected to have whose size is not known."""
DECODED_AT_ONCE_CHARS = 1024 * 1024
ENCODED_AT_ONCE_BYTES = 3 * 256 * 1024
"""A multiple of three, so that slices of base64 can be joined."""
HASHED_AT_ONCE_CHARS = 256 * 1024
_IMAGE_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
"""How image files begin."""
_WINDOW_SHARE = 0.5
"""At most this share of a context window is text of files."""


class StoredContents(Protocol):
    """The files that tenants have stored."""

    async def content(self, tenant: str, file_id: str, max_bytes: int) -> tuple[str, bytes]:
        """The name and the content of a file. Raises `NotFound`, and `InvalidRequest` if it is too large."""
        ...

    async def size(self, tenant: str, file_id: str) -> int:
        """The bytes of a file. Raises `NotFound`."""
        ...


class _Place(Struct, frozen=True):
    """Where a file is: the item, the part, and the parameter for errors. `is_new`: of this request."""

    item: int
    part: int
    file: InputFile
    param: str
    is_new: bool
    from_user: bool
    image: InputImage | None = None
    """The image that `file` is the source of, if it is one."""

    @property
    def member(self) -> str:
        file = self.file
        given = "file_data" if file.file_data is not None else "file_url" if file.file_url else "file_id"
        return f"{self.param}.{given}"


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the model is shown instead of a file."""

    parts: Sequence[MessagePart]
    size: int = 0
    """Bytes of text."""
    sent_bytes: int = 0
    """Of content that is sent along."""


class FileTexts:
    """Reads files on behalf of tenants, and remembers their texts: a conversation sends a file every turn."""

    def __init__(
        self,
        reader: DocumentReader,
        downloader: Downloader,
        stored: StoredContents,
        max_tokens: int,
        sent: SentContent | None = None,
    ) -> None:
        self._reader = reader
        self._downloader = downloader
        self._stored = stored
        self._max_tokens = max_tokens
        self._known: OrderedDict[tuple[str, bytes], Document] = OrderedDict()
        self._known_chars = 0
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By tenant: a file is in memory while it is read."""
        self._reading = ReadingRoom()
        self.sent = sent or SentContent()

    def hold(self, tenant: str) -> HeldContent:
        """What the files of a response will hold while a model is sent them."""
        return self.sent.hold(tenant)

    async def converted_in_time(
        self,
        plan: RoundPlan,
        refused: FileNotTaken,
        context: Context,
        tenant: str,
        held: HeldContent,
        *,
        seconds: float,
        beat: Callable[[], Awaitable[None]],
    ) -> RoundPlan:
        """The same as `converted`. While there is no room for the files, it tries again for so many seconds.
        Meanwhile it holds none of them: turns that wait for each other's files would all wait in vain."""
        loop = asyncio.get_running_loop()
        kept = held.size
        deadline = loop.time() + min(seconds, MAX_WAIT_SECONDS)
        while True:
            try:
                converted = await self.converted(plan, refused, context, tenant, held)
            except Overloaded:
                held.release(kept)
                if loop.time() + FULL_PAUSE_SECONDS > deadline:
                    raise
            else:
                await beat()
                return converted
            await asyncio.sleep(FULL_PAUSE_SECONDS)
            await beat()

    async def converted(
        self, plan: RoundPlan, refused: FileNotTaken, context: Context, tenant: str, held: HeldContent
    ) -> RoundPlan:
        """The plan without the files that its backend has refused. Raises `InvalidRequest` for a file of the
        request that cannot be read; one of the history is left out and reported. The content that is sent
        along is added to what is `held`. Raises `Overloaded` if there is no room for it."""
        items = [*plan.attempt.items, *plan.added]
        budget = await self._budget(plan)
        sees = (await plan.attempt.route.image_support()).level == "native"
        downgrades = Downgrades(plan.downgrades)
        shown: dict[tuple[int, int], Sequence[MessagePart]] = {}
        start = max(0, len(plan.attempt.items) - len(context.request.items))
        places = [place for place in _places(items, start, context) if not _is_taken(place, refused)]
        room = MAX_SENT_BYTES
        for count, place in enumerate(reversed(places)):  # the newest have precedence within the budget
            turn = _Conversion(self, tenant, place, refused, sees and place.from_user, downgrades, room)
            shown_bytes = budget if count < MAX_FILES else 0
            size = await self._size(tenant, place.file) if shown_bytes > 0 else 0
            slot = self._slots.setdefault(tenant, asyncio.Semaphore(MAX_FILES_AT_ONCE))
            async with slot, self._reading.taken(tenant, size):
                found = await turn.shown(shown_bytes)
            held.add(SENT_COPIES * found.sent_bytes)
            shown[place.item, place.part] = found.parts
            budget -= found.size
            room -= found.sent_bytes
        items = _replaced(items, shown)
        kept = len(plan.attempt.items)
        return replace(
            plan,
            attempt=replace(plan.attempt, items=items[:kept]),
            added=tuple(items[kept:]),
            downgrades=tuple(downgrades),
        )

    async def _size(self, tenant: str, file: InputFile) -> int:
        """About how many bytes a file has."""
        if file.file_data is not None:
            return len(file.file_data)
        if file.file_id is None:
            return DOWNLOADED_BYTES
        try:
            return min(await self._stored.size(tenant, file.file_id), MAX_FILE_BYTES)
        except NotFound:  # reported when it is read
            return 0

    async def _budget(self, plan: RoundPlan) -> int:
        """Bytes of text for all files."""
        window = await plan.attempt.route.window()
        tokens = self._max_tokens if window is None else min(self._max_tokens, int(window * _WINDOW_SHARE))
        return tokens * BYTES_PER_TOKEN

    async def stored(self, tenant: str, file_id: str) -> tuple[str, bytes]:
        return await self._stored.content(tenant, file_id, MAX_FILE_BYTES)

    async def download(self, url: str, param: str) -> Downloaded:
        return await self._downloader.download(url, param)

    async def read(self, tenant: str, key: bytes, data: bytes, name: str) -> Document:
        """The text of a file, from memory if this content was read before. Raises `Unreadable`."""
        known = self._known.get((tenant, key))
        if known is not None:
            self._known.move_to_end((tenant, key))
            return known
        # With a character more than any turn is shown, so that it is known to be cut.
        document = await self._reader.read(tenant, data, name, self._max_tokens * BYTES_PER_TOKEN + 1)
        self._remember((tenant, key), document)
        return document

    def _remember(self, key: tuple[str, bytes], document: Document) -> None:
        if key not in self._known:
            self._known_chars += _chars(document)
        self._known[key] = document
        while self._known_chars > MAX_CACHED_CHARS or len(self._known) > MAX_CACHED_FILES:
            self._known_chars -= _chars(self._known.popitem(last=False)[1])

    async def draw(self, tenant: str, data: bytes, pages: list[int]) -> list[bytes]:
        return await self._reader.draw(tenant, data, pages)


@dataclass(frozen=True, slots=True)
class _Conversion:
    """One file of a turn."""

    texts: FileTexts
    tenant: str
    place: _Place
    refused: FileNotTaken
    sees: bool
    """Whether pages without text may be sent as images."""
    downgrades: Downgrades
    room_bytes: int
    """For content that is sent along."""

    async def shown(self, budget: int) -> _Shown:
        """What is shown instead, in at most so many bytes of text."""
        name = _clean(self.place.file.filename or "")
        if budget <= 0:
            return self._left_out(name or "a file", "the text of the other files leaves no room for it")
        try:
            data, known_name = await self._content()
            name = name or _clean(known_name) or "file"
            if self.place.image is not None:
                return await self._as_image(self.place.image, data)
            media = "application/pdf" if b"%PDF-" in data[:1024] else "application/octet-stream"
            sent = replace(
                self.place.file, file_id=None, file_url=None, file_data=f"data:{media};base64,", filename=name
            )
            if self.place.file.file_data is None and self.refused.takes(sent):
                return await self._as_it_is(sent, media, data)
            return await self._as_text(data, name, budget)
        except Unreadable as error:
            fault = InvalidRequest(
                f"The file '{name}' cannot be used: {error.message}",
                param=self.place.member,
                code="unsupported_file" if error.code == "reader_not_installed" else error.code,
            )
        except (InvalidRequest, NotFound) as error:
            fault = error
        if self.place.is_new:
            raise fault
        return self._left_out(name or "a file", fault.message)

    async def _as_image(self, image: InputImage, data: bytes) -> _Shown:
        media = next((media for start, media in _IMAGE_STARTS.items() if data.startswith(start)), None)
        if media is None or (media == "image/webp" and data[8:12] != b"WEBP"):
            message = (
                "This file is not an image. Use a PNG, JPEG, GIF or WebP file, or send it as 'input_file'."
            )
            raise InvalidRequest(message, param=self.place.member, code="invalid_image_format")
        url = await self._data_url(media, data)
        return _Shown([replace(image, file_id=None, image_url=url)], sent_bytes=len(data))

    async def _as_it_is(self, sent: InputFile, media: str, data: bytes) -> _Shown:
        url = await self._data_url(media, data)
        if self.place.file.file_url is not None:
            self._report(f"'{sent.filename}' is downloaded and sent along")
        return _Shown([replace(sent, file_data=url)], sent_bytes=len(data))

    async def _data_url(self, media: str, data: bytes) -> str:
        """The content in base64; in slices, so that others are served meanwhile."""
        if len(data) > self.room_bytes:
            raise self._too_large()
        pieces = [f"data:{media};base64,"]
        for start in range(0, len(data), ENCODED_AT_ONCE_BYTES):
            pieces.append(base64.b64encode(data[start : start + ENCODED_AT_ONCE_BYTES]).decode())
            if len(data) > ENCODED_AT_ONCE_BYTES:
                await asyncio.sleep(0)
        return "".join(pieces)

    async def _as_text(self, data: bytes, name: str, budget: int) -> _Shown:
        try:
            document = await self.texts.read(self.tenant, await _key(data, name), data, name)
        except Unreadable:
            drawn = await self._drawn(data, range(1, MAX_PAGE_IMAGES + 1))
            if not drawn:
                raise
            images, sent_bytes = self._images(drawn, name)
            if not images:
                raise self._too_large() from None
            self._report(f"'{name}' has no text: its first pages are sent as images ({len(images)})")
            return _Shown([InputText(text=f"[FILE {name}]"), *images], sent_bytes=sent_bytes)
        drawn = await self._drawn(data, document.empty_pages[:MAX_PAGE_IMAGES])
        images, sent_bytes = self._images(drawn, name)
        self._report(f"'{name}' is sent as text, because this model's server does not take such files")
        for omission in document.omissions:
            if not (images and len(images) == len(document.empty_pages)):
                self.downgrades.add("input_omitted", f"{{param}}: '{name}': {omission}", "input")
        if images:
            pages = ", ".join(map(str, document.empty_pages[: len(images)]))
            self._report(f"'{name}': pages without text are sent as images ({pages})")
        text, is_cut = _rendered(document, name, budget)
        if is_cut:
            message = (
                f"{{param}}: '{name}' is cut: its text exceeds the room for files (documents.max_tokens)"
            )
            self.downgrades.add("input_omitted", message, "input")
        mark = self.place.file.prompt_cache_breakpoint
        parts: list[MessagePart] = [InputText(text=text, prompt_cache_breakpoint=mark), *images]
        return _Shown(parts, len(text.encode()), sent_bytes)

    async def _drawn(self, data: bytes, pages: Sequence[int]) -> list[bytes]:
        """These pages of a PDF as JPEG images; none if they are of no use."""
        if not (self.sees and pages and b"%PDF-" in data[:1024]):
            return []
        try:
            return await self.texts.draw(self.tenant, data, list(pages))
        except Unreadable:
            return []

    def _images(self, drawn: Sequence[bytes], name: str) -> tuple[list[InputImage], int]:
        """The first pages that there is room for, and their bytes; that others are left out is reported."""
        images: list[InputImage] = []
        sent_bytes = 0
        for page in drawn:
            if sent_bytes + len(page) > self.room_bytes:
                left_out = len(drawn) - len(images)
                why = f"with them the files have more than {MAX_SENT_BYTES:,} bytes together"
                message = f"{{param}}: '{name}': {left_out} page images are left out: {why}"
                self.downgrades.add("input_omitted", message, "input")
                break
            url = f"data:image/jpeg;base64,{base64.b64encode(page).decode()}"
            images.append(InputImage(image_url=url))
            sent_bytes += len(page)
        return images, sent_bytes

    def _too_large(self) -> InvalidRequest:
        message = f"The files that are sent to the model have more than {MAX_SENT_BYTES:,} bytes together."
        return InvalidRequest(message, param=self.place.member, code="file_too_large")

    async def _content(self) -> tuple[bytes, str]:
        """The file, and its name in a URL or in the store."""
        file, place = self.place.file, self.place
        if file.file_data is not None:
            return await _decoded(file.file_data, place.member), ""
        if file.file_url is not None:
            return await self.texts.download(file.file_url, place.member)
        try:
            name, data = await self.texts.stored(self.tenant, file.file_id or "")
        except (InvalidRequest, NotFound) as error:
            error.param = place.member
            raise
        return data, name

    def _report(self, what: str) -> None:
        self.downgrades.add("input_rewritten", f"{{param}}: {what}", "input")

    def _left_out(self, name: str, why: str) -> _Shown:
        self.downgrades.add("input_omitted", f"{{param}}: '{name}' is left out: {why}", "input")
        return _Shown([InputText(text=f"[FILE {name}: left out]")])


def _places(items: Sequence[Item], start: int, context: Context) -> list[_Place]:
    """All files of a conversation, in order. The items of the request begin at `start`."""
    brought_by = "previous_response_id" if context.request.params.conversation is None else "conversation"
    found: list[_Place] = []
    for index, item in enumerate(items):
        member, parts = _parts(item)
        for position, part in enumerate(parts):
            image = part if isinstance(part, InputImage) and part.image_url is None else None
            file = InputFile(file_id=image.file_id) if image is not None and image.file_id else part
            if isinstance(file, InputFile):
                is_new = index >= start
                param = f"input[{index - start}].{member}[{position}]" if is_new else brought_by
                from_user = isinstance(item, Message) and item.role == "user"
                found.append(_Place(index, position, file, param, is_new, from_user, image))
    return found


def _is_taken(place: _Place, refused: FileNotTaken) -> bool:
    """Whether the model's server takes this file as it is."""
    if place.image is not None:
        return refused.stores_files and not is_stored_file_id(place.file.file_id or "")
    return refused.takes(place.file)


def _parts(item: Item) -> tuple[str, Sequence[MessagePart]]:
    if isinstance(item, Message) and not isinstance(item.content, str):
        return "content", item.content
    if isinstance(item, FunctionCallOutput | CustomToolCallOutput) and not isinstance(item.output, str):
        return "output", item.output
    return "", ()


def _replaced(items: list[Item], shown: dict[tuple[int, int], Sequence[MessagePart]]) -> list[Item]:
    """The items with other parts at these places."""
    items = list(items)
    for index in {item for item, _ in shown}:
        member, parts = _parts(items[index])
        changed = [new for at, old in enumerate(parts) for new in shown.get((index, at), (old,))]
        items[index] = replace(items[index], **{member: changed})
    return items


def _rendered(document: Document, name: str, budget: int) -> tuple[str, bool]:
    """The text in at most about so many bytes, and whether it was cut."""
    pieces = [f"[FILE {name}]"]
    room = budget
    for section in document.sections:
        piece = f"[{section.label}]\n{section.text}" if section.label else section.text
        size = len(piece.encode())
        if size > room:
            pieces.append(piece.encode()[:room].decode("utf-8", "ignore"))
            return "\n\n".join([*pieces, "[CUT OFF]"]), True
        pieces.append(piece)
        room -= size
    return "\n\n".join([*pieces, "[END OF FILE]"]), False


async def _decoded(given: str, param: str) -> bytes:
    """The bytes of a data URL, or of base64; in slices, so that others are served meanwhile."""
    head, comma, encoded = given.partition(",") if given[:5].lower() == "data:" else ("", "", given)
    if comma and "base64" not in head:
        raise InvalidRequest("A 'data:' URL must look like 'data:application/pdf;base64,…'.", param=param)
    if any(mark in encoded for mark in "\n\r "):
        encoded = "".join(encoded.split())
    found = bytearray()
    try:
        for start in range(0, len(encoded), DECODED_AT_ONCE_CHARS):
            found += base64.b64decode(encoded[start : start + DECODED_AT_ONCE_CHARS], validate=True)
            if len(encoded) > DECODED_AT_ONCE_CHARS:
                await asyncio.sleep(0)
    except (binascii.Error, ValueError):
        message = "The content of a file must be base64, alone or in a 'data:' URL."
        raise InvalidRequest(message, param=param) from None
    return bytes(found)


async def _key(data: bytes, name: str) -> bytes:
    if len(data) <= HASHED_AT_ONCE_CHARS:
        return _digest(data, name)
    return await asyncio.to_thread(_digest, data, name)


def _digest(data: bytes, name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "replace") + b"\0" + data).digest()


def _clean(name: str) -> str:
    """A name in one line, without folders."""
    return " ".join(name.replace("\\", "/").rpartition("/")[2].split())[:200]


def _chars(document: Document) -> int:
    return sum(len(section.text) for section in document.sections)
