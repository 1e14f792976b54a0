"""Translate a turn into the body of ``POST /v1/messages``. Pure: a turn and an endpoint in, a body out.

A parameter that the model or its server does not support is emulated if that is possible, or omitted if it is
not essential; `downgrades` reports both. Otherwise it is rejected as `Unsupported`.
"""

import msgspec

from antiphon.backends.anthropic_messages.caching import place_breakpoints
from antiphon.backends.anthropic_messages.content import text_block
from antiphon.backends.anthropic_messages.messages import Conversation, read_conversation
from antiphon.backends.anthropic_messages.models import Traits, traits_of
from antiphon.backends.anthropic_messages.schemas import enforceable
from antiphon.backends.anthropic_messages.thinking import (
    STALE_THOUGHTS_BETA,
    Thinking,
    dropping_stale,
    origin_of,
    plan_thinking,
)
from antiphon.backends.anthropic_messages.tools import declared_tools, remembered_tools, tool_choice
from antiphon.backends.base import Constraint
from antiphon.backends.payload import Payload
from antiphon.backends.registry import Endpoint
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.requests import CreateBody, TextFormat
from antiphon.turn.context import TurnRequest

_LOGPROBS = "message.output_text.logprobs"
_TIERS = {"default": "standard_only", "priority": "auto"}
"""Their `auto` uses priority where the account has it; their default does the same."""
_LEAST_TOP_P = 0.95
"""With thinking on, no smaller one is taken."""


class _Draft:
    """A body that is being built."""

    def __init__(self, turn: TurnRequest, endpoint: Endpoint) -> None:
        self.turn = turn
        self.params = turn.params
        self.traits: Traits = traits_of(turn.model)
        self.endpoint = endpoint
        self.downgrades = Downgrades()
        self.asks: list[str] = []
        self.unenforced: set[Constraint] = set()
        self.headers: dict[str, str] = {}
        self.max_tokens = turn.params.max_output_tokens or self.traits.max_tokens
        self.body: JsonObject = {"model": turn.model, "max_tokens": self.max_tokens}

    @property
    def must_call(self) -> bool:
        """Whether a tool must be called."""
        return bool(self.turn.tools) and self.turn.choice not in ("auto", "none")


def build_payload(turn: TurnRequest, endpoint: Endpoint) -> Payload:
    """Translate a turn."""
    draft = _Draft(turn, endpoint)
    thinking, conversation = _converse(draft)
    _put_thinking(draft, thinking, conversation)
    _put_format(draft)
    tools = _put_tools(draft, conversation.messages)
    _put_sampling(draft, thinking)
    _put_hints(draft)
    system = [*conversation.system, *map(text_block, draft.asks)]
    place_breakpoints(
        [*tools, *system],
        conversation.messages,
        turn.params,
        draft.downgrades,
        automatic=endpoint.quirks.prompt_cache == "automatic",
    )
    if system:
        draft.body["system"] = system
    draft.body["messages"] = conversation.messages
    if turn.streamed:
        draft.body["stream"] = True
    return Payload(draft.body, tuple(draft.downgrades), frozenset(draft.unenforced), draft.headers)


def _converse(draft: _Draft) -> tuple[Thinking, Conversation]:
    """The conversation, and whether the model may think in it."""
    traits, origin = draft.traits, origin_of(draft.endpoint)
    forced = draft.must_call and traits.forced
    thinking = plan_thinking(draft.turn, traits, draft.max_tokens, draft.downgrades, forced=forced)
    downgrades = Downgrades(draft.downgrades)
    on = thinking.mode == "on"
    conversation = read_conversation(draft.turn, traits, origin, downgrades, thinking=on)
    if on and traits.thinking == "budget" and conversation.continues_without_thought:
        draft.downgrades.add(
            "reasoning_disabled",
            "thinking is off in this turn: it continues calls that another model made",
            "reasoning.effort",
        )
        thinking, downgrades = Thinking("off"), Downgrades(draft.downgrades)
        conversation = read_conversation(draft.turn, traits, origin, downgrades, thinking=False)
    draft.downgrades = downgrades
    return thinking, conversation


def _put_thinking(draft: _Draft, thinking: Thinking, conversation: Conversation) -> None:
    if draft.traits.binds and conversation.thoughtful:
        thinking = dropping_stale(thinking)
        draft.headers["anthropic-beta"] = STALE_THOUGHTS_BETA
    if thinking.config is not None:
        draft.body["thinking"] = thinking.config
    if thinking.effort is not None:
        draft.body["output_config"] = {"effort": thinking.effort}


