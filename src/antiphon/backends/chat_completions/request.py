"""Translate a turn into the body of ``POST /chat/completions``. Pure: a turn and quirks in, a body out.

A parameter that a row does not support is emulated if that is possible, or omitted if it is not essential;
`downgrades` reports both. Otherwise it is rejected as `Unsupported`.
"""

from operator import attrgetter
from typing import cast, get_args

import msgspec

from antiphon.backends.chat_completions.described_tools import described, merge_roles
from antiphon.backends.chat_completions.messages import chat_messages
from antiphon.backends.chat_completions.tools import chat_tool_choice, chat_tools
from antiphon.backends.payload import Payload
from antiphon.backends.registry import ALL_EFFORTS, Hint, Quirks
from antiphon.grammars.llguidance import render_llguidance
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.requests import CreateBody, Effort, ReasoningOptions, TextFormat
from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.constraints import Constraint
from antiphon.turn.context import TurnRequest

_HINTS = cast("tuple[Hint, ...]", get_args(Hint))
_hint_values = attrgetter(*_HINTS, "prompt_cache_options")
_NO_HINTS = (None,) * (len(_HINTS) + 1)
_LOGPROBS = "message.output_text.logprobs"


def build_payload(turn: TurnRequest, quirks: Quirks) -> Payload:
    """Translate a turn."""
    downgrades, asks = Downgrades(), list[str]()
    params = turn.params
    options: JsonObject = {}
    _put_sampling(options, params)
    if params.max_output_tokens is not None:
        options[quirks.max_tokens] = params.max_output_tokens
    unenforced = _unenforced(turn, quirks)
    if quirks.tools == "prompt":
        turn = described(turn, downgrades, asks)
    elif turn.tools:
        _put_tools(options, turn, quirks, downgrades, asks)
    if turn.grammar is not None:
        unenforced |= _put_grammar(options, turn.grammar, quirks, downgrades)
    elif params.text is not None and params.text.format is not None:
        _put_format(options, params.text.format, quirks, downgrades, asks)
    if params.reasoning is not None and params.reasoning.effort is not None:
        _put_effort(options, params.reasoning.effort, quirks, downgrades)
    _put_logprobs(options, params, quirks, downgrades)
    _put_hints(options, params, quirks, downgrades)
    if turn.streamed:
        options["stream"] = True
        if quirks.usage_on_request:
            options["stream_options"] = {"include_usage": True}
    messages = chat_messages(turn, quirks, downgrades, asks)
    if quirks.tools == "prompt":
        messages = merge_roles(messages)
    return Payload({"model": turn.model, "messages": messages, **options}, tuple(downgrades), unenforced)


def _unenforced(turn: TurnRequest, quirks: Quirks) -> frozenset[Constraint]:
    """The constraints that this endpoint does not enforce."""
    if not turn.tools and turn.params.text is None:
        return frozenset()
    demands: set[Constraint] = set()
    asked = quirks.tool_choice == "asked" or quirks.tools == "prompt"
    if turn.tools and turn.choice not in ("auto", "none") and asked:
        demands.add("tool_choice")
    form = turn.params.text.format if turn.params.text else None
    if form is not None and form.type == "json_schema" and not quirks.json_schema:
        demands.add("format")
    if form is not None and form.type == "json_object" and not quirks.json_object and not quirks.json_schema:
        demands.add("format")
    if any(tool.grammar is not None and tool.grammar.type == "grammar" for tool in turn.tools):
        demands.add("grammar")
    return frozenset(demands)


def _put_sampling(options: JsonObject, params: CreateBody) -> None:
    if params.temperature is not None:
        options["temperature"] = params.temperature
    if params.top_p is not None:
        options["top_p"] = params.top_p
    if params.presence_penalty is not None:
        options["presence_penalty"] = params.presence_penalty
    if params.frequency_penalty is not None:
        options["frequency_penalty"] = params.frequency_penalty


def _put_tools(
    options: JsonObject, turn: TurnRequest, quirks: Quirks, downgrades: Downgrades, asks: list[str]
) -> None:
    options["tools"] = chat_tools(turn, quirks, downgrades)
    choice = chat_tool_choice(turn, quirks, downgrades, asks)
    if choice is not None:
        options["tool_choice"] = choice
    parallel = turn.params.parallel_tool_calls
    if quirks.parallel_tool_calls and parallel is not None:
        options["parallel_tool_calls"] = parallel
    elif parallel is False:
        downgrades.add(
            "not_sent",
            "'{param}' is not sent: the model may call several tools at once",
            "parallel_tool_calls",
        )


