"""Chunking: every line once, exact spans, and natural boundaries."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.documents.document import Document, Section
from antiphon.documents.tables import markdown_table
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.chunking import cut, cut_document, language_of
from antiphon.retrieval.lines import MAX_CHARS, MAX_LINES, TARGET_CHARS, TARGET_LINES

NAMES = ["a.md", "a.py", "a.ts", "a.txt", "a.pdf", "LICENSE"]
LINES = r"""

# A
## B ##
###
```
~~~~
text here
class A:
    def f(self):
    pass
def g():
x = (
)
}
@d
'''
	foo
"""
LINE = st.sampled_from(
    [*LINES.split("\n"), "  ", "\f", "x" * 300, "y" * (MAX_CHARS + 3), "a\u2028b", "c\x0cd"]
)
ENDING = st.sampled_from(["\n", "\n", "\r\n", "\r"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    pieces = draw(st.lists(st.tuples(LINE, ENDING, st.integers(1, 40)), max_size=30))
    return "".join((line + end) * count for line, end, count in pieces) + draw(LINE)


PYTHON = st.sampled_from(
    [
        "import os, sys",
        "x = 1; y = 2",
        'f("""\n\nhere\n"""); g("""\n""")',
        "# a remark",
        "\f",
        "",
        "@d\n@e(\n  1)\nasync def f():\n    pass\n    # inside",
        "if x:\n    def g(): ...\nelse:\n    pass",
        "class A: pass",
        'class B(A):\n    """Says."""\n' + "    x = 1; y = 2\n\n    def m(self):\n        pass\n" * 30,
        "class C:\n" + "    class D:\n" + "        def m(self):\n            return 1\n\n" * 40 + "    # end",
    ]
)


@st.composite
def python_texts(draw: st.DrawFn) -> str:
    return "\n".join(draw(st.lists(PYTHON, max_size=12)))


CASES = st.tuples(st.sampled_from(NAMES), texts() | st.text()) | st.tuples(st.just("a.py"), python_texts())


def lines_of(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def symbols(chunks: list[RagChunk]) -> list[tuple[str, str]]:
    return [(chunk.symbol, chunk.symbol_type) for chunk in chunks]


@given(CASES)
def test_every_nonblank_line_is_in_exactly_one_chunk_in_order(case: tuple[str, str]) -> None:
    name, text = case
    chunks = cut(name, text)
    covered = [number for chunk in chunks for number in range(chunk.start_line, chunk.end_line + 1)]
    seen = [number for number, line in enumerate(lines_of(text), 1) if line.strip()]
    assert [number for number in covered if lines_of(text)[number - 1].strip()] == seen
    assert all(one.end_line < other.start_line for one, other in pairwise(chunks))


@given(CASES)
def test_a_chunk_equals_its_lines_and_is_within_limits(case: tuple[str, str]) -> None:
    name, text = case
    chunks = cut(name, text)
    lines = lines_of(text)
    for chunk in chunks:
        exact = lines[chunk.start_line - 1 : chunk.end_line]
        assert chunk.text == "\n".join(line[:MAX_CHARS] for line in exact)
        assert exact[0].strip()
        assert exact[-1].strip()
        assert len(exact) <= MAX_LINES
        assert len(chunk.text) <= MAX_CHARS
    assert len({chunk.id for chunk in chunks}) == len(chunks)


def test_a_section_of_markdown_is_a_chunk_named_by_its_headings() -> None:
    text = "before\n\n# Guide\n\nhello\n\n## Runs ##\n\nmore\n\n```sh\n# no heading\n```\n\n# End\nbye\n"
    chunks = cut("docs/guide.md", text)
    assert symbols(chunks) == [
        ("", ""),
        ("Guide", "section"),
        ("Guide > Runs", "section"),
        ("End", "section"),
    ]
    assert (chunks[2].start_line, chunks[2].end_line) == (7, 13)
    assert chunks[2].text == "## Runs ##\n\nmore\n\n```sh\n# no heading\n```"
    assert chunks[2].language == "markdown"


def test_a_heading_without_text_is_merged_with_the_next_one() -> None:
    chunks = cut("a.md", "# Title\n\n## First\n\ntext\n\n## Second\n\ntext\n")
    assert symbols(chunks) == [("Title > First", "section"), ("Title > Second", "section")]
    assert chunks[0].text.startswith("# Title\n\n## First")


def test_a_longer_fence_is_closed_only_by_its_like() -> None:
    chunks = cut("a.md", "# A\n````\n```\n# code\n```` no\n# code\n````\n# B\ntext\n")
    assert [chunk.symbol for chunk in chunks] == ["A", "B"]


def test_python_is_split_into_its_definitions() -> None:
    source = 'import os\n\nX = 1\n\n# why\n@cached\ndef one():\n    """\ndef no(): ...\n    """\n\nclass Two:\n    def f(self): ...\n'
    chunks = cut("src/a.py", source)
    assert symbols(chunks) == [("", ""), ("one", "function"), ("Two", "class")]
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [(1, 3), (5, 10), (12, 13)]
    assert chunks[1].text.startswith("# why\n@cached\ndef one")


