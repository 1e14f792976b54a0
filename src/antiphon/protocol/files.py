"""Files and uploads on the wire, and the checks of what a client says about a file."""

import re
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.parse import decode, missing

Purpose = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
PURPOSES: tuple[str, ...] = get_args(Purpose)
MIN_LIFETIME_SECONDS = 3600
MAX_LIFETIME_SECONDS = 30 * 24 * 3600
BATCH_LIFETIME_SECONDS = MAX_LIFETIME_SECONDS
"""Files of the purpose `batch` expire after this time, unless the client says otherwise; others stay."""
MAX_FILENAME_CHARACTERS = 255
MAX_PARTS = 10_000
OCTETS = "application/octet-stream"
_MEDIA_TYPE = re.compile(
    r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}/[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}(\s*;.{0,200})?"
)
_MD5 = re.compile(r"[0-9a-fA-F]{32}")


class FileObject(Struct, frozen=True, kw_only=True):
    """A file on the wire."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None = None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileList(Struct, frozen=True, kw_only=True):
    """A page of files on the wire."""

    object: Literal["list"] = "list"
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class UploadObject(Struct, frozen=True, kw_only=True):
    """An upload on the wire."""

    id: str
    object: Literal["upload"] = "upload"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    status: Literal["pending", "completed", "cancelled", "expired"]
    file: FileObject | None = None


class PartObject(Struct, frozen=True, kw_only=True):
    """A part of an upload on the wire."""

    id: str
    object: Literal["upload.part"] = "upload.part"
    created_at: int
    upload_id: str


class ExpiresAfter(Struct, frozen=True):
    """When a file expires."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Meta(ge=MIN_LIFETIME_SECONDS, le=MAX_LIFETIME_SECONDS)]


class NewFile(Struct, frozen=True, kw_only=True):
    """What a client says about a file. `lifetime` is the seconds until it expires."""

    filename: str
    purpose: str
    media_type: str = OCTETS
    lifetime: int | None = None


class NewUpload(Struct, frozen=True):
    """A file that will be sent in parts, of so many bytes in all."""

    file: NewFile
    bytes: int


class CompleteUpload(Struct, frozen=True):
    """The parts of an upload in their order. `md5` is the digest of all of them, in hexadecimal."""

    part_ids: tuple[str, ...]
    md5: str | None = None


class _RawUpload(Struct, frozen=True):
    purpose: Purpose
    filename: str
    bytes: int
    mime_type: str
    expires_after: ExpiresAfter | None = None


class _RawComplete(Struct, frozen=True):
    part_ids: list[str]
    md5: str | None = None


def parse_upload(body: bytes, max_bytes: int) -> NewUpload:
    """Parse the body that creates an upload."""
    raw = decode(body, _RawUpload)
    if not 1 <= raw.bytes <= max_bytes:
        message = f"Invalid value for 'bytes': an upload has from 1 to {max_bytes:,} bytes."
        raise InvalidRequest(message, param="bytes", code="invalid_value")
    lifetime = None if raw.expires_after is None else raw.expires_after.seconds
    file = NewFile(
        filename=check_filename(raw.filename, "filename"),
        purpose=raw.purpose,
        media_type=check_media_type(raw.mime_type, "mime_type"),
        lifetime=lifetime_of(raw.purpose, lifetime),
    )
    return NewUpload(file, raw.bytes)


def parse_complete(body: bytes) -> CompleteUpload:
    """Parse the body that completes an upload."""
    raw = decode(body, _RawComplete)
    if not 1 <= len(raw.part_ids) <= MAX_PARTS:
        message = f"Invalid value for 'part_ids': name from 1 to {MAX_PARTS:,} parts."
        raise InvalidRequest(message, param="part_ids", code="invalid_value")
    if len(set(raw.part_ids)) != len(raw.part_ids):
        raise InvalidRequest("'part_ids' names a part twice.", param="part_ids", code="invalid_value")
    if raw.md5 is not None and not _MD5.fullmatch(raw.md5):
        message = "Invalid value for 'md5': use the digest in hexadecimal, 32 characters."
        raise InvalidRequest(message, param="md5", code="invalid_value")
    return CompleteUpload(tuple(raw.part_ids), raw.md5.lower() if raw.md5 else None)


def check_purpose(purpose: str) -> str:
    """Raise `InvalidRequest` for an unknown purpose."""
    if purpose not in PURPOSES:
        known = ", ".join(f"'{name}'" for name in PURPOSES)
        message = f"Invalid value for 'purpose': '{purpose[:100]}'; use one of {known}."
        raise InvalidRequest(message, param="purpose", code="invalid_value")
    return purpose


def check_filename(filename: str, param: str) -> str:
    """The name without folders, which some clients send along. Raises `InvalidRequest` for one that is no
    name."""
    name = filename.replace("\\", "/").rpartition("/")[2]
    if not name.isprintable():
        raise InvalidRequest("A filename has no control characters.", param=param, code="invalid_filename")
    if name.strip(" .") == "":
        raise InvalidRequest("The file needs a filename.", param=param, code="invalid_filename")
    if len(name) > MAX_FILENAME_CHARACTERS:
        message = f"A filename has at most {MAX_FILENAME_CHARACTERS} characters."
        raise InvalidRequest(message, param=param, code="invalid_filename")
    return name


def check_media_type(media_type: str, param: str) -> str:
    """Raise `InvalidRequest` for text that is no media type."""
    if not _MEDIA_TYPE.fullmatch(media_type) or not media_type.isprintable():
        message = f"Invalid value for '{param}': use a media type such as 'application/pdf'."
        raise InvalidRequest(message, param=param, code="invalid_value")
    return media_type


def check_lifetime(anchor: str | None, seconds: str | None) -> int | None:
    """`expires_after` of a form; None if it is not there."""
    if anchor is None and seconds is None:
        return None
    if anchor is None:
        raise missing("expires_after.anchor")
    if seconds is None:
        raise missing("expires_after.seconds")
    if anchor != "created_at":
        message = f"Invalid value for 'expires_after.anchor': '{anchor[:100]}'; use 'created_at'."
        raise InvalidRequest(message, param="expires_after.anchor", code="invalid_value")
    number = int(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) <= 9 else 0
    if not MIN_LIFETIME_SECONDS <= number <= MAX_LIFETIME_SECONDS:
        message = (
            f"Invalid value for 'expires_after.seconds': use an integer from {MIN_LIFETIME_SECONDS} "
            f"to {MAX_LIFETIME_SECONDS}."
        )
        raise InvalidRequest(message, param="expires_after.seconds", code="invalid_value")
    return number


def lifetime_of(purpose: str, lifetime: int | None) -> int | None:
    """The seconds until a file expires; None: never."""
    return BATCH_LIFETIME_SECONDS if lifetime is None and purpose == "batch" else lifetime
