"""Thinking budgets and efforts, and how thinking blocks are sent back."""

from typing import Any

import pytest

from antiphon.protocol.downgrade import rendered
from antiphon.protocol.requests import Thinking
from tests.backends.anthropic_messages.building import (
    CALL,
    NEW,
    OLD,
    OUTPUT,
    TOOL,
    USER,
    build,
    opened_reasoning,
    plain,
    text,
)

FOUR_SIX = "claude-sonnet-4-6"
SIGNED = {"type": "thinking", "signature": "s1", "length": 2}
REDACTED = {"type": "redacted_thinking", "data": "d"}
HANDED_BACK = {"type": "thinking", "thinking": "hm", "signature": "s1"}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("model", "reasoning", "thinking", "effort"),
    [
        (OLD, {"effort": "minimal"}, {"type": "enabled", "budget_tokens": 1024}, None),
        (OLD, {"effort": "max"}, {"type": "enabled", "budget_tokens": 32_768}, None),
        (OLD, {"effort": "none"}, None, None),
        (OLD, {}, None, None),
        ("claude-opus-4-5", {"effort": "high"}, {"type": "enabled", "budget_tokens": 16_384}, "high"),
        (FOUR_SIX, {"effort": "high"}, {"type": "adaptive"}, "high"),
        (FOUR_SIX, {"effort": "none"}, None, None),
        (NEW, {}, None, None),
        (NEW, {"summary": "auto"}, {"type": "adaptive", "display": "summarized"}, None),
        (NEW, {"effort": "max"}, {"type": "adaptive", "display": "summarized"}, "max"),
        (NEW, {"effort": "none"}, {"type": "disabled"}, None),
        ("claude-sonnet-5-5", {"effort": "none"}, {"type": "between_tools"}, None),
    ],
)
def test_effort(model: str, reasoning: dict[str, Any], thinking: Any, effort: str | None) -> None:
    payload = build(model, reasoning=reasoning)
    assert payload.body.get("thinking") == thinking
    assert payload.body.get("output_config", {}).get("effort") == effort
    assert payload.downgrades == ()


@pytest.mark.parametrize(
    ("model", "reasoning", "sent", "note"),
    [
        (FOUR_SIX, {"effort": "xhigh"}, "max", "'xhigh' is sent as 'max'"),
        (NEW, {"effort": "minimal"}, "low", "'minimal' is sent as 'low'"),
        ("claude-opus-5-5", {"effort": "none"}, "low", "always thinks"),
        ("claude-3-5-haiku", {"effort": "high"}, None, "does not think"),
        (OLD, {"summary": "auto"}, None, "no reasoning to summarise"),
    ],
)
def test_efforts_that_are_sent_differently_are_reported(
    model: str, reasoning: dict[str, Any], sent: str | None, note: str
) -> None:
    payload = build(model, reasoning=reasoning)
    assert payload.body.get("output_config", {}).get("effort") == sent
    assert note in payload.downgrades[0].render()


def test_the_thinking_budget_leaves_tokens_for_the_answer() -> None:
    body = build(OLD, reasoning={"effort": "high"}, max_output_tokens=4000).body
    assert body["thinking"]["budget_tokens"] == 3000
    payload = build(OLD, reasoning={"effort": "high"}, max_output_tokens=1000)
    assert "thinking" not in payload.body
    assert "max_output_tokens" in payload.downgrades[0].render()


@pytest.mark.parametrize(
    ("model", "budget", "effort", "thinking", "note"),
    [
        (FOUR_SIX, None, None, {"type": "adaptive"}, None),
        ("claude-opus-4-7", None, None, {"type": "adaptive", "display": "summarized"}, None),
        (NEW, None, None, {"type": "adaptive", "display": "summarized"}, None),
        (OLD, None, None, {"type": "enabled", "budget_tokens": 16_384}, None),
        (OLD, 5000, "medium", {"type": "enabled", "budget_tokens": 5000}, None),
        (OLD, 60_000, "high", {"type": "enabled", "budget_tokens": 60_000}, None),
        (OLD, 64_000, "high", {"type": "enabled", "budget_tokens": 48_000}, "64000 tokens is sent as 48000"),
        (OLD, 100, "low", {"type": "enabled", "budget_tokens": 1024}, "100 tokens is sent as 1024"),
        (FOUR_SIX, 5000, "medium", {"type": "adaptive"}, "5000 tokens is sent as effort 'medium'"),
        ("claude-3-5-haiku", None, None, None, "does not think"),
    ],
)
def test_thinking_requested_by_another_api(
    model: str, budget: int | None, effort: Any, thinking: Any, note: str | None
) -> None:
    payload = build(model, thinking=Thinking(budget), reasoning={"effort": effort})
    assert payload.body.get("thinking") == thinking
    assert [note in text_of_note for text_of_note in rendered(payload.downgrades) if note] == [True] * (
        note is not None
    )
    assert len(payload.downgrades) == (note is not None)


