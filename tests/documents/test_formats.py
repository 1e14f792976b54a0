"""What is read of every format."""

import datetime
import io
import time
import zipfile

import pytest

from antiphon.documents import document as document_module
from antiphon.documents.document import Document, SectionList, Unreadable
from antiphon.documents.formats.eml import MAX_HEADER_CHARS
from antiphon.documents.reading import read_document
from antiphon.documents.tables import MAX_TABLE_ROWS, markdown_table
from tests.documents.files import HTML, RTF, SAMPLES, docx_file, eml_file, pptx_file, scanned_pdf, xlsx_file
from tests.documents.pdf_file import pdf_file


def labels(document: Document) -> list[str]:
    return [section.label for section in document.sections]


@pytest.mark.requirement("DOCUMENTS/types-by-content")
@pytest.mark.parametrize("name", SAMPLES)
def test_the_kind_is_known_by_the_content(name: str) -> None:
    kinds = {"md": "markdown", "txt": "text", "py": "code"}
    extension = name.removeprefix("a.")
    kind = kinds.get(extension, extension)
    assert read_document(SAMPLES[name], name).kind == kind
    if kind not in ("code", "csv"):
        assert read_document(SAMPLES[name], "").kind == kind
    if extension in ("pdf", "docx", "pptx", "xlsx", "rtf", "html", "eml"):
        assert read_document(SAMPLES[name], "misleading.txt").kind == kind


@pytest.mark.requirement("DOCUMENTS/types-structure")
def test_a_pdf_has_pages() -> None:
    document = read_document(pdf_file("Hello cat", "Hello dog"))
    assert [(page.label, page.type, page.text) for page in document.sections] == [
        ("page 1", "page", "Hello cat"),
        ("page 2", "page", "Hello dog"),
    ]
    assert document.text == "Hello cat\n\f\nHello dog"


