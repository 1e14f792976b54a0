"""The model's view of a compacted conversation, when compaction is due, and the request for a summary."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.registry import Quirks
from antiphon.errors import InvalidRequest
from antiphon.protocol.content import InputFile, InputImage, InputText, OutputText
from antiphon.protocol.items import (
    Compaction,
    CompactionTrigger,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    OpaqueItem,
    Reasoning,
)
from antiphon.protocol.tool_items import AdditionalTools, ShellCall, ShellCallOutput
from antiphon.turn.compaction import (
    HEADING,
    compact_view,
    compaction_due,
    is_callers_message,
    split_fresh,
    summary_request,
)
from antiphon.turn.context import build_turn
from antiphon.turn.transcript import shortened, transcript

SYSTEM = Message(role="system", content="be brief")
QUESTION = Message(role="user", content="what time is it?")
ANSWER = Message(role="assistant", content="noon")
REASONING = Reasoning(summary=[])
CALL = FunctionCall(call_id="c1", name="clock", arguments='{"zone":"utc"}')
OUTPUT = FunctionCallOutput(call_id="c1", output="12:00")
MORE = Message(role="user", content="and now?")
COMPACTION = Compaction(encrypted_content="sealed")
SUMMARY = Message(role="developer", content=f"{HEADING}\n\nthe summary")


def view(*items: Item, **summaries: str) -> list[Item]:
    known = {"sealed": "the summary", **summaries}
    return list(compact_view(items, known.get, lambda index: f"input[{index}]"))


def count(items: Any) -> int:
    return len(items)


def test_a_list_without_a_compaction_is_unchanged() -> None:
    items = [SYSTEM, QUESTION, CALL, OUTPUT, ANSWER]
    assert compact_view(items, dict[str, str]().get, str) is items


def test_of_the_compacted_items_only_the_callers_messages_are_shown() -> None:
    shown = view(SYSTEM, QUESTION, REASONING, CALL, OUTPUT, ANSWER, COMPACTION, MORE, ANSWER)
    assert shown == [SYSTEM, QUESTION, SUMMARY, MORE, ANSWER]


def test_tools_declared_in_the_conversation_are_preserved() -> None:
    tools = AdditionalTools(tools=[])
    assert view(tools, QUESTION, ANSWER, COMPACTION, MORE) == [tools, QUESTION, SUMMARY, MORE]
    assert not compaction_due(view(tools, QUESTION, ANSWER, COMPACTION, MORE), 1, count)


def test_a_call_of_another_kind_that_is_answered_after_the_compaction_is_still_shown() -> None:
    call = ShellCall(call_id="s1", action={"commands": ["ls"]})
    output = ShellCallOutput(call_id="s1", output=[])
    assert view(QUESTION, call, COMPACTION, output) == [QUESTION, call, SUMMARY, output]


def test_the_last_compaction_counts_and_earlier_ones_are_not_even_opened() -> None:
    earlier = Compaction(encrypted_content="from elsewhere")
    assert view(QUESTION, earlier, ANSWER, MORE, COMPACTION) == [QUESTION, MORE, SUMMARY]


def test_an_invalid_compaction_is_rejected_with_its_path() -> None:
    with pytest.raises(InvalidRequest, match="Send the items") as caught:
        view(QUESTION, ANSWER, Compaction(encrypted_content="from elsewhere"))
    assert (caught.value.param, caught.value.code) == ("input[2]", "invalid_encrypted_content")


def test_a_call_that_is_answered_only_after_the_compaction_is_still_shown() -> None:
    assert view(QUESTION, CALL, COMPACTION, OUTPUT) == [QUESTION, CALL, SUMMARY, OUTPUT]


def test_an_old_call_with_the_id_of_a_new_one_is_not_shown() -> None:
    assert view(QUESTION, CALL, OUTPUT, COMPACTION, CALL, OUTPUT) == [QUESTION, SUMMARY, CALL, OUTPUT]


def test_a_trigger_is_not_shown() -> None:
    trigger = CompactionTrigger()
    assert view(QUESTION, ANSWER, trigger) == [QUESTION, ANSWER]
    assert view(QUESTION, trigger, COMPACTION, MORE, trigger) == [QUESTION, SUMMARY, MORE]


ITEMS = st.lists(
    st.sampled_from(
        [SYSTEM, QUESTION, REASONING, CALL, OUTPUT, ANSWER, MORE, COMPACTION, CompactionTrigger()]
    )
)


@given(ITEMS)
def test_for_any_list_the_callers_messages_are_preserved_and_no_compaction_remains(
    items: list[Item],
) -> None:
    shown = view(*items)
    assert not any(isinstance(item, Compaction | CompactionTrigger) for item in shown)
    callers = [item for item in shown if is_callers_message(item) and item != SUMMARY]
    assert callers == [item for item in items if is_callers_message(item)]


@given(ITEMS)
def test_fresh_items_are_the_callers_messages_and_the_rest_ends_with_a_replaceable_item(
    items: list[Item],
) -> None:
    replaceable, fresh = split_fresh(items)
    assert [*replaceable, *fresh] == items
    assert all(is_callers_message(item) for item in fresh)
    assert not replaceable or not is_callers_message(replaceable[-1])


def test_compaction_is_due_from_the_threshold_on() -> None:
    items = [QUESTION, ANSWER, MORE]
    assert not compaction_due(items, 4, count)
    assert compaction_due(items, 3, count)


def test_compaction_is_not_due_without_replaceable_items() -> None:
    assert not compaction_due([SYSTEM, QUESTION, MORE], 1, count)
    assert not compaction_due(view(QUESTION, ANSWER, COMPACTION, MORE), 1, count)


def test_a_transcript_renders_calls_and_outputs_as_text() -> None:
    custom = CustomToolCall(call_id="c2", name="patch", input="+1")
    patched = CustomToolCallOutput(call_id="c2", output=[InputText(text="done")])
    answer_with_parts = Message(role="assistant", content=[OutputText(text="noon")])
    assert transcript([QUESTION, REASONING, CALL, OUTPUT, custom, patched, answer_with_parts]) == [
        "user:\nwhat time is it?",
        'assistant calls clock (c1):\n{"zone":"utc"}',
        "output of c1:\n12:00",
        "assistant calls patch (c2):\n+1",
        "output of c2:\ndone",
        "assistant:\nnoon",
    ]


def test_a_transcript_mentions_images_and_files_without_their_data() -> None:
    parts = [
        InputImage(image_url="data:image/png;base64,AAAA"),
        InputImage(image_url="https://example.org/a.png"),
        InputFile(file_data="data:application/pdf;base64,BBBB", filename="report.pdf"),
        InputFile(file_data="data:application/pdf;base64,BBBB"),
    ]
    (passage,) = transcript([Message(role="user", content=[*parts])])
    assert passage == "user:\n[image]\n[image: https://example.org/a.png]\n[file: report.pdf]\n[file]"


def test_a_transcript_contains_a_bounded_part_of_an_opaque_item() -> None:
    small = OpaqueItem("web_search_call", {"type": "web_search_call", "id": "ws_1"})
    large = OpaqueItem("image_generation_call", {"result": "x" * 100_000})
    first, second = transcript([small, large])
    assert first == 'web_search_call:\n{"type":"web_search_call","id":"ws_1"}'
    assert len(second) < 5_000
    assert "[96013 characters are left out here]" in second


@given(st.text(min_size=1_000, max_size=5_000))
def test_a_shortened_passage_keeps_both_ends_and_the_count_of_omitted_characters(passage: str) -> None:
    shorter = shortened(passage)
    assert shorter is not None
    assert shorter.startswith(passage[:250])
    assert shorter.endswith(passage[-250:])
    assert "characters are left out here" in shorter


def test_shortening_terminates() -> None:
    passage: str | None = "x" * 1_000_000
    steps = 0
    while passage is not None:
        passage = shortened(passage)
        steps += 1
    assert steps < 20


def test_a_summary_request_is_plain_text_for_every_chat_backend() -> None:
    history: list[Item] = [
        QUESTION,
        CALL,
        OUTPUT,
        Message(role="user", content=[InputImage(image_url="data:x")]),
    ]
    request = summary_request(transcript(history), model="m", earlier="before", instructions="be brief")
    payload = build_payload(build_turn(request, model="m"), Quirks(images=None))
    system, user = payload.body["messages"]
    assert (system["role"], user["role"], payload.downgrades) == ("system", "user", ())
    assert "tools" not in payload.body
    for text in ("12:00", "<instructions>\nbe brief\n", "<summary_of_what_came_before>\nbefore\n"):
        assert text in user["content"]


def test_a_request_for_a_summary_has_no_empty_sections() -> None:
    (question,) = summary_request(["user:\nhi"], model="m").items
    assert isinstance(question, Message)
    assert "instructions" not in question.content
    assert "came_before" not in question.content


def test_a_summary_may_not_be_longer_than_the_replaced_items() -> None:
    limits = [
        summary_request(["word " * count], model="m").params.max_output_tokens
        for count in (1, 1_000, 100_000)
    ]
    assert limits[0] == 256
    assert 1_200 < (limits[1] or 0) < 1_400
    assert limits[2] == 4_096
