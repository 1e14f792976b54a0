"""Events to chunks: text, calls and hosted tools, one fault at a time. For any stream of ours, see
`test_round_trip.py`.
"""

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BackendBroken
from antiphon.protocol.content import Logprob, TopLogprob
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Finished,
    HostedItemDone,
    ItemBegun,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    ToolsFound,
)
from antiphon.turn.provider_state import ProviderState
from tests.backends.responses.payloads import (
    CALLED,
    CITED,
    STOP,
    TEXT,
    added,
    call,
    done,
    ended,
    event,
    failure_of,
    message,
    read,
    reasoning,
    text_event,
    write,
)

# Text


def test_missing_text_is_taken_from_any_later_event() -> None:
    over = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    text_done = event("response.output_text.done", **over, text="abc")
    part_done = event("response.content_part.done", **over, part={"type": "output_text", "text": "abcd"})
    chunks = read(text_event("a"), text_done, part_done, done(message("abcde")), ended(message("abcdef")))
    assert chunks == [TextDelta("a"), TextDelta("bc"), TextDelta("d"), TextDelta("e"), ItemBegun(), STOP]


def test_text_that_contradicts_the_deltas_is_not_emitted() -> None:
    assert read(text_event("abc"), done(message("xyzzy")), ended()) == [TextDelta("abc"), ItemBegun(), STOP]
    assert read(text_event("abc"), done(message("ab")), ended()) == [TextDelta("abc"), ItemBegun(), STOP]


def test_an_early_done_event_ends_the_item() -> None:
    over = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    late = event("response.output_text.done", **over, text="abc")
    cited = event("response.output_text.annotation.added", **over, annotation=CITED)
    chunks = read(
        text_event("abc"),
        done(message("abc")),
        late,
        cited,
        text_event("more"),
        done(message("abc")),
        ended(),
    )
    assert chunks == [TextDelta("abc"), ItemBegun(), STOP]


def test_citations_are_emitted_once() -> None:
    over = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    cited = event("response.output_text.annotation.added", **over, annotation=CITED)
    both = message("a", content=[{"type": "output_text", "text": "a", "annotations": [CITED, CITED]}])
    expected = [TextDelta("a"), AnnotationAdded(CITED), AnnotationAdded(CITED), ItemBegun(), STOP]
    assert read(text_event("a"), cited, done(both), ended(both)) == expected
    assert read(ended(both)) == expected


def test_logprobs_are_emitted_with_their_text() -> None:
    wire = {"token": "a", "logprob": -0.5, "top_logprobs": [{"token": "b", "logprob": -1.0}]}
    logprob = Logprob("a", None, -0.5, [TopLogprob("b", None, -1.0)])
    assert read(text_event("a", logprobs=[wire]), ended()) == [TextDelta("a", (logprob,)), STOP]
    assert read(text_event("x"), text_event("a", logprobs=[wire]), text_event("y"), ended()) == [
        TextDelta("x"),
        TextDelta("a", (logprob,)),
        TextDelta("y"),
        STOP,
    ]
    content = [{"type": "output_text", "text": "a", "logprobs": [wire]}]
    assert read(ended(message("", content=content)))[0] == TextDelta("a", (logprob,))


def test_logprobs_of_emitted_text_are_not_attached_to_the_rest() -> None:
    wires = [{"token": token, "logprob": -0.5} for token in "ab"]
    end = event("response.output_text.done", item_id="msg_1", output_index=0, text="ab", logprobs=wires)
    assert read(text_event("a"), end, ended()) == [TextDelta("a"), TextDelta("b"), STOP]


def test_a_message_with_string_content() -> None:
    assert read(ended(message("", content="abc"))) == [TextDelta("abc"), ItemBegun(), STOP]


def test_refusals() -> None:
    over = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    delta = event("response.refusal.delta", **over, delta="I ")
    end = event("response.refusal.done", **over, refusal="I will not.")
    item = message("", content=[{"type": "refusal", "refusal": "I will not."}])
    assert read(delta, end, done(item), ended(item)) == [
        RefusalDelta("I "),
        RefusalDelta("will not."),
        ItemBegun(),
        STOP,
    ]


def test_two_messages_in_a_row_are_two() -> None:
    assert read(text_event("a"), text_event("b", "msg_2", 1), ended()) == [
        TextDelta("a"),
        ItemBegun(),
        TextDelta("b"),
        STOP,
    ]


def test_parts_of_one_message_are_counted_apart() -> None:
    second = event(TEXT, item_id="msg_1", output_index=0, content_index=1, delta="b")
    content = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
    chunks = read(text_event("a"), second, done(message("", content=content)), ended())
    assert chunks == [TextDelta("a"), TextDelta("b"), ItemBegun(), STOP]


