"""The emitted chunks, their order, and the text that is held back."""

from collections.abc import Iterable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BackendBroken
from antiphon.protocol.content import Logprob
from antiphon.protocol.items import FunctionCall
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage, new_response
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.machine import Machine
from tests.turn.text_calls.feeding import Result, feed_all, feed_text, recovery, result_of

CALL = '<tool_call>{"name":"look","arguments":{"a":1}}</tool_call>'


def look(index: int, arguments: str = '{"a":1}') -> list[Chunk]:
    return [CallStarted(index, "", "look"), CallDelta(index, arguments), CallFinished(index)]


def test_a_call_is_emitted_complete_with_an_index_that_no_backend_uses() -> None:
    assert feed_all([CALL, CALL]) == [*look(-1), *look(-2), Finished("tool_calls")]


def test_plain_text_is_emitted_at_once_as_the_same_chunks() -> None:
    text_recovery = recovery()
    first: list[Chunk] = [TextDelta("Hello")]
    assert text_recovery.feed(first) == first
    more: list[Chunk] = [TextDelta(", "), TextDelta("world\n")]
    assert text_recovery.feed(more) is more
    assert not text_recovery.holding


def test_reasoning_flows_at_once_as_the_very_same_chunks() -> None:
    reasoning_chunks: list[Chunk] = [ReasoningDelta("hm"), ReasoningDelta("<tool_call>")]
    assert recovery().feed(reasoning_chunks) is reasoning_chunks


def test_only_a_possible_start_of_a_tag_is_held() -> None:
    text_recovery = recovery()
    assert text_recovery.feed([TextDelta("a < b <tool")]) == [TextDelta("a < b ")]
    assert text_recovery.holding
    assert text_recovery.feed([TextDelta("box>")]) == [TextDelta("<toolbox>")]
    assert not text_recovery.holding


def test_a_tag_in_prose_holds_back_no_text() -> None:
    text_recovery = recovery()
    text_recovery.feed([TextDelta("Write ")])
    assert result_of(text_recovery.feed([TextDelta("<tool_call> and then")])).text == "<tool_call> and then"
    assert not text_recovery.holding


@pytest.mark.parametrize(
    "prose",
    [
        "`<tool_call>{` begins",
        "`<function=look>` begins",
        "`<function=look>{`, so",
        "`[TOOL_CALLS][` begins",
        "`[TOOL_CALLS][{`, so",
        "`[TOOL_CALLS]look{`, so",
        "<|python_tag|>[1] words",
        "<|python_start|>[x for x in y]",
        "<｜tool▁call▁begin｜> is a tag",
        "<｜DSML｜function_calls> is a tag",
    ],
)
def test_prose_is_emitted_as_soon_as_it_cannot_be_a_call(prose: str) -> None:
    text_recovery = recovery()
    assert result_of(text_recovery.feed([TextDelta("x " + prose)])).text == "x " + prose
    assert not text_recovery.holding


UNCLOSED = [
    '<tool_call>{"name":"look" and then ',
    "<function=look><parameter=a> and then ",
    "<tool_call>look<arg_key>a</arg_key> and then ",
    '[TOOL_CALLS]look{"a": and then ',
    '[TOOL_CALLS]look{} [TOOL_CALLS]look{"":[}] and then ',
    "<|python_tag|>[look(a= and then ",
    "<｜tool▁call▁begin｜>look<｜tool▁sep｜> and then ",
]


@pytest.mark.parametrize("unclosed", UNCLOSED[3:])
def test_a_call_after_an_unclosed_tag_is_found(unclosed: str) -> None:
    text = unclosed + CALL
    unsplit = feed_text(text)
    assert unsplit.calls[-1] == ("look", '{"a":1}')
    assert unsplit.text.endswith(" and then ")
    assert result_of(feed_all(text)) == unsplit


@pytest.mark.parametrize("unclosed", UNCLOSED)
def test_a_call_with_other_tags_after_an_unclosed_tag_is_found(unclosed: str) -> None:
    text = unclosed + "[TOOL_CALLS]look{}"
    unsplit = feed_text(text)
    assert unsplit.calls[-1] == ("look", "{}")
    assert unsplit.text.endswith(" and then ")
    assert result_of(feed_all(text)) == unsplit


