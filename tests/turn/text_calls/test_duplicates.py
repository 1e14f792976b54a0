"""A call that is reported natively and as text is emitted once."""

from collections.abc import Callable

import pytest

from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.text_calls import duplicates
from tests.turn.text_calls.feeding import recovery, result_of

TEXT = TextDelta('<tool_call>{"name":"look","arguments":{"a":1,"b":true}}</tool_call>')
SAME = '{"b": true, "a": 1}'
FROM_TEXT: list[Chunk] = [
    CallStarted(-1, "", "look"),
    CallDelta(-1, '{"a":1,"b":true}'),
    CallFinished(-1),
]
END = Finished("tool_calls")


def native(index: int, *arguments: str, name: str = "look") -> list[Chunk]:
    return [CallStarted(index, f"call_{index}", name), *(CallDelta(index, piece) for piece in arguments)]


def feed(*chunks: Chunk) -> list[Chunk]:
    text_recovery = recovery()
    emitted = [emitted for chunk in chunks for emitted in text_recovery.feed([chunk])]
    assert not text_recovery.holding
    return emitted


def test_a_text_call_after_its_native_duplicate_is_dropped() -> None:
    assert feed(*native(0, SAME), TextDelta("\n"), TEXT, TextDelta("\n"), END) == [*native(0, SAME), END]


def test_a_native_call_after_its_text_duplicate_is_dropped_with_all_its_pieces() -> None:
    assert feed(TEXT, *native(0, SAME[:7], SAME[7:]), CallFinished(0), CallDelta(0, " "), END) == [
        *FROM_TEXT,
        END,
    ]
    assert feed(TEXT, *native(0, SAME), END) == [*FROM_TEXT, END]


def test_a_native_call_that_is_no_duplicate_is_passed_on() -> None:
    other = native(0, '{"a":2}')
    assert feed(TEXT, *other, END) == [*FROM_TEXT, *other, END]
    assert feed(TEXT, *other, CallFinished(0), END) == [*FROM_TEXT, *other, CallFinished(0), END]
    one_is_not_true = native(0, '{"a":true,"b":1}')
    assert feed(TEXT, *one_is_not_true, END) == [*FROM_TEXT, *one_is_not_true, END]


def test_a_native_call_of_another_tool_does_not_wait() -> None:
    text_recovery = recovery()
    text_recovery.feed([TEXT])
    other = native(0, "{}", name="weather")
    assert text_recovery.feed(other) == other


def test_a_native_call_of_the_same_tool_is_held_until_it_is_complete() -> None:
    text_recovery = recovery()
    text_recovery.feed([TEXT])
    assert text_recovery.feed(native(0, '{"a":')) == []
    assert text_recovery.holding
    assert result_of(text_recovery.feed([CallDelta(0, "7}"), CallFinished(0)])).calls == [("look", '{"a":7}')]
    assert not text_recovery.holding


def test_the_next_native_call_completes_the_one_before() -> None:
    other = native(1, "{}", name="weather")
    assert feed(TEXT, *native(0, SAME), *other, END) == [*FROM_TEXT, *other, END]


def test_native_calls_that_are_interleaved_are_emitted_in_order() -> None:
    first, second = native(0, '{"x":1}'), native(1, SAME)
    mixed = [first[0], second[0], first[1], second[1]]
    assert feed(TEXT, *mixed, END) == [*FROM_TEXT, *first, END]
    other = native(1, "{}", name="weather")
    mixed = [first[0], other[0], other[1], first[1]]
    assert feed(TEXT, *mixed, END) == [*FROM_TEXT, *first, *other, END]


def test_a_duplicate_is_found_among_interleaved_pieces_of_another_call() -> None:
    duplicate, other = native(0, SAME[:7], SAME[7:]), native(1, "{", "}")
    mixed = [duplicate[0], duplicate[1], other[0], other[1], duplicate[2], other[2]]
    assert feed(TEXT, *mixed, END) == [*FROM_TEXT, *other, END]


def test_parallel_native_calls_that_begin_before_their_arguments_are_compared_when_complete() -> None:
    first, second = native(0, SAME), native(1, '{"a":2}')
    mixed = [first[0], second[0], first[1], second[1]]
    assert feed(TEXT, *mixed, END) == [*FROM_TEXT, *second, END]


def test_a_native_call_without_arguments_yet_is_no_duplicate() -> None:
    bare = TextDelta('<tool_call>{"name":"look"}</tool_call>')
    begun, rest = native(0, '{"a":1}')
    assert result_of(feed(begun, bare, rest, END)).calls == [("look", '{"a":1}'), ("look", "{}")]
    assert result_of(feed(bare, begun, TextDelta("so"), rest, END)).calls == [
        ("look", "{}"),
        ("look", '{"a":1}'),
    ]
    assert result_of(feed(begun, CallFinished(0), bare, END)).calls == [("look", "")]


def test_a_native_call_is_a_duplicate_though_its_index_was_reused() -> None:
    emitted = [*native(0, SAME), *native(0, "{}", name="weather")]
    assert feed(*emitted, TEXT, END) == [*emitted, END]


def test_the_arguments_of_each_call_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def decoded(text: str, decode: Callable[[str], object]) -> object:
        read.append(text)
        return decode(text)

    monkeypatch.setattr(duplicates, "decoded", decoded)
    calls = [chunk for index in range(50) for chunk in native(index, f'{{"a":{index}}}')]
    feed(*calls, *[TEXT] * 50, *calls, END)
    assert len(read) == 150


def test_white_space_between_duplicates_is_dropped() -> None:
    emitted = [TextDelta("Hi."), *native(0, SAME)]
    assert feed(*emitted, TextDelta("\n"), TEXT, END) == [*emitted, END]


def test_text_settles_the_native_calls_before_it() -> None:
    other = native(0, '{"a":2}')
    assert feed(TEXT, *other, TextDelta("so"), END) == [*FROM_TEXT, *other, TextDelta("so"), END]


def test_two_equal_text_calls_are_two_calls() -> None:
    assert len(result_of(feed(TEXT, TEXT, END)).calls) == 2


def test_each_native_call_matches_one_text_call() -> None:
    assert len(result_of(feed(TEXT, TEXT, *native(0, SAME), END)).calls) == 2
    assert len(result_of(feed(TEXT, *native(0, SAME), *native(1, SAME), END)).calls) == 2
    assert len(result_of(feed(*native(0, SAME), TEXT, TEXT, END)).calls) == 2
    assert len(result_of(feed(TEXT, *native(0, SAME), TEXT, END)).calls) == 2


def test_no_arguments_are_the_empty_object() -> None:
    bare = TextDelta('<tool_call>{"name":"look"}</tool_call>')
    assert len(result_of(feed(bare, *native(0), END)).calls) == 1


def test_native_calls_without_text_calls_are_unchanged() -> None:
    chunks = [
        TextDelta("\n\n"),
        *native(0, "{", "}"),
        CallFinished(0),
        *native(1, "broken"),
        TextDelta("\n"),
        END,
    ]
    assert feed(*chunks) == chunks


def test_native_deltas_without_a_start_are_unchanged() -> None:
    stray: list[Chunk] = [CallDelta(4, "{}"), CallFinished(4), END]
    assert feed(*stray) == stray
