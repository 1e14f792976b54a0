"""Documents in chunks of so many tokens."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.documents.document import Document, Kind, Section
from antiphon.retrieval.token_chunks import BYTES_PER_TOKEN, TextChunk, cut_document

PROSE = " ".join(f"Sentence number {number} says a little." for number in range(400))


def cut(text: str, max_tokens: int = 100, overlap: int = 0, kind: Kind = "text") -> list[TextChunk]:
    return list(cut_document(Document(kind, (Section(text),)), max_tokens, overlap))


@given(
    st.lists(st.text(st.sampled_from("ab .\n|#-é東\t"), max_size=600), max_size=6),
    st.sampled_from([(100, 0), (100, 50), (150, 20)]),
    st.sampled_from(["text", "markdown"]),
)
def test_chunks_are_small_and_nothing_is_lost(texts: list[str], sizes: tuple[int, int], kind: Kind) -> None:
    document = Document(kind, tuple(Section(text, f"page {n}") for n, text in enumerate(texts)))
    chunks = list(cut_document(document, *sizes))
    for chunk in chunks:
        assert 0 < len(chunk.text.encode()) <= sizes[0] * BYTES_PER_TOKEN
        assert chunk.text.strip()
    joined = "".join(chunk.text for chunk in chunks)
    for text in texts:
        for word in text.split():
            assert word[:40] in joined or len(word.encode()) > 40
    if not sizes[1] and "|" not in joined:
        assert "".join(joined.split()) == "".join("".join(texts).split())


def test_chunks_end_after_sentences() -> None:
    chunks = cut(PROSE)
    assert len(chunks) > 10
    assert all(chunk.text.rstrip().endswith(".") for chunk in chunks)


@pytest.mark.parametrize("separator", [" ", "\n", "\n\n"])
def test_the_next_chunk_repeats_the_overlap_and_no_more(separator: str) -> None:
    text = PROSE.replace(". ", f".{separator}")
    chunks = cut(text, 200, 50)
    for one, other in pairwise(chunks):
        shared = max(
            size
            for size in range(len(one.text) + 1)
            if other.text.startswith(one.text[len(one.text) - size :])
        )
        assert 100 < shared <= 50 * BYTES_PER_TOKEN


def test_a_chunk_lies_within_one_page() -> None:
    document = Document(
        "pdf", (Section("First page.", "page 1", "page"), Section("Second.", "page 2", "page"))
    )
    assert [(chunk.text, chunk.label) for chunk in cut_document(document, 800, 400)] == [
        ("First page.", "page 1"),
        ("Second.", "page 2"),
    ]


def test_paragraphs_and_headings_are_preferred() -> None:
    text = "# One\n\n" + "word " * 50 + "\n\n## Two\n\n" + "more " * 50 + "\n\nlast paragraph"
    chunks = cut(text, 100, 0, "markdown")
    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["# One", "## Two"]
    assert [chunk.label for chunk in chunks] == ["One", "One > Two"]
    assert [chunk.context for chunk in chunks] == ["", "One"]
    assert chunks[1].embedded_text.startswith("One\n## Two")
    assert "on" in chunks[1].terms()


def test_a_chunk_below_a_heading_knows_it() -> None:
    chunks = cut("# Setup\n\n" + "\n\n".join("word " * 60 for _ in range(3)), 100, 0, "markdown")
    assert [chunk.context for chunk in chunks[1:]] == ["Setup"] * (len(chunks) - 1)


def test_the_header_of_a_table_is_repeated() -> None:
    rows = "\n".join(f"| {number} | item {number} |" for number in range(100))
    chunks = cut(f"Prices:\n\n| price | item |\n|---|---|\n{rows}\n\nThe end.", 100, 0, "markdown")
    assert len(chunks) > 3
    assert all("| price | item |\n|---|---|" in chunk.text for chunk in chunks[1:-1])
    assert sum(chunk.text.count("| item 42 |") for chunk in chunks) == 1


def test_a_long_header_is_not_repeated() -> None:
    header = "| " + "wide " * 50 + "|"
    rows = "\n".join(f"| {number} " + "x" * 50 + "|" for number in range(50))
    chunks = cut(f"{header}\n|---|\n{rows}", 100, 0, "markdown")
    assert sum("wide" in chunk.text for chunk in chunks) == 1


def test_a_text_without_spaces_is_cut_between_characters() -> None:
    chunks = cut("東" * 1000, 100)
    assert "".join(chunk.text for chunk in chunks) == "東" * 1000