def test_pages_without_text_keep_their_places() -> None:
    document = read_document(pdf_file("Hello cat", "", "Hello dog"))
    assert labels(document) == ["page 1", "page 2", "page 3"]
    assert document.empty_pages == (2,)
    assert document.omissions == ("page 2 has no text",)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_whose_first_member_cannot_be_unpacked_is_damaged(compression: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet" * 9)
    data = bytearray(file.getvalue())
    data[38:48] = b"\xff" * 10
    with pytest.raises(Unreadable, match="its ZIP archive cannot be read"):
        read_document(bytes(data), "a.ods")


@pytest.mark.requirement("DOCUMENTS/limits-scan")
def test_a_scan_is_called_a_scan() -> None:
    with pytest.raises(Unreadable, match="is a scan: its 2 pages are pictures without text") as caught:
        read_document(scanned_pdf(2))
    assert caught.value.code == "invalid_file"


def test_a_pdf_of_blank_pages_is_no_scan() -> None:
    with pytest.raises(Unreadable, match="contains no text"):
        read_document(pdf_file("", " "))


@pytest.mark.requirement("DOCUMENTS/types-structure")
def test_a_docx_becomes_markdown() -> None:
    assert read_document(docx_file()).text == (
        "# Report\n\n# Costs\n\nAll of them:\n\n- tea\n- cake\n\n"
        "| name | price |\n| --- | --- |\n| tea | 3 |\n\nThe end."
    )


def test_a_cell_over_several_columns_has_its_text_once() -> None:
    import docx  # noqa: PLC0415

    report = docx.Document()
    table = report.add_table(rows=2, cols=3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "both"
    table.cell(0, 2).text = "third"
    for column in range(3):
        table.cell(1, column).text = str(column)
    file = io.BytesIO()
    report.save(file)
    assert read_document(file.getvalue()).text.splitlines()[0] == "| both |  | third |"


@pytest.mark.requirement("DOCUMENTS/types-structure")
def test_a_presentation_has_slides_with_notes() -> None:
    document = read_document(pptx_file())
    assert labels(document) == ["slide 1", "slide 2"]
    first, second = document.sections
    assert first.text == "# Plan\n\nShip it\n\nNotes: Do not mention the delay."
    assert second.text == "| who | when |\n| --- | --- |\n| Ada | May |\n\ngrouped words"


@pytest.mark.requirement("DOCUMENTS/types-structure")
def test_a_spreadsheet_has_named_sheets() -> None:
    rows = [["name", "price", "on"], ["tea", 3, True], ["a|b", 2.5, False]]
    document = read_document(xlsx_file({"Costs": rows, "Empty": [], "More": [["x"], [1]]}))
    assert labels(document) == ["sheet Costs", "sheet More"]
    assert document.sections[0].text == (
        "| name | price | on |\n| --- | --- | --- |\n| tea | 3 | TRUE |\n| a\\|b | 2.5 | FALSE |"
    )


def test_dates_in_spreadsheets_are_readable() -> None:
    from antiphon.documents.formats.spreadsheet import _shown  # noqa: PLC0415 # pyright: ignore[reportPrivateUsage]

    assert _shown(datetime.datetime(2026, 11, 18)) == "2026-11-18"
    assert _shown(datetime.datetime(2026, 11, 18, 9, 30)) == "2026-11-18 09:30:00"


def test_a_spreadsheet_without_cells_has_no_text() -> None:
    with pytest.raises(Unreadable, match="The spreadsheet contains no text"):
        read_document(xlsx_file({"Empty": []}))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_becomes_a_table(separator: str) -> None:
    text = f'name{separator}"what, it; is"\ntea{separator}"hot\ndrink"\n'
    assert read_document(text.encode(), "a.csv").text == (
        "| name | what, it; is |\n| --- | --- |\n| tea | hot drink |"
    )


@pytest.mark.requirement("DOCUMENTS/types-long-tables")
def test_a_long_table_repeats_its_header() -> None:
    table = markdown_table([["n"], *([str(number)] for number in range(100))], 10_000)
    parts = table.split("\n\n")
    assert len(parts) == 3
    assert all(part.startswith("| n |\n| --- |\n") for part in parts)
    assert parts[0].count("\n") == MAX_TABLE_ROWS + 1


@pytest.mark.requirement("DOCUMENTS/types-structure")
def test_html_becomes_markdown() -> None:
    assert read_document(HTML).text == (
        "# Shop\n\n## Prices\n\nAll of them:\n\n- tea\n- cake\n\n"
        "| name | price |\n| --- | --- |\n| tea | 3 |\n\n```\none\n  two\n```"
    )


def test_a_page_may_name_its_encoding() -> None:
    page = '<html><meta charset="iso-8859-5"><p>Привет'.encode("iso-8859-5")
    assert read_document(page).text == "Привет"


def test_a_mail_has_headers_text_and_attachments() -> None:
    document = read_document(eml_file(("a.csv", b"x,y\n1,2\n"), ("a.bin", b"\0\1\2\3")))
    assert labels(document) == ["", "attachment a.csv"]
    assert document.sections[0].text.startswith(
        "From: Ada <ada@example.com>\nTo: bob@example.com\nSubject: Größe"
    )
    assert "see below." in document.sections[0].text
    assert document.sections[1].text == "| x | y |\n| --- | --- |\n| 1 | 2 |"
    [omitted] = document.omissions
    assert omitted.startswith("the attachment 'a.bin' is left out: This is a binary file")


@pytest.mark.parametrize("header", ["To", "Subject", "Content-Type"])
def test_a_long_header_of_a_mail_is_cut_off(header: str) -> None:
    """The time to parse a header rises with the square of its length."""
    mail = b'From: Ada <ada@example.com>\nMIME-Version: 1.0\n%b: text/plain; a="' % header.encode()
    began = time.process_time()
    document = read_document(mail + b"/Kids [2 0 R]\\" * 20_000 + b"\n\nThe text of the mail.\n")
    assert "The text of the mail." in document.text
    assert len(document.text) < 3 * MAX_HEADER_CHARS
    assert time.process_time() - began < 5


def test_a_mail_in_html_becomes_markdown() -> None:
    assert "# Offer\n\nBuy now" in read_document(eml_file(html=True)).text


def test_mails_in_mails_are_read_up_to_a_depth() -> None:
    mail = eml_file(("a.txt", b"the innermost words"))
    for _ in range(6):
        mail = eml_file(("inner.eml", mail))
    document = read_document(mail)
    assert "the innermost words" not in document.text
    assert document.text.count("see below.") == 4


def test_rtf_becomes_text() -> None:
    assert read_document(RTF).text == "Hello bold café\nsecond line"


@pytest.mark.requirement("DOCUMENTS/types-encodings")
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
def test_unicode_text_in_any_encoding(encoding: str) -> None:
    text = "A letter about the price of tea, € 3.\n" * 3
    assert read_document(text.encode(encoding), "a.txt").text == text


@pytest.mark.requirement("DOCUMENTS/types-encodings")
@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Die Größe der Äpfel und die Süße der Früchte überraschten alle Gäste sehr. "),
        ("cp1251", "Быстрая коричневая лиса перепрыгивает через ленивую собаку каждый день. "),
        ("shift_jis", "日本語の文章を正しく読み取ることができるかどうかを確認します。"),
        ("gb18030", "我们要检查这个程序是否能够正确地读取中文文本文件。"),
    ],
)
def test_text_in_older_encodings(encoding: str, text: str) -> None:
    assert read_document((text * 20).encode(encoding), "a.txt").text == text * 20


def test_json_on_one_long_line_is_indented() -> None:
    text = '{"rows": [' + ", ".join('{"name": "ä"}' for _ in range(500)) + "]}"
    assert read_document(text.encode(), "a.json").text.startswith('{\n "rows": [\n  {\n   "name": "ä"\n  },')
    short = b'{"name":   "tea"}'
    assert read_document(short).text == short.decode()


def test_halves_of_surrogate_pairs_are_replaced() -> None:
    text = '{"x": "\\ud800", "y": "' + "y" * 3000 + '"}'
    assert '"x": "?"' in read_document(text.encode(), "a.json").text


def test_source_code_stays_as_it_is() -> None:
    source = "\n\n  def f():\n\treturn 1\n"
    assert read_document(source.encode(), "a.py").text == source


@pytest.mark.parametrize(
    ("data", "code", "why"),
    [
        (b"", "invalid_file", "empty"),
        (b"  \n", "invalid_file", "contains no text"),
        (b"\x89PNG\r\n\x1a\n....", "unsupported_file", "an image .PNG"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0", "unsupported_file", "binary file"),
        (b"PK\x03\x04 and nothing", "invalid_file", "damaged"),
        (b"%PDF-1.7 and nothing", "invalid_file", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "unsupported_file", "Office 97"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, code: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        read_document(data)
    assert caught.value.code == code


def test_text_beyond_the_limit_is_left_out_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SectionList("file", max_chars=10)
    found.add("12345678", "page 1", "page")
    found.add("12345678", "page 2", "page")
    assert found.is_full
    document = found.document("pdf")
    assert [section.text for section in document.sections] == ["12345678", "12"]
    assert document.omissions == ("the text after the first 10 characters is left out",)
    assert document_module.MAX_TEXT_CHARS >= 1_000_000