def test_a_budget_need_only_be_below_the_bound() -> None:
    payload = build(OLD, thinking=Thinking(1024), reasoning={"effort": "low"}, max_output_tokens=1200)
    assert payload.body["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    tight = build(OLD, thinking=Thinking(1024), reasoning={"effort": "low"}, max_output_tokens=1024)
    assert "thinking" not in tight.body
    assert len(tight.downgrades) == 1


def test_thinking_blocks_are_sent_back_to_a_thinking_model() -> None:
    params: dict[str, Any] = {"input": [USER, ANSWER, USER], "opened": {1: opened_reasoning("hm", SIGNED)}}
    (_, blocks) = plain(build(FOUR_SIX, thinking=Thinking(), **params))[1]
    assert blocks == [HANDED_BACK, text("a")]


def test_a_forced_call_turns_a_budget_off() -> None:
    payload = build(OLD, reasoning={"effort": "high"}, tools=[TOOL], tool_choice="required")
    assert payload.body["tool_choice"] == {"type": "any"}
    assert "thinking" not in payload.body
    assert "thinking is off" in payload.downgrades[0].render()
    adaptive = build(FOUR_SIX, reasoning={"effort": "high"}, tools=[TOOL], tool_choice="required")
    assert adaptive.body["thinking"] == {"type": "adaptive"}


def test_thinking_blocks_are_sent_back_before_their_call() -> None:
    payload = build(
        OLD,
        input=[USER, CALL, OUTPUT],
        opened={1: opened_reasoning("hm", SIGNED, REDACTED)},
        reasoning={"effort": "low"},
    )
    (_, blocks) = plain(payload)[1]
    assert blocks == [HANDED_BACK, REDACTED, {"type": "tool_use", "id": "c1", "name": "look", "input": {}}]
    assert payload.downgrades == ()
    assert payload.body["thinking"]["type"] == "enabled"


def test_several_thinking_blocks_of_one_item_are_separated() -> None:
    item = opened_reasoning("hmso", SIGNED, {"type": "thinking", "signature": "s2", "length": 2})
    (_, blocks) = plain(build(NEW, input=[USER, ANSWER, USER], opened={1: item}))[1]
    assert blocks == [HANDED_BACK, {"type": "thinking", "thinking": "so", "signature": "s2"}, text("a")]


def test_thinking_emitted_as_a_summary_has_its_text_in_the_provider_state() -> None:
    item = opened_reasoning("", {"type": "thinking", "signature": "s1", "thinking": "hm"})
    (_, blocks) = plain(build(NEW, input=[USER, ANSWER, USER], opened={1: item}))[1]
    assert blocks == [HANDED_BACK, text("a")]


@pytest.mark.parametrize(
    ("model", "item", "note"),
    [
        (NEW, opened_reasoning("hm", SIGNED, origin="anthropic_messages@elsewhere"), "did not make it"),
        (NEW, opened_reasoning("hm"), "did not make it"),
        (NEW, opened_reasoning("ham", SIGNED), "not as this model's server made it"),
        (NEW, opened_reasoning("hm", {**SIGNED, "signature": ""}), "not as this model's server made it"),
        (OLD, opened_reasoning("hm", SIGNED), "thinking is off"),
    ],
)
def test_unusable_thinking_blocks_are_omitted_and_reported(model: str, item: Any, note: str) -> None:
    payload = build(model, input=[USER, ANSWER, USER], opened={1: item})
    assert plain(payload)[1] == ("assistant", [text("a")])
    assert note in payload.downgrades[0].render()


def test_other_vendors_have_empty_signatures() -> None:
    item = opened_reasoning("hm", {**SIGNED, "signature": ""})
    payload = build("glm-5", input=[USER, CALL, OUTPUT], opened={1: item}, reasoning={"effort": "low"})
    assert plain(payload)[1][1][0] == {"type": "thinking", "thinking": "hm", "signature": ""}


def test_reasoning_without_an_answer_is_not_sent() -> None:
    payload = build(NEW, input=[USER, USER], opened={1: opened_reasoning("hm", SIGNED)})
    assert plain(payload) == [("user", [text("hi"), text("hi")])]


def test_thinking_is_off_if_another_model_made_the_calls() -> None:
    params: dict[str, Any] = {"input": [USER, CALL, OUTPUT], "reasoning": {"effort": "low"}}
    payload = build(OLD, **params)
    assert "thinking" not in payload.body
    assert "another model" in payload.downgrades[0].render()
    earlier = build(OLD, **params, opened={0: opened_reasoning("hm", SIGNED)})
    assert "thinking" not in earlier.body
    assert [block["type"] for _, blocks in plain(earlier) for block in blocks].count("thinking") == 0
    assert build(FOUR_SIX, **params).body["thinking"] == {"type": "adaptive"}
    with_a_user_message = build(OLD, input=[USER, CALL, OUTPUT, ANSWER, USER], reasoning={"effort": "low"})
    assert with_a_user_message.body["thinking"]["type"] == "enabled"


def test_stale_thinking_blocks_are_dropped_where_they_would_be_rejected() -> None:
    params: dict[str, Any] = {"input": [USER, ANSWER, USER], "opened": {1: opened_reasoning("hm", SIGNED)}}
    payload = build("claude-opus-5-5", **params)
    assert payload.body["thinking"] == {
        "type": "adaptive",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    assert payload.headers == {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
    for model, more in ((NEW, params), ("claude-opus-5-5", {})):
        assert build(model, **more).headers == {}