def test_a_long_class_is_split_into_its_methods() -> None:
    method = "    def m{0}(self):\n" + "        pass\n" * 30 + "\n"
    source = "class Big:\n    x = 1\n\n" + "".join(method.format(number) for number in range(3))
    chunks = cut("a.py", source)
    assert symbols(chunks) == [("Big", "class"), *((f"Big.m{number}", "method") for number in range(3))]


@pytest.mark.parametrize(
    "broken",
    ["def (:\n", "x = 1\0\n", "-" * 90_000 + "1", "a." * 40_000 + "a", "(" * 500],
    ids=lambda text: text[:5],
)
def test_unparsable_python_is_split_as_code(broken: str) -> None:
    chunks = cut("a.py", broken + "\n\nx\n")
    assert chunks[0].start_line == 1
    assert chunks[-1].end_line == broken.count("\n") + 3


def test_code_is_not_split_within_a_top_level_block_if_avoidable() -> None:
    block = "function f() {\n" + "  go();\n\n" * 20 + "}\n\n"
    chunks = cut("a.ts", block * 4)
    assert len(chunks) == 4
    assert all(chunk.text.startswith("function") and chunk.text.endswith("}") for chunk in chunks)


def test_plain_text_is_split_between_paragraphs() -> None:
    paragraph = "word " * 100 + "\n" + "more\n"
    chunks = cut("a.txt", f"{paragraph}\n" * 20)
    assert all(chunk.text.startswith("word") and chunk.text.endswith("more") for chunk in chunks)
    assert all(TARGET_CHARS / 2 < len(chunk.text) <= TARGET_CHARS for chunk in chunks)


def test_lines_without_a_gap_are_split_at_the_target() -> None:
    spans = [(chunk.start_line, chunk.end_line) for chunk in cut("a.csv", "row\n" * 300)]
    assert spans[0] == (1, TARGET_LINES)
    assert spans[-1][1] == 300


def test_the_sentence_before_a_long_table_is_in_its_chunk() -> None:
    table = "| a row | of a table | that is wide |\n" * 80
    [chunk] = cut("a.md", f"# T\n\nAll of them:\n\n{table}\nThat was it.\n")
    assert chunk.text.startswith("# T")
    assert chunk.text.endswith("it.")


def test_chunks_of_a_document_name_their_pages() -> None:
    pages = [Section(text, f"page {number}", "page") for number, text in enumerate(("one", "", "three"), 1)]
    found = cut_document("a.pdf", Document("pdf", tuple(pages)))
    assert symbols(found) == [("page 1", "page"), ("page 3", "page")]
    assert {chunk.language for chunk in found} == {"plaintext"}


def test_a_converted_document_is_cut_at_its_headings() -> None:
    found = cut_document("a.docx", Document("docx", (Section("# A\n\none\n\n## B\n\ntwo"),)))
    assert symbols(found) == [("A", "section"), ("A > B", "section")]
    assert {chunk.language for chunk in found} == {"markdown"}


def test_every_chunk_of_a_long_table_has_its_header() -> None:
    rows = [["name", "price"], *([f"thing {number}", str(number)] for number in range(1000))]
    document = Document("csv", (Section(markdown_table(rows, 10**6)),))
    found = cut_document("a.csv", document)
    assert len(found) > 5
    assert all(chunk.text.startswith("| name | price |\n| --- | --- |\n") for chunk in found)
    assert "\n".join(chunk.text for chunk in found).count("| thing ") == 1000


def test_an_id_survives_a_change_above_and_dies_with_its_text() -> None:
    before = cut("a.md", "# A\n\none\n\n# B\n\ntwo\n")
    moved = cut("a.md", "# A\n\none\n\nmore\n\n# B\n\ntwo\n")
    edited = cut("a.md", "# A\n\none\n\n# B\n\nTWO\n")
    assert before[1].id == moved[1].id
    assert before[1].start_line != moved[1].start_line
    assert before[0].id != moved[0].id
    assert before[1].id != edited[1].id
    assert before[0].id.startswith("a.md#")


def test_equal_texts_have_different_ids() -> None:
    first, second = cut("a.md", "# A\n\none\n\n# B\n\ntwo\n\n# A\n\none\n")[::2]
    assert second.id == f"{first.id}-2"


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a.cs", "csharp"),
        ("a.ts", "typescript"),
        ("a.tsx", "tsx"),
        ("a.js", "javascript"),
        ("a.json", "json"),
        ("a.css", "scss"),
        ("a.xml", "xml"),
        ("b/README.MD", "markdown"),
        ("a.py", "python"),
        ("a.rs", "rust"),
        ("Makefile", "plaintext"),
        ("a.pdf", "plaintext"),
    ],
)
def test_the_language_is_known_by_the_extension(path: str, language: str) -> None:
    assert language_of(path) == language
