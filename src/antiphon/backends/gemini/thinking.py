"""The request for thinking: its amount, and whether summaries are sent."""

from antiphon.backends.gemini.models import Traits
from antiphon.backends.registry import ALL_EFFORTS
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.requests import CreateBody, Effort

BUDGETS: dict[Effort, int] = {
    "minimal": 512,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 32_768,
}
"""Tokens of thinking, for models that require a number. At most three quarters of the answer's limit."""


def thinking_config(params: CreateBody, traits: Traits, downgrades: Downgrades) -> JsonObject | None:
    """The member `thinkingConfig`; None: not sent."""
    wanted = params.reasoning.effort if params.reasoning else None
    if traits.thinking is None:
        if wanted not in (None, "none"):
            downgrades.add("not_sent", "'{param}' is not sent: this model does not think", "reasoning.effort")
        return None
    config: JsonObject = {}
    if wanted is not None and traits.thinking == "levels":
        config["thinkingLevel"] = _level(wanted, traits, downgrades).upper()
    elif wanted is not None:
        config["thinkingBudget"] = _budget(wanted, traits, params.max_output_tokens, downgrades)
    # The API sends thoughts as summaries only, and only on request.
    if _wants_summary(params) and config.get("thinkingBudget") != 0:
        config["includeThoughts"] = True
    return config or None


def _wants_summary(params: CreateBody) -> bool:
    reasoning = params.reasoning
    return reasoning is not None and bool(reasoning.summary or reasoning.generate_summary)


def _level(wanted: Effort, traits: Traits, downgrades: Downgrades) -> Effort:
    """The supported effort nearest to the requested one; of two, the greater."""
    place = ALL_EFFORTS.index
    effort = min(traits.levels, key=lambda level: (abs(place(level) - place(wanted)), -place(level)))
    if effort != wanted:
        why = ": this model always thinks" if wanted == "none" else ""
        downgrades.add(
            "value_changed", f"reasoning effort '{wanted}' is sent as '{effort}'{why}", "reasoning.effort"
        )
    return effort


def _budget(wanted: Effort, traits: Traits, bound: int | None, downgrades: Downgrades) -> int:
    least, most = traits.budget
    if wanted == "none":
        if traits.off:
            return 0
        downgrades.add(
            "value_changed",
            f"reasoning effort 'none' is sent as {least} tokens: this model always thinks",
            "reasoning.effort",
        )
        return least
    tokens = min(BUDGETS[wanted], most)
    if bound is not None:
        tokens = min(tokens, bound - bound // 4)
    return max(tokens, least)
