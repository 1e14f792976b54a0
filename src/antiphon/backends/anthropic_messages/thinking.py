"""Thinking: the requested amount, and the return of thoughts.

A thought has a signature that only Anthropic can read: it is provider state (`turn/provider_state.py`). The
state contains the length of the text instead of the text itself if the item has it, because an item may
contain several thoughts.
"""

from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import UnsetType

from antiphon.backends.anthropic_messages.models import Traits
from antiphon.backends.registry import ALL_EFFORTS, Endpoint
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.requests import CreateBody, Effort
from antiphon.protocol.requests import Thinking as Asked
from antiphon.turn.context import TurnRequest
from antiphon.turn.provider_state import OpenedReasoning, ProviderState

BUDGETS: dict[Effort, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
"""Tokens to think with, for models that want a number. At most three quarters of the answer's limit."""
_USUAL: Effort = "high"
"""The effort of thinking that is requested without one."""
_MIN_BUDGET_TOKENS = 1024
"""The minimum of the API."""
STALE_THOUGHTS_BETA = "thinking-binding-controls-2026-08-01"
"""Lets a request drop thoughts whose conversation has changed, which are rejected otherwise."""


class Thinking(NamedTuple):
    """The members `thinking` and `output_config.effort` of a request, if any."""

    mode: Literal["on", "off"]
    config: JsonObject | None = None
    effort: Effort | None = None


_SILENCE = Thinking("off")


def wants_summary(params: CreateBody) -> bool:
    """Whether the caller requested a summary of the reasoning."""
    reasoning = params.reasoning
    return reasoning is not None and bool(reasoning.summary or reasoning.generate_summary)


def plan_thinking(
    turn: TurnRequest, traits: Traits, max_tokens: int, downgrades: Downgrades, *, forced: bool
) -> Thinking:
    """The thinking to request from this model. `forced`: it must call a tool."""
    params, asked = turn.params, turn.thinking
    wanted = params.reasoning.effort if params.reasoning else None
    if traits.thinking is None:
        if asked is not None or wanted not in (None, "none"):
            downgrades.add("not_sent", "'{param}' is not sent: this model does not think", "reasoning.effort")
        return _SILENCE
    if wanted == "none":
        return _off(traits, downgrades)
    if wanted is None and asked is None:
        return _unasked(params, traits, downgrades)
    if traits.thinking == "adaptive":
        return Thinking("on", _adaptive(traits), _freely(wanted, asked, traits, downgrades))
    if forced:
        downgrades.add(
            "reasoning_disabled",
            "thinking is off in this turn: with it, this model cannot be made to call a tool",
            "reasoning.effort",
        )
        return _SILENCE
    budget = _budget(BUDGETS[wanted or _USUAL], asked and asked.budget, max_tokens, downgrades)
    if budget < _MIN_BUDGET_TOKENS:
        downgrades.add(
            "reasoning_disabled",
            f"thinking is off in this turn: '{{param}}' leaves no room for {_MIN_BUDGET_TOKENS} tokens of it",
            "max_output_tokens",
        )
        return _SILENCE
    effort = None if wanted is None else _level(wanted, traits, downgrades)
    return Thinking("on", {"type": "enabled", "budget_tokens": budget}, effort)


def _freely(
    wanted: Effort | None, asked: Asked | None, traits: Traits, downgrades: Downgrades
) -> Effort | None:
    """The effort for a model that decides by itself how many tokens that means."""
    if wanted is None:
        return None
    effort = _level(wanted, traits, downgrades)
    if asked is not None and asked.budget is not None:
        downgrades.add(
            "value_changed",
            f"a thinking budget of {asked.budget} tokens is sent as effort '{effort}': this model takes none",
            "reasoning.effort",
        )
    return effort


def _budget(meant: int, given: int | None, max_tokens: int, downgrades: Downgrades) -> int:
    """Tokens to think with: the caller's number if the API takes it, else as many as fit."""
    if given is not None and _MIN_BUDGET_TOKENS <= given < max_tokens:
        return given
    budget = min(meant if given is None else max(given, _MIN_BUDGET_TOKENS), max_tokens - max_tokens // 4)
    if given is not None and budget >= _MIN_BUDGET_TOKENS:
        downgrades.add(
            "value_changed", f"a thinking budget of {given} tokens is sent as {budget}", "reasoning.effort"
        )
    return budget


def _off(traits: Traits, downgrades: Downgrades) -> Thinking:
    if not traits.unasked:
        return _SILENCE
    if traits.off is None:
        downgrades.add(
            "value_changed",
            "reasoning effort 'none' is sent as 'low': this model always thinks",
            "reasoning.effort",
        )
        return Thinking("on", None, "low")
    return Thinking("off", {"type": traits.off})


def _unasked(params: CreateBody, traits: Traits, downgrades: Downgrades) -> Thinking:
    if traits.unasked:
        return Thinking("on", _adaptive(traits) if wants_summary(params) else None)
    if wants_summary(params):
        downgrades.add(
            "reasoning_disabled",
            "there is no reasoning to summarise: this model thinks only if '{param}' is given",
            "reasoning.effort",
        )
    return _SILENCE


def _adaptive(traits: Traits) -> JsonObject:
    return {"type": "adaptive", "display": "summarized"} if traits.silent else {"type": "adaptive"}


def _level(wanted: Effort, traits: Traits, downgrades: Downgrades) -> Effort | None:
    """The effort of those it takes with the least difference; of two, the greater."""
    if not traits.efforts:
        return None
    place = ALL_EFFORTS.index
    effort = min(traits.efforts, key=lambda level: (abs(place(level) - place(wanted)), -place(level)))
    if effort != wanted:
        downgrades.add(
            "value_changed", f"reasoning effort '{wanted}' is sent as '{effort}'", "reasoning.effort"
        )
    return effort


def dropping_stale(thinking: Thinking) -> Thinking:
    """The same, with permission to drop thoughts that the server would reject."""
    config = thinking.config or {"type": "adaptive"}
    return thinking._replace(config={**config, "block_binding": {"prefix_mismatch_behavior": "drop_block"}})


def origin_of(endpoint: Endpoint) -> str:
    """The origin of provider state: only this server can read it, regardless of its configured name."""
    return f"anthropic_messages@{urlsplit(endpoint.base_url).netloc.lower()}"


def thinking_state(origin: str, text: str, signature: str, *, in_item: bool) -> ProviderState:
    """The state of a thought. `in_item`: its text was emitted as raw reasoning, so the item contains it."""
    held: JsonObject = {"length": len(text)} if in_item else {"thinking": text}
    return ProviderState(origin, {"type": "thinking", "signature": signature, **held})


def redacted_state(origin: str, data: str) -> ProviderState:
    """The state of a thought that only Anthropic can read."""
    return ProviderState(origin, {"type": "redacted_thinking", "data": data})


def thinking_blocks(thought: OpenedReasoning, origin: str, *, signed: bool) -> list[JsonObject]:
    """The original blocks of a thought; none if they cannot be restored. With `signed`, a block without a
    signature is omitted: the answer was cut off in it."""
    states = thought.states_from(origin)
    content = [] if isinstance(thought.content, UnsetType) else thought.content
    text, at = "".join(part.text for part in content), 0
    blocks: list[JsonObject] = []
    for state in states:
        if state.get("type") == "redacted_thinking":
            blocks.append({"type": "redacted_thinking", "data": state.get("data", "")})
            continue
        thought_text = state.get("thinking")
        if thought_text is None:
            thought_text = text[at : at + state.get("length", 0)]
            at += state.get("length", 0)
        signature = state.get("signature", "")
        if signature or not signed:
            blocks.append({"type": "thinking", "thinking": thought_text, "signature": signature})
    in_item = any("length" in state for state in states)
    return blocks if at == len(text) or not in_item else []
