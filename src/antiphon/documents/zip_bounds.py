"""Bounds on archives. Readers unpack no more than an archive declares, so its declarations are checked."""

import zipfile

from antiphon.documents.document import Unreadable

MAX_MEMBERS = 10_000
MAX_UNPACKED_BYTES = 400 * 1024 * 1024
MAX_MEMBER_BYTES = 200 * 1024 * 1024
"""Pictures and sounds aside, members are XML; that of a book has some megabytes."""


def check_archive(archive: zipfile.ZipFile) -> None:
    """Raise `Unreadable` for an archive that would unpack to too much."""
    members = archive.infolist()
    unpacked = [member.file_size for member in members]
    too_large = sum(unpacked) > MAX_UNPACKED_BYTES or max(unpacked, default=0) > MAX_MEMBER_BYTES
    if len(members) > MAX_MEMBERS or too_large:
        raise Unreadable("invalid_file", "The file is rejected: it would unpack to too much data.")
    if any(member.flag_bits & 1 for member in members):
        raise Unreadable("invalid_file", "The file is protected by a password.")
