"""Thinking levels and budgets."""

from typing import Any

import pytest

from tests.backends.gemini.building import NEW, OLD, build, config

PRO = "gemini-2.5-pro"
THIRD_PRO = "gemini-3-pro-preview"


@pytest.mark.parametrize(
    ("model", "reasoning", "sent"),
    [
        (OLD, None, None),
        (OLD, {}, None),
        (OLD, {"effort": "minimal"}, {"thinkingBudget": 512}),
        (OLD, {"effort": "medium"}, {"thinkingBudget": 8192}),
        (OLD, {"effort": "max"}, {"thinkingBudget": 24_576}),
        (PRO, {"effort": "max"}, {"thinkingBudget": 32_768}),
        (OLD, {"effort": "none"}, {"thinkingBudget": 0}),
        (OLD, {"effort": "none", "summary": "auto"}, {"thinkingBudget": 0}),
        (OLD, {"summary": "auto"}, {"includeThoughts": True}),
        (OLD, {"generate_summary": "concise"}, {"includeThoughts": True}),
        (NEW, {"effort": "minimal"}, {"thinkingLevel": "MINIMAL"}),
        (NEW, {"effort": "high", "summary": "auto"}, {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-3.8-flash", {"effort": "medium"}, {"thinkingLevel": "MEDIUM"}),
        ("gemini-2.0-flash", {"effort": "none", "summary": "auto"}, None),
    ],
)
def test_effort(model: str, reasoning: Any, sent: Any) -> None:
    payload = build(model, reasoning=reasoning)
    assert config(payload).get("thinkingConfig") == sent
    assert payload.downgrades == ()


@pytest.mark.parametrize(
    ("model", "effort", "sent", "note"),
    [
        (NEW, "none", {"thinkingLevel": "MINIMAL"}, "always thinks"),
        (NEW, "xhigh", {"thinkingLevel": "HIGH"}, "'xhigh' is sent as 'high'"),
        ("gemini-3.7-flash", "minimal", {"thinkingLevel": "LOW"}, "'minimal' is sent as 'low'"),
        (THIRD_PRO, "medium", {"thinkingLevel": "HIGH"}, "'medium' is sent as 'high'"),
        (PRO, "none", {"thinkingBudget": 128}, "always thinks"),
        ("gemini-2.0-flash", "high", None, "does not think"),
        ("gemma-3-27b-it", "low", None, "does not think"),
    ],
)
def test_efforts_that_are_sent_differently_are_reported(
    model: str, effort: str, sent: Any, note: str
) -> None:
    payload = build(model, reasoning={"effort": effort})
    assert config(payload).get("thinkingConfig") == sent
    assert note in payload.downgrades[0].render()


@pytest.mark.parametrize(("bound", "budget"), [(4000, 3000), (100_000, 16_384), (100, 128)])
def test_the_thinking_budget_leaves_tokens_for_the_answer(bound: int, budget: int) -> None:
    payload = build(PRO, reasoning={"effort": "high"}, max_output_tokens=bound)
    assert config(payload)["thinkingConfig"]["thinkingBudget"] == budget