def _put_format(
    options: JsonObject, form: TextFormat, quirks: Quirks, downgrades: Downgrades, asks: list[str]
) -> None:
    """JSON by schema, else JSON mode with the schema in the prompt, else the prompt alone."""
    if form.type == "text":
        return
    if form.type == "json_schema" and quirks.json_schema:
        options["response_format"] = {"type": "json_schema", "json_schema": _schema_of(form)}
    elif form.type == "json_object" and not quirks.json_object and quirks.json_schema:
        schema = {"name": "json", "schema": {"type": "object"}}
        options["response_format"] = {"type": "json_schema", "json_schema": schema}
    else:
        if quirks.json_object:
            options["response_format"] = {"type": "json_object"}
        else:
            downgrades.add(
                "not_enforced",
                "JSON is asked for in the prompt: this model's server does not enforce it",
                "text.format",
            )
        if form.type == "json_schema":
            downgrades.add(
                "not_enforced",
                "the JSON schema is described in the prompt: this model's server does not enforce it",
                "text.format",
            )
            schema_text = msgspec.json.encode(form.schema).decode()
            asks.append(f"Answer with JSON only. It must follow this JSON schema:\n{schema_text}")
        elif not quirks.json_object:
            asks.append("Answer with one JSON object only.")


def _put_grammar(
    options: JsonObject, form: TextFormatGrammar, quirks: Quirks, downgrades: Downgrades
) -> frozenset[Constraint]:
    """Send the grammar of the answer to an engine that enforces it; elsewhere it is unenforced."""
    text = render_llguidance(form) if quirks.grammars else None
    if text is None:
        downgrades.add(
            "not_enforced",
            "the grammar of the answer is not enforced: this model's server cannot",
            "text.format",
        )
        return frozenset({"grammar"})
    options["grammar"] = text
    return frozenset()


def _schema_of(form: TextFormat) -> JsonObject:
    members: JsonObject = {"name": form.name, "schema": form.schema}
    if isinstance(form.description, str):
        members["description"] = form.description
    if isinstance(form.strict, bool):
        members["strict"] = form.strict
    return members


def _put_logprobs(options: JsonObject, params: CreateBody, quirks: Quirks, downgrades: Downgrades) -> None:
    if not params.top_logprobs and _LOGPROBS not in (params.include or ()):
        return
    if not quirks.logprobs:
        downgrades.add(
            "output_omitted", "logprobs are left out: this model's server does not send them", "top_logprobs"
        )
        return
    options["logprobs"] = True
    if params.top_logprobs:
        options["top_logprobs"] = params.top_logprobs


def _put_effort(options: JsonObject, wanted: Effort, quirks: Quirks, downgrades: Downgrades) -> None:
    if not quirks.efforts:
        downgrades.add(
            "not_sent", "'{param}' is not sent: this model's server does not take it", "reasoning.effort"
        )
        return
    effort = _nearest(wanted, quirks.efforts)
    if effort != wanted:
        downgrades.add(
            "value_changed", f"reasoning effort '{wanted}' is sent as '{effort}'", "reasoning.effort"
        )
    if effort == "none" and quirks.thinking_switch:
        options["thinking"] = {"type": "disabled"}
    elif quirks.effort_field == "reasoning":
        options["reasoning"] = {"effort": effort}
    else:
        options["reasoning_effort"] = effort


def _nearest(wanted: Effort, offered: tuple[Effort, ...]) -> Effort:
    """The offered effort with the least difference; of two, the greater."""
    place = ALL_EFFORTS.index
    return min(offered, key=lambda effort: (abs(place(effort) - place(wanted)), -place(effort)))


def _unsent_reasoning(reasoning: ReasoningOptions) -> list[str]:
    """Options that this API does not have. Its servers send the reasoning itself, or none."""
    left = ["reasoning.summary"] if reasoning.summary or reasoning.generate_summary else []
    return [*left, "reasoning.mode"] if reasoning.mode == "pro" else left


def _put_hints(options: JsonObject, params: CreateBody, quirks: Quirks, downgrades: Downgrades) -> None:
    """Send the parameters that do not change the answer; one downgrade names those that cannot be sent."""
    if _hint_values(params) == _NO_HINTS and params.text is None and params.reasoning is None:
        return
    left: list[str] = []
    for name in _HINTS:
        value = getattr(params, name)
        if value is None or (name == "service_tier" and value in ("auto", "default")):
            continue
        if name in quirks.hints:
            options[name] = value
        else:
            left.append(name)
    verbosity = params.text.verbosity if params.text else None
    if verbosity and quirks.verbosity:
        options["verbosity"] = verbosity
    elif verbosity in ("low", "high"):
        left.append("text.verbosity")
    if params.prompt_cache_options:
        left.append("prompt_cache_options")
    if params.reasoning:
        left += _unsent_reasoning(params.reasoning)
    if left:
        downgrades.add("not_sent", "not sent to this model's server: {param}", *left)
