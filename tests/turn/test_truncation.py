"""Truncation drops the oldest items and never what belongs together or must stay."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    OpaqueItem,
    Reasoning,
    Role,
)
from antiphon.protocol.stored_items import item_to_text
from antiphon.protocol.tool_items import AdditionalTools, ShellCall, ShellCallOutput
from antiphon.turn.truncation import truncate


def says(role: Role, text: str) -> Message:
    return Message(role=role, content=text)


def call(call_id: str) -> FunctionCall:
    return FunctionCall(call_id=call_id, name="f", arguments="{}")


def output(call_id: str) -> FunctionCallOutput:
    return FunctionCallOutput(call_id=call_id, output="x")


def exchange(number: int, *, custom: bool, thinks: bool, padding: int) -> list[Item]:
    call_id = f"c{number}"
    thought: list[Item] = [Reasoning(id=f"rs_{number}", summary=[])] if thinks else []
    if custom:
        answer = CustomToolCallOutput(call_id=call_id, output="x" * padding)
        return [*thought, CustomToolCall(call_id=call_id, name="f", input=""), answer]
    return [*thought, call(call_id), FunctionCallOutput(call_id=call_id, output="x" * padding)]


@st.composite
def conversations(draw: st.DrawFn) -> list[Item]:
    items: list[Item] = []
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["system", "developer", "user", "assistant", "tool", "tool", "receipt"]))
        padding = draw(st.integers(0, 300))
        if kind == "tool":
            items += exchange(number, custom=draw(st.booleans()), thinks=draw(st.booleans()), padding=padding)
        elif kind == "receipt":
            items.append(OpaqueItem("web_search_call", {"id": f"ws_{number}"}))
        else:
            role: Role = kind  # pyright: ignore[reportAssignmentType] -- one of the roles
            items.append(says(role, f"{number} " + "x" * padding))
    return items


def size(items: list[Item]) -> int:
    return sum(len(item_to_text(item)) for item in items)


def ids(items: list[Item]) -> tuple[set[str], set[str]]:
    calls = {item.call_id for item in items if isinstance(item, FunctionCall | CustomToolCall)}
    outputs = {item.call_id for item in items if isinstance(item, FunctionCallOutput | CustomToolCallOutput)}
    return calls, outputs


def protected(items: list[Item]) -> list[Item]:
    users = [item for item in items if isinstance(item, Message) and item.role == "user"]
    return [
        item
        for item in items
        if (isinstance(item, Message) and item.role in ("system", "developer"))
        or item is items[-1]
        or (users and item is users[-1])
    ]


@given(conversations(), st.floats(0, 0.99))
def test_what_must_stay_stays_in_its_order_and_nothing_is_torn_apart(items: list[Item], keep: float) -> None:
    cut = truncate(items, keep)
    left = list(cut.items)
    assert len(left) + cut.dropped == len(items)
    assert left == [item for item in items if any(item is kept for kept in left)]
    assert all(any(item is kept for kept in left) for item in protected(items))
    calls, outputs = ids(left)
    assert calls == outputs


@given(conversations(), st.floats(0, 0.99))
def test_repeating_it_ends_where_nothing_may_be_dropped(items: list[Item], keep: float) -> None:
    rounds = 0
    while (cut := truncate(items, keep)).dropped:
        items = list(cut.items)
        rounds += 1
        assert rounds <= 40
    assert truncate(items, 0).dropped == 0


@given(conversations(), st.floats(0, 0.99))
def test_the_rest_fits_unless_only_what_must_stay_is_left(items: list[Item], keep: float) -> None:
    left = list(truncate(items, keep).items)
    assert size(left) <= size(items) * keep or truncate(left, keep).dropped == 0


def test_the_oldest_go_first_and_no_more_than_needed() -> None:
    items: list[Item] = [says("user", f"{number} " + "x" * 100) for number in range(10)]
    assert list(truncate(items, 0.75).items) == items[3:]


def test_what_is_left_begins_with_a_users_words() -> None:
    items: list[Item] = [
        says("developer", "be brief"),
        says("user", "a" * 100),
        says("assistant", "b" * 100),
        says("user", "c" * 100),
        says("assistant", "d" * 100),
        says("user", "e"),
    ]
    assert list(truncate(items, 0.9).items) == [items[0], *items[3:]]


def test_the_words_of_the_model_after_the_last_question_are_not_dropped_without_need() -> None:
    items: list[Item] = [says("user", "q"), *exchange(1, custom=False, thinks=False, padding=500), *[
        item for number in (2, 3) for item in exchange(number, custom=False, thinks=True, padding=10)
    ]]  # fmt: skip
    assert list(truncate(items, 0.7).items) == [items[0], *items[3:]]


def test_the_output_that_the_turn_is_about_keeps_its_call() -> None:
    items: list[Item] = [
        says("user", "q"),
        call("c1"),
        says("assistant", "so"),
        call("c2"),
        output("c2"),
        output("c1"),
    ]
    assert list(truncate(items, 0).items) == [items[0], items[1], items[5]]


def test_a_call_id_that_comes_again_ties_nothing_to_the_earlier_call() -> None:
    items: list[Item] = [says("user", "q"), call("c"), output("c"), says("user", "r"), call("c"), output("c")]
    assert list(truncate(items, 0).items) == items[3:]


def test_reasoning_goes_with_what_it_led_to() -> None:
    thought = Reasoning(summary=[])
    items: list[Item] = [says("user", "q"), thought, call("c1"), output("c1"), says("user", "r")]
    assert list(truncate(items, 0).items) == items[4:]


def test_calls_of_other_kinds_go_with_their_outputs() -> None:
    shell = ShellCall(call_id="s", action={"commands": []})
    result = ShellCallOutput(call_id="s", output=[])
    items: list[Item] = [says("user", "a"), shell, says("user", "b"), result]
    assert list(truncate(items, 0).items) == items[1:]


def test_programs_go_with_their_outputs() -> None:
    program = OpaqueItem("program", {"call_id": "s"})
    result = OpaqueItem("program_output", {"call_id": "s"})
    items: list[Item] = [says("user", "a"), program, says("user", "b"), result]
    assert list(truncate(items, 0).items) == items[1:]


def test_tools_that_were_declared_in_the_conversation_stay() -> None:
    items: list[Item] = [
        AdditionalTools(tools=[]),
        says("user", "a"),
        says("assistant", "b"),
        says("user", "c"),
    ]
    assert list(truncate(items, 0).items) == [items[0], items[3]]


def test_an_empty_list_stays_empty() -> None:
    assert truncate([], 0.5).dropped == 0
