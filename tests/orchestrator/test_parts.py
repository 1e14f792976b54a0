"""Text, images and PDF files as parts of a message."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import InvalidRequest, SettingsError
from antiphon.extras import install_command
from antiphon.orchestrator import parts
from tests.documents.files import hide_package

PNG = b"\x89PNG\r\n\x1a\n rest"
PICTURES = {
    "png": PNG,
    "jpeg": b"\xff\xd8\xff\xe0 rest",
    "gif": b"GIF89a rest",
    "webp": b"RIFF\x10\x00\x00\x00WEBP rest",
}


def make_pdf(*pages: str) -> bytes:
    """A small PDF file with one line on each page."""
    count = len(pages)
    kids = " ".join(f"{4 + number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number in range(count):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {4 + count + number} 0 R >>"
        )
    for page in pages:
        drawn = f"BT /F1 12 Tf 20 100 Td ({page}) Tj ET"
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    body, offsets = b"%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    start = len(body)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return body + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def content_of(data_url: str, media_type: str) -> bytes:
    begin = f"data:{media_type};base64,"
    assert data_url.startswith(begin)
    return base64.b64decode(data_url.removeprefix(begin))


def test_text_is_a_part() -> None:
    assert parts.text("hi") == {"type": "input_text", "text": "hi"}


@pytest.mark.requirement("SEED-004/why-multi-modal")
def test_a_url_is_passed_on() -> None:
    assert parts.image("https://x/a.png") == {"type": "input_image", "image_url": "https://x/a.png"}
    assert parts.pdf("https://x/a.pdf") == {"type": "input_file", "file_url": "https://x/a.pdf"}


@pytest.mark.requirement("SEED-004/why-multi-modal")
@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_is_recognised_by_its_content(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.dat"
    path.write_bytes(PICTURES[kind])
    for part in (parts.image(PICTURES[kind]), parts.image(path)):
        assert part["type"] == "input_image"
        assert content_of(part["image_url"], f"image/{kind}") == PICTURES[kind]


@pytest.mark.requirement("SEED-004/why-multi-modal")
def test_a_pdf_is_sent_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "plan.pdf"
    path.write_bytes(make_pdf("Hello"))
    named, nameless = parts.pdf(path), parts.pdf(make_pdf("Hello"))
    assert (named["type"], named["filename"], nameless["filename"]) == (
        "input_file",
        "plan.pdf",
        "document.pdf",
    )
    assert content_of(named["file_data"], "application/pdf") == make_pdf("Hello")


def test_the_text_of_a_pdf_is_sent_page_by_page(tmp_path: Path) -> None:
    path = tmp_path / "plan.pdf"
    path.write_bytes(make_pdf("First words", "Last words"))
    expected = {"type": "input_text", "text": "[PAGE 1]\nFirst words\n\n[PAGE 2]\nLast words"}
    assert parts.pdf_text(path) == expected
    assert parts.pdf_text(path.read_bytes()) == expected


def test_a_pdf_without_text_is_reported() -> None:
    with pytest.raises(InvalidRequest, match="contains no text"):
        parts.pdf_text(make_pdf("", " "))


def test_a_broken_pdf_is_reported() -> None:
    with pytest.raises(InvalidRequest, match="cannot be read"):
        parts.pdf_text(b"%PDF-1.4 and then nothing")


def test_a_missing_pdf_reader_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide_package(monkeypatch, tmp_path, "pypdfium2")
    with pytest.raises(SettingsError, match=re.escape(install_command("documents"))):
        parts.pdf_text(make_pdf("Hello"))


@pytest.mark.parametrize(
    ("make", "source", "why"),
    [
        (parts.image, "http://x/a.png", "not an https URL"),
        (parts.image, "a.png", "pass a Path"),
        (parts.image, b"%PDF-1.4", "Unknown image"),
        (parts.image, b"", "Unknown image"),
        (parts.image, b"RIFF\x10\x00\x00\x00WAVE", "Unknown image"),
        (parts.image, Path("/no/such/file"), "cannot be read: No such file"),
        (parts.pdf, "file:///etc/passwd", "not an https URL"),
        (parts.pdf, PNG, "not a PDF"),
        (parts.pdf, Path("/"), "cannot be read: Is a directory"),
        (parts.pdf_text, PNG, "not a PDF"),
    ],
)
def test_unsupported_content_is_rejected(make: Any, source: Any, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        make(source)
    assert caught.value.param == "source"


def test_something_may_stand_in_front_of_a_pdf_but_not_much() -> None:
    content = b"%PDF-1.4"
    assert parts.pdf(b" " * 1019 + content)["type"] == "input_file"
    with pytest.raises(InvalidRequest, match="not a PDF"):
        parts.pdf(b" " * 1020 + content)


def test_the_largest_content_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(parts, "MAX_PART_BYTES", len(PNG))
    path = tmp_path / "picture.png"
    path.write_bytes(PNG)
    assert parts.image(path) == parts.image(PNG)
    with pytest.raises(InvalidRequest, match="bytes; the limit"):
        parts.image(PNG + b"!")


def test_oversized_content_is_rejected_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.truncate(parts.MAX_PART_BYTES + 1)
    monkeypatch.setattr(Path, "read_bytes", None)
    for source in (path, bytes(parts.MAX_PART_BYTES + 1)):
        with pytest.raises(InvalidRequest, match="33,554,433 bytes"):
            parts.image(source)
