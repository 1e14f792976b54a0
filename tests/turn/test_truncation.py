"""Truncation drops the oldest items and never separates related items or drops protected ones."""

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


def message(role: Role, text: str) -> Message:
    return Message(role=role, content=text)


def call(call_id: str) -> FunctionCall:
    return FunctionCall(call_id=call_id, name="f", arguments="{}")


def output(call_id: str) -> FunctionCallOutput:
    return FunctionCallOutput(call_id=call_id, output="x")


def exchange(number: int, *, custom: bool, thinks: bool, padding: int) -> list[Item]:
    call_id = f"c{number}"
    reasoning: list[Item] = [Reasoning(id=f"rs_{number}", summary=[])] if thinks else []
    if custom:
        answer = CustomToolCallOutput(call_id=call_id, output="x" * padding)
        return [*reasoning, CustomToolCall(call_id=call_id, name="f", input=""), answer]
    return [*reasoning, call(call_id), FunctionCallOutput(call_id=call_id, output="x" * padding)]


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
            items.append(message(role, f"{number} " + "x" * padding))
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
def test_protected_items_stay_in_order_and_related_items_are_not_separated(
    items: list[Item], keep: float
) -> None:
    cut = truncate(items, keep)
    remaining = list(cut.items)
    assert len(remaining) + cut.dropped == len(items)
    assert remaining == [item for item in items if any(item is other for other in remaining)]
    assert all(any(item is other for other in remaining) for item in protected(items))
    calls, outputs = ids(remaining)
    assert calls == outputs


@given(conversations(), st.floats(0, 0.99))
def test_repeated_truncation_ends_with_the_protected_items(items: list[Item], keep: float) -> None:
    rounds = 0
    while (cut := truncate(items, keep)).dropped:
        items = list(cut.items)
        rounds += 1
        assert rounds <= 40
    assert truncate(items, 0).dropped == 0


@given(conversations(), st.floats(0, 0.99))
def test_the_result_fits_unless_only_protected_items_remain(items: list[Item], keep: float) -> None:
    remaining = list(truncate(items, keep).items)
    assert size(remaining) <= size(items) * keep or truncate(remaining, keep).dropped == 0


def test_the_oldest_go_first_and_no_more_than_needed() -> None:
    items: list[Item] = [message("user", f"{number} " + "x" * 100) for number in range(10)]
    assert list(truncate(items, 0.75).items) == items[3:]


def test_the_result_begins_with_a_user_message() -> None:
    items: list[Item] = [
        message("developer", "be brief"),
        message("user", "a" * 100),
        message("assistant", "b" * 100),
        message("user", "c" * 100),
        message("assistant", "d" * 100),
        message("user", "e"),
    ]
    assert list(truncate(items, 0.9).items) == [items[0], *items[3:]]


def test_model_items_after_the_last_user_message_are_dropped_last() -> None:
    items: list[Item] = [message("user", "q"), *exchange(1, custom=False, thinks=False, padding=500), *[
        item for number in (2, 3) for item in exchange(number, custom=False, thinks=True, padding=10)
    ]]  # fmt: skip
    assert list(truncate(items, 0.7).items) == [items[0], *items[3:]]


def test_the_current_output_keeps_its_call() -> None:
    items: list[Item] = [
        message("user", "q"),
        call("c1"),
        message("assistant", "so"),
        call("c2"),
        output("c2"),
        output("c1"),
    ]
    assert list(truncate(items, 0).items) == [items[0], items[1], items[5]]


def test_a_repeated_call_id_is_not_tied_to_the_earlier_call() -> None:
    items: list[Item] = [
        message("user", "q"),
        call("c"),
        output("c"),
        message("user", "r"),
        call("c"),
        output("c"),
    ]
    assert list(truncate(items, 0).items) == items[3:]


def test_reasoning_is_dropped_with_its_result() -> None:
    reasoning = Reasoning(summary=[])
    items: list[Item] = [message("user", "q"), reasoning, call("c1"), output("c1"), message("user", "r")]
    assert list(truncate(items, 0).items) == items[4:]


def test_calls_of_other_kinds_go_with_their_outputs() -> None:
    shell = ShellCall(call_id="s", action={"commands": []})
    result = ShellCallOutput(call_id="s", output=[])
    items: list[Item] = [message("user", "a"), shell, message("user", "b"), result]
    assert list(truncate(items, 0).items) == items[1:]


def test_programs_go_with_their_outputs() -> None:
    program = OpaqueItem("program", {"call_id": "s"})
    result = OpaqueItem("program_output", {"call_id": "s"})
    items: list[Item] = [message("user", "a"), program, message("user", "b"), result]
    assert list(truncate(items, 0).items) == items[1:]


def test_tools_declared_in_the_conversation_are_preserved() -> None:
    items: list[Item] = [
        AdditionalTools(tools=[]),
        message("user", "a"),
        message("assistant", "b"),
        message("user", "c"),
    ]
    assert list(truncate(items, 0).items) == [items[0], items[3]]


def test_an_empty_list_stays_empty() -> None:
    assert truncate([], 0.5).dropped == 0
