"""Decodes text in any encoding. Without a byte order mark, UTF-8 goes first."""

import codecs

from antiphon.documents.document import Unreadable

PROBE_BYTES = 64 * 1024
"""The encoding is guessed from so many first bytes."""
MAX_CONTROL_SHARE = 0.05
"""A file with more control characters is not text."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: it begins with the same bytes
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\x08")) + b"\x7f"
_BINARY = "This is a binary file of a type that is not read here."


def decode(data: bytes) -> str:
    """The text. Raises `Unreadable` if the bytes are not text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if (encoding := _wide(data)) is not None:
        return data.decode(encoding, "replace")
    if is_binary(data):
        raise Unreadable("unsupported_file", _BINARY)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode(_guess(data[:PROBE_BYTES]), "replace")


def decode_beginning(data: bytes, size: int) -> str:
    """The text of about so many first bytes; those that are not UTF-8 are replaced. Raises the same."""
    beginning = data[: size - size % 4]
    if not is_marked(data) and _wide(beginning) is None and not is_binary(data):
        return beginning.decode("utf-8", "replace")
    return decode(beginning)


def is_binary(data: bytes) -> bool:
    """Whether the bytes are no text in an encoding of bytes; UTF-16 and UTF-32 are recognised before."""
    probe = data[:PROBE_BYTES]
    return b"\0" in probe or len(probe) - len(probe.translate(None, _CONTROLS)) > MAX_CONTROL_SHARE * len(
        probe
    )


def is_marked(data: bytes) -> bool:
    """Whether the bytes begin with a byte order mark."""
    return any(data.startswith(mark) for mark, _ in _MARKS)


def _wide(data: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark: mostly Latin text, whose zero bytes are all at the same places."""
    probe = data[: PROBE_BYTES - PROBE_BYTES % 4]
    if len(data) % 2 or len(probe) < 4 or b"\0" not in probe:
        return None
    zeros = [probe[start::4].count(0) / len(probe[start::4]) for start in range(4)]
    match [share > 0.5 for share in zeros]:
        case [False, True, True, True]:
            return "utf-32-le"
        case [True, True, True, False]:
            return "utf-32-be"
        case [False, True, False, True]:
            return "utf-16-le"
        case [True, False, True, False]:
            return "utf-16-be"
        case _:
            return None


def _guess(probe: bytes) -> str:
    """The encoding of bytes that are not UTF-8; without the extra, that of Windows in western Europe."""
    try:
        from charset_normalizer import from_bytes  # noqa: PLC0415 -- optional: the [documents] extra
    except ModuleNotFoundError:
        return "cp1252"
    best = from_bytes(probe).best()
    return "cp1252" if best is None else best.encoding
