"""Mutations of documents that know their structure: members of archives, objects of PDF files, tags, encodings."""

import io
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable

from tests.documents.files import eml_file
from tests.fuzz.documents.samples import FUZZED, SECTOR_BYTES

MAX_INPUT_BYTES = 4_000_000
MAX_INFLATED_BYTES = 64_000_000
"""Of a stream, before it is compressed: this process makes two of them at a time."""
_PDF_OBJECT = re.compile(rb"\d+ 0 obj\n.*?endobj\n", re.S)
_TAG = re.compile(rb"<[^<>]{1,400}>")
_NUMBER = re.compile(rb"\d+")
_ODD_NUMBERS = (
    b"0",
    b"-1",
    b"65536",
    b"2147483648",
    b"4294967295",
    b"99999999999999999999",
    b"1e400",
    b"0.5",
)
_ENCODINGS = (
    "utf-16",
    "utf-16-be",
    "utf-32",
    "utf-32-le",
    "utf-8-sig",
    "cp1252",
    "cp037",
    "shift_jis",
    "utf-7",
)
_FILTERS = (
    b"FlateDecode",
    b"LZWDecode",
    b"ASCIIHexDecode",
    b"ASCII85Decode",
    b"RunLengthDecode",
    b"DCTDecode",
)
_TOKENS = (
    *(b"\0", b"<", b">", b"&#x110000;", b"&lt", b"<![CDATA[", b"]]>", b"<!--", b"<!DOCTYPE a [", b"<?xml ?>"),
    *(b"<table><tr><td>", b"<pre>", b"<h1>", b"<script>", b"<li>", b"</table>", b"<meta charset=utf-16>"),
    *(b"{\\", b"{\\rtf1", b"}", b"\\bin99999999 ", b"\\u-32768?", b"\\'zz", b"\\ansicpg99999", b"\\fonttbl"),
    *(
        b'"',
        b'""',
        b"\n",
        b"\r",
        b",",
        b";",
        b"\t",
        b"|",
        b"[",
        b'{"a":',
        b"\\ud800",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
    ),
    *(b"\nContent-Type: multipart/mixed; boundary=a\n\n--a\n", b"\nContent-Transfer-Encoding: base64\n\n"),
    *(b"\nContent-Type: text/plain; charset=rot13\n", b"\nSubject: =?utf-8?b?////?=\n", b"\nTo: <@,:;@>\n"),
    *(
        b"<< ",
        b" >>",
        b" 1 0 R ",
        b"/Kids [2 0 R]",
        b"/Count -1",
        b"stream\n",
        b"\nendstream",
        b"%%EOF",
        b"/Encrypt 9 0 R",
    ),
)
Change = Callable[[bytes, random.Random], bytes]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The file with one to four changes, most of them of its own format."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        data = chance.choice(_changes(data))(data, chance)[:MAX_INPUT_BYTES] or b"\n"
    return data


def file_name(name: str, chance: random.Random) -> str:
    """The name of a file; sometimes that of another format, or an odd one."""
    if chance.random() < 0.9:
        return name
    return chance.choice((*FUZZED, "", "a", "../a.csv", "\0.html", "x" * 300, "a.eml", "a.PDF"))


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, a part repeated, removed or cut off."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(changed) or 1)
        match chance.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                changed[at : at + chance.randint(1, 40)] = b""
            case 2:
                changed[at:at] = changed[at : at + chance.randint(1, 200)] * chance.randint(1, 20)
            case 3:
                changed[at:at] = chance.choice(_TOKENS)
            case _:
                changed = changed[: max(1, at)]
    return bytes(changed)


def _changes(data: bytes) -> tuple[Change, ...]:
    if data.startswith(b"PK\x03\x04"):
        return (
            _member_changed,
            _member_changed,
            _member_changed,
            _members_exchanged,
            _directory_changed,
            damaged,
        )
    if data.startswith(b"%PDF"):
        return (_object_changed, _object_changed, _objects_moved, _number_changed, _stream_changed, damaged)
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        return (_record_changed, _record_changed, _word_changed, damaged)
    return (_token_repeated, _tag_changed, _number_changed, _encoded, _attached, _spliced, damaged)


def _members(data: bytes) -> list[tuple[str, bytes]]:
    """The members of an archive; none of a damaged one."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [
                (member.filename, archive.read(member)) for member in archive.infolist() if member.filename
            ]
    except Exception:  # noqa: BLE001 -- a mutation of a mutation
        return []


def _archive(members: list[tuple[str, bytes]], chance: random.Random) -> bytes:
    file = io.BytesIO()
    compression = chance.choice(
        (zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA)
    )
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def _member_changed(data: bytes, chance: random.Random) -> bytes:
    members = _members(data)
    if not members:
        return damaged(data, chance)
    at = chance.randrange(len(members))
    name, content = members[at]
    change = chance.choice((_tag_changed, _tag_changed, _number_changed, _token_repeated, _encoded, damaged))
    members[at] = (name, change(content or b" ", chance)[:MAX_INPUT_BYTES])
    return _archive(members, chance)


def _members_exchanged(data: bytes, chance: random.Random) -> bytes:
    """Two members have each other's content, or one is missing, doubled or renamed."""
    members = _members(data)
    if not members:
        return damaged(data, chance)
    one, two = chance.randrange(len(members)), chance.randrange(len(members))
    match chance.randrange(4):
        case 0:
            members[one] = (members[one][0], members[two][1])
        case 1:
            del members[one]
        case 2:
            members.append((f"{members[one][0]}.x", members[one][1]))
        case _:
            members[one] = (
                chance.choice(("../x", "/etc/x", "word/document.xml", "é")),
                members[one][1],
            )
    return _archive(list(dict(members).items()), chance)