def test_messages_at_one_index_are_distinguished_by_their_ids() -> None:
    one, two = message("a", id="msg_1"), message("b", id="msg_2")
    chunks = read(
        added(one),
        added(two),
        text_event("a", "msg_1"),
        text_event("b", "msg_2"),
        done(one),
        done(two),
        ended(),
    )
    assert chunks == [TextDelta("a"), ItemBegun(), TextDelta("b"), ItemBegun(), STOP]


def test_empty_and_non_text_deltas_are_ignored() -> None:
    odd = event(TEXT, item_id="msg_1", output_index=0, content_index=0, delta={"a": 1})
    assert read(odd, text_event(""), text_event("a"), odd, text_event(""), ended()) == [TextDelta("a"), STOP]


# Reasoning


@pytest.mark.parametrize("name", ["reasoning_text", "reasoning"])
def test_raw_reasoning_by_either_name(name: str) -> None:
    over = {"output_index": 0, "content_index": 0, "item_id": "rs_1"}
    delta = event(f"response.{name}.delta", **over, delta="a")
    end = event(f"response.{name}.done", **over, text="ab")
    item = reasoning(content=[{"type": "reasoning_text", "text": "ab"}])
    expected = [ReasoningDelta("a"), ReasoningDelta("b"), ItemBegun(), STOP]
    assert read(delta, end, done(item), ended(item)) == expected


def test_summary_parts_are_preserved() -> None:
    over = {"output_index": 0, "item_id": "rs_1"}
    delta = event("response.reasoning_summary_text.delta", **over, summary_index=0, delta="a")
    part = {"type": "summary_text", "text": "ab"}
    end = event("response.reasoning_summary_part.done", **over, summary_index=0, part=part)
    item = reasoning(summary=[part, {"type": "summary_text", "text": "c"}])
    assert read(delta, end, done(item), ended(item)) == [
        ReasoningSummaryDelta("a", 0),
        ReasoningSummaryDelta("b", 0),
        ReasoningSummaryDelta("c", 1),
        ItemBegun(),
        STOP,
    ]


def test_only_the_last_sealed_content_counts() -> None:
    begun, item = reasoning(encrypted_content="half"), reasoning(encrypted_content="whole")
    again = reasoning(encrypted_content="sealed anew")
    sealed = ProviderState("responses@api.openai.com", {"id": "rs_1", "encrypted_content": "whole"})
    assert read(added(begun), done(item), ended(again)) == [ProviderStateAdded(sealed), ItemBegun(), STOP]


def test_empty_reasoning_is_ignored() -> None:
    assert read(added(reasoning()), done(reasoning()), text_event("a", at=1), ended()) == [
        TextDelta("a"),
        STOP,
    ]


# Calls


def test_a_call_in_pieces() -> None:
    item = call('{"a":1}', status="completed")
    end = event("response.function_call_arguments.done", output_index=0, item_id="fc_1", arguments='{"a":1}')
    assert read(added(call()), write('{"a"'), write(":"), end, done(item), ended(item)) == [
        CallStarted(0, "c1", "f"),
        CallDelta(0, '{"a"'),
        CallDelta(0, ":"),
        CallDelta(0, "1}"),
        CallFinished(0),
        CALLED,
    ]


def test_a_call_that_was_not_announced_waits_for_its_name() -> None:
    assert read(write('{"a"'), write(":1}"), done(call('{"a":1}')), ended()) == [
        CallStarted(0, "c1", "f"),
        CallDelta(0, '{"a"'),
        CallDelta(0, ":1}"),
        CallFinished(0),
        CALLED,
    ]
    assert isinstance(failure_of(read(write("{}"), ended())), BackendBroken)


def test_calls_that_are_written_at_the_same_time() -> None:
    one, two = call(id="fc_1", call_id="c1"), call(id="fc_2", call_id="c2")
    chunks = read(
        added(one),
        added(two, 1),
        write('{"b"', "fc_2", 1),
        write('{"a"', "fc_1", 0),
        write(":2}", "fc_2", 1),
        write(":1}", "fc_1", 0),
        ended(call('{"a":1}', id="fc_1"), call('{"b":2}', id="fc_2")),
    )
    assert [(delta.index, delta.arguments) for delta in chunks if isinstance(delta, CallDelta)] == [
        (1, '{"b"'),
        (0, '{"a"'),
        (1, ":2}"),
        (0, ":1}"),
    ]
    assert chunks[-1] == CALLED