def _put_tools(draft: _Draft, messages: list[JsonObject]) -> list[JsonObject]:
    turn, body = draft.turn, draft.body
    if turn.tools:
        body["tools"] = declared_tools(turn, draft.traits, draft.downgrades)
        choice = tool_choice(turn, draft.traits, draft.downgrades, draft.asks)
        if choice is not None:
            body["tool_choice"] = choice
        if draft.must_call and not draft.traits.forced:
            draft.unenforced.add("tool_choice")
        if any(tool.grammar is not None and tool.grammar.type == "grammar" for tool in turn.tools):
            draft.unenforced.add("grammar")
    elif remembered := remembered_tools(messages):
        body["tools"] = remembered
        body["tool_choice"] = {"type": "none"}
    return body.get("tools", [])


def _put_format(draft: _Draft) -> None:
    """JSON by schema where it is enforced, else the schema in the prompt."""
    form = draft.params.text.format if draft.params.text else None
    if form is None or form.type == "text":
        return
    enforced = enforceable(form.schema) if draft.traits.schemas and isinstance(form.schema, dict) else None
    if form.type == "json_schema" and enforced is not None:
        native = {"type": "json_schema", "schema": enforced.schema}
        draft.body["output_config"] = {**draft.body.get("output_config", {}), "format": native}
        if enforced.exact:
            return
        draft.downgrades.add(
            "not_enforced",
            "parts of the JSON schema are checked afterwards: this model's server does not support them",
            "text.format",
        )
    else:
        draft.downgrades.add(
            "not_enforced",
            "JSON is asked for in the prompt: this model's server does not enforce it",
            "text.format",
        )
    draft.unenforced.add("format")
    draft.asks.append(_asked(form))


def _asked(form: TextFormat) -> str:
    if form.type == "json_object":
        return "Answer with one JSON object only."
    schema = msgspec.json.encode(form.schema).decode()
    return f"Answer with JSON only, without a code fence. It must follow this JSON schema:\n{schema}"


def _put_sampling(draft: _Draft, thinking: Thinking) -> None:
    given = {"temperature": draft.params.temperature, "top_p": draft.params.top_p}
    wanted = {name: value for name, value in given.items() if value is not None and value != 1}
    if not wanted:
        return
    if not draft.traits.sampling:
        draft.downgrades.add("not_sent", "not sent, because this model does not take it: {param}", *wanted)
        return
    if thinking.mode == "on" and (left := _left_out_when_thinking(wanted)):
        draft.downgrades.add("not_sent", "not sent, because the model thinks: {param}", *left)
        wanted = {name: value for name, value in wanted.items() if name not in left}
    if len(wanted) > 1 and not draft.traits.both_samplings:
        draft.downgrades.add(
            "not_sent", "'{param}' is not sent: this model takes either that or 'temperature'", "top_p"
        )
        del wanted["top_p"]
    if wanted.get("temperature", 0) > 1:
        draft.downgrades.add(
            "value_changed", "'{param}' is sent as 1: this model's server takes no higher one", "temperature"
        )
        wanted["temperature"] = 1
    draft.body |= wanted


def _left_out_when_thinking(wanted: dict[str, float]) -> list[str]:
    return [name for name, value in wanted.items() if name == "temperature" or value < _LEAST_TOP_P]


def _put_hints(draft: _Draft) -> None:
    """Send the parameters that do not change the answer; one downgrade names those that cannot be sent."""
    params = draft.params
    user = params.safety_identifier or params.user
    if user:
        draft.body["metadata"] = {"user_id": user}
    tier = params.service_tier
    if tier in _TIERS:
        draft.body["service_tier"] = _TIERS[tier]
    left = [name for name, value in _unsent(params).items() if value]
    if tier not in (None, "auto", *_TIERS):
        left.append("service_tier")
    if left:
        draft.downgrades.add("not_sent", "not sent to this model's server: {param}", *left)
    if params.top_logprobs or _LOGPROBS in (params.include or ()):
        draft.downgrades.add(
            "output_omitted", "logprobs are left out: this model's server does not send them", "top_logprobs"
        )


def _unsent(params: CreateBody) -> dict[str, object]:
    """Parameters that the dialect has no place for."""
    verbosity = params.text.verbosity if params.text else None
    return {
        "frequency_penalty": params.frequency_penalty,
        "presence_penalty": params.presence_penalty,
        "prompt_cache_key": params.prompt_cache_key,
        "text.verbosity": verbosity in ("low", "high"),
        "reasoning.mode": params.reasoning is not None and params.reasoning.mode == "pro",
    }