def _directory_changed(data: bytes, chance: random.Random) -> bytes:
    """An entry of the directory lies: about its size, method, checksum or place."""
    entries = [found.start() for found in re.finditer(rb"PK\x01\x02|PK\x03\x04|PK\x05\x06", data)]
    if not entries:
        return damaged(data, chance)
    changed = bytearray(data)
    at = chance.choice(entries) + chance.randrange(4, 46)
    changed[at : at + 4] = struct.pack("<I", chance.choice((0, 1, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, len(data))))
    return bytes(changed)


def _object_changed(data: bytes, chance: random.Random) -> bytes:
    objects = _PDF_OBJECT.findall(data)
    if not objects:
        return damaged(data, chance)
    chosen = chance.choice(objects)
    return data.replace(chosen, chance.choice((_number_changed, _token_repeated, damaged))(chosen, chance), 1)


def _objects_moved(data: bytes, chance: random.Random) -> bytes:
    """An object is missing, doubled, or has the content of another: trees get holes and circles."""
    objects = _PDF_OBJECT.findall(data)
    if not objects:
        return damaged(data, chance)
    one, two = chance.choice(objects), chance.choice(objects)
    number = one.partition(b" ")[0]
    return data.replace(one, chance.choice((b"", one + one, two, number + b" " + two.partition(b" ")[2])), 1)


def _stream_changed(data: bytes, chance: random.Random) -> bytes:
    """A stream is repeated, compressed, or declared as something else."""
    start, found, rest = data.partition(b"stream\n")
    content, _, end = rest.partition(b"\nendstream")
    if not found or not end:
        return damaged(data, chance)
    content = content[:MAX_INPUT_BYTES] * chance.choice((1, 1, 10, 1000))
    content = content[:MAX_INFLATED_BYTES]
    filters = chance.choices(_FILTERS, k=chance.choice((1, 1, 2, 30)))
    if filters[0] == b"FlateDecode":
        copies = min(chance.choice((1, 10, 1000)), MAX_INFLATED_BYTES // (len(content) or 1))
        content = zlib.compress(content * copies, 1)[: chance.choice((None, 20))]
    declared = b"/Filter [%s] " % b" ".join(b"/" + name for name in filters)
    return start.replace(b"/Length", declared + b"/Length", 1) + found + content + b"\nendstream" + end


def _record_changed(data: bytes, chance: random.Random) -> bytes:
    """A record of a workbook has another number, length or content."""
    changed = bytearray(data)
    at, records = 3 * SECTOR_BYTES, list[int]()
    while at + 4 <= len(data) and data[at : at + 2] != b"\0\0":
        records.append(at)
        at += 4 + int.from_bytes(data[at + 2 : at + 4], "little")
    if records:
        at = chance.choice(records) + 2 * chance.randrange(8)
        changed[at : at + 2] = chance.choice(
            (b"\0\0", b"\xff\xff", b"\x01\0", b"\xff\x7f", chance.randbytes(2))
        )
    return bytes(changed)


def _word_changed(data: bytes, chance: random.Random) -> bytes:
    """A number of the header, the allocation table or the directory: chains of sectors get circles."""
    changed = bytearray(data)
    at = 4 * chance.randrange(max(1, min(len(data), 3 * SECTOR_BYTES) // 4))
    changed[at : at + 4] = struct.pack("<I", chance.choice((0, 1, 2, 3, 0xFFFFFFFE, 0x7FFFFFFF, len(data))))
    return bytes(changed)


def _tag_changed(data: bytes, chance: random.Random) -> bytes:
    """A tag is missing, at another place, or nested many times."""
    tags = list(_TAG.finditer(data[:100_000]))
    if not tags:
        return _token_repeated(data, chance)
    one, two = chance.choice(tags), chance.choice(tags)
    copies = one[0] * chance.choice((0, 2, 50, 5_000))
    if chance.random() < 0.3:
        return data[: two.start()] + copies + data[two.start() :]
    return data[: one.start()] + copies + data[one.end() :]


def _number_changed(data: bytes, chance: random.Random) -> bytes:
    numbers = list(_NUMBER.finditer(data[:100_000]))
    if not numbers:
        return _token_repeated(data, chance)
    found = chance.choice(numbers)
    return data[: found.start()] + chance.choice(_ODD_NUMBERS) + data[found.end() :]


def _token_repeated(data: bytes, chance: random.Random) -> bytes:
    """A token that means something to some parser, up to 20,000 times."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(_TOKENS) * chance.choice((1, 1, 30, 2_000, 20_000)) + data[at:]


def _encoded(data: bytes, chance: random.Random) -> bytes:
    """The text in another encoding, perhaps cut off in the middle of a character."""
    encoded = data.decode("utf-8", "replace").encode(chance.choice(_ENCODINGS), "replace")
    return encoded[: chance.choice((None, -1, -3))]


def _attached(data: bytes, chance: random.Random) -> bytes:
    """A mail with this file, and perhaps one of another format."""
    others = [
        (name, damaged(FUZZED[name], chance)) for name in chance.sample(list(FUZZED), chance.randrange(3))
    ]
    return eml_file(("file", data), *others, html=chance.random() < 0.3)


def _spliced(data: bytes, chance: random.Random) -> bytes:
    """The beginning of this file and the end of another."""
    other = FUZZED[chance.choice(list(FUZZED))]
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other)) :]
