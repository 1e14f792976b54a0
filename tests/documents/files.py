"""Files of every format, made for tests."""

import io
import zipfile
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import docx
import pptx
import pytest
import xlsxwriter
from PIL import Image

from tests.documents.pdf_file import pdf_file


def hide_package(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str) -> None:
    """Let children find no package of this name."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError(name={name!r})\n")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")


def _saved(made: Any) -> bytes:
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


def docx_file(rows: Sequence[Sequence[str]] = (("name", "price"), ("tea", "3"))) -> bytes:
    """A report with headings, a list and a table."""
    report: Any = docx.Document()
    report.add_heading("Report", 0)
    report.add_heading("Costs", 1)
    report.add_paragraph("All of them:")
    report.add_paragraph("tea", style="List Bullet")
    report.add_paragraph("cake", style="List Bullet")
    table = report.add_table(rows=len(rows), cols=len(rows[0]))
    for row, cells in zip(table.rows, rows, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    report.add_paragraph("The end.")
    return _saved(report)


def pptx_file() -> bytes:
    """Two slides: one with notes, one with a table and a group."""
    talk: Any = pptx.Presentation()
    first = talk.slides.add_slide(talk.slide_layouts[1])
    first.shapes.title.text = "Plan"
    first.placeholders[1].text = "Ship it"
    first.notes_slide.notes_text_frame.text = "Do not mention the delay."
    second = talk.slides.add_slide(talk.slide_layouts[6])
    table = second.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for row, texts in enumerate((("who", "when"), ("Ada", "May"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 100, 100).text_frame.text = "grouped words"
    return _saved(talk)


def xlsx_file(sheets: dict[str, Sequence[Sequence[object]]]) -> bytes:
    """A workbook of these sheets."""
    file = io.BytesIO()
    book: Any = xlsxwriter.Workbook(file)
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for number, row in enumerate(rows):
            sheet.write_row(number, 0, row)
    book.close()
    return file.getvalue()


def eml_file(*attachments: tuple[str, bytes], html: bool = False) -> bytes:
    """A mail with these attachments."""
    mail = EmailMessage()
    mail["From"] = "Ada <ada@example.com>"
    mail["To"] = "bob@example.com"
    mail["Subject"] = "Größe"
    if html:
        mail.set_content("<h1>Offer</h1><p>Buy <b>now</b>", subtype="html")
    else:
        mail.set_content("Dear Bob,\n\nsee below.\n")
    for name, data in attachments:
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return mail.as_bytes()


def scanned_pdf(pages: int = 2) -> bytes:
    """A PDF whose pages are pictures."""
    file = io.BytesIO()
    images = [Image.new("RGB", (60, 80), (number * 40 % 255, 90, 90)) for number in range(pages)]
    images[0].save(file, "PDF", save_all=True, append_images=images[1:])
    return file.getvalue()


def zip_file(members: dict[str, bytes]) -> bytes:
    """An archive of these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def rezipped(data: bytes, changed: dict[str, bytes]) -> bytes:
    """An archive with some members replaced."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return zip_file(members | changed)


HTML = b"""<!DOCTYPE html><html><head><title>Shop</title><style>p {color: red}</style></head><body>
<h2>Prices</h2><p>All&nbsp;of <b>them</b>:</p><ul><li>tea<li>cake</ul>
<table><tr><th>name<th>price<tr><td>tea</td><td>3</td></tr></table>
<pre>one
  two</pre><script>alert("no")</script></body></html>"""
RTF = rb"{\rtf1\ansi\ansicpg1252 Hello {\b bold} caf\'e9\par second line}"
SAMPLES: dict[str, bytes] = {
    "a.pdf": pdf_file("Hello cat", "Hello dog"),
    "a.docx": docx_file(),
    "a.pptx": pptx_file(),
    "a.xlsx": xlsx_file({"Costs": [["name", "price"], ["tea", 3]]}),
    "a.csv": b"name,price\ntea,3\ncake,4\n",
    "a.html": HTML,
    "a.md": b"# Title\n\nSome *text*.\n",
    "a.txt": "Größe".encode("utf-16"),
    "a.json": b'{"name": "tea", "price": 3}',
    "a.eml": eml_file(("a.csv", b"name,price\ntea,3\n")),
    "a.rtf": RTF,
    "a.py": b"def f():\n    return 1\n",
}
