"""Calls are read from the text of every dialect, for any split; everything else is text."""

import typing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.backends.chat_completions.stream import StreamReader
from antiphon.backends.registry import default_endpoint
from antiphon.protocol.sse import SseReader
from antiphon.settings import TextCalls
from antiphon.turn.chunks import Chunk
from antiphon.turn.text_calls.dialects import DIALECTS, dialects_named
from tests.turn.text_calls.feeding import Result, feed_all, feed_text, recovery, result_of
from tests.turn.text_calls.samples import CALLS, TEXTS


@pytest.mark.parametrize(("dialect", "text", "expected"), CALLS)
def test_calls_are_read_from_the_text_of_a_dialect(dialect: str, text: str, expected: Result) -> None:
    assert feed_text(text, dialect) == expected


@pytest.mark.parametrize(("dialect", "text", "expected"), CALLS)
def test_any_split_of_the_text_yields_the_same_result(dialect: str, text: str, expected: Result) -> None:
    assert result_of(feed_all(text, dialect)) == expected
    for cut in range(1, len(text)):
        assert result_of(feed_all([text[:cut], text[cut:]], dialect)) == expected


@pytest.mark.parametrize(("dialect", "text"), TEXTS)
def test_text_without_a_call_is_unchanged(dialect: str, text: str) -> None:
    for pieces in ([text], list(text), *([text[:cut], text[cut:]] for cut in range(1, len(text)))):
        chunks = feed_all(pieces, dialect)
        assert result_of(chunks) == Result(text, [])


TAGS = ["<tool_call>", "</tool_call>", "<function=look>", '{"name":"look"}', '"', "\n", " ", "words"]
FRAGMENTS = [*(text for _, text, _ in CALLS), *(text for _, text in TEXTS), *TAGS]


@given(
    fragments=st.lists(st.sampled_from(FRAGMENTS), max_size=5),
    dialect=st.sampled_from(["auto", *DIALECTS]),
    data=st.data(),
)
@settings(max_examples=300)
def test_any_splits_of_any_mixture_yield_the_same_result(
    fragments: list[str], dialect: str, data: st.DataObject
) -> None:
    text = "".join(fragments)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    unsplit = feed_text(text, dialect)
    assert result_of(feed_all(pieces, dialect)) == unsplit
    assert result_of(feed_all(text, dialect)) == unsplit


@given(
    text=st.text(alphabet='<>/[]{}"\\,:tol_calfunction=look \n`', max_size=120),
    dialect=st.sampled_from(["auto", *DIALECTS]),
)
@settings(max_examples=300)
def test_no_text_is_lost_where_no_call_is_found(text: str, dialect: str) -> None:
    emitted, calls = result_of(feed_all(text, dialect))
    assert calls or emitted == text


def _stream(text: str, size: int) -> bytes:
    """The text as a chat-completions stream, a few characters per event."""
    deltas = [text[at : at + size] for at in range(0, len(text), size)]
    payloads = [
        msgspec.json.encode({"choices": [{"index": 0, "delta": {"content": delta}}]}) for delta in deltas
    ]
    payloads.append(msgspec.json.encode({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    return b"".join(b"data: %b\n\n" % payload for payload in [*payloads, b"[DONE]"])


@pytest.mark.parametrize(("dialect", "text", "expected"), [case for case in CALLS if not case[1].isascii()])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_any_split_of_the_stream_bytes_yields_the_same_result(
    dialect: str, text: str, expected: Result, size: int
) -> None:
    data = _stream(text, size)
    for cut in range(1, len(data), 1 if size == 1000 else 17):
        sse, reader, recovered = SseReader(), StreamReader(default_endpoint("plain")), recovery(dialect)
        chunks: list[Chunk] = []
        for piece in (data[:cut], data[cut:]):
            chunks.extend(recovered.feed(reader.feed(sse.feed(piece))))
        chunks.extend(recovered.feed(reader.end(sse.finish())))
        assert result_of(chunks) == expected


def test_every_dialect_has_the_name_of_a_setting() -> None:
    assert set(DIALECTS) | {"auto", "off"} == set(typing.get_args(TextCalls))
    assert all(dialects_named(name) == (dialect,) for name, dialect in DIALECTS.items())


def test_auto_reads_every_dialect_with_its_own_tags() -> None:
    for dialect, text, expected in CALLS:
        bare = dialect == "llama" and text.lstrip().startswith(("[", "{"))
        marked = dialect != "fenced" and not bare
        assert (feed_text(text, "auto") == expected) is marked, text
