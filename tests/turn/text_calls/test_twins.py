"""A call that is reported natively and as text is reported once."""

from collections.abc import Callable

import pytest

from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.text_calls import twins
from tests.turn.text_calls.telling import recovery, told

TEXT = TextDelta('<tool_call>{"name":"look","arguments":{"a":1,"b":true}}</tool_call>')
TWIN = '{"b": true, "a": 1}'
FROM_TEXT: list[Chunk] = [
    CallStarted(-1, "", "look"),
    CallDelta(-1, '{"a":1,"b":true}'),
    CallFinished(-1),
]
END = Finished("tool_calls")


def native(index: int, *arguments: str, name: str = "look") -> list[Chunk]:
    return [CallStarted(index, f"call_{index}", name), *(CallDelta(index, piece) for piece in arguments)]


def feed(*chunks: Chunk) -> list[Chunk]:
    made = recovery()
    said = [said for chunk in chunks for said in made.feed([chunk])]
    assert not made.holding
    return said


def test_a_text_call_after_its_native_twin_is_left_out() -> None:
    assert feed(*native(0, TWIN), TextDelta("\n"), TEXT, TextDelta("\n"), END) == [*native(0, TWIN), END]


def test_a_native_call_after_its_text_twin_is_left_out_with_all_its_pieces() -> None:
    assert feed(TEXT, *native(0, TWIN[:7], TWIN[7:]), CallFinished(0), CallDelta(0, " "), END) == [
        *FROM_TEXT,
        END,
    ]
    assert feed(TEXT, *native(0, TWIN), END) == [*FROM_TEXT, END]


def test_a_native_call_that_is_no_twin_is_let_through() -> None:
    other = native(0, '{"a":2}')
    assert feed(TEXT, *other, END) == [*FROM_TEXT, *other, END]
    assert feed(TEXT, *other, CallFinished(0), END) == [*FROM_TEXT, *other, CallFinished(0), END]
    one_is_not_true = native(0, '{"a":true,"b":1}')
    assert feed(TEXT, *one_is_not_true, END) == [*FROM_TEXT, *one_is_not_true, END]


def test_a_native_call_of_another_tool_waits_for_nothing() -> None:
    made = recovery()
    made.feed([TEXT])
    other = native(0, "{}", name="weather")
    assert made.feed(other) == other


def test_a_native_call_of_the_same_tool_is_held_until_it_is_whole() -> None:
    made = recovery()
    made.feed([TEXT])
    assert made.feed(native(0, '{"a":')) == []
    assert made.holding
    assert told(made.feed([CallDelta(0, "7}"), CallFinished(0)])).calls == [("look", '{"a":7}')]
    assert not made.holding


def test_the_next_native_call_says_that_the_one_before_is_whole() -> None:
    other = native(1, "{}", name="weather")
    assert feed(TEXT, *native(0, TWIN), *other, END) == [*FROM_TEXT, *other, END]


def test_native_calls_that_are_mixed_are_told_in_order() -> None:
    first, second = native(0, '{"x":1}'), native(1, TWIN)
    mixed = [first[0], second[0], first[1], second[1]]
    assert feed(TEXT, *mixed, END) == [*FROM_TEXT, *first, END]
    other = native(1, "{}", name="weather")
    mixed = [first[0], other[0], other[1], first[1]]
    assert feed(TEXT, *mixed, END) == [*FROM_TEXT, *first, *other, END]


def test_a_twin_is_known_though_its_pieces_are_mixed_with_those_of_another_call() -> None:
    twin, other = native(0, TWIN[:7], TWIN[7:]), native(1, "{", "}")
    mixed = [twin[0], twin[1], other[0], other[1], twin[2], other[2]]
    assert feed(TEXT, *mixed, END) == [*FROM_TEXT, *other, END]


def test_parallel_native_calls_that_begin_before_their_arguments_are_compared_when_whole() -> None:
    first, second = native(0, TWIN), native(1, '{"a":2}')
    mixed = [first[0], second[0], first[1], second[1]]
    assert feed(TEXT, *mixed, END) == [*FROM_TEXT, *second, END]


def test_a_native_call_without_arguments_yet_is_no_twin() -> None:
    bare = TextDelta('<tool_call>{"name":"look"}</tool_call>')
    begun, rest = native(0, '{"a":1}')
    assert told(feed(begun, bare, rest, END)).calls == [("look", '{"a":1}'), ("look", "{}")]
    assert told(feed(bare, begun, TextDelta("so"), rest, END)).calls == [("look", "{}"), ("look", '{"a":1}')]
    assert told(feed(begun, CallFinished(0), bare, END)).calls == [("look", "")]


def test_a_native_call_is_a_twin_though_its_index_was_used_again() -> None:
    said = [*native(0, TWIN), *native(0, "{}", name="weather")]
    assert feed(*said, TEXT, END) == [*said, END]


def test_the_arguments_of_each_call_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def decoded(text: str, decode: Callable[[str], object]) -> object:
        read.append(text)
        return decode(text)

    monkeypatch.setattr(twins, "decoded", decoded)
    calls = [chunk for index in range(50) for chunk in native(index, f'{{"a":{index}}}')]
    feed(*calls, *[TEXT] * 50, *calls, END)
    assert len(read) == 150


def test_white_space_between_twins_is_not_said() -> None:
    said = [TextDelta("Hi."), *native(0, TWIN)]
    assert feed(*said, TextDelta("\n"), TEXT, END) == [*said, END]


def test_text_settles_the_native_calls_before_it() -> None:
    other = native(0, '{"a":2}')
    assert feed(TEXT, *other, TextDelta("so"), END) == [*FROM_TEXT, *other, TextDelta("so"), END]


def test_two_equal_text_calls_are_two_calls() -> None:
    assert len(told(feed(TEXT, TEXT, END)).calls) == 2


def test_each_native_call_is_the_twin_of_one_text_call() -> None:
    assert len(told(feed(TEXT, TEXT, *native(0, TWIN), END)).calls) == 2
    assert len(told(feed(TEXT, *native(0, TWIN), *native(1, TWIN), END)).calls) == 2
    assert len(told(feed(*native(0, TWIN), TEXT, TEXT, END)).calls) == 2
    assert len(told(feed(TEXT, *native(0, TWIN), TEXT, END)).calls) == 2


def test_no_arguments_are_the_empty_object() -> None:
    bare = TextDelta('<tool_call>{"name":"look"}</tool_call>')
    assert len(told(feed(bare, *native(0), END)).calls) == 1


def test_native_calls_alone_are_untouched() -> None:
    chunks = [
        TextDelta("\n\n"),
        *native(0, "{", "}"),
        CallFinished(0),
        *native(1, "broken"),
        TextDelta("\n"),
        END,
    ]
    assert feed(*chunks) == chunks


def test_native_pieces_without_a_beginning_are_untouched() -> None:
    stray: list[Chunk] = [CallDelta(4, "{}"), CallFinished(4), END]
    assert feed(*stray) == stray
