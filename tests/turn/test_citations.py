"""Markers of citations: cut out of the text wherever it is split, and left alone where they cite nothing."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.protocol.content import Logprob
from antiphon.service.responses.stages.citations import CitationStage
from antiphon.turn.chunks import (
    AnnotationAdded,
    Chunk,
    Finished,
    ItemBegun,
    TextDelta,
    UsageReported,
)
from antiphon.turn.function_forms.file_searches import Sources
from tests.turn.chunk_strategies import USAGE

SOURCES = Sources(tuple({"file_id": f"file_{number}", "filename": f"{number}.md"} for number in range(1, 13)))
MAX_MARKER = len("[1111, 1111, 1111, 1111, 1111, 1111, 1111, 1111]")

Cited = list[tuple[str, int]]


def passed(deltas: Sequence[str]) -> list[Chunk]:
    stage = CitationStage(SOURCES)
    chunks = [chunk for delta in deltas for chunk in stage.feed([TextDelta(delta)])]
    return [*chunks, *stage.feed([Finished("stop")])]


def read(chunks: Sequence[Chunk]) -> tuple[str, Cited]:
    """The text, and each cited file with the length of the text before it."""
    text, cited = "", Cited()
    for chunk in chunks:
        if isinstance(chunk, TextDelta):
            text += chunk.text
        elif isinstance(chunk, AnnotationAdded):
            cited.append((chunk.annotation["file_id"], len(text)))
    return text, cited


def cut(text: str) -> tuple[str, Cited]:
    return read(passed([text]))


@pytest.mark.requirement("HOSTED/citations-markers")
@pytest.mark.parametrize(
    ("text", "expected", "cited"),
    [
        ("Blue [1].", "Blue .", [("file_1", 5)]),
        ("Blue [1]", "Blue ", [("file_1", 5)]),
        ("[2] says so", " says so", [("file_2", 0)]),
        ("Blue [1][12].", "Blue .", [("file_1", 5), ("file_12", 5)]),
        ("Blue [1] [2].", "Blue  .", [("file_1", 5), ("file_2", 6)]),
        ("Blue [1, 2,3].", "Blue .", [("file_1", 5), ("file_2", 5), ("file_3", 5)]),
        ("Blue [1, 1].", "Blue .", [("file_1", 5)]),
        ("空は青い[1]。", "空は青い。", [("file_1", 4)]),
        ("Blue 【1】.", "Blue .", [("file_1", 5)]),
        ("Blue【1†sky.pdf】.", "Blue.", [("file_1", 4)]),
        ("\U0001f600 [1]", "\U0001f600 ", [("file_1", 2)]),
        (
            "`x` [1] and\n```\na [2]\n```\nb [3]",
            "`x`  and\n```\na [2]\n```\nb ",
            [("file_1", 4), ("file_3", 25)],
        ),
        ("open ` tick\nBlue [1]", "open ` tick\nBlue ", [("file_1", 17)]),
        ("``a ` [1]`` [2]", "``a ` [1]`` ", [("file_2", 12)]),
        ("  ```py\n[1]\n  ```\n[2]", "  ```py\n[1]\n  ```\n", [("file_2", 18)]),
    ],
)
def test_markers_become_citations(text: str, expected: str, cited: Cited) -> None:
    assert cut(text) == (expected, cited)


@pytest.mark.requirement("HOSTED/citations-text")
@pytest.mark.parametrize(
    "text",
    [
        "a[1] = b[2]",
        "f(x)[1]",
        "a[0][1]",
        "[0] [13] [1, 13] [99999]",
        "`a [1]` and ``b [2]``",
        "```\nx = [1]\n```",
        "````\n```\n[1]\n````",
        "```\na ``` [1]\n```",
        "[1](https://example.org)",
        "[] [a] [1a] [1,] [ 1 ] [1",
        "see [x][1]",
        "【a】【1",
    ],
)
def test_text_that_cites_nothing_stays(text: str) -> None:
    assert cut(text) == (text, [])


PIECES = st.sampled_from(
    [
        "a",
        " ",
        "\n",
        "`",
        "``",
        "```",
        "[",
        "]",
        "1",
        "2",
        "13",
        ", ",
        "(",
        "【",
        "】",
        "†",
        "[1]",
        " [2]",
        "【3】",
    ]
)


@given(st.lists(PIECES, max_size=14), st.data())
@example(["[1]", "(", "a"], None)
def test_any_split_gives_the_same(pieces: list[str], data: st.DataObject | None) -> None:
    text = "".join(pieces)
    whole = cut(text)
    assert read(passed(list(text))) == whole
    if data is not None:
        borders = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        deltas = [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]
        assert read(passed(deltas)) == whole


@given(st.lists(PIECES, max_size=14))
def test_no_more_than_a_marker_is_held(pieces: list[str]) -> None:
    stage = CitationStage(SOURCES)
    fed = passed_on = removed = 0
    for piece in pieces:
        fed += len(piece)
        before = passed_on
        for chunk in stage.feed([TextDelta(piece)]):
            passed_on += len(chunk.text) if isinstance(chunk, TextDelta) else 0
            removed += MAX_MARKER if isinstance(chunk, AnnotationAdded) else 0
        assert fed - passed_on - removed <= MAX_MARKER
        assert passed_on >= before


def test_a_text_without_markers_passes_at_once() -> None:
    stage = CitationStage(SOURCES)
    for piece in ("Hello", " world", "\n- a", " `b`", " [not one] ", "1]"):
        assert stage.feed([TextDelta(piece)]) == [TextDelta(piece)]


def test_another_item_ends_the_message() -> None:
    stage = CitationStage(SOURCES)
    assert stage.feed([TextDelta("`open [1")]) == [TextDelta("`open [1")]
    usage = UsageReported(USAGE)
    assert stage.feed([usage, ItemBegun(), TextDelta("x [1"), TextDelta("]"), usage]) == [
        usage,
        ItemBegun(),
        TextDelta("x "),
        usage,
    ]
    chunks = stage.feed([Finished("stop")])
    assert [type(chunk) for chunk in chunks] == [AnnotationAdded, Finished]


def test_log_probabilities_stay_with_the_text() -> None:
    tokens = [Logprob(token=token, logprob=-1.0, bytes=[], top_logprobs=[]) for token in ("a ", "[1]", " b")]
    stage = CitationStage(SOURCES)
    chunks = [chunk for token in tokens for chunk in stage.feed([TextDelta(token.token, (token,))])]
    assert [chunk.logprobs for chunk in chunks if isinstance(chunk, TextDelta)] == [
        (tokens[0],),
        tuple(tokens[1:]),
    ]
