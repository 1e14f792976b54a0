"""The `Range` header of a download (RFC 9110, section 14)."""

import re

from antiphon.errors import RangeNotSatisfiable

_ONE_RANGE = re.compile(r"bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.IGNORECASE | re.ASCII)


def parse_range(header: bytes, size: int) -> tuple[int, int] | None:
    """The requested bytes [start, end) of a content of this size; None: all of it.

    Several ranges, and other units than bytes, are ignored, as HTTP allows.
    """
    text = header.decode("latin-1")
    if not text.lower().startswith("bytes") or "," in text:
        return None
    found = _ONE_RANGE.fullmatch(text)
    if found is None or not (found[1] or found[2]):
        raise RangeNotSatisfiable(f"The range '{text[:100]}' is malformed; use 'bytes=FIRST-LAST'.")
    if found[1]:
        start, end = int(found[1]), int(found[2]) + 1 if found[2] else size
        valid = start < size and start < end
    else:
        start, end = max(0, size - int(found[2])), size
        valid = int(found[2]) > 0
    if not valid:
        raise RangeNotSatisfiable(f"The range '{text[:100]}' is not within the {size} bytes of the content.")
    return start, min(end, size)