@pytest.mark.parametrize(
    "end", [Finished("length"), Finished("content_filter"), Failed(BackendBroken("gone"))]
)
def test_a_possible_part_of_a_truncated_call_is_no_call(end: Chunk) -> None:
    cut = f"<function=look><parameter=a>Write {CALL} to look"
    assert result_of(recovery().feed([TextDelta(cut), end])) == Result(cut, [])
    assert feed_text(cut).calls == [("look", '{"a":1}')]


@pytest.mark.parametrize(
    "text",
    [
        '[TOOL_CALLS]look{"a": "no quote}\n',
        '<|python_tag|>{"name": "look}\n',
        '<tool_call>{"name": "look}</tool_call>\n',
    ],
)
def test_json_with_a_missing_quote_is_abandoned_at_the_end_of_its_line(text: str) -> None:
    text_recovery = recovery()
    assert result_of(text_recovery.feed([TextDelta("x" + text)])).text == "x" + text
    assert not text_recovery.holding


@pytest.mark.parametrize(
    ("text", "emitted"),
    [
        (f" \n{CALL}", ""),
        (f"{CALL}\n\n{CALL} \n", ""),
        (f"Hi.\n\n{CALL}", "Hi.\n\n"),
        (f"{CALL}\n\nDone. \n", "\n\nDone. \n"),
        (f"a {CALL} b {CALL} c", "a  b  c"),
    ],
)
def test_white_space_that_would_be_a_message_is_dropped(text: str, emitted: str) -> None:
    assert feed_text(text).text == emitted
    assert result_of(feed_all(text)).text == emitted


def test_white_space_without_a_call_is_emitted_in_order() -> None:
    text_recovery = recovery()
    chunks: list[Chunk] = [
        TextDelta(" \n"),
        ReasoningDelta("hm"),
        TextDelta(" "),
        TextDelta("x"),
        Finished("stop"),
    ]
    emitted = text_recovery.feed(chunks)
    assert emitted == [TextDelta(" \n"), ReasoningDelta("hm"), TextDelta(" x"), Finished("stop")]


@pytest.mark.parametrize("reason", ["length", "content_filter", "tool_calls"])
def test_other_finish_reasons_are_unchanged(reason: FinishReason) -> None:
    assert feed_all([CALL], reason=reason)[-1] == Finished(reason)
    assert feed_all(["words"])[-1] == Finished("stop")


def test_a_truncated_call_is_text() -> None:
    cut = CALL[:-20]
    chunks = feed_all([cut], reason="length")
    assert result_of(chunks) == Result(cut, [])
    assert chunks[-1] == Finished("length")


@pytest.mark.parametrize("ending", ["", "\n", "</tool", "</tool_call"])
def test_a_complete_body_needs_no_closing_tag_at_the_end(ending: str) -> None:
    assert feed_text('<tool_call>{"name":"look","arguments":{"a":1}}' + ending) == Result(
        "", [("look", '{"a":1}')]
    )


ENDS: list[Chunk] = [
    RefusalDelta("no"),
    CallStarted(0, "c", "weather"),
    Finished("stop"),
    Failed(BackendBroken("gone")),
]


@pytest.mark.parametrize("end", ENDS)
def test_held_text_is_settled_before_the_text_ends(end: Chunk) -> None:
    text_recovery = recovery()
    assert joined(text_recovery.feed([TextDelta('a<tool_call>{"'), end])) == [
        TextDelta('a<tool_call>{"'),
        end,
    ]
    assert not text_recovery.holding


@pytest.mark.parametrize("between", [ReasoningDelta("hm"), AnnotationAdded({"type": "url_citation"})])
def test_a_chunk_received_while_text_is_held_keeps_its_position(between: Chunk) -> None:
    text_recovery = recovery()
    emitted = text_recovery.feed([TextDelta("a <tool"), between, TextDelta("box> b")])
    assert emitted == [TextDelta("a "), TextDelta("<tool"), between, TextDelta("box> b")]


