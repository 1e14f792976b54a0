"""A file of each format that is read, some of them more than those of the other tests."""

import io
import struct
import zipfile

from tests.documents.files import SAMPLES, scanned_pdf

SECTOR_BYTES = 512
_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_ODS_CONTENT = b"""<?xml version="1.0" encoding="UTF-8"?>
<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" office:version="1.2"><office:body>
<office:spreadsheet><table:table table:name="Costs">
<table:table-row><table:table-cell office:value-type="string"><text:p>name</text:p></table:table-cell>
<table:table-cell office:value-type="string"><text:p>price</text:p></table:table-cell></table:table-row>
<table:table-row table:number-rows-repeated="2"><table:table-cell table:number-columns-repeated="2"
 office:value-type="float" office:value="3"><text:p>3</text:p></table:table-cell></table:table-row>
</table:table></office:spreadsheet></office:body></office:document-content>""".replace(
    b"\n<", b"<"
)  # between cells no white space is allowed


def ods_file() -> bytes:
    """A spreadsheet of OpenDocument with a sheet of three rows."""
    mime = b"application/vnd.oasis.opendocument.spreadsheet"
    manifest = (
        b'<?xml version="1.0"?><m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:  # the standard wants an uncompressed member `mimetype`
        for name, data in (
            ("mimetype", mime),
            ("content.xml", _ODS_CONTENT),
            ("META-INF/manifest.xml", manifest),
        ):
            archive.writestr(name, data)
    return file.getvalue()


def xls_file() -> bytes:
    """A workbook of Excel 97 with a sheet of two cells, in a compound file."""
    start = _record(0x809, struct.pack("<HHHHII", 0x600, 5, 0, 0, 0, 0))
    name = bytes([0, 0, 5, 0]) + b"Costs"
    offset = len(start) + 4 + 4 + len(name) + 4
    book = start + _record(0x85, struct.pack("<I", offset) + name) + _record(0x0A, b"")
    sheet = _record(0x809, struct.pack("<HHHHII", 0x600, 0x10, 0, 0, 0, 0))
    sheet += _record(0x200, struct.pack("<IIHHH", 0, 1, 0, 2, 0))
    sheet += _record(0x204, struct.pack("<HHHHB", 0, 0, 0, 3, 0) + b"tea")
    sheet += _record(0x203, struct.pack("<HHHd", 0, 1, 0, 3.0)) + _record(0x0A, b"")
    return _compound_file((book + sheet).ljust(8 * SECTOR_BYTES, b"\0"))


def _record(number: int, data: bytes) -> bytes:
    return struct.pack("<HH", number, len(data)) + data


def _compound_file(stream: bytes) -> bytes:
    """A compound file with the one stream `Workbook`: allocation table, directory, then the stream."""
    sectors = len(stream) // SECTOR_BYTES
    table = [_FAT, _END, *range(3, sectors + 2), _END]
    header = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16)
    header += struct.pack("<HHHHH6xIIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096, _END, 0, _END, 0, 0)
    root = _entry("Root Entry", 5, 1, _END, 0)
    book = _entry("Workbook", 2, _FREE, 2, len(stream))
    allocation = struct.pack(f"<{len(table)}I", *table).ljust(SECTOR_BYTES, b"\xff")
    return (
        header.ljust(SECTOR_BYTES, b"\xff") + allocation + (root + book).ljust(SECTOR_BYTES, b"\0") + stream
    )


def _entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
    encoded = name.encode("utf-16-le") + b"\0\0"
    links = struct.pack("<HBBIII", len(encoded), kind, 1, _FREE, _FREE, child)
    return encoded.ljust(64, b"\0") + links + bytes(36) + struct.pack("<IQ", start, size)


FUZZED: dict[str, bytes] = {
    **SAMPLES,
    "scan.pdf": scanned_pdf(),
    "a.ods": ods_file(),
    "a.xls": xls_file(),
    "long.json": b'{"rows": [' + b", ".join([b'{"name": "tea", "price": 3}'] * 100) + b"]}",
}