def test_calls_with_one_id_are_distinguished_by_their_index() -> None:
    chunks = read(
        added(call()), added(call(call_id="c2"), 1), write("a"), write("b", at=1), write("c"), ended()
    )
    deltas = [(delta.index, delta.arguments) for delta in chunks if isinstance(delta, CallDelta)]
    assert deltas == [(0, "a"), (1, "b"), (0, "c")]


def test_complete_items_at_one_index_are_all_emitted() -> None:
    chunks = read(done(message("a")), done(message("b", id="msg_2")), ended())
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["a", "b"]


def test_arguments_that_are_an_object_become_text() -> None:
    assert read(ended(call({"a": 1})))[1] == CallDelta(0, '{"a":1}')


def test_a_truncated_call_is_not_finished() -> None:
    item = call('{"a"', status="incomplete")
    cut = ended(item, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert read(added(call()), write('{"a"'), done(item), cut) == [
        CallStarted(0, "c1", "f"),
        CallDelta(0, '{"a"'),
        Finished("length"),
    ]


def test_namespaces_and_tools_of_another_name() -> None:
    assert read(ended(call("{}", name="now", namespace="time")))[0] == CallStarted(0, "c1", "time__now")
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}}
    assert read(ended(shell)) == [
        CallStarted(0, "c1", "shell_2"),
        CallDelta(0, '{"commands":["ls"]}'),
        CallFinished(0),
        CALLED,
    ]


def test_the_input_of_a_custom_tool_is_escaped_piece_by_piece() -> None:
    item = call('a"\n\\é\u2028😀', "custom_tool_call", status="completed")
    pieces = ['a"', "\n", "\\é", "\u2028"]
    deltas = [
        event("response.custom_tool_call_input.delta", item_id="fc_1", output_index=0, delta=piece)
        for piece in pieces
    ]
    chunks = read(added(call("", "custom_tool_call")), *deltas, done(item), ended(item))
    written = "".join(chunk.arguments for chunk in chunks if isinstance(chunk, CallDelta))
    assert msgspec.json.decode(written) == {"input": item["input"]}
    assert chunks[-2:] == [CallFinished(0), CALLED]


@given(st.lists(st.text(max_size=5), max_size=5))
def test_any_input_of_a_custom_tool_is_the_same_json(pieces: list[str]) -> None:
    deltas = [event("response.custom_tool_call_input.delta", output_index=0, delta=piece) for piece in pieces]
    chunks = read(added(call("", "custom_tool_call")), *deltas, ended())
    written = "".join(chunk.arguments for chunk in chunks if isinstance(chunk, CallDelta))
    assert msgspec.json.decode(written) == {"input": "".join(pieces)}


def test_an_incomplete_call_is_not_taken_for_complete() -> None:
    shell = {"type": "shell_call", "call_id": "c1", "status": "incomplete", "action": {"commands": ["l"]}}
    assert read(ended(shell))[1] == CallDelta(0, '{"commands":["l"]')


# Tools of the server itself


def test_items_of_hosted_tools() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    progress = [
        event(f"response.web_search_call.{step}", item_id="ws_1", output_index=0)
        for step in ("in_progress", "searching", "completed")
    ]
    work = HostedItemDone(WebSearchCall(id="ws_1", status="completed", action={"type": "search"}))
    assert read(added(item), *progress, done(item), ended(item)) == [work, STOP]


def test_an_unreadable_hosted_item_is_omitted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        chunks = read(done({"type": "mcp_call", "id": "mcp_1"}), text_event("a", at=1), ended())
    assert chunks == [TextDelta("a"), STOP]
    assert "mcp_call" in caplog.text


@pytest.mark.parametrize("kind", ["compaction", "program", "acme:thing", ""])
def test_unknown_items_are_omitted(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert read(done({"type": kind, "id": "x"}), ended()) == [STOP]
    assert "left out" in caplog.text


@pytest.mark.parametrize("given", [{"query": "q"}, '{"query":"q"}'])
def test_a_search_on_the_server(given: Any) -> None:
    search = {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": given}
    found = {"type": "tool_search_output", "call_id": None, "tools": [{"type": "function", "name": "f"}]}
    chunk, *_ = read(ended(search, found))
    assert isinstance(chunk, ToolsFound)
    assert chunk.arguments == {"query": "q"}
    assert len(chunk.tools) == 1


def test_a_search_with_string_arguments() -> None:
    search = {"type": "tool_search_call", "call_id": None, "arguments": "weather"}
    chunk, *_ = read(ended(search, {"type": "tool_search_output", "tools": []}))
    assert chunk == ToolsFound({"query": "weather"}, ())
