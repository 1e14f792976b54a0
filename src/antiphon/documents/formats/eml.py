"""Mail: its headers, its text, and a section for each attachment that can be read."""

from collections.abc import Callable, Sequence
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.policy import EmailPolicy
from typing import cast

from antiphon.documents.document import Document, SectionList, Unreadable
from antiphon.documents.formats.html import html_to_markdown

MAX_ATTACHMENTS = 50
MAX_DEPTH = 3
"""A mail in a mail in a mail."""
MAX_HEADER_CHARS = 4_000
"""Of one header; the rest is cut off. The time to parse one rises with the square of its length."""
_SHOWN_HEADERS = ("From", "To", "Cc", "Date", "Subject")

ReadAttachment = Callable[[bytes, str], Document]


class _BoundedHeaders(EmailPolicy):
    """The default policy, with an end to every header."""

    def header_source_parse(self, sourcelines: Sequence[str]) -> tuple[str, str]:
        """The name and the value of a header."""
        name, value = super().header_source_parse(list(sourcelines))
        return name, value[:MAX_HEADER_CHARS]


def read_eml(data: bytes, name: str, read_attachment: ReadAttachment | None = None) -> Document:
    """The mail; attachments are only named if there is nothing to read them with."""
    mail = cast("EmailMessage", BytesParser(EmailMessage, policy=_BoundedHeaders()).parsebytes(data))
    found = SectionList("mail")
    found.add(f"{_headers(mail)}\n\n{_body(mail)}")
    for position, part in enumerate(mail.iter_attachments() if mail.is_multipart() else ()):
        if position == MAX_ATTACHMENTS:
            found.omit(f"attachments after the first {MAX_ATTACHMENTS} are left out")
            break
        _add_attachment(found, part, read_attachment)
    return found.document("eml")


def _headers(mail: EmailMessage) -> str:
    shown: list[str] = []
    for header in _SHOWN_HEADERS:
        try:
            value = mail[header]
        except (ValueError, LookupError, AttributeError, TypeError):  # headers that its own parser trips over
            continue
        if value:
            shown.append(f"{header}: {' '.join(str(value).split())}")
    return "\n".join(shown)


def _body(mail: EmailMessage) -> str:
    part = mail.get_body(("plain", "html"))
    if part is None:
        return ""
    text = _content(part)
    return html_to_markdown(text) if part.get_content_type() == "text/html" else text


def _content(part: MIMEPart) -> str:
    try:
        return str(part.get_content())
    except (LookupError, ValueError):  # an unknown encoding
        return bytes(cast("bytes", part.get_payload(decode=True)) or b"").decode("latin-1")


def _add_attachment(found: SectionList, part: EmailMessage, read: ReadAttachment | None) -> None:
    name = " ".join((part.get_filename() or "without a name").split())[:200]
    data = _bytes(part)
    try:
        if read is None or data is None:
            raise Unreadable("unsupported_file", "it is not read here")
        attached = read(data, name)
    except Unreadable as error:
        found.omit(f"the attachment '{name}' is left out: {error.message}")
        return
    text = "\n\n".join(
        f"[{section.label}]\n{section.text}" if section.label else section.text
        for section in attached.sections
    )
    found.add(text, f"attachment {name}", "attachment")


def _bytes(part: EmailMessage) -> bytes | None:
    """The attached file; a mail in a mail as it was sent."""
    if part.get_content_type() == "message/rfc822":
        inner = part.get_payload()
        return cast("EmailMessage", inner[0]).as_bytes() if isinstance(inner, list) and inner else None
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else None
