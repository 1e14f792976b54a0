"""Translate a turn into the body of ``generateContent``. Pure: a turn and an endpoint in, a body out.

A parameter that the model or its server does not support is emulated if that is possible, or omitted if it is
not essential; `downgrades` reports both. Otherwise it is rejected as `Unsupported`. Safety settings are not
sent: those of the account apply.
"""

import msgspec

from antiphon.backends.gemini.content import text_part
from antiphon.backends.gemini.messages import read_conversation
from antiphon.backends.gemini.models import Traits, traits_of
from antiphon.backends.gemini.schemas import enforceable
from antiphon.backends.gemini.signatures import origin_of
from antiphon.backends.gemini.thinking import thinking_config
from antiphon.backends.gemini.tools import Names, declared_tools, tool_config, wire_names
from antiphon.backends.payload import Payload
from antiphon.backends.registry import Endpoint
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.requests import CreateBody, TextFormat
from antiphon.turn.constraints import Constraint
from antiphon.turn.context import TurnRequest

_LOGPROBS = "message.output_text.logprobs"
_JSON = "application/json"
_TIERS = frozenset({"flex", "priority"})


class _Draft:
    """A body that is being built."""

    def __init__(self, turn: TurnRequest) -> None:
        self.turn = turn
        self.params = turn.params
        self.traits: Traits = traits_of(turn.model)
        self.downgrades = Downgrades()
        self.asks: list[str] = []
        self.unenforced: set[Constraint] = set()
        self.config: JsonObject = {}
        self.body: JsonObject = {}


def build_payload(turn: TurnRequest, endpoint: Endpoint) -> Payload:
    """Translate a turn."""
    draft = _Draft(turn)
    names = wire_names(turn.tools)
    system, contents = read_conversation(turn, draft.traits, names, origin_of(endpoint), draft.downgrades)
    thinking = thinking_config(turn.params, draft.traits, draft.downgrades)
    if thinking is not None:
        draft.config["thinkingConfig"] = thinking
    _put_format(draft)
    _put_tools(draft, names)
    _put_sampling(draft)
    _put_logprobs(draft)
    _put_hints(draft)
    system += map(text_part, draft.asks)
    if system:
        draft.body["systemInstruction"] = {"parts": system}
    draft.body["contents"] = contents
    if draft.config:
        draft.body["generationConfig"] = draft.config
    return Payload(draft.body, tuple(draft.downgrades), frozenset(draft.unenforced), names=names)


def _put_tools(draft: _Draft, names: Names) -> None:
    turn = draft.turn
    if not turn.tools:
        return
    draft.body["tools"] = declared_tools(turn, names)
    config = tool_config(turn, draft.traits, names, draft.downgrades)
    if config is not None:
        draft.body["toolConfig"] = config
    if any(tool.grammar is not None and tool.grammar.type == "grammar" for tool in turn.tools):
        draft.unenforced.add("grammar")


def _put_format(draft: _Draft) -> None:
    """Send the schema where the API enforces it, else describe it in the prompt."""
    form = draft.params.text.format if draft.params.text else None
    if form is None or form.type == "text":
        return
    enforced = enforceable(form.schema) if isinstance(form.schema, dict) else None
    if draft.turn.tools and not draft.traits.json_with_tools:
        draft.downgrades.add(
            "not_enforced",
            "JSON is asked for in the prompt: this model's server does not enforce it with tools",
            "text.format",
        )
    elif form.type == "json_object":
        draft.config["responseMimeType"] = _JSON
        return
    elif enforced is None:
        draft.config["responseMimeType"] = _JSON
        draft.downgrades.add(
            "not_enforced",
            "the JSON schema is described in the prompt: this model's server does not take it",
            "text.format",
        )
    else:
        draft.config |= {"responseMimeType": _JSON, "responseJsonSchema": enforced.schema}
        if enforced.exact:
            return
        draft.downgrades.add(
            "not_enforced",
            "parts of the JSON schema are checked afterwards: this model's server does not support them",
            "text.format",
        )
    draft.unenforced.add("format")
    draft.asks.append(_asked(form))


def _asked(form: TextFormat) -> str:
    if form.type == "json_object":
        return "Answer with one JSON object only."
    schema = msgspec.json.encode(form.schema).decode()
    return f"Answer with JSON only, without a code fence. It must follow this JSON schema:\n{schema}"


def _put_sampling(draft: _Draft) -> None:
    params, traits = draft.params, draft.traits
    if params.max_output_tokens is not None:
        draft.config["maxOutputTokens"] = params.max_output_tokens
    given = (
        ("temperature", "temperature", params.temperature, 1, traits.sampling),
        ("top_p", "topP", params.top_p, 1, traits.sampling),
        ("presence_penalty", "presencePenalty", params.presence_penalty, 0, traits.penalties),
        ("frequency_penalty", "frequencyPenalty", params.frequency_penalty, 0, traits.penalties),
    )
    left: list[str] = []
    for name, field, value, usual, taken in given:
        if value is None or value == usual:
            continue
        if taken:
            draft.config[field] = value
        else:
            left.append(name)
    if left:
        draft.downgrades.add("not_sent", "not sent, because this model does not take it: {param}", *left)


def _put_logprobs(draft: _Draft) -> None:
    params = draft.params
    if not params.top_logprobs and _LOGPROBS not in (params.include or ()):
        return
    if not draft.traits.logprobs:
        draft.downgrades.add(
            "output_omitted", "logprobs are left out: this model's server does not send them", "top_logprobs"
        )
        return
    draft.config["responseLogprobs"] = True
    if params.top_logprobs:
        draft.config["logprobs"] = params.top_logprobs


def _put_hints(draft: _Draft) -> None:
    """Send the parameters that do not change the answer; one downgrade names those that cannot be sent."""
    tier = draft.params.service_tier
    if tier in _TIERS:
        draft.body["serviceTier"] = tier
    left = [name for name, value in _unsent(draft.params).items() if value]
    if tier not in (None, "auto", "default", *_TIERS):
        left.append("service_tier")
    if left:
        draft.downgrades.add("not_sent", "not sent to this model's server: {param}", *left)


def _unsent(params: CreateBody) -> dict[str, object]:
    """Parameters that the dialect does not have."""
    verbosity = params.text.verbosity if params.text else None
    return {
        "user": params.user,
        "safety_identifier": params.safety_identifier,
        "prompt_cache_key": params.prompt_cache_key,
        "prompt_cache_options": params.prompt_cache_options,
        "prompt_cache_retention": params.prompt_cache_retention,
        "text.verbosity": verbosity in ("low", "high"),
        "reasoning.mode": params.reasoning is not None and params.reasoning.mode == "pro",
    }