def test_a_chunk_in_the_middle_of_a_call_follows_it() -> None:
    text_recovery = recovery()
    emitted = text_recovery.feed(
        [TextDelta(CALL[:20]), ReasoningDelta("hm"), TextDelta(CALL[20:] + "x"), Finished("stop")]
    )
    assert emitted == [*look(-1), ReasoningDelta("hm"), TextDelta("x"), Finished("tool_calls")]


def test_usage_does_not_wait() -> None:
    usage = UsageReported(Usage(1, InputTokensDetails(0), 1, OutputTokensDetails(0), 2))
    assert recovery().feed([TextDelta("<tool"), usage]) == [usage]


def test_text_continues_after_a_refusal() -> None:
    text_recovery = recovery()
    emitted = text_recovery.feed([TextDelta("<tool"), RefusalDelta("no"), TextDelta(CALL), Finished("stop")])
    assert emitted == [TextDelta("<tool"), RefusalDelta("no"), *look(-1), Finished("tool_calls")]


def test_held_text_is_emitted_without_logprobs() -> None:
    certain = (Logprob("a", None, -0.1),)
    text_recovery = recovery()
    assert text_recovery.feed([TextDelta("a", certain)]) == [TextDelta("a", certain)]
    assert text_recovery.feed([TextDelta(" a > b", certain)]) == [TextDelta(" a > b", certain)]
    assert text_recovery.feed([TextDelta("a <b>", certain)]) == [TextDelta("a <b>", certain)]
    assert text_recovery.feed([TextDelta("<to", certain)]) == []
    assert text_recovery.feed([TextDelta("p>", certain)]) == [TextDelta("<top>")]


def joined(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The same chunks, with adjacent text joined."""
    result: list[Chunk] = []
    for chunk in chunks:
        if isinstance(chunk, TextDelta) and result and isinstance(result[-1], TextDelta):
            result[-1] = TextDelta(result[-1].text + chunk.text)
        elif chunk != TextDelta(""):
            result.append(chunk)
    return result


PIECES = [
    "a",
    " ",
    "\n",
    "<",
    "<tool_call>",
    "<tool",
    "_call>",
    "{",
    '"',
    "</tool_call>",
    "[TOOL_CALLS]",
    "<function=",
    "x>",
]
CHUNKS: list[Chunk] = [
    *map(TextDelta, PIECES),
    ReasoningDelta("hm"),
    RefusalDelta("no"),
    AnnotationAdded({}),
    CallStarted(0, "c", "look"),
    CallDelta(0, "{}"),
    CallFinished(0),
]


@given(batches=st.lists(st.lists(st.sampled_from(CHUNKS), max_size=4), max_size=8))
def test_without_a_call_in_the_text_the_order_is_unchanged(batches: list[list[Chunk]]) -> None:
    text_recovery = recovery()
    batches = [*batches, [Finished("stop")]]
    emitted = [chunk for batch in batches for chunk in text_recovery.feed(batch)]
    assert joined(emitted) == joined(chunk for batch in batches for chunk in batch)


def test_an_empty_delta_has_no_effect() -> None:
    assert result_of(feed_all(["", CALL[:5], "", CALL[5:], ""])) == Result("", [("look", '{"a":1}')])


def test_the_machine_builds_items_from_recovered_calls() -> None:
    ids = count()
    empty_response = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1)
    machine = Machine(empty_response, new_id=lambda prefix: f"{prefix}_{next(ids)}")
    machine.feed(feed_all(f"So: {CALL}\n{CALL} Done."))
    machine.end(2)
    output = machine.response.output
    calls = [item for item in output if isinstance(item, FunctionCall)]
    assert [isinstance(item, FunctionCall) for item in output] == [False, True, True, False]
    assert [(call.name, call.arguments) for call in calls] == [("look", '{"a":1}')] * 2
    assert len({call.call_id for call in calls}) == 2
    assert machine.response.status == "completed"
