"""JSON-RPC lines: split anywhere, and invalid ones."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.backends.codex_app_server.rpc import LineReader, refusal_line, request_line, result_line
from antiphon.errors import BackendBroken

LINES = b'{"id":1,"result":{"a":"\xc3\xa9"}}\n\n{"method":"x","params":{"threadId":"t"}}\n{"id":"q","method":"y"}\r\n'


@given(st.lists(st.integers(0, len(LINES))))
def test_any_split_of_the_bytes_yields_the_same_messages(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(LINES)]
    reader = LineReader()
    pieces = [LINES[start:end] for start, end in pairwise(places)]
    messages = [message for piece in pieces for message in reader.feed(piece)]
    assert [(message.id, message.method) for message in messages] == [(1, None), (None, "x"), ("q", "y")]
    assert bytes(messages[0].result) == '{"a":"é"}'.encode()


@pytest.mark.parametrize(
    "line",
    [b"hello", b"{}", b"[1]", b'{"id":[1],"method":"x"}', b'{"method":7}', b"\xff\xfe", b"[" * 100_000],
)
def test_an_invalid_message_is_an_error_that_quotes_its_beginning(line: bytes) -> None:
    with pytest.raises(BackendBroken, match="not its protocol"):
        list(LineReader().feed(line + b"\n"))


def test_a_line_without_end_is_an_error() -> None:
    reader = LineReader(limit=10)
    assert list(reader.feed(b"123456")) == []
    with pytest.raises(BackendBroken, match="more than 10 bytes"):
        list(reader.feed(b"123456"))


def test_messages_before_an_invalid_line_are_delivered() -> None:
    messages = LineReader().feed(b'{"method":"x"}\nnonsense\n')
    assert next(messages).method == "x"
    with pytest.raises(BackendBroken):
        next(messages)


def test_each_message_is_sent_as_one_line() -> None:
    for line in (
        request_line(1, "a/b", {"text": "two\nlines"}),
        result_line("q", {}),
        refusal_line(2, -32601, "no"),
    ):
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        assert "jsonrpc" not in msgspec.json.decode(line)
