"""Multipart forms with one large part: its content is passed on while it arrives, all other parts are short.

python-multipart finds the boundaries. What a client says in the form is bounded here.
"""

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from antiphon.errors import InvalidRequest, UnsupportedMedia
from antiphon.protocol.parse import missing
from antiphon.server.exchange import BodyReader, Exchange

MAX_FIELDS = 32
MAX_BOUNDARIES = 4 * MAX_FIELDS
"""Occurrences of the boundary, also where more text follows it."""
MAX_FIELD_BYTES = 4096
MAX_HEADER_BYTES = 32 * 1024
"""Of one header of a part: its filename may be long, and is refused with a better message later."""
MAX_SEPARATORS = 100
"""Semicolons in a header, those of a filename included."""
MAX_OVERHEAD_BYTES = 1024 * 1024
"""What a form may have besides the content."""
MIN_BYTES_PER_SECOND = 16 * 1024
"""A client that sends more slowly is disconnected."""
FORM_MEMORY_BYTES = 2 * 1024 * 1024
"""What a form that is received holds in memory."""

_EXTENDED_NAME = re.compile(rb"""filename\*="?utf-8'[^']*'([^";]+)""", re.IGNORECASE)
_ESCAPED = re.compile("%(22|[01][0-9A-F])", re.IGNORECASE)
"""Quotes and control characters, as clients escape them in names."""

logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # the client gets an error


@dataclass(slots=True)
class _Part:
    """A part of the form while it is read."""

    name: str = ""
    filename: str | None = None
    media_type: str = ""
    is_content: bool = False
    text: bytes = b""


class MultipartForm:
    """A form whose part `content_field` is the content. Iterate over `content()` first: it reads the form."""

    def __init__(
        self, pieces: AsyncIterable[bytes], content_type: bytes, content_field: str, declared_bytes: int
    ) -> None:
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self.media_type = ""
        self.declared_bytes = max(0, declared_bytes - MAX_FIELD_BYTES)
        self._pieces = pieces
        self._content_field = content_field
        self._part = _Part()
        self._header = (b"", b"")
        self._boundaries = self._field_count = 0
        self._content: list[bytes] = []
        self._has_content = self._has_ended = False
        self._parser = MultipartParser(
            _boundary(content_type),
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
                "on_end": self._on_end,
            },
            max_header_count=16,
            max_header_size=MAX_HEADER_BYTES,
        )

    async def content(self) -> AsyncGenerator[bytes, None]:
        """The content, in pieces as they arrive. Raises `InvalidRequest` for a form that is malformed or has
        no content part."""
        async for piece in self._pieces:
            self._feed(piece)
            if self._content:
                ready, self._content = self._content, []
                for part in ready:
                    yield part
        if not self._has_ended:
            raise _malformed("its last boundary is missing")
        if not self._has_content:
            raise missing(self._content_field)

    def _feed(self, piece: bytes) -> None:
        """Boundaries are bounded first: the parser needs a microsecond for each, and a hostile client could
        choose a short one and fill the content with it."""
        self._boundaries += piece.count(self._parser.boundary)
        if self._boundaries > MAX_BOUNDARIES:
            raise _malformed("its content has the boundary in it")
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise _malformed(str(error)[:200]) from None

    # Called by the parser

    def _on_part_begin(self) -> None:
        self._part, self._header = _Part(), (b"", b"")

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0] + data[start:end], b"")

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        name, value = self._header
        self._header = (name, value + data[start:end])

    def _on_header_end(self) -> None:
        (name, value), self._header = self._header, (b"", b"")
        if name.lower() == b"content-disposition":
            _, options = _parse_options(value)
            self._part.name = options.get(b"name", b"").decode("utf-8", "replace")
            self._part.filename = _filename(value, options.get(b"filename"))
        elif name.lower() == b"content-type":
            self._part.media_type = value.decode("latin-1").strip()

    def _on_headers_finished(self) -> None:
        part = self._part
        if part.name != self._content_field:
            self._field_count += 1
            if self._field_count > MAX_FIELDS:
                raise InvalidRequest(f"A form has at most {MAX_FIELDS} fields.", code="invalid_multipart")
            return
        if self._has_content:
            raise InvalidRequest(
                f"The form has '{part.name}' twice; send one.", param=part.name, code="invalid_multipart"
            )
        self._has_content = part.is_content = True
        self.filename, self.media_type = part.filename, part.media_type

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        if part.is_content:
            self._content.append(data[start:end])
            return
        part.text += data[start:end]
        if len(part.text) > MAX_FIELD_BYTES:
            message = f"A field of a form has at most {MAX_FIELD_BYTES} bytes."
            raise InvalidRequest(message, param=part.name[:100], code="invalid_multipart")

    def _on_part_end(self) -> None:
        if not self._part.is_content:
            self.add_field(self._part.name, self._part.text.decode("utf-8", "replace"))

    def add_field(self, name: str, value: str) -> None:
        """A field has arrived. Subclasses check it here, before the content arrives."""
        self.fields[name] = value

    def _on_end(self) -> None:
        self._has_ended = True


@dataclass(frozen=True, slots=True)
class FormReader:
    """Receives forms within the server's limits."""

    bodies: BodyReader

    @contextmanager
    def receive(self, exchange: Exchange, max_content_bytes: int) -> Generator[AsyncIterable[bytes]]:
        """The body of a form with so many bytes of content, while the request may work."""
        budget, tenant = self.bodies.admission.bodies, exchange.caller.tenant
        self.bodies.admission.check(tenant)
        budget.reserve(tenant, FORM_MEMORY_BYTES)
        try:
            with self.bodies.lifetimes.lease():
                yield exchange.stream_body(
                    max_content_bytes + MAX_OVERHEAD_BYTES, self.bodies.timeout_seconds, MIN_BYTES_PER_SECOND
                )
        finally:
            budget.release(tenant, FORM_MEMORY_BYTES)


def _boundary(content_type: bytes) -> bytes:
    media_type, options = _parse_options(content_type)
    if media_type != b"multipart/form-data":
        raise UnsupportedMedia(
            "Files are sent as a form: send `Content-Type: multipart/form-data` with its boundary."
        )
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 70:
        raise _malformed("its Content-Type has no valid boundary")
    return boundary


def _parse_options(header: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """The value of a header and its parameters. Separators are bounded: their square is the parser's time."""
    if header.count(b";") > MAX_SEPARATORS:
        raise _malformed("a header has too many parameters")
    return parse_options_header(header)


def _filename(disposition: bytes, plain: bytes | None) -> str | None:
    """The name in its extended form (RFC 5987), which some clients send, or in the plain one."""
    extended = _EXTENDED_NAME.search(disposition)
    if extended is not None:
        return unquote(extended[1].decode("latin-1"))
    if plain is None:
        return None
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), plain.decode("utf-8", "replace"))


def _malformed(reason: str) -> InvalidRequest:
    return InvalidRequest(f"The form is malformed: {reason}.", code="invalid_multipart")
